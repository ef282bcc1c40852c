"""Decisions as a bank makes them, for tests that have a state and no bank."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from rbank_es.events import (
    Decision,
    Erased,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRetracted,
)
from rbank_es.events.items import Item
from rbank_es.law import ConsolidationPolicy, State, fold
from rbank_es.law.decisions import Decider
from rbank_es.law.known_items import KnownItems
from tests.pools import extraction_id, uuid_of
from tests.strategies import stamped


def decisions(
    policy: ConsolidationPolicy, state: State, batch: Sequence[Item], known: KnownItems | None = None
) -> tuple[Decision, ...]:
    """What a policy decides about the candidates of one extraction, in a state."""
    if not batch:
        return ()
    governed = replace(state, policies={"consolidation": policy.choice})
    event = MemoriesExtracted(
        id=uuid_of(state.position, kind=0xE),
        kind="manual",
        heads=tuple(item.head for item in batch),
        candidates=tuple(item.text for item in batch),
    )
    _, made, *_ = Decider(governed, known).decided([event])
    assert isinstance(made, MemoriesConsolidated)
    return made.decisions


def state_of(*items: Item, **changes: str) -> State:
    """A bank that learned these items one after the other; `changes` says by id what became of one of them then:
    forgotten, withdrawn, rejected, pending, erased, or supported (once more)."""
    events: list[Event] = []
    for number, item in enumerate(items):
        change = changes.get(item.id, "")
        words = Erased(digest="0" * 64) if change == "erased" else item.text
        extraction, added = extraction_id(number), Decision(candidate=0, action="add", item=item.id)
        events += [
            MemoriesExtracted(
                id=extraction, kind="manual", heads=(item.head,), candidates=(words,), pending=change == "pending"
            ),
            MemoriesConsolidated(extraction=extraction, policy="append-1", decisions=(added,)),
        ]
        if change == "supported":
            again = extraction_id(1_000 + number)
            events.append(MemoriesExtracted(id=again, kind="manual", heads=(item.head,), candidates=(words,)))
            skip = Decision(candidate=0, action="skip", item=item.id, targets=(item.id,))
            events.append(MemoriesConsolidated(extraction=again, policy="append-1", decisions=(skip,)))
    for id, change in changes.items():
        if change == "forgotten":
            events.append(MemoriesForgotten(ids=(id,), policy="by-hand-1"))
        elif change in ("withdrawn", "rejected"):
            events.append(MemoriesRetracted(ids=(id,), how=change))  # type: ignore[arg-type]
    return fold(stamped(events))
