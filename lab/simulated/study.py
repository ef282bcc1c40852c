"""A study: a grid of simulations, every condition in the same worlds, and its results by repetition.

A repetition is a world with its own families, tasks and luck, which all conditions share; it is the unit of every
statistic.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from rbank_es.errors import BadInput
from rbank_es.lab.simulated.learner_memory import SIMULATED
from rbank_es.lab.simulated.simulation import SimulationPlan
from rbank_es.lab.simulated.world import Assumptions

MARK = f"{SIMULATED}: no language model took part, and nothing here says anything about one."

StudyName = Literal["poisoned-bank", "repair", "assumptions"]


class StudyCell(Struct, frozen=True, kw_only=True):
    """One condition of a study: the factors that set it apart, and the simulation that they mean.

    `assumptions` are its own where they are what is varied; else those of the study.
    """

    factors: dict[str, str | float]
    plan: SimulationPlan
    assumptions: Assumptions | None = None

    @property
    def name(self) -> str:
        """The factors in words, which name the cell."""
        return ", ".join(f"{name} {value}" for name, value in self.factors.items())


class Study(Struct, frozen=True, kw_only=True):
    """Conditions that are simulated in the same worlds, numbered from 0, so many `repetitions` of each."""

    name: StudyName
    title: str
    assumptions: Assumptions
    repetitions: int
    cells: tuple[StudyCell, ...]


class CellResult(Struct, frozen=True, kw_only=True):
    """The simulations of one condition: each value by repetition, in order; `curve` has the skill after `at` tasks."""

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
