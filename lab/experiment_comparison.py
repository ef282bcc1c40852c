"""Comparisons of two runs of one experiment: by another model, another day, another release.

Their units are independent: nothing pairs a repetition of one with one of the other. So differences have Welch's
interval, and no test: what differs between two runs beside the model and the day wasn't declared beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rbank_es.errors import BadInput
from rbank_es.lab.experiment_results import BOUNDED, Results
from rbank_es.lab.metrics import METRICS
from rbank_es.lab.statistics import Estimate, share_welch_interval, welch_interval


class MetricComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of one condition in both runs; the difference is the second less the first, with Welch's interval."""

    condition: str
    metric: str
    first: Estimate
    second: Estimate
    difference: Estimate


class ExperimentComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs of one experiment. `only_first` and `only_second` are conditions that the other run doesn't have.

    `shared` of the `trials` that both have are the same, head for head. Above 0, one is a copy: these aren't two runs.
    """

    experiment: str
    suite: str
    shared: int
    trials: int
    differing: dict[str, tuple[str, str]]
    metrics: tuple[MetricComparison, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


def compare(first: Results, second: Results) -> ExperimentComparison:
    """Return how two runs of one experiment differ.

    Raises `BadInput` for other suites, whose numbers are of other tasks, for other experiments, and for other units.
    """
    if first.suite != second.suite:
        raise BadInput(
            f"the runs are of two suites, {first.suite_name} ({first.suite[:12]}) and {second.suite_name} "
            f"({second.suite[:12]}): their numbers are of other tasks, and can't be compared"
        )
    if first.experiment != second.experiment:
        raise BadInput(f"the runs are of two experiments, {first.experiment} and {second.experiment}")
    if first.unit != second.unit:
        raise BadInput(
            f"the units of one run are {first.unit}s, of the other {second.unit}s: their values don't spread alike"
        )
    heads, other_heads = (
        {each.place: each.head for each in results.trials if each.head} for results in (first, second)
    )
    names, others = ([each.name for each in results.conditions] for results in (first, second))
    return ExperimentComparison(
        experiment=first.experiment,
        suite=first.suite,
        shared=len(set(heads.values()) & set(other_heads.values())),
        trials=len(heads.keys() & other_heads.keys()),
        differing=dict(_differing(first, second)),
        metrics=tuple(_metrics(first, second)),
        only_first=tuple(name for name in names if name not in others),
        only_second=tuple(name for name in others if name not in names),
    )


def _differing(first: Results, second: Results) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the facts in which the runs differ: models, release, commit, definition, environment."""
    one, other = (
        {
            **{f"model of {role}": name for role, name in results.models.items()},
            "release": results.release,
            "commit": results.commit,
            "source": results.source or "",
            "marks": ", ".join(results.marks),
            **results.files,
        }
        for results in (first, second)
    )
    for name in dict.fromkeys([*one, *other]):
        if one.get(name) != other.get(name):
            yield name, (one.get(name, ""), other.get(name, ""))


def _metrics(first: Results, second: Results) -> Iterator[MetricComparison]:
    for own in first.conditions:
        their = second.named(own.name)
        if their is None:
            continue
        for name in METRICS:
            one, other = own.metrics[name], their.metrics[name]
            differing = share_welch_interval if METRICS[name].unit in BOUNDED else welch_interval
            difference = differing([*other.units.values()], [*one.units.values()])
            if one.estimate is not None and other.estimate is not None and difference is not None:
                yield MetricComparison(
                    condition=own.name, metric=name, first=one.estimate, second=other.estimate, difference=difference
                )
