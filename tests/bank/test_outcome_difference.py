"""Runs with an item beside runs like them without it: counted by hand, and too few said to be too few."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rbank_es import Bank
from rbank_es.bank.item_effect import SOUGHT_DIFFERENCE, OutcomeDifference, outcome_difference
from rbank_es.events import ContextBuilt, Event, RunStarted
from rbank_es.events.run_events import VerdictValue
from rbank_es.system.proportion import Share, Stratum, cases_needed, share_difference
from tests.cli.misled import judged

Told = tuple[str, str, VerdictValue | None, bool]
"""A run: its id, its ontology, its verdict, and whether it was given the item."""


def run_events(run: str, ontology: str, verdict: VerdictValue | None, given: bool) -> list[Event]:
    events: list[Event] = [RunStarted(run=run, ontology=ontology)]
    events += [ContextBuilt(run=run, chars=1, items=("owl",))] if given else []
    return events + ([judged(run, verdict)] if verdict is not None else [])


def compared(runs: Sequence[Told]) -> OutcomeDifference:
    with Bank.create("memory:") as bank:
        if events := [event for told in runs for event in run_events(*told)]:
            bank.append(events)
        with bank.as_of() as view:
            return outcome_difference(view, "owl")


def family(ontology: str, won: int, lost: int, given: bool) -> list[Told]:
    outcomes: list[VerdictValue] = ["success"] * won + ["failure"] * lost
    return [(f"{ontology}-{given}-{number}", ontology, each, given) for number, each in enumerate(outcomes)]


def interleaved(*groups: list[Told]) -> list[Told]:
    """The runs of all groups, spread evenly, so that each quarter has its share of each."""
    placed = [(number / len(group), told) for group in groups for number, told in enumerate(group)]
    return [told for _, told in sorted(placed, key=lambda each: (each[0], each[1][0]))]


def by_hand(runs: Sequence[Told]) -> list[Stratum]:
    counts: dict[tuple[str, int], list[int]] = {}
    for number, (_, ontology, verdict, given) in enumerate(runs):
        if verdict in ("success", "failure"):
            group = counts.setdefault((ontology, number * 4 // len(runs)), [0, 0, 0, 0])
            group[0 if given else 2] += verdict == "success"
            group[1 if given else 3] += 1
    return [Stratum(*each) for each in counts.values() if each[1] and each[3]]


def test_a_difference_is_that_of_runs_of_one_family_and_quarter() -> None:
    runs = interleaved(
        family("lights", 80, 20, True),
        family("lights", 50, 50, False),
        family("nets", 40, 10, True),
        family("nets", 25, 25, False),
    )
    runs += [("none", "lights", "undecided", True), ("open", "nets", None, False)]
    found = compared(runs)
    strata = by_hand(runs)
    assert found.difference == pytest.approx(share_difference(strata)) and found.strata == len(strata) == 8
    assert found.used == Share(120, 150) and found.others == Share(75, 150)
    assert found.matched >= found.needed == cases_needed(0.5, SOUGHT_DIFFERENCE)
    assert found.difference is not None and found.difference.low > 0


def test_an_item_of_late_runs_is_not_compared_with_early_ones() -> None:
    """Early runs all failed without it, late ones succeed with it: nothing says what late ones without it would do."""
    runs = [*family("lights", 0, 100, False), *family("lights", 100, 0, True)]
    found = compared(runs)
    assert (found.difference, found.strata, found.matched) == (None, 0, 0)
    assert found.others == Share(0, 0)
