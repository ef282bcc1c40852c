"""Proposals of items: the checks on an item, the check that it is new, and the event that proposes it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.events.items import Item, without_controls
from rbank_es.sparql.results import from_json
from rbank_es.tools.memory.item_search import items_view
from rbank_es.tools.memory.query_extractor import ProposalEvidence, proposal
from rbank_es.tools.shared.handle_store import Handle
from rbank_es.tools.shared.tool_answers import AnswerBudget
from rbank_es.tools.shared.tool_family import Reply, ToolError, ToolSession, tools_named_as

LATER = "it is stored only if the judge and the policies say so after the run; mem_search doesn't find it before"
BEFORE = "this tool has proposed the same item before in this run, so nothing was written"
KNOWN = "the bank knows this item already, so nothing was written; it is"

RETURNING = ("forgotten", "unsupported")
"""States of items that become active again when somebody learns them again."""


def query_of(session: ToolSession, handle: Handle) -> str | None:
    """Return the query that made a result, None for another payload. Raises `UnknownHandle`."""
    made = session.store.origin(handle)
    if made is None or made.tool not in tools_named_as("queries"):
        return None
    arguments = json.loads(session.bank.text(made.arguments) or "{}")
    query = arguments.get("query") if isinstance(arguments, dict) else None
    return query if isinstance(query, str) else None


class Proposer:
    """Proposer of items for the tools of a run."""

    def __init__(self, session: ToolSession) -> None:
        self._session = session
        self._room = AnswerBudget(session)

    def propose(self, item: Item, by: str, why: str) -> Reply:
        """Reply that an item is proposed, with the event; or that this run or the bank has it already.

        Raises `ToolError` for an item that breaks its limits.
        """
        # Before the check, because tidying changes lengths and the id.
        item = tidy(item)
        check(item)
        session = self._session
        if (item.id, by) in session.proposed:
            return Reply(self._body(item, BEFORE, proposed=False))
        # Checked last, because it may bring projections up to date.
        state = self._state_of(item.id)
        if state is not None and state not in RETURNING:
            return Reply(self._body(item, f"{KNOWN} {state}", proposed=False))
        event = proposal(item, run=session.run, call=session.call, by=by, why=why)
        return Reply(self._body(item, LATER, proposed=True), beside=(event,))

    def show(self, item: Item) -> Reply:
        """Reply with the item as it would be proposed, its content behind a handle. Raises as `propose` does."""
        check(item)
        body = self._body(item, "auto_store is False, so nothing was proposed", proposed=False, handle=True)
        return Reply(body, item.content, "text")

    def evidence(self, result: Handle, task: str) -> ProposalEvidence:
        """Return the evidence of the query that made a result. Raises `ToolError`, `UnknownHandle`."""
        query = query_of(self._session, result)
        if query is None:
            raise ToolError(
                "not_a_query",
                "that handle is not the result of a query",
                "give the handle that sparql_query or g_query returned",
            )
        answer = from_json(self._session.store.get(result))
        rows = None if answer.form == "ask" else len(answer.rows)
        return self._evidence(query, task, answer.variables, rows)

    def evidence_of_text(self, query: str, task: str) -> ProposalEvidence:
        """Return the evidence of a query of which only the text is known."""
        return self._evidence(query, task)

    def _evidence(
        self, query: str, task: str, variables: tuple[str, ...] = (), rows: int | None = None
    ) -> ProposalEvidence:
        session = self._session
        return ProposalEvidence.on(
            session.source, query, task=task, domain=session.domain, variables=variables, rows=rows
        )

    def _state_of(self, item: str) -> str | None:
        with items_view(self._session) as (view, _):
            row = view.item(item)
        return None if row is None else str(row["state"])

    def _body(self, item: Item, why: str, *, proposed: bool, handle: bool = False) -> dict[str, Any]:
        body: dict[str, Any] = {"id": item.id, "proposed": proposed, "stored": False}
        body |= {"src": item.src, "polarity": item.polarity, "why": why}
        self._room.say(body, "title", item.title, limits.ITEM_TITLE_CHARS, handle=handle)
        self._room.say(body, "desc", item.desc, limits.ITEM_DESC_CHARS, handle=handle)
        return body


def tidy(item: Item) -> Item:
    """Return the item with title and description on one line each, and without control characters."""
    title, desc = (" ".join(without_controls(text).split()) for text in (item.title, item.desc))
    content = without_controls(item.content).strip()
    if (title, desc, content) == (item.title, item.desc, item.content):
        return item
    return msgspec.structs.replace(item, id=Item.make_id(title, content), title=title, desc=desc, content=content)


def check(item: Item) -> None:
    """Raise `ToolError` for an item that breaks the limits of proposals."""
    for name, text, most in (
        ("title", item.title, limits.ITEM_TITLE_CHARS),
        ("content", item.content, limits.ITEM_CONTENT_CHARS),
        ("desc", item.desc, limits.ITEM_DESC_CHARS),
    ):
        if len(text) > most:
            raise ToolError("bad_item", f"{name} has {len(text):,} characters, more than {most:,}", f"shorten {name}")
        if name != "desc" and not text.strip():
            raise ToolError("bad_item", f"{name} is empty", "give a title and a content")
    if len(item.tags) > limits.ITEM_TAGS:
        raise ToolError("bad_item", f"{len(item.tags)} tags, more than {limits.ITEM_TAGS}", "keep the most telling")
    if any(len(tag) > limits.ITEM_TAG_CHARS for tag in item.tags):
        raise ToolError("bad_item", f"a tag has more than {limits.ITEM_TAG_CHARS} characters", "tags are single words")
