"""The study of repair: a bank learned 120 tasks from a bad judge. What gives its skill back, and how soon?

Every repair happens once, between two tasks. Beside each stands the rival: to empty the bank and begin again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from msgspec.structs import replace

from rbank_es.lab.simulated.simulation import RANKING, SimulationPlan, VerdictCheck
from rbank_es.lab.simulated.solver import PERFECT, JudgeErrors
from rbank_es.lab.simulated.study import Study, StudyCell
from rbank_es.lab.simulated.world import Assumptions

# The bad judge teaches until `AT`; the repaired bank then has as many tasks again to recover.
AT, TASKS, EVERY = 120, 240, 10
JUDGE = JudgeErrors(false_success=0.5, false_failure=0.2)
"""A judge that praises half of what failed: below the break-even of the other study, so the bank still helps."""

ERRING = 0.2
"""The share of verdicts on which people err."""

SOME = 24
"""Verdicts checked where not all are: a fifth."""

BANKS = ("append",)

_ALL = VerdictCheck(at=AT)
_SOME = VerdictCheck(at=AT, verdicts=SOME)


def _better(plan: SimulationPlan) -> SimulationPlan:
    """Return a plan in which a judge that never errs takes over when the bank is repaired."""
    return replace(plan, judge_changes_at=AT, later_judge=PERFECT)


REPAIRS: dict[str, SimulationPlan] = {
    "right from the start": SimulationPlan(judge=PERFECT),
    "nothing": SimulationPlan(),
    "emptied": SimulationPlan(emptied_at=AT),
    "24 checked at random": SimulationPlan(checks=(_SOME,)),
    "24 checked by review": SimulationPlan(checks=(replace(_SOME, pick="review"),)),
    "24 checked by review, people err": SimulationPlan(checks=(replace(_SOME, pick="review", errors=ERRING),)),
    "all checked": SimulationPlan(checks=(_ALL,)),
    "all checked, people err": SimulationPlan(checks=(replace(_ALL, errors=ERRING),)),
    "better judge": _better(SimulationPlan()),
    "emptied, better judge": _better(SimulationPlan(emptied_at=AT)),
    "24 checked by review, better judge": _better(SimulationPlan(checks=(replace(_SOME, pick="review"),))),
    "all checked, better judge": _better(SimulationPlan(checks=(_ALL,))),
    "all checked and drawn again, better judge": _better(SimulationPlan(checks=(replace(_ALL, relearn=True),))),
    "all checked, people err, better judge": _better(SimulationPlan(checks=(replace(_ALL, errors=ERRING),))),
    "all checked twice, people err, better judge": _better(
        SimulationPlan(checks=(replace(_ALL, errors=ERRING, second=True),))
    ),
    "all checked and vouched, people err, better judge": _better(
        SimulationPlan(checks=(replace(_ALL, errors=ERRING, vouch=True),))
    ),
}
"""The repairs, under the judge that poisoned the bank unless a better one follows."""


def _cells() -> Iterator[StudyCell]:
    for bank, (name, plan) in product(BANKS, REPAIRS.items()):
        judge = PERFECT if name == "right from the start" else JUDGE
        policies = RANKING | {"consolidation": {"name": bank}}
        yield StudyCell(
            factors={"bank": bank, "repair": name},
            plan=replace(plan, judge=judge, policies=policies, measured_from=AT, measured_every=EVERY),
        )


STUDY = Study(
    name="repair",
    title="Repairing a poisoned bank",
    assumptions=Assumptions(tasks=TASKS),
    # As the shipped experiments: with fewer than six pairs no permutation test reaches p < .05.
    repetitions=8,
    cells=tuple(_cells()),
)
