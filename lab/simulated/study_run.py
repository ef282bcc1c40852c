"""A run of a study: every cell in so many worlds, by several processes if asked for, and its results.

Results are rounded to `DIGITS` decimals, because the exponential function may differ in the last bit between two C
libraries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from itertools import product
from multiprocessing import get_context
from typing import Any

from rbank_es import __version__
from rbank_es.errors import BadInput
from rbank_es.lab.simulated import poisoned_bank, repair, swept_assumptions
from rbank_es.lab.simulated.learner_memory import LearnerMemory
from rbank_es.lab.simulated.simulation import Simulation, SimulationPlan, simulate
from rbank_es.lab.simulated.study import MARK, CellResult, Study, StudyCell, StudyResult
from rbank_es.lab.simulated.world import Assumptions, World
from rbank_es.system.progress import OnProgress

STUDIES = (poisoned_bank.STUDY, repair.STUDY, swept_assumptions.STUDY)

# Far coarser than the last bit, in which C libraries differ, and finer than any difference that is reported.
DIGITS = 6

HARD_PART = 3
"""The hardest third of the families is looked at apart: a mean over all can rise while it falls."""


def study_named(name: str) -> Study:
    """Return a study. Raises `BadInput` for an unknown name."""
    found = next((study for study in STUDIES if study.name == name), None)
    if found is None:
        names = ", ".join(sorted(study.name for study in STUDIES))
        raise BadInput(f"there is no study {name!r}; there are: {names}")
    return found


def run_study(
    study: Study,
    *,
    repetitions: int | None = None,
    only: Collection[str] | None = None,
    jobs: int = 1,
    progress: OnProgress | None = None,
) -> StudyResult:
    """Simulate all cells of a study, or those named in `only`, in so many worlds; return the results.

    The first repetitions of a long study are those of a short one, and a cell doesn't depend on others. `jobs`
    processes share the work. `progress` is called with the number of simulations done and their total. Raises
    `BadInput` for a name that no cell has, and for numbers below 1.
    """
    count = study.repetitions if repetitions is None else repetitions
    if min(count, jobs) < 1:
        raise BadInput("a study needs at least 1 repetition and 1 job")
    names = {cell.name for cell in study.cells}
    if only is not None and (unknown := sorted(set(only) - names)):
        raise BadInput(f"study {study.name} has no cell {unknown[0]!r}")
    cells = [cell for cell in study.cells if only is None or cell.name in only]
    made: list[Simulation] = []
    for each in _simulated([(cell.assumptions or study.assumptions, cell.plan) for cell in cells], count, jobs):
        made.append(each)
        if progress is not None:
            progress(len(made), len(cells) * count)
    return StudyResult(
        mark=MARK,
        study=study.name,
        release=__version__,
        assumptions=study.assumptions,
        repetitions=count,
        without=round(sum(each.without for each in made) / len(made), DIGITS),
        cells=tuple(_result(cell, made[number * count : (number + 1) * count]) for number, cell in enumerate(cells)),
    )


def simulate_in_memory(assumptions: Assumptions, plan: SimulationPlan, repetition: int) -> Simulation:
    """Simulate a plan in the world of a repetition."""
    return simulate(World(assumptions, repetition), plan, lambda: LearnerMemory.create(plan.policies))


def _simulated(plans: list[tuple[Assumptions, SimulationPlan]], count: int, jobs: int) -> Iterator[Simulation]:
    """Yield the simulations of each plan in turn, by repetition."""
    each = [(*plan, repetition) for plan, repetition in product(plans, range(count))]
    # Spawned, because a forked child would inherit the locks of threads that it doesn't have.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) if jobs > 1 else None
    with pool or nullcontext():
        yield from (map if pool is None else pool.map)(simulate_in_memory, *zip(*each, strict=True))


def _result(cell: StudyCell, made: list[Simulation]) -> CellResult:
    measured = bool(cell.plan.measured_every)
    return CellResult(
        factors=cell.factors,
        gain=_rounded(each.gain for each in made),
        hurt=_rounded(each.hurt for each in made),
        hardest=_rounded(_mean_of_part(each.families) for each in made),
        wrong_lessons=tuple(None if each.wrong_lessons is None else round(each.wrong_lessons, DIGITS) for each in made),
        judged_right=_rounded(each.judged_right for each in made),
        checked=tuple(each.checked for each in made),
        overruled=tuple(each.overruled for each in made),
        items=tuple(each.items for each in made),
        at=tuple(done for done, _ in made[0].curve) if measured else (),
        curve=tuple(_rounded(skill for _, skill in each.curve) for each in made) if measured else (),
        again=_rounded(each.again for each in made) if cell.plan.measured_again else (),
    )


def _mean_of_part(families: tuple[float, ...]) -> float:
    part = families[: max(1, len(families) // HARD_PART)]
    return sum(part) / len(part)


def _rounded(values: Any) -> tuple[float, ...]:
    return tuple(round(value, DIGITS) for value in values)
