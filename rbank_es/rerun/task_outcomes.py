"""Tasks that ran more than once: how often they succeeded, and which of them succeeded first and failed later."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from rbank_es.answers.shared.bisection_answer import Metric, Tally
from rbank_es.projections.view import View

_COLUMNS = {"success": "verdict", "score": "score"}

TaskName = tuple[str, str]
"""The words of a task, and the id of its ontology; empty for none."""


class TaskRun(NamedTuple):
    """A run of a task that was decided; `seq` is the position at which it began."""

    run: str
    task: TaskName
    seq: int
    success: bool


class Fall(NamedTuple):
    """A failure of a task that had succeeded: the first failing run after its last success, and that success."""

    bad: str
    good: str


def decided_runs(view: View, metric: Metric) -> list[TaskRun]:
    """Return the runs with a success or a failure by a metric, in the order in which they began."""
    found = []
    for row in view.rows("runs"):
        verdict = row[_COLUMNS[metric]]
        # Without words, two tasks can't be told apart.
        if verdict in ("success", "failure") and row["task"]:
            task = (row["task"], row["ontology"] or "")
            found.append(TaskRun(row["run"], task, row["started_seq"], verdict == "success"))
    return sorted(found, key=lambda each: each.seq)


def falls(runs: Sequence[TaskRun]) -> list[Fall]:
    """Return the tasks that succeed no more, by their first failure after the last success, the latest first."""
    by_task: defaultdict[TaskName, list[TaskRun]] = defaultdict(list)
    for each in runs:
        by_task[each.task].append(each)
    found: list[tuple[int, Fall]] = []
    for tried in by_task.values():
        last = max((at for at, each in enumerate(tried) if each.success), default=None)
        if last is not None and last + 1 < len(tried):
            bad = tried[last + 1]
            found.append((bad.seq, Fall(bad.run, tried[last].run)))
    return [fall for _, fall in sorted(found, reverse=True)]


def tallies(runs: Sequence[TaskRun], tasks: Collection[TaskName], position: int) -> tuple[Tally, Tally]:
    """Return the tally of some tasks before a position, and that since then."""
    sides: tuple[list[bool], list[bool]] = [], []
    for each in runs:
        if each.task in tasks:
            sides[each.seq > position].append(each.success)
    before, since = (Tally(sum(side), len(side)) for side in sides)
    return before, since
