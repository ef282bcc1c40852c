"""Learning curves: how well tasks are done at each position of an order, over units.

Intervals are over units (`trial_units`): the curve of a repetition is the mean of those of its orders, which have other
tasks at each position. An order that begins with hard tasks seems to teach: with few orders, look at the gap to a
condition without memory, which had the same tasks at the same positions.

A value is 1 for a success and 0 for a failure, or any other measure of a run; None where a run has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from rbank_es.lab.run_rows import TrialRun
from rbank_es.lab.statistics import Estimate, interval, known_mean, share_interval, within
from rbank_es.lab.trial_units import by_trial, by_unit, unit_of

Values = Sequence[float | None]
"""The values of a trial, or their means over the trials of a unit, by position."""


class CurvePoint(Struct, frozen=True):
    """The mean over the window of positions that ends with `position`, counted from 1."""

    position: int
    value: Estimate


class LearningCurve(Struct, frozen=True):
    """The curve of one condition, or of the gap between two, with intervals over units.

    `width` is the number of positions in a window. `area` is the mean over all positions, which is the area under the
    curve of single positions per task; `gain` the mean of the second half less that of the first. Of a gap, `area` is
    the mean difference over all positions, and `gain` by how much more the condition rises than the other: a difference
    of differences.
    """

    width: int
    points: tuple[CurvePoint, ...]
    area: Estimate | None
    gain: Estimate | None


Bounds = tuple[float, float]
SHARES: Bounds = (0.0, 1.0)
DIFFERENCES: Bounds = (-1.0, 1.0)
"""The bounds of shares, and of differences of two."""


def learning_curve(
    units: Sequence[Values], width: int | None = None, bounds: Bounds = (-math.inf, math.inf)
) -> LearningCurve:
    """Return the curve of the values of each unit by position; windows of a tenth of the positions unless given.

    No interval leaves the bounds of the values. A unit counts at each point where its window has a value. Raises
    ValueError for a width below 1.
    """
    tasks = max(map(len, units), default=0)
    width = max(1, tasks // 10) if width is None else width
    moving = [windowed(values, width) for values in units]
    points = [_estimate([means[at] for means in moving if at < len(means)], bounds) for at in range(tasks - width + 1)]
    low, high = bounds
    return LearningCurve(
        width,
        tuple(CurvePoint(at + width, point) for at, point in enumerate(points) if point),
        _estimate([known_mean(values) for values in units], bounds),
        _estimate([gain(values) for values in units], (low - high, high - low)),
    )


def _estimate(values: Values, bounds: Bounds) -> Estimate | None:
    """Return the interval over the units that have a value."""
    known = [value for value in values if value is not None]
    return share_interval(known) if bounds == SHARES else within(interval(known), *bounds)


def values_by_position(rows: Sequence[TrialRun], value: Callable[[TrialRun], float | None]) -> list[float | None]:
    """Return the value of each row of a trial at its position; None at positions without a row."""
    found = {row.position: value(row) for row in rows}
    return [found.get(position) for position in range(1, max(found, default=0) + 1)]


def mean_by_position(trials: Sequence[Values]) -> list[float | None]:
    """Return the mean at each position over the trials of a unit that have a value there."""
    tasks = max(map(len, trials), default=0)
    return [known_mean([values[at] for values in trials if at < len(values)]) for at in range(tasks)]


def unit_curves(
    rows: Iterable[TrialRun], value: Callable[[TrialRun], float | None]
) -> dict[str, dict[int, list[float | None]]]:
    """Return the values by position of each unit, by condition; a unit counts if all its trials have begun."""
    trials = by_trial(rows, lambda each: values_by_position(each, value))
    every = {trial for each in trials.values() for trial in each}
    unit = unit_of(every)
    return {condition: by_unit(each, every, unit, mean_by_position) for condition, each in trials.items()}


def gap_by_position(condition: Values, baseline: Values) -> list[float | None]:
    """Return the values of a condition less those of a baseline, where both have one, up to the shorter one's end."""
    pairs = zip(condition, baseline, strict=False)
    return [None if one is None or other is None else one - other for one, other in pairs]


def windowed(values: Values, width: int) -> list[float | None]:
    """Return the mean of each whole window of neighbouring positions. Raises ValueError for a width below 1."""
    if width < 1:
        raise ValueError(f"a window of {width} positions has none")
    return [known_mean(values[at : at + width]) for at in range(len(values) - width + 1)]


def gain(values: Values) -> float | None:
    """Return the mean of the second half of the positions less that of the first; None where a half has no value.

    The middle one of an odd number is in neither.
    """
    half = len(values) // 2
    first, second = known_mean(values[:half]), known_mean(values[len(values) - half :])
    return None if first is None or second is None else second - first
