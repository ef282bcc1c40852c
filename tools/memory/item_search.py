"""Searches of the bank: the hits, the position that was read, the event to record, and hits truncated to a budget.

A recorded retrieval is verified on the bank as it was just before its event. So whoever returns `Retrieval.event` in
a reply returns `Retrieval.position` too: the event is appended right behind the position that was read, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import LogError, ProjectionError
from rbank_es.events import ContextBuilt, MemoriesRead, MemoriesRetrieved, WordsEmbedded, type_of
from rbank_es.events.codec import encodable
from rbank_es.law.fold_memory import MEMORY_HANDLERS
from rbank_es.limits import tool_limits
from rbank_es.policies.excerpt import MARK, excerpt
from rbank_es.system.text_cuts import cut_words
from rbank_es.tools.shared.tool_answers import largest, size
from rbank_es.tools.shared.tool_family import ToolError, ToolSession

if TYPE_CHECKING:
    from rbank_es.policies import RetrievalPolicy
    from rbank_es.projections.search_result import FoundItem
    from rbank_es.projections.view import View


CHANGES = frozenset(
    {*map(type_of, MEMORY_HANDLERS), type_of(ContextBuilt), type_of(MemoriesRead), type_of(WordsEmbedded)}
)
"""Types of the events that can change the result of a search, the words of an item, or its state.

Uses and vectors are among them, because a policy may rank by them.
"""


class Retrieval(NamedTuple):
    """The hits of a search, best first; the events that record it; the position of the bank that was read."""

    hits: tuple[FoundItem, ...]
    events: tuple[MemoriesRetrieved, ...]
    position: int


def search_items(
    session: ToolSession,
    query: str,
    k: int | None = None,
    *,
    polarity: str | None = None,
    domain: str | None = None,
    role: str | None = None,
) -> Retrieval:
    """Search the bank by the retrieval policy in force, for the current call.

    `k` is the policy's unless given, and lowered to `FOUND_ITEMS`; `domain` is the task's unless given, and the policy
    says whether it is preferred. An empty filter is none. Items of sources
    `principle` and `episode` are never found. Raises `ToolError` and `BadSearch` for a bad filter, `BadPolicy` if this
    release lacks the policy.
    """
    facts = {"polarity": polarity or None, "role": _name("role", role), "domain": _name("domain", domain)}
    if session.embed is not None:
        session.embed(encodable(query))
    with items_view(session) as (view, position):
        _refuse_unknown(view, session, facts["domain"], facts["role"])
        policy = view.retrieval_policy()
        wanted = min(max(1, policy.k if k is None else k), tool_limits.FOUND_ITEMS)
        hits, event = _searched(session, view, policy, encodable(query), wanted, facts)
    return Retrieval(hits, (event,), position)


def related_items(session: ToolSession, query: str) -> Retrieval:
    """Search the bank for what the retrieval policy in force gives unasked: so many strategies and guardrails."""
    found: list[FoundItem] = []
    events: list[MemoriesRetrieved] = []
    with items_view(session) as (view, position):
        policy = view.retrieval_policy()
        for polarity, k in (("success", policy.k_success), ("failure", policy.k_failure)):
            if k:
                hits, event = _searched(
                    session, view, policy, encodable(query), k, {"polarity": polarity}, unasked=True
                )
                found += hits
                events.append(event)
    return Retrieval(tuple(found), tuple(events), position)


def _searched(
    session: ToolSession,
    view: View,
    policy: RetrievalPolicy,
    words: str,
    k: int,
    facts: dict[str, str | None],
    unasked: bool = False,
) -> tuple[tuple[FoundItem, ...], MemoriesRetrieved]:
    """Return the hits of one search, and the event that records it. Raises `BadSearch` for a bad filter."""
    about: dict[str, Any] = facts | {"domain": facts.get("domain") or session.policy.domain or session.domain}
    task: dict[str, Any] = {"without_task": session.policy.without_task, "level": session.policy.level}
    found = view.retrieve(words, k, **about, **task, unasked=unasked, policy=policy)
    return found.items, replace(found.event, run=session.run, mode="tool", call=session.call)


@contextmanager
def items_view(session: ToolSession) -> Iterator[tuple[View, int]]:
    """Yield a view of the bank's current items and policies, and the position that the view is true of."""
    # Most events of a run change no item and no policy. While only such events were appended, the
    # older view is as true, and projections are spared a write at every search.
    position = session.bank.position
    if not 0 < session.seen <= position or _changed(session.bank, session.seen, position):
        with suppress(ProjectionError, LogError, OSError):
            # Where this fails, the view is made in memory.
            session.bank.project()
        session.seen = position
    with session.bank.as_of(session.seen) as view:
        yield view, position


def _changed(bank: Bank, since: int, position: int) -> bool:
    """Return whether appended events may change the view, or are so many that catching up is quicker than looking."""
    if position - since > tool_limits.LOOK_BACK_EVENTS:
        return True
    return any(True for _ in bank.events(after=since, point=position, types=CHANGES))


def _refuse_unknown(view: View, session: ToolSession, domain: str | None, role: str | None) -> None:
    """Raise `ToolError` for a domain or role that no item has."""
    # Filters are recorded as facts, which outlive erasure, so they must not hold an agent's own words.
    names: tuple[Literal["domain", "role"], ...] = ("domain", "role")
    for name, value in zip(names, (domain if domain != session.domain else None, role), strict=True):
        if value is not None and value not in (known := view.known(name)):
            there = ", ".join(known[: limits.CHOICES_NAMED]) or "no item has one"
            raise ToolError("bad_arguments", f"no item has this {name}", f"leave {name} out, or give one of: {there}")


def _name(name: str, value: str | None) -> str | None:
    if value is not None and len(value) > limits.NAME_CHARS:
        raise ToolError("bad_arguments", f"{name} has {len(value):,} characters", "give an id, or leave it out")
    return encodable(value) if value else None


TITLE_CHARS = 20
"""Characters that a title keeps at least; if there is less room, its hit is left out."""

DESC_CHARS = 16
"""Characters that a description keeps at least; if there is less room, it is shown empty."""


def fit_hits(hits: Sequence[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Return the first hits that fit into `room` characters of JSON: descriptions are truncated first, then titles."""
    # Every hit counts more than the length of its description: the agent can read it in full.
    for kept in range(len(hits), 0, -1):
        shown = _fitted(hits[:kept], room)
        if shown is not None:
            return shown
    return []


def _fitted(hits: Sequence[dict[str, Any]], room: int) -> list[dict[str, Any]] | None:
    longest = max(len(hit["desc"]) for hit in hits)
    chars = _most(longest, lambda chars: size(_truncated_hits(hits, desc=chars)) <= room)
    if chars is not None:
        return _truncated_hits(hits, desc=chars)
    longest = max(len(hit["title"]) for hit in hits)
    chars = _most(longest, lambda chars: size(_truncated_hits(hits, title=chars)) <= room)
    return None if chars is None or chars < min(TITLE_CHARS, longest) else _truncated_hits(hits, title=chars)


def _truncated_hits(hits: Sequence[dict[str, Any]], *, desc: int = 0, title: int | None = None) -> list[dict[str, Any]]:
    return [
        {
            **hit,
            "title": hit["title"] if title is None else _truncated(hit["title"], title),
            "desc": _truncated(hit["desc"], desc if desc >= min(DESC_CHARS, len(hit["desc"])) else 0),
        }
        for hit in hits
    ]


def fit_items(items: Sequence[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Return items in at most `room` characters of JSON: whole, or with long contents truncated, or with all words.

    Truncated items are marked `truncated`. An item whose id alone is too long keeps nothing else.
    """
    if size(items) <= room:
        return list(items)
    items = [_with_few_tags(item) for item in items]
    bare = [{"id": item["id"], "title": item["title"], "content": item["content"], "truncated": True} for item in items]
    for shown, names in ((items, ("content",)), (items, ("content", "desc", "title")), (bare, ("content", "title"))):
        chars = _chars_of_items(shown, names, room)
        if chars is not None:
            return _truncated_items(shown, names, chars)
    return [{"id": item["id"], "truncated": True} for item in items]


def _with_few_tags(item: dict[str, Any]) -> dict[str, Any]:
    kept = [tag for tag in item["tags"] if len(tag) <= limits.ITEM_TAG_CHARS][: limits.ITEM_TAGS]
    return item if kept == item["tags"] else {**item, "tags": kept, "truncated": True}


def _chars_of_items(items: Sequence[dict[str, Any]], names: Sequence[str], room: int) -> int | None:
    longest = max(len(item[name]) for item in items for name in names)
    return _most(longest, lambda chars: size(_truncated_items(items, names, chars)) <= room)


def _truncated_items(items: Sequence[dict[str, Any]], names: Sequence[str], chars: int) -> list[dict[str, Any]]:
    done = []
    for item in items:
        shown = {**item, **{name: _truncated(item[name], chars) for name in names}}
        done.append({**shown, "truncated": True} if shown != item else item)
    return done


def quoted(text: str, max_chars: int, room: int, words: Collection[str] = ()) -> str:
    """Return the part of a text about some words in `max_chars` characters and `room` of JSON at most.

    Without words it is the beginning, truncated between words.
    """
    chars = _most(min(max_chars, len(text)), lambda chars: size(_truncated(text, chars)) <= room) or 0
    part = excerpt(text, words, chars) if words else MARK
    # Another part of the text may need more escapes than the beginning.
    while size(part) > room:
        chars = chars * 3 // 4
        part = excerpt(text, words, chars)
    # Of code that is longer than the budget, its beginning is better than nothing.
    return _truncated(text, chars) if part == MARK else part


def _truncated(text: str, chars: int) -> str:
    return "" if chars < 1 else cut_words(text, chars)


def _most(longest: int, fits: Callable[[int], bool]) -> int | None:
    """Return the largest number up to `longest` that fits, None if not even 0 does."""
    return largest(longest, fits) if fits(0) else None
