"""The items that a run was given, and the lessons drawn from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from rbank_es.events import MemoriesExtracted
from rbank_es.events.event import titled
from rbank_es.log.run_reader import RunEvents

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


_WAYS = {"injected": "in its context", "read": "read by a tool"}


def given_to(view: View, run: RunEvents) -> list[GivenItem]:
    """Return the items that a run was given, each once, in order."""
    rows = ((gift, view.item(gift.item) or {}) for gift in run.given)
    return [
        GivenItem(
            item=gift.item, title=row.get("title") or "", state=row.get("state"), how=_WAYS[gift.way], seq=gift.seq
        )
        for gift, row in rows
    ]


def drawn_at(view: View, run: str) -> set[int]:
    """Return the positions of the extractions that were drawn from a run, alone or with others."""
    edges = view.rows("lineage_edges", source_kind="run", source=run, relation="drawn_from")
    return {edge["seq"] for edge in edges}


def learned_from(view: View, run: RunEvents) -> list[LearnedItem]:
    """Return the candidates that were drawn from a run, alone or with others, in order of extraction."""
    return [candidate for event in run.extractions for candidate in _candidates(view, event)]


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
