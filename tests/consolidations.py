"""Decisions as a bank makes them, for tests that have a state and no bank."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from rbank_es.events import (
    Decision,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
)
from rbank_es.events.items import Item
from rbank_es.law import ConsolidationPolicy, State, fold
from rbank_es.law.decisions import Decider
from rbank_es.law.similar_items import KnownItems
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


def state_of(*items: Item, forgotten: Sequence[str] = ()) -> State:
    """A bank that learned these items one after the other, and forgot some."""
    events: list[Event] = []
    for number, item in enumerate(items):
        extraction, added = extraction_id(number), Decision(candidate=0, action="add", item=item.id)
        events += [
            MemoriesExtracted(id=extraction, kind="manual", heads=(item.head,), candidates=(item.text,)),
            MemoriesConsolidated(extraction=extraction, policy="append-1", decisions=(added,)),
        ]
    if forgotten:
        events.append(MemoriesForgotten(ids=tuple(forgotten), policy="by-hand-1"))
    return fold(stamped(events))
