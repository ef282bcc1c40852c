"""The events that concern an item: those that name it, what was undone or set aside, and judgments of its runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from rbank_es.bank.bank_access import OpenBank
from rbank_es.bank.run_judgments import JUDGMENT_TYPES
from rbank_es.events import Event, MemoriesConsolidated, MemoriesExtracted, MemoriesRetracted

ITEM_TYPES = frozenset(
    {
        "consolidation_proposed",
        "context_built",
        "decision_undone",
        "items_linked",
        "memories_admitted",
        "memories_consolidated",
        "memories_extracted",
        "memories_forgotten",
        "memories_read",
        "memories_restored",
        "memories_retracted",
        "memories_retrieved",
        "memory_proposed",
    }
)
"""Types of events that can concern an item, judgments of its runs apart."""

RULING_TYPES = frozenset(
    {"items_linked", "memories_admitted", "memories_consolidated", "memories_restored", "memories_retracted"}
)
"""Of these, what people and policies did with it, which are few."""


def item_events(bank: OpenBank, item: str, position: int, types: Collection[str] = ITEM_TYPES) -> list[Event]:
    """Return the events of some types that concern an item up to a position, oldest first.

    With all types, also the judgments of the runs that its extractions relied on. It reads the events of these types in
    the whole log.
    """
    kept: dict[int, Event] = {}
    extractions: set[str] = set()
    others: list[Event] = []
    for event in bank.events(point=position, types=types):
        if _names(event, item):
            kept[event.seq] = event
            extractions |= _extractions(event, item)
        elif getattr(event, "extraction", None) or getattr(event, "extractions", ()):
            others.append(event)
    if types is ITEM_TYPES:
        # What was undone or set aside names an extraction only.
        kept |= {event.seq: event for event in others if _concerns(event, extractions)}
        for run in _runs(bank, kept.values(), extractions, position):
            kept |= {event.seq: event for event in bank.events(point=position, run=run, types=JUDGMENT_TYPES)}
    return [event for _, event in sorted(kept.items())]


def _runs(bank: OpenBank, events: Collection[Event], extractions: set[str], position: int) -> set[str]:
    """Return the runs on whose verdicts extractions relied, and those because of which some were set aside."""
    runs = {event.run for event in events if isinstance(event, MemoriesRetracted) and event.run}
    sought = [*extractions]
    for id in sought:
        seq = bank.log.seq_of_id(id)
        event = bank.event_at(seq) if seq is not None and seq <= position else None
        if isinstance(event, MemoriesExtracted):
            runs |= {each.run for each in event.relied}
            # The candidate of a copy stands and falls with what it is a copy of.
            sought += [original for each in event.copy_of for original in each if original not in sought]
    return runs


def _extractions(event: Any, name: str) -> set[str]:
    """Return the ids of the extractions by which an event concerns an item."""
    if isinstance(event, MemoriesExtracted):
        return {event.id}
    if isinstance(event, MemoriesConsolidated):
        named = (each for each in event.decisions if name in (each.item, *each.targets))
        return {each.extraction or event.extraction or "" for each in named} - {""}
    return set()


def _concerns(event: Any, extractions: set[str]) -> bool:
    return getattr(event, "extraction", None) in extractions or bool(
        extractions.intersection(getattr(event, "extractions", ()))
    )


def _names(event: Event, name: str) -> bool:
    """Return whether an event names an item: as candidate, in a decision, as injected, found, read, linked or ended."""
    return name in _items_named(event)


def _items_named(event: Any) -> Iterator[str]:
    for field in ("ids", "items", "targets"):
        yield from getattr(event, field, ())
    for field in ("source", "target"):
        yield getattr(event, field, "")
    for head in (*getattr(event, "heads", ()), *([event.head] if hasattr(event, "head") else ())):
        yield head.id
    yield from (hit.id for hit in getattr(event, "hits", ()))
    for decision in getattr(event, "decisions", ()):
        yield from (decision.item, *decision.targets)
