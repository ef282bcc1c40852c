"""A study: a grid of simulated lives, every condition in the same worlds, and its results by repetition.

A repetition is a world with its own families, tasks and luck, which all conditions share; it is the unit of every
statistic. Results are rounded to `DIGITS` decimals, because the exponential function may differ in the last bit between
two C libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from itertools import product
from multiprocessing import get_context
from typing import Any, Literal

from msgspec import Struct

from rbank_es import __version__
from rbank_es.errors import BadInput
from rbank_es.experiments.simulated.life import Life, LifePlan, live
from rbank_es.experiments.simulated.memory_mirror import MirrorMemory
from rbank_es.experiments.simulated.real_life import SIMULATED, Tables
from rbank_es.experiments.simulated.world import Assumptions, World

MARK = f"{SIMULATED}: no language model took part, and nothing here says anything about one."
DIGITS = 6

HARD_PART = 3
"""The hardest third of the families is looked at apart: a mean over all can rise while it falls."""

StudyName = Literal["poisoned-bank", "repair", "assumptions"]
Factors = Mapping[str, str | float]
Progress = Callable[[int, int], None]


class StudyCell(Struct, frozen=True, kw_only=True):
    """One condition of a study: the factors that set it apart, and the life that they mean.

    `assumptions` are its own where they are what is varied; else those of the study.
    """

    factors: dict[str, str | float]
    plan: LifePlan
    assumptions: Assumptions | None = None

    @property
    def name(self) -> str:
        """The factors in words, which name the cell."""
        return ", ".join(f"{name} {value}" for name, value in self.factors.items())


class Study(Struct, frozen=True, kw_only=True):
    """Conditions that are lived in the same worlds, numbered from 0, so many `repetitions` of each."""

    name: StudyName
    title: str
    assumptions: Assumptions
    repetitions: int
    cells: tuple[StudyCell, ...]


class CellResult(Struct, frozen=True, kw_only=True):
    """The lives of one condition: each value by repetition, in order; `curve` has the skill after `at` tasks."""

    factors: dict[str, str | float]
    gain: tuple[float, ...]
    hurt: tuple[float, ...]
    hardest: tuple[float, ...]
    wrong_lessons: tuple[float | None, ...]
    judged_right: tuple[float, ...]
    checked: tuple[int, ...]
    overruled: tuple[int, ...]
    items: tuple[int, ...]
    at: tuple[int, ...] = ()
    curve: tuple[tuple[float, ...], ...] = ()
    again: tuple[float, ...] = ()


class StudyResult(Struct, frozen=True, kw_only=True):
    """The results of a study, with what they were made of."""

    mark: str
    study: StudyName
    release: str
    assumptions: Assumptions
    repetitions: int
    without: float
    cells: tuple[CellResult, ...]

    def cell(self, **factors: str | float) -> CellResult:
        """Return the only cell with these factors. Raises `BadInput` if there is none, or several."""
        found = self.where(**factors)
        if len(found) != 1:
            raise BadInput(f"{len(found)} cells have {factors}; name one")
        return found[0]

    def where(self, **factors: str | float) -> list[CellResult]:
        """Return the cells with these factors, in order."""
        return [cell for cell in self.cells if factors.items() <= cell.factors.items()]


def study_named(name: str) -> Study:
    """Return a study. Raises `BadInput` for an unknown name."""
    from rbank_es.experiments.simulated import poisoned_bank, repair, swept_assumptions

    studies = {study.name: study for study in (poisoned_bank.STUDY, repair.STUDY, swept_assumptions.STUDY)}
    found = next((study for known, study in studies.items() if known == name), None)
    if found is None:
        raise BadInput(f"there is no study {name!r}; there are: {', '.join(sorted(studies))}")
    return found


def run_study(
    study: Study,
    *,
    repetitions: int | None = None,
    only: Collection[str] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> StudyResult:
    """Live all cells of a study, or those named in `only`, in so many worlds; return what became of them.

    The first repetitions of a long study are those of a short one, and a cell doesn't depend on others. `jobs`
    processes share the work. `progress` is called with the number of lives done and their total. Raises `BadInput` for
    a name that no cell has, and for numbers below 1.
    """
    count = study.repetitions if repetitions is None else repetitions
    if min(count, jobs) < 1:
        raise BadInput("a study needs at least 1 repetition and 1 job")
    names = {cell.name for cell in study.cells}
    if only is not None and (unknown := sorted(set(only) - names)):
        raise BadInput(f"study {study.name} has no cell {unknown[0]!r}")
    cells = [cell for cell in study.cells if only is None or cell.name in only]
    lives: list[Life] = []
    for life in _lived([(each.assumptions or study.assumptions, each.plan) for each in cells], count, jobs):
        lives.append(life)
        if progress is not None:
            progress(len(lives), len(cells) * count)
    return StudyResult(
        mark=MARK,
        study=study.name,
        release=__version__,
        assumptions=study.assumptions,
        repetitions=count,
        without=round(sum(life.without for life in lives) / len(lives), DIGITS),
        cells=tuple(_result(cell, lives[number * count : (number + 1) * count]) for number, cell in enumerate(cells)),
    )


def live_in_memory(assumptions: Assumptions, plan: LifePlan, repetition: int) -> Life:
    """Return the life of a plan in the world of a repetition, in the mirror in memory."""
    policies: Tables = plan.policies
    return live(World(assumptions, repetition), plan, lambda: MirrorMemory.begin(policies))


def _lived(plans: list[tuple[Assumptions, LifePlan]], count: int, jobs: int) -> Iterator[Life]:
    """Yield the lives of each plan in turn, by repetition."""
    each = [(*plan, repetition) for plan, repetition in product(plans, range(count))]
    # Spawned, because a forked child would inherit the locks of threads that it doesn't have.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) if jobs > 1 else None
    with pool or nullcontext():
        yield from (map if pool is None else pool.map)(live_in_memory, *zip(*each, strict=True))


def _result(cell: StudyCell, lives: list[Life]) -> CellResult:
    measured = bool(cell.plan.measured_every)
    return CellResult(
        factors=cell.factors,
        gain=_rounded(life.gain for life in lives),
        hurt=_rounded(life.hurt for life in lives),
        hardest=_rounded(_mean_of_part(life.families) for life in lives),
        wrong_lessons=tuple(
            None if life.wrong_lessons is None else round(life.wrong_lessons, DIGITS) for life in lives
        ),
        judged_right=_rounded(life.judged_right for life in lives),
        checked=tuple(life.checked for life in lives),
        overruled=tuple(life.overruled for life in lives),
        items=tuple(life.items for life in lives),
        at=tuple(done for done, _ in lives[0].curve) if measured else (),
        curve=tuple(_rounded(skill for _, skill in life.curve) for life in lives) if measured else (),
        again=_rounded(life.again for life in lives) if cell.plan.measured_again else (),
    )


def _mean_of_part(families: tuple[float, ...]) -> float:
    part = families[: max(1, len(families) // HARD_PART)]
    return sum(part) / len(part)


def _rounded(values: Any) -> tuple[float, ...]:
    return tuple(round(value, DIGITS) for value in values)
