"""Metrics: numbers of one trial, each computed from the rows of its runs.

Convergence, quality, efficiency, leakage, memory health, rollouts, judge accuracy, contamination. A metric has no value
(None) where no row has what it needs; it is never 0 for want of data.

Rollouts count in one of three ways, which each metric names (`Metric.over`), because they cost and are judged whether
or not they are selected:

    selected   of each task the run that was selected: what a user of the rollouts gets
    rollouts   of each task all its runs, added up: what it cost
    judged     all runs on which there are two verdicts, the judge's and the right answer's

A task counts unless its selected run breaks a quality gate, and a judged run unless it breaks one itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

from rbank_es.events.run_totals import known_sum
from rbank_es.lab.run_rows import Quality, TrialRun
from rbank_es.lab.statistics import known_mean, pass_at_k
from rbank_es.system.proportion import Share

Better = Literal["higher", "lower", ""]
Area = Literal["quality", "convergence", "efficiency", "leakage", "memory", "rollouts", "judge", "contamination"]
Over = Literal["selected", "rollouts", "judged", "bank"]
OVER_WORDS: Mapping[Over, str] = {
    "selected": "", "rollouts": "all its rollouts", "judged": "all judged runs", "bank": "at the end",
}  # fmt: skip
"""Of what a metric is, in a few words; empty for the run of each task that counts."""

RUBRIC = "rubric"
"""The metric that no contrast may be declared in: a model's opinion stands beside what can be computed."""

PASS_K = 3
"""The k of pass@k, as the source documents' number of rollouts; of a task with fewer rollouts it is not known."""


class TrialRows(NamedTuple):
    """The rows of a trial in the three ways in which metrics count them.

    `selected` are those of the runs that count, by position; `tasks` all rows of each of their tasks; `judged` all rows
    that break no gate. `top_tenth` are the uses of the most used tenth of the items in its bank as it ended, of all.
    """

    selected: Sequence[TrialRun]
    tasks: Sequence[Sequence[TrialRun]]
    judged: Sequence[TrialRun]
    top_tenth: Share | None = None

    @classmethod
    def of(cls, rows: Iterable[TrialRun], top_tenth: Share | None = None) -> TrialRows:
        """Sort the rows of one trial."""
        by_task: defaultdict[str, list[TrialRun]] = defaultdict(list)
        for row in rows:
            by_task[row.task_id].append(row)
        counting = [own for own in by_task.values() if any(row.counted for row in own)]
        selected = [next(row for row in own if row.counted) for own in counting]
        return cls(selected, counting, [row for own in by_task.values() for row in own if not row.gates_broken],
                   top_tenth)  # fmt: skip


Measure = Callable[[TrialRows], float | None]


class Metric(NamedTuple):
    """A number of one trial: what it says, its unit, which direction is better (empty: neither), how it is computed,
    and over which runs."""

    title: str
    area: Area
    unit: str
    better: Better
    measure: Measure
    over: Over = "selected"

    @property
    def units(self) -> str:
        """The unit with the runs that it is over, in words."""
        return ", ".join(filter(None, (self.unit, OVER_WORDS[self.over])))


def _share_of(having: Callable[[TrialRun], bool | None]) -> Measure:
    return lambda trial: known_mean(having(row) for row in trial.selected)


def _mean_of(name: str) -> Measure:
    return lambda trial: known_mean(getattr(row, name) for row in trial.selected)


def _quality_of(quality: Quality) -> Measure:
    return _share_of(lambda row: None if row.quality is None else row.quality == quality)


def _sums(of: Callable[[TrialRun], float | None], trial: TrialRows) -> list[float]:
    """Return a cost of each task, of all its runs; those of tasks of which it is known."""
    totals = (known_sum(of(row) for row in own) for own in trial.tasks)
    return [float(total) for total in totals if total is not None]


def _cost_of(of: Callable[[TrialRun], float | None]) -> Measure:
    return lambda trial: known_mean(_sums(of, trial))


def _median_cost_of(of: Callable[[TrialRun], float | None]) -> Measure:
    return lambda trial: float(median(known)) if (known := _sums(of, trial)) else None


def _succeeded(row: TrialRun) -> bool | None:
    return None if row.score is None else row.score == "success"


def _judged(having: Callable[[TrialRun], bool | None]) -> Measure:
    return lambda trial: known_mean(having(row) for row in trial.judged)


def _false_success(row: TrialRun) -> bool | None:
    """Return whether the judge passed what was wrong; None for a run that was right, or not decided about."""
    return row.verdict == "success" if row.judged_rightly is not None and row.score == "failure" else None


def _false_failure(row: TrialRun) -> bool | None:
    return row.verdict == "failure" if row.judged_rightly is not None and row.score == "success" else None


def _born(trial: TrialRows) -> float | None:
    """Return the items that were born of a task, each once, however many of its rollouts taught it together."""
    return known_mean(len({item for row in own for item in row.items_added}) for own in trial.tasks)


def _learned_rightly(trial: TrialRows) -> float | None:
    """Return the share of the items that were born of runs about which the judge was right: of each item, all."""
    rightly: defaultdict[str, list[bool]] = defaultdict(list)
    for row in trial.judged:
        for item in row.items_added if row.judged_rightly is not None else ():
            rightly[item].append(bool(row.judged_rightly))
    return known_mean(all(each) for each in rightly.values())


def _pass_at(k: int) -> Measure:
    def measure(trial: TrialRows) -> float | None:
        # Of fewer rollouts nothing is known about k: those of a task that has them must not count with another k.
        known = [row for row in trial.selected if row.rollouts_right is not None and row.rollouts >= k]
        return known_mean(pass_at_k(row.rollouts, row.rollouts_right or 0, k) for row in known)

    return measure


def _top_tenth(trial: TrialRows) -> float | None:
    return trial.top_tenth.rate if trial.top_tenth is not None else None


def _last_size(trial: TrialRows) -> float | None:
    return float(max(trial.selected, key=lambda row: row.position).items_in_bank) if trial.selected else None


METRICS: Mapping[str, Metric] = {
    "success": Metric("Share of tasks answered rightly", "quality", "share", "higher", _share_of(_succeeded)),
    "exact": Metric("Exactly the right rows", "quality", "share", "higher", _quality_of("exact")),
    "superset": Metric("More than the right rows", "quality", "share", "", _quality_of("superset")),
    "subset": Metric("Fewer than the right rows", "quality", "share", "", _quality_of("subset")),
    "wrong": Metric("Other rows", "quality", "share", "lower", _quality_of("wrong")),
    "anti_patterns": Metric("Flaws in query and answer", "quality", "a run", "lower", _mean_of("anti_patterns")),
    "grounded": Metric("Terms that exist", "quality", "share", "higher", _mean_of("grounded_share")),
    RUBRIC: Metric("Rating by a model, of a rubric", "quality", "0 to 1", "", _mean_of("rubric")),
    "converged": Metric("Submitted by itself", "convergence", "share", "higher", _share_of(lambda row: row.converged)),
    "iterations": Metric("Iterations", "efficiency", "a run", "lower", _mean_of("iterations")),
    "lm_calls": Metric(
        "Calls of models", "efficiency", "a task", "lower", _cost_of(lambda row: row.lm_calls), "rollouts"
    ),
    "tool_calls": Metric(
        "Calls of tools", "efficiency", "a task", "", _cost_of(lambda row: row.tool_calls), "rollouts"
    ),
    "tokens": Metric("Tokens", "efficiency", "a task", "lower", _cost_of(lambda row: row.tokens), "rollouts"),
    "cost_usd": Metric("Cost", "efficiency", "US$ a task", "lower", _cost_of(lambda row: row.cost_usd), "rollouts"),
    "seconds": Metric(
        "Time", "efficiency", "s a task, median", "lower", _median_cost_of(lambda row: row.duration_s), "rollouts"
    ),
    "context_chars": Metric("Context", "leakage", "characters a run", "", _mean_of("context_chars")),
    "prompt_chars_max": Metric("Longest prompt", "leakage", "characters a run", "lower", _mean_of("prompt_chars_max")),
    "large_returns": Metric("Returns over 1,000 characters", "leakage", "a run", "lower", _mean_of("large_returns")),
    "stdout_chars": Metric("Printed", "leakage", "characters a run", "lower", _mean_of("stdout_chars")),
    "variables_chars": Metric("Variables", "leakage", "characters a run", "lower", _mean_of("variables_chars")),
    "subcalls": Metric("Sub-calls", "leakage", "a task", "", _cost_of(lambda row: row.subcalls), "rollouts"),
    "items_injected": Metric(
        "Items given", "memory", "a run", "",
        lambda trial: known_mean(len(row.given) for row in trial.selected),
    ),
    "items_added": Metric("Items born", "memory", "a task", "", _born, "rollouts"),
    "items_in_bank": Metric("Active items before the last task", "memory", "items", "", _last_size),
    "top_tenth": Metric("Uses of the most used tenth of the items", "memory", "share", "", _top_tenth, "bank"),
    "pass_at_1": Metric("Pass@1, of all rollouts", "rollouts", "share", "higher", _pass_at(1)),
    "pass_at_k": Metric(f"Pass@{PASS_K}, unbiased", "rollouts", "share", "higher", _pass_at(PASS_K)),
    "diversity": Metric("Difference of rollouts", "rollouts", "0 to 1", "", _mean_of("diversity")),
    "judge_accuracy": Metric(
        "Verdicts that agree with the right answer", "judge", "share", "higher",
        _judged(lambda row: row.judged_rightly), "judged",
    ),
    "false_success": Metric(
        "Wrong runs that the judge passed", "judge", "share", "lower", _judged(_false_success), "judged"
    ),
    "false_failure": Metric(
        "Right runs that the judge failed", "judge", "share", "lower", _judged(_false_failure), "judged"
    ),
    "learned_rightly": Metric(
        "Items born of rightly judged runs", "judge", "share", "higher", _learned_rightly, "judged"
    ),
    "contaminated": Metric(
        "Runs given what could hold the answer", "contamination", "share", "lower",
        _share_of(lambda row: bool(row.contamination)),
    ),
}  # fmt: skip
"""Metrics by name, in the order in which reports show them."""


def measured(rows: Iterable[TrialRun], top_tenth: Share | None = None) -> dict[str, float | None]:
    """Return all metrics of the rows of one trial, none if no task counts; see `TrialRows` for `top_tenth`."""
    trial = TrialRows.of(rows, top_tenth)
    return {name: metric.measure(trial) if trial.selected else None for name, metric in METRICS.items()}
