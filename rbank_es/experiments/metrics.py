"""Metrics: numbers of one trial, each computed from the rows of its runs that count.

Convergence, quality, efficiency, leakage, memory health, rollouts, judge accuracy, contamination. A metric has no value
(None) where no row has what it needs; it is never 0 for want of data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

from rbank_es.experiments.run_rows import Quality, RunRow
from rbank_es.experiments.statistics import mean_of, pass_at_k

Better = Literal["higher", "lower", ""]
Area = Literal["quality", "convergence", "efficiency", "leakage", "memory", "rollouts", "judge", "contamination"]
Measure = Callable[[Sequence[RunRow]], float | None]
RUBRIC = "rubric"
"""The metric that no contrast may be declared in: a model's opinion stands beside what can be computed."""

PASS_K = 3
"""The k of pass@k, as the source documents' number of rollouts; tasks with fewer rollouts count with theirs."""


class Metric(NamedTuple):
    """A number of one trial: what it says, its unit, which direction is better (empty: neither), how it is computed."""

    title: str
    area: Area
    unit: str
    better: Better
    measure: Measure


def _mean(values: Iterable[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return mean_of(known) if known else None


def _share_of(having: Callable[[RunRow], bool | None]) -> Measure:
    return lambda rows: _mean(having(row) for row in rows)


def _mean_of(name: str) -> Measure:
    return lambda rows: _mean(getattr(row, name) for row in rows)


def _quality_of(quality: Quality) -> Measure:
    return _share_of(lambda row: None if row.quality is None else row.quality == quality)


def _median_of(name: str) -> Measure:
    def measure(rows: Sequence[RunRow]) -> float | None:
        known = [value for row in rows if (value := getattr(row, name)) is not None]
        return float(median(known)) if known else None

    return measure


def _tokens(row: RunRow) -> int | None:
    return None if row.tokens_in is None and row.tokens_out is None else (row.tokens_in or 0) + (row.tokens_out or 0)


def _succeeded(row: RunRow) -> bool | None:
    return None if row.scored is None else row.scored == "success"


def _false_success(row: RunRow) -> bool | None:
    """Return whether the judge passed what was wrong; None for a run that was right, or not decided about."""
    return row.verdict == "success" if row.judged_rightly is not None and row.scored == "failure" else None


def _false_failure(row: RunRow) -> bool | None:
    return row.verdict == "failure" if row.judged_rightly is not None and row.scored == "success" else None


def _learned_rightly(rows: Sequence[RunRow]) -> float | None:
    """Return the share of the items that were born of runs about which the judge was right."""
    known = [row for row in rows if row.judged_rightly is not None and row.items_added]
    born = sum(row.items_added for row in known)
    return sum(row.items_added for row in known if row.judged_rightly) / born if born else None


def _pass_at(k: int) -> Measure:
    def measure(rows: Sequence[RunRow]) -> float | None:
        known = [row for row in rows if row.rollouts_right is not None]
        return _mean(pass_at_k(row.rollouts, row.rollouts_right or 0, min(k, row.rollouts)) for row in known)

    return measure


def _top_tenth(rows: Sequence[RunRow]) -> float | None:
    """Return the share of all uses that went to the most used tenth of the items that were used."""
    uses = sorted(Counter(item for row in rows for item in row.items_injected).values(), reverse=True)
    # Rounded up, so that fewer than ten items have a tenth too.
    return sum(uses[: -(-len(uses) // 10)]) / sum(uses) if uses else None


def _last_size(rows: Sequence[RunRow]) -> float | None:
    return float(max(rows, key=lambda row: row.position).items_in_bank) if rows else None


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
    "lm_calls": Metric("Calls of models", "efficiency", "a run", "lower", _mean_of("lm_calls")),
    "tool_calls": Metric("Calls of tools", "efficiency", "a run", "", _mean_of("tool_calls")),
    "tokens": Metric("Tokens", "efficiency", "a run", "lower", lambda rows: _mean(map(_tokens, rows))),
    "cost_usd": Metric("Cost", "efficiency", "US$ a run", "lower", _mean_of("cost_usd")),
    "seconds": Metric("Time", "efficiency", "s a run, median", "lower", _median_of("seconds")),
    "context_chars": Metric("Context", "leakage", "characters a run", "", _mean_of("context_chars")),
    "prompt_chars_max": Metric("Longest prompt", "leakage", "characters a run", "lower", _mean_of("prompt_chars_max")),
    "large_returns": Metric("Returns over 1,000 characters", "leakage", "a run", "lower", _mean_of("large_returns")),
    "stdout_chars": Metric("Printed", "leakage", "characters a run", "lower", _mean_of("stdout_chars")),
    "variables_chars": Metric("Variables", "leakage", "characters a run", "lower", _mean_of("variables_chars")),
    "subcalls": Metric("Sub-calls", "leakage", "a run", "", _mean_of("subcalls")),
    "items_injected": Metric(
        "Items given", "memory", "a run", "", lambda rows: _mean(len(row.items_injected) for row in rows)
    ),
    "items_added": Metric("Items born", "memory", "a run", "", _mean_of("items_added")),
    "items_in_bank": Metric("Active items before the last task", "memory", "items", "", _last_size),
    "top_tenth": Metric("Uses of the most used tenth", "memory", "share", "", _top_tenth),
    "pass_at_1": Metric("Pass@1", "rollouts", "share", "higher", _pass_at(1)),
    "pass_at_k": Metric(f"Pass@{PASS_K}, unbiased", "rollouts", "share", "higher", _pass_at(PASS_K)),
    "diversity": Metric("Difference of rollouts", "rollouts", "0 to 1", "", _mean_of("diversity")),
    "judge_accuracy": Metric(
        "Verdicts that agree with the right answer", "judge", "share", "higher", _mean_of("judged_rightly")
    ),
    "false_success": Metric("Wrong runs that the judge passed", "judge", "share", "lower", _share_of(_false_success)),
    "false_failure": Metric("Right runs that the judge failed", "judge", "share", "lower", _share_of(_false_failure)),
    "learned_rightly": Metric("Items born of rightly judged runs", "judge", "share", "higher", _learned_rightly),
    "contaminated": Metric(
        "Runs given what could hold the answer", "contamination", "share", "lower",
        _share_of(lambda row: bool(row.contamination)),
    ),
}  # fmt: skip
"""Metrics by name, in the order in which reports show them. All are of the runs that count."""


def measured(rows: Sequence[RunRow]) -> dict[str, float | None]:
    """Return all metrics of the rows of one trial; rows that don't count are left out."""
    counted = [row for row in rows if row.counted]
    return {name: metric.measure(counted) if counted else None for name, metric in METRICS.items()}
