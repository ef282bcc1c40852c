"""The study of a poisoned bank: what a judge that errs does to a bank, and what a person's checks save of it.

Factors: the judge's errors (a failure called a success, a success called a failure), what consolidation, forgetting and
ranking do, and the number of verdicts that a person checks, picked at random or as a review proposes; people err too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from rbank_es.lab.simulated.simulation import RANKING, Pick, SimulationPlan, VerdictCheck
from rbank_es.lab.simulated.solver import JudgeErrors
from rbank_es.lab.simulated.study import Study, StudyCell
from rbank_es.lab.simulated.world import Assumptions

SIZE = Assumptions(tasks=120)

FALSE_SUCCESS = (0.0, 0.25, 0.5, 0.75, 1.0)
FALSE_FAILURE = (0.0, 0.3, 0.6)
BOUND = {"name": "bounded", "max_items": 40, "floor_success": 10, "floor_failure": 10}
"""A third of the items that `append` keeps of 120 tasks, with room for both polarities."""

BY_SUPPORT = {"name": "bm25", "version": 2, "support": 1.0, "coverage": 0.0, "share_of_best": 0.0}
"""A score times 1 + ln(support), with no floor, as the other banks of the study have none."""

BANKS: dict[str, dict[str, dict[str, object]]] = {
    "append": {"consolidation": {"name": "append"}},
    "append, bounded": {"consolidation": {"name": "append"}, "forgetting": BOUND},
    "dedup": {"consolidation": {"name": "dedup"}},
    "dedup, bounded": {"consolidation": {"name": "dedup"}, "forgetting": BOUND},
    "dedup, by support": {"consolidation": {"name": "dedup"}, "retrieval": BY_SUPPORT},
}
"""Consolidation and forgetting in all combinations; ranking by support needs a policy that consolidates."""

CHECKED_BANKS = ("append", "dedup")
CHECKED_JUDGES = ((0.14, 0.25), (0.5, 0.3))
"""A judge as reported of models, and one that errs twice as much."""

ROUNDS = 6
CHECKS = (12, 24, 60)
"""Verdicts that are checked of 120, in `ROUNDS` equal parts, a part after each sixth of the tasks."""

PICKS: tuple[Pick, ...] = ("random", "review")
ERRING = 0.2
"""The share of verdicts on which people err, where they do: about as often as a good judge."""


def _cells() -> Iterator[StudyCell]:
    judges = product(FALSE_SUCCESS, FALSE_FAILURE)
    for (false_success, false_failure), bank in product(judges, BANKS):
        yield _cell(bank, false_success, false_failure)
    for (false_success, false_failure), bank in product(CHECKED_JUDGES, CHECKED_BANKS):
        # The other judge is in the grid above, without checks.
        if false_success not in FALSE_SUCCESS:
            yield _cell(bank, false_success, false_failure)
        for checks, pick in product(CHECKS, PICKS):
            yield _cell(bank, false_success, false_failure, checks, pick)
        for pick in PICKS:
            yield _cell(bank, false_success, false_failure, CHECKS[1], pick, ERRING)


def _cell(
    bank: str, false_success: float, false_failure: float, checks: int = 0, pick: Pick = "random", people: float = 0.0
) -> StudyCell:
    every = SIZE.tasks // ROUNDS
    rounds = [
        VerdictCheck(at=every * number, verdicts=checks // ROUNDS, pick=pick, errors=people)
        for number in range(1, ROUNDS + 1)
    ]
    factors: dict[str, str | float] = {
        "bank": bank,
        "false_success": false_success,
        "false_failure": false_failure,
        "checks": checks,
    }
    return StudyCell(
        factors=factors | ({"pick": pick, "people": people} if checks else {}),
        plan=SimulationPlan(
            policies=RANKING | BANKS[bank],
            judge=JudgeErrors(false_success=false_success, false_failure=false_failure),
            checks=tuple(rounds) if checks else (),
        ),
    )


STUDY = Study(
    name="poisoned-bank",
    title="The phase diagram of a poisoned bank",
    assumptions=SIZE,
    # As the shipped experiments: with fewer than six pairs no permutation test reaches p < .05.
    repetitions=8,
    cells=tuple(_cells()),
)
