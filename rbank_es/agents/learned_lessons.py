"""What is learned from judged runs, whoever asks: `bank.learn` and the command `learn`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rbank_es.bank.agent_acts import Learned, LeftRun
from rbank_es.bank.id_lookup import StateIds, exact_id
from rbank_es.bank.run_locks import close_left_runs
from rbank_es.errors import LogError, Notice, ProjectionError
from rbank_es.law.lessons_to_draw import LateLessons, LessonToDraw
from rbank_es.loop.late_extraction import UNREAD, all_lessons_to_draw, check_decided, draw_late, why_nothing_is_left
from rbank_es.models.run_models import lms_for

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.models.run_models import Lms
    from rbank_es.sparql.data_source import Source
    from rbank_es.system.progress import OnProgress

LmsOf = Callable[[str], "Lms"]
"""Returns the models that learn from a run, which record their calls with it."""


class LessonPlan(NamedTuple):
    """The lessons to draw, and the runs from which there is nothing to draw, each with the reason."""

    lessons: tuple[LessonToDraw, ...]
    left: tuple[LeftRun, ...] = ()


def planned_lessons(bank: Bank, wanted: Collection[str] | None) -> LessonPlan:
    """Return the lessons in which a wanted run takes part, None for all that are due.

    Raises `BadInput` for a run that nobody decided about.
    """
    due = all_lessons_to_draw(bank)
    if wanted is None:
        return LessonPlan(due)
    left = list[LeftRun]()
    for run in wanted:
        if not any(run in each.runs for each in due):
            check_decided(bank, run)
            left.append(LeftRun(run=run, reason=why_nothing_is_left(bank, run)))
    return LessonPlan(tuple(each for each in due if not {*each.runs}.isdisjoint(wanted)), tuple(left))


def draw_lessons(
    bank: Bank, plan: LessonPlan, lms_of: LmsOf, source: Source | None = None, progress: OnProgress | None = None
) -> Learned:
    """Draw the lessons of a plan, each as one group of events; runs whose writers are gone are closed before.

    Raises as `draw_late`.
    """
    close_left_runs(bank)
    found = list[LateLessons]()
    for number, lesson in enumerate(plan.lessons):
        if progress is not None:
            progress(number, len(plan.lessons))
        # The calls are recorded with the first run of a comparison.
        with lms_of(lesson.runs[0]) as lms:
            found.append(draw_late(bank, lesson, lms, source))
    return Learned(bank=bank.name, lessons=tuple(found), left=plan.left)


def learn(
    bank: Bank, run: str | None, complete: Callable[[str], str] | None, lm: str | None, api_base: str | None
) -> Learned:
    """See `Bank.learn`."""
    wanted = None if run is None else [exact_id(StateIds(bank.state()), "run", run)]
    found = draw_lessons(
        bank, planned_lessons(bank, wanted), lambda id: lms_for(bank, id, complete=complete, lm=lm, api_base=api_base)
    )
    # Not silently, because an agent's loop looks at no reasons.
    for each in found.lessons:
        if each.code in UNREAD and not each.titles:
            warnings.warn(Notice(f"nothing was learned from {', '.join(each.runs)}: {each.reason}"), stacklevel=3)
    # A hook gives no lesson while they are behind; the next recall would bring them up anyway.
    with suppress(ProjectionError, LogError, OSError):
        bank.project()
    return found
