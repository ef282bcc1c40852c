"""Searching the bank from a tool: what was found, at which position, and the event that tells it.

A recorded retrieval can be made again on the bank as it was just before its event. So a search reads one position, and
its event must follow right behind: whoever returns `Retrieval.event` in a reply returns `Retrieval.position` too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import LogError, ProjectionError
from rbank_es.events import (
    ContentErased,
    DecisionUndone,
    Hit,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    MemoriesRetrieved,
    PolicySet,
    type_of,
)
from rbank_es.events.items import Polarity
from rbank_es.tools.runtime.encoder import text_of
from rbank_es.tools.runtime.reply import ToolError
from rbank_es.tools.runtime.tool_session import Desk

if TYPE_CHECKING:
    from rbank_es.projections.view import FoundItem, View


_KNOWN_SHOWN = 8
"""How many of the domains or roles that items have are named to who gave another."""

LOOK_BACK_EVENTS = 64
"""How many events are looked through, before the read models are brought up to date again."""

CHANGES = frozenset(
    type_of(event)
    for event in (
        MemoriesExtracted,
        MemoriesConsolidated,
        MemoriesForgotten,
        MemoriesRetracted,
        MemoriesRestored,
        DecisionUndone,
        PolicySet,
        ContentErased,
    )
)
"""The events that change what a search finds, what an item says, or what became of it."""


class Retrieval(NamedTuple):
    """What a search found, best first; the event that tells it; the bank's position that was searched."""

    hits: tuple[FoundItem, ...]
    event: MemoriesRetrieved
    position: int


def found(
    desk: Desk,
    query: str,
    k: int,
    *,
    polarity: str | None = None,
    domain: str | None = None,
    role: str | None = None,
) -> Retrieval:
    """Search the bank by the retrieval policy in force, for the call that is being made.

    `k` is cut to what the limits allow; an empty filter is none. Items of sources `principle` and `episode` are never
    found. Raises `ToolError` and `BadSearch` for a filter that can't be, `BadPolicy` if the policy in force is not
    known to this release.
    """
    wanted, words = min(max(1, k), limits.SEARCH_HITS), text_of(query)
    domain, role = _name("domain", domain), _name("role", role)
    with looking(desk) as (view, position):
        _refuse_unknown(view, desk, domain=domain, role=role)
        policy = view.retrieval_policy()
        hits = view.search(words, wanted, polarity=polarity or None, domain=domain, role=role, policy=policy)
    event = MemoriesRetrieved(
        run=desk.run,
        mode="tool",
        k=wanted,
        polarity=cast("Polarity | None", polarity or None),  # the search refuses any other
        domain=domain,
        role=role,
        policy=policy.label,
        call=desk.call,
        hits=tuple(Hit(id=hit.id, rank=hit.rank, score=hit.score) for hit in hits),
        query=words,
    )
    return Retrieval(tuple(hits), event, position)


@contextmanager
def looking(desk: Desk) -> Iterator[tuple[View, int]]:
    """A view of the bank's items and policies as they are now, and the position that this is true of.

    Most of what a run appends changes neither. So the view may be of an earlier position, where all events since then
    are such: that spares the read models a write at every look.
    """
    position = desk.bank.position
    if not 0 < desk.seen <= position or _changed(desk.bank, desk.seen, position):
        with suppress(ProjectionError, LogError, OSError):
            # Where this fails, the view is made in memory.
            desk.bank.project()
        desk.seen = position
    with desk.bank.as_of(desk.seen) as view:
        yield view, position


def _changed(bank: Bank, since: int, position: int) -> bool:
    """Whether anything was appended that a look could see, or so much that it is quicker to catch up."""
    if position - since > LOOK_BACK_EVENTS:
        return True
    return any(True for _ in bank.events(after=since, point=position, types=CHANGES))


def _refuse_unknown(view: View, desk: Desk, **filters: str | None) -> None:
    """Filters are recorded as facts, which outlive erasure, so they may not be the agent's own words."""
    for name, value in filters.items():
        if value is None or (name == "domain" and value == desk.domain):
            continue
        known = sorted({str(row[name]) for row in view.rows("items") if row[name]})
        if value not in known:
            there = ", ".join(known[:_KNOWN_SHOWN]) or "no item has one"
            raise ToolError("bad_arguments", f"no item has this {name}", f"leave {name} out, or give one of: {there}")


def _name(name: str, value: str | None) -> str | None:
    if value is not None and len(value) > limits.NAME_CHARS:
        raise ToolError("bad_arguments", f"{name} has {len(value):,} characters", "give an id, or leave it out")
    return text_of(value) if value else None
