"""Scores given again: each answer is compared once more with the right one, and the verdict with the recorded one.

A score is an event, so a log that somebody wrote from its beginning to its end may claim any. This check needs the
source that the agents asked, and no model.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from rbank_es.bank import Bank
from rbank_es.errors import JudgeFailed
from rbank_es.experiments.experiment_folder import ExperimentData
from rbank_es.experiments.run_rows import RunRow
from rbank_es.judging.gold import gold_of, judge_by_gold
from rbank_es.judging.run_outcome import outcome_of

if TYPE_CHECKING:
    from rbank_es.loop.tasks import Task
    from rbank_es.sparql.source import Source


class ScoreDifference(Struct, frozen=True, kw_only=True):
    """A run whose recorded score is not the one that it gets again."""

    place: str
    run: str
    recorded: str
    again: str


def score_differences(folder: Path, data: ExperimentData, source: Source) -> Iterator[ScoreDifference]:
    """Yield the runs that get another score again. Simulated ones are left out, because only their solver knows."""
    tasks = {task.id: task for task in data.suite.tasks}
    rows: dict[tuple[str, int, int], list[RunRow]] = {}
    for row in data.rows:
        if row.scored is not None and not row.simulated:
            rows.setdefault((row.condition, row.order, row.repetition), []).append(row)
    for trial in data.trials:
        own = rows.get((trial.condition, trial.order, trial.repetition))
        if own:
            with Bank.open(folder / trial.place) as bank:
                for row in own:
                    again = _scored(bank, row.run, tasks[row.task], source)
                    if again not in (None, row.scored):
                        yield ScoreDifference(
                            place=trial.place, run=row.run, recorded=str(row.scored), again=str(again)
                        )


def _scored(bank: Bank, run: str, task: Task, source: Source) -> str | None:
    """Return the verdict of the right answer on a run; None where it can't be told, such as after a time limit."""
    gold = gold_of(task.gold_sparql, task.answer, task.ordered)
    if gold is None:
        return None
    try:
        found = judge_by_gold(outcome_of(bank, run), gold, source).verdict
    except JudgeFailed:
        return None
    return None if found == "undecided" else found
