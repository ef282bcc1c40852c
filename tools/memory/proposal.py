"""Proposing items: what is said of one, whether it is new, and the event that tells it. Nothing is stored here."""

from __future__ import annotations

from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.events.items import Item, make_id
from rbank_es.ontology.labels import without_controls
from rbank_es.sparql.results import Answer
from rbank_es.tools.memory.item_search import looking
from rbank_es.tools.memory.query_extractor import QueryEvidence, proposal
from rbank_es.tools.runtime.answer_budget import Room
from rbank_es.tools.runtime.reply import Reply, ToolError
from rbank_es.tools.runtime.store import Handle
from rbank_es.tools.runtime.tool_session import Desk

LATER = "it is stored only if the judge and the policies say so after the run; mem_search doesn't find it before"
BEFORE = "this tool has proposed the same item before in this run, so nothing was written"
KNOWN = "the bank knows this item already, so nothing was written; it is"


class Proposing:
    """Proposes items for the tools of a run."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._room = Room(desk)

    def propose(self, item: Item, by: str, why: str) -> Reply:
        """Record a proposal, unless this run has made it before or the bank knows the item.

        Raises `ToolError` for an item that breaks its limits.
        """
        item = tidy(item)
        check(item)
        event = proposal(self._desk, item, by, why)
        if event is None:
            return Reply(self._said(item, BEFORE, proposed=False))
        state = self._state_of(item.id)
        if state is not None:
            return Reply(self._said(item, f"{KNOWN} {state}", proposed=False))
        return Reply(self._said(item, LATER, proposed=True), beside=(event,))

    def show(self, item: Item) -> Reply:
        """The item as it would be proposed, its content behind a handle. Raises as `propose` does."""
        check(item)
        said = self._said(item, "auto_store is False, so nothing was proposed", proposed=False, handle=True)
        return Reply(said, item.content, "text")

    def evidence(self, result: Handle, task: str) -> QueryEvidence:
        """What is known of the query that made a result. Raises `ToolError`, `UnknownHandle`."""
        query = self._desk.query_of(result)
        if query is None:
            raise ToolError(
                "not_a_query",
                "that handle is not the result of a query",
                "give the handle that sparql_query or g_query returned",
            )
        answer = self._answer(result)
        rows = None if answer.form == "ask" else len(answer.rows)
        return QueryEvidence.on(self._desk, query, task=task, variables=answer.variables, rows=rows)

    def evidence_of_text(self, query: str, task: str) -> QueryEvidence:
        """What is known of a query by its text alone."""
        return QueryEvidence.on(self._desk, query, task=task, rows=None)

    def _answer(self, result: Handle) -> Answer:
        from rbank_es.sparql.results import from_json

        return from_json(self._desk.store.get(result))

    def _state_of(self, item: str) -> str | None:
        with looking(self._desk) as (view, _):
            row = view.item(item)
        return None if row is None else str(row["state"])

    def _said(self, item: Item, why: str, *, proposed: bool, handle: bool = False) -> dict[str, Any]:
        body: dict[str, Any] = {"id": item.id, "proposed": proposed, "stored": False}
        body |= {"src": item.src, "polarity": item.polarity, "why": why}
        self._room.say(body, "title", item.title, limits.ITEM_TITLE_CHARS, handle=handle)
        self._room.say(body, "desc", item.desc, limits.ITEM_DESC_CHARS, handle=handle)
        return body


def tidy(item: Item) -> Item:
    """The item with title and description on one line each, and without signs that a terminal would obey."""
    title, desc = (" ".join(without_controls(text).split()) for text in (item.title, item.desc))
    content = without_controls(item.content).strip()
    if (title, desc, content) == (item.title, item.desc, item.content):
        return item
    return msgspec.structs.replace(item, id=make_id(title, content), title=title, desc=desc, content=content)


def check(item: Item) -> None:
    """Raises `ToolError` for an item that breaks the limits of what a run may propose."""
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
