"""Curricula: orders in which the level of tasks rises when the last ones succeeded.

A loop begins at the lowest level of its tasks, and works on those of one level in the order in which they were given.
It goes on to the next level

    mastered    when so many of the last tasks at it succeeded, of those decided about (`Curriculum`)
    used up     when no task of it is left
    left over   when none above is left: the tasks that were left behind come last, from the lowest level on

So every task is run, as in any other order. What counts is the verdict for learning that stands on the run that was
selected; an undecided one counts neither way. A task without a level comes after those that have one.

The order is a pure function of the tasks and of what came of those before: `next_task`. A loop that goes on after an
interruption finds in the log what was begun, in its order, and goes on from there; each run records why its task was
the next one (`TaskChoice`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.events.run_events import Reason, TaskChoice, VerdictValue
from rbank_es.loop.tasks import Task

CURRICULUM = "curriculum"


class Curriculum(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When levels rise: if `won` of the `last` tasks at a level succeeded. Raises `BadInput` for an impossible rule."""

    won: int = limits.CURRICULUM_WON
    last: int = limits.CURRICULUM_LAST

    def __post_init__(self) -> None:
        if not 1 <= self.won <= self.last <= limits.CURRICULUM_LAST_MOST:
            raise BadInput(
                f"levels rise when {self.won} of the last {self.last} tasks succeeded: give 1 to "
                f"{limits.CURRICULUM_LAST_MOST} tasks, and no more successes than tasks"
            )


class TaskOutcome(NamedTuple):
    """What came of a task: its id, and the verdict on it; None where nobody judged."""

    task: str
    verdict: VerdictValue | None


def departures(
    tasks: Sequence[Task], done: Iterable[TaskOutcome], rule: Curriculum
) -> Iterator[tuple[Task, TaskOutcome]]:
    """Yield the outcomes whose tasks were not the next ones, each with the task that was."""
    place = CurriculumPlace(tasks, rule)
    for outcome in done:
        expected, _ = place.next()
        if expected.id != outcome.task:
            yield expected, outcome
        place.take(outcome)


class CurriculumPlace:
    """The place of a loop in a curriculum: its level, the tasks that are left, and what came of those at this level."""

    def __init__(self, tasks: Sequence[Task], rule: Curriculum) -> None:
        self._rule = rule
        self._level_of = {task.id: math.inf if task.level is None else float(task.level) for task in tasks}
        self._left: dict[float, dict[str, Task]] = {level: {} for level in sorted(set(self._level_of.values()))}
        for task in tasks:
            self._left[self._level_of[task.id]][task.id] = task
        self._level = min(self._left, default=math.inf)
        self._decided: list[bool] = []
        # How the level was entered, and by what, until a task of it is done.
        self._entered: tuple[Reason, int, int] | None = ("first", 0, 0)

    def take(self, outcome: TaskOutcome) -> None:
        """Go on after a task, whether or not it was the next one."""
        self._settle()
        level = self._level_of.get(outcome.task)
        if level is None or self._left[level].pop(outcome.task, None) is None or level != self._level:
            return
        self._entered = None
        if outcome.verdict in ("success", "failure"):
            self._decided.append(outcome.verdict == "success")
        won, decided = self._last()
        above = [other for other in self._there() if other > level]
        if above and decided == self._rule.last and won >= self._rule.won:
            self._enter(above[0], "mastered")

    def next(self) -> tuple[Task, TaskChoice]:
        """Return the next task and why it is. Raises ValueError if none is left."""
        self._settle()
        task = next(iter(self._left.get(self._level, {}).values()), None)
        if task is None:
            raise ValueError("no task is left")
        why, won, decided = self._entered or ("stays", *self._last())
        return task, TaskChoice(
            order=CURRICULUM,
            level=task.level,
            why=why,
            won=won,
            decided=decided,
            rise_won=self._rule.won,
            rise_last=self._rule.last,
        )

    def _there(self) -> list[float]:
        """Return the levels of which tasks are left, from the lowest on."""
        return [level for level, tasks in self._left.items() if tasks]

    def _settle(self) -> None:
        """Leave a level without a task: for the next one above that has some, else for the lowest left behind."""
        there = self._there()
        if there and self._level not in there:
            above = [level for level in there if level > self._level]
            self._enter((above or there)[0], "used_up" if above else "left_over")

    def _enter(self, level: float, why: Reason) -> None:
        entered: tuple[Reason, int, int] = (why, *self._last())
        self._level, self._entered, self._decided = level, entered, []

    def _last(self) -> tuple[int, int]:
        """Return how many of the last tasks at this level succeeded, and how many those are."""
        last = self._decided[-self._rule.last :]
        return sum(last), len(last)
