"""Admission and selection by example: what waits for a person, and which rollout counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from rbank_es import Bank, Item
from rbank_es.events import MemoriesExtracted
from rbank_es.extraction.candidates import consolidate
from rbank_es.policies import (
    BestOf,
    OpenAdmission,
    ReviewedAdmission,
    StandardAdmission,
    changed,
    default_policies,
    held_back,
)
from rbank_es.policies.admission import AdmissionPolicy, origin_of

LEARNED: dict[str, dict[str, Any]] = {
    "run": {"kind": "success", "runs": ("r",), "extractor": "success-failure-1"},
    "rollouts": {"kind": "contrastive", "runs": ("r", "s"), "extractor": "success-failure-1"},
    "agent": {"kind": "success", "runs": ("r",), "extractor": "proposals-1"},
    "query": {"kind": "success", "runs": ("r",), "extractor": "queries-1"},
    "person": {"kind": "manual"},
}


@pytest.mark.parametrize(
    ("policy", "held"),
    [
        (StandardAdmission(), {"agent"}),
        (StandardAdmission(rollouts=False, queries=False), {"agent", "rollouts", "query"}),
        (OpenAdmission(), set()),
        (ReviewedAdmission(), {"run", "rollouts", "agent", "query"}),
        (ReviewedAdmission(given=False), set(LEARNED)),
    ],
)
def test_items_wait_by_their_origin(policy: AdmissionPolicy, held: set[str]) -> None:
    events = [MemoriesExtracted(**facts) for facts in LEARNED.values()]
    assert [origin_of(event) for event in events] == list(LEARNED)
    marked = held_back(events, policy.choice)
    assert {name for name, event in zip(LEARNED, marked, strict=True) if event.pending} == held  # type: ignore[attr-defined]


class Tried(NamedTuple):
    """A rollout, as a selection sees it."""

    index: int
    verdict: Any = "success"
    outcome: str = "submitted"
    iterations: int = 3


@pytest.mark.parametrize(
    ("among", "tried", "best"),
    [
        ("shortest", [Tried(0), Tried(1, iterations=2)], 1),
        ("first", [Tried(0), Tried(1, iterations=2)], 0),
        ("first", [Tried(0, "failure"), Tried(1)], 1),
        ("shortest", [Tried(0, "failure", iterations=1), Tried(1, "undecided", iterations=9)], 1),
        ("shortest", [Tried(0, outcome="forced_at_limit", iterations=1), Tried(1, iterations=9)], 1),
    ],
)
def test_the_best_rollout_is_a_success_then_by_the_setting(among: Any, tried: list[Tried], best: int) -> None:
    assert BestOf(among=among).best(tried).index == best


def test_what_is_pending_is_found_by_no_search() -> None:
    with Bank.create("memory:", policies=changed(default_policies(), {"admission": {"name": "reviewed"}})) as bank:
        item = Item.make("Count lamps", "Use COUNT.")
        learned = {"heads": (item.head,), "candidates": (item.text,), "extractor": "success-failure-1"}
        consolidate(bank, [MemoriesExtracted(kind="success", **learned)])
        assert bank.state().items[item.id].state == "pending"
