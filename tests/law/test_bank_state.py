"""The fold, by example: what each event means, and what nonsense does."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es.errors import BadEvent
from rbank_es.events import (
    Decision,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    Ref,
)
from rbank_es.events.items import Item
from rbank_es.law import RESOLVED, State, fold
from tests.pools import extraction_id
from tests.strategies import stamped

OWL = Item.make("Owls see", "Look at night.", id="owl", desc="On owls.", tags=("birds",))
CAT = Item.make("Cats hide", "Look under the bed.", "failure", id="cat")


def extracted(number: int, *items: Item) -> MemoriesExtracted:
    return MemoriesExtracted(
        id=extraction_id(number),
        kind="success",
        heads=tuple(item.head for item in items),
        candidates=tuple(item.text for item in items),
    )


def consolidated(number: int, *decisions: Decision) -> MemoriesConsolidated:
    return MemoriesConsolidated(extraction=extraction_id(number), policy="dedup-1", decisions=decisions)


def decide(index: int, action: Any, item: str, *targets: str) -> Decision:
    return Decision(candidate=index, action=action, item=item, targets=targets)


def folded(*events: Event) -> State:
    return fold(stamped(events))


BORN = (extracted(0, OWL, CAT), consolidated(0, decide(0, "add", "owl"), decide(1, "add", "cat")))


def test_ids_that_nobody_knows_bring_nothing_to_life() -> None:
    """What was forgotten before it was born is born; what was rejected before, stays out."""
    forgotten, rejected = (
        MemoriesForgotten(ids=("owl",), policy="bounded-1"),
        MemoriesRetracted(ids=("cat",), how="rejected"),
    )
    state = folded(forgotten, rejected, *BORN, MemoriesRestored(ids=("nobody",)))
    assert {id: entry.state for id, entry in state.items.items()} == {"owl": "active", "cat": "rejected"}


def test_a_candidate_that_is_still_a_handle_is_an_error() -> None:
    """The reader has to resolve it: a state with an item whose words are missing would be a lie."""
    handle = Ref(key="0" * 64, dtype="item", sz=10, prev="")
    with pytest.raises(BadEvent, match="candidate 0 at position 1"):
        folded(replace(extracted(0, OWL), candidates=(handle,)))
    assert frozenset({"memories_extracted"}) == RESOLVED
