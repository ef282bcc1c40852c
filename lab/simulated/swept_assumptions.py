"""The study of assumptions: how far the other studies depend on numbers that nobody measured.

Each assumption about the learner is lowered and raised, one at a time, under three judges. Then a lesson is
given more effect on the very task from which it was drawn, as if it held the answer. Skill is measured on the tasks
that were learned from: with leave-one-out, and without.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from msgspec.structs import replace

from rbank_es.lab.simulated.simulation import RANKING, SimulationPlan
from rbank_es.lab.simulated.solver import PERFECT, JudgeErrors
from rbank_es.lab.simulated.study import Study, StudyCell
from rbank_es.lab.simulated.world import Assumptions

SIZE = Assumptions(tasks=120)

JUDGES = {
    "never errs": PERFECT,
    "0.14 / 0.25": JudgeErrors(),
    "0.5 / 0.3": JudgeErrors(false_success=0.5, false_failure=0.3),
}
"""By the shares of failures called a success, and of successes called a failure."""

SWEPT: dict[str, tuple[float, float]] = {
    "follow": (0.75, 3.0),
    "avoid": (0.4, 1.6),
    "foreign": (0.25, 1.0),
    "slip": (0.0, 0.2),
    "loose": (0.0, 1.0),
}
"""The assumptions that are swept, each to half and to twice its default, or to the ends of its range."""

SAME_TASK = (0.0, 1.5, 3.0)
"""What is added to the effect of a lesson of the very task: nothing, as much as any lesson has, and twice that."""

LEFT_OUT_JUDGES = ("never errs", "0.14 / 0.25")

POLICIES: dict[str, dict[str, object]] = {**RANKING, "consolidation": {"name": "append"}}


def _cells() -> Iterator[StudyCell]:
    settings = [("as assumed", SIZE)]
    settings += [
        (f"{name} {value:g}", replace(SIZE, **{name: value})) for name, values in SWEPT.items() for value in values
    ]
    for judge, errors in JUDGES.items():
        for name, assumptions in settings:
            plan = SimulationPlan(policies=POLICIES, judge=errors)
            yield StudyCell(factors={"judge": judge, "assumption": name}, plan=plan, assumptions=assumptions)
    for judge, bonus, left_out in product(LEFT_OUT_JUDGES, SAME_TASK, (True, False)):
        yield StudyCell(
            factors={"judge": judge, "same_task": bonus, "leave_one_out": "on" if left_out else "off"},
            plan=SimulationPlan(policies=POLICIES, judge=JUDGES[judge], measured_again=True, leave_one_out=left_out),
            assumptions=replace(SIZE, same_task=bonus),
        )


STUDY = Study(
    name="assumptions",
    title="How far the studies depend on their assumptions",
    assumptions=SIZE,
    # As the shipped experiments: with fewer than six pairs no permutation test reaches p < .05.
    repetitions=8,
    cells=tuple(_cells()),
)
