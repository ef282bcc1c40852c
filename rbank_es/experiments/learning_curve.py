"""Learning curves: how well tasks are done at each position of an order, over orders and repetitions.

Every order has another task at one position, so the values of a position are first averaged over the orders of each
repetition. Repetitions are the unit of every interval. An order that begins with hard tasks seems to teach: with few
orders, look at the gap to a condition without memory, which had the same tasks at the same positions.

A value is 1 for a success and 0 for a failure, or any other measure of a run; None where a run has none.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from rbank_es.experiments.statistics import LEVEL, Estimate, interval, mean_of

Values = Sequence[float | None]
"""The values of one life, or their means over orders, by position."""


class CurvePoint(Struct, frozen=True):
    """The mean over the window of positions that ends with `position`, counted from 1."""

    position: int
    value: Estimate


class LearningCurve(Struct, frozen=True):
    """The curve of one condition, or of the gap between two, with intervals over repetitions.

    `width` is the number of positions in a window. `area` is the mean over all positions, which is the area under the
    curve of single positions per task; `gain` the mean of the second half less that of the first.
    """

    width: int
    points: tuple[CurvePoint, ...]
    area: Estimate | None
    gain: Estimate | None


def learning_curve(repetitions: Sequence[Values], width: int | None = None, level: float = LEVEL) -> LearningCurve:
    """Return the curve of the values of each repetition by position; windows of a tenth of the positions unless given.

    A repetition counts at each point where its window has a value. Raises ValueError for a width below 1.
    """
    tasks = max(map(len, repetitions), default=0)
    width = max(1, tasks // 10) if width is None else width
    moving = [windowed(values, width) for values in repetitions]
    points = [_estimate([means[at] for means in moving if at < len(means)], level) for at in range(tasks - width + 1)]
    return LearningCurve(
        width,
        tuple(CurvePoint(at + width, point) for at, point in enumerate(points) if point),
        _estimate([area(values) for values in repetitions], level),
        _estimate([gain(values) for values in repetitions], level),
    )


def _estimate(values: Values, level: float) -> Estimate | None:
    """Return the interval over the repetitions that have a value."""
    return interval([value for value in values if value is not None], level)


def mean_by_position(orders: Sequence[Values]) -> list[float | None]:
    """Return the mean at each position over the orders of one repetition that have a value there."""
    tasks = max(map(len, orders), default=0)
    return [area([values[at] for values in orders if at < len(values)]) for at in range(tasks)]


def gap_by_position(condition: Values, baseline: Values) -> list[float | None]:
    """Return the values of a condition less those of a baseline, where both have one, up to the shorter one's end."""
    pairs = zip(condition, baseline, strict=False)
    return [None if one is None or other is None else one - other for one, other in pairs]


def windowed(values: Values, width: int) -> list[float | None]:
    """Return the mean of each whole window of neighbouring positions. Raises ValueError for a width below 1."""
    if width < 1:
        raise ValueError(f"a window of {width} positions has none")
    return [area(values[at : at + width]) for at in range(len(values) - width + 1)]


def area(values: Values) -> float | None:
    """Return the mean of the values that are there; None of nothing."""
    known = [value for value in values if value is not None]
    return mean_of(known) if known else None


def gain(values: Values) -> float | None:
    """Return the mean of the second half of the positions less that of the first; None where a half has no value.

    The middle one of an odd number is in neither.
    """
    half = len(values) // 2
    first, second = area(values[:half]), area(values[len(values) - half :])
    return None if first is None or second is None else second - first
