"""The items that a run was given, and the lessons drawn from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from rbank_es.bank.bank import Bank
from rbank_es.events import ContextBuilt, Event, MemoriesExtracted, given_items
from rbank_es.events.event import titled

if TYPE_CHECKING:
    from rbank_es.projections.view import View


class GivenItem(Struct, frozen=True, kw_only=True):
    """An item that a run was given in full: in its context, or by a tool at a position. `state` is the present one."""

    item: str
    title: str
    state: str | None
    how: str
    seq: int


class LearnedItem(Struct, frozen=True, kw_only=True):
    """A candidate that was drawn from a run. `landed`: it counts for items now, in its own words or theirs."""

    extraction: str
    seq: int
    kind: str
    item: str
    title: str
    state: str | None
    landed: tuple[str, ...]


def given_to(view: View, timeline: Iterable[Event]) -> list[GivenItem]:
    """Return the items that a run was given, each once, in order; `timeline` are its events."""
    found: dict[str, GivenItem] = {}
    for event in timeline:
        for id in given_items(event):
            if id not in found:
                row = view.item(id) or {}
                title, state = row.get("title") or "", row.get("state")
                how = "in its context" if isinstance(event, ContextBuilt) else "read by a tool"
                found[id] = GivenItem(item=id, title=title, state=state, how=how, seq=event.seq)
    return list(found.values())


def learned_from(bank: Bank, view: View, run: str) -> list[LearnedItem]:
    """Return the candidates that were drawn from a run, alone or with others, in order of extraction."""
    edges = view.rows("lineage_edges", source_kind="run", source=run, relation="drawn_from")
    made: list[LearnedItem] = []
    for seq in sorted({edge["seq"] for edge in edges}):
        for event in bank.events(after=seq - 1, point=seq):
            if isinstance(event, MemoriesExtracted):
                made += _candidates(view, event)
    return made


def _candidates(view: View, event: MemoriesExtracted) -> Iterator[LearnedItem]:
    landed = {
        row["place"]: msgspec.json.decode(row["landed"], type=tuple[str, ...])
        for row in view.rows("candidate_decisions", extraction=event.id)
    }
    for place, (head, words) in enumerate(zip(event.heads, event.candidates, strict=False)):
        row = view.item(head.id) or {}
        yield LearnedItem(
            extraction=event.id,
            seq=event.seq,
            kind=event.kind,
            item=head.id,
            title=row.get("title") or titled(words),
            state=row.get("state"),
            landed=landed.get(place, ()),
        )
