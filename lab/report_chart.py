"""Charts of the report page, drawn as SVG: they need no script and take the colours of the page's theme."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rbank_es.lab.experiment_results import ConditionResult
from rbank_es.lab.learning_curve import CurvePoint, LearningCurve
from rbank_es.lab.metrics import Metric
from rbank_es.lab.report_words import number, with_interval
from rbank_es.limits import experiment_limits
from rbank_es.page.escaped_html import Html, element, shorten

WIDTH, HEIGHT = 520, 210
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 10, 34
ROW, NAME, SAID = 26, 150, 150
"""Sizes in units of the drawing, which are pixels in a column of the page."""

NAME_CHARS = 22
GRID_LINES = 4


class Frame(NamedTuple):
    """The plane of a chart: up to which position and value it reaches, from value `low` on."""

    positions: int
    low: float
    high: float

    def x(self, position: float) -> float:
        """Return where a position is, from 1."""
        span = max(1, self.positions - 1)
        return LEFT + (WIDTH - LEFT - RIGHT) * (position - 1) / span

    def y(self, value: float) -> float:
        """Return where a value is; one out of range is at the edge."""
        kept = min(self.high, max(self.low, value))
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - kept) / (self.high - self.low)


def curve_chart(own: LearningCurve, beside: LearningCurve | None, unit: str, label: str) -> Html:
    """Return a curve with its interval, above that of the baseline as a dashed line. Shares reach from 0 to 1."""
    curves = [each for each in (own, beside) if each is not None and each.points]
    ends = [point.position for each in curves for point in each.points]
    tops = [point.value.mean for each in curves for point in each.points]
    frame = Frame(max(ends, default=1), 0, 1 if unit == "share" else _round_top(max(tops, default=1)))
    parts = [*_grid(frame, unit), *_band(frame, own.points)]
    # Before the curve itself: SVG draws later shapes over earlier ones.
    parts += [_line(frame, beside.points, "line beside")] if beside is not None else []
    parts += [_line(frame, own.points, "line"), *_dots(frame, own.points)]
    return _drawing(WIDTH, HEIGHT, parts, label)


def interval_chart(conditions: Sequence[ConditionResult], name: str, metric: Metric, label: str) -> Html:
    """Return the means of a metric, a row for each condition, with their intervals."""
    known = [(each.name, each.metrics[name].estimate) for each in conditions]
    ends = [end for _, est in known if est is not None for end in (est.mean, est.low, est.high) if end is not None]
    low, high = min([0.0, *ends]), max([1.0 if metric.unit == "share" else 0.0, *ends])
    span = (high - low) or 1.0
    room = WIDTH - NAME - SAID

    def x(value: float) -> str:
        return _at(NAME + room * (value - low) / span)

    parts = []
    for at, (condition, estimate) in enumerate(known):
        y = ROW * at + ROW / 2
        parts.append(element("text", shorten(condition, NAME_CHARS), x="0", y=_at(y + 4), class_="name"))
        said = with_interval(estimate, metric.unit)
        parts.append(element("text", said, x=_at(WIDTH), y=_at(y + 4), text_anchor="end"))
        parts.append(element("line", x1=x(low), x2=x(high), y1=_at(y), y2=_at(y), class_="grid"))
        if estimate is not None:
            if estimate.low is not None and estimate.high is not None:
                ends_of = {"x1": x(estimate.low), "x2": x(estimate.high)}
                parts.append(element("line", **ends_of, y1=_at(y), y2=_at(y), class_="whisker"))
            parts.append(element("circle", cx=x(estimate.mean), cy=_at(y), r="4", class_="dot"))
    return _drawing(WIDTH, ROW * len(known), parts, label)


def _drawing(width: int, height: int, parts: Sequence[Html], label: str) -> Html:
    # `viewBox` has a capital, which HTML parsers keep in SVG.
    size = {"viewBox": f"0 0 {width} {height}"}
    return element("svg", *parts, **size, class_="plot", role="img", aria_label=label)


def _grid(frame: Frame, unit: str) -> Iterator[Html]:
    for line in range(GRID_LINES + 1):
        value = frame.low + (frame.high - frame.low) * line / GRID_LINES
        y = _at(frame.y(value))
        yield element("line", x1=_at(LEFT), x2=_at(WIDTH - RIGHT), y1=y, y2=y, class_="grid")
        said = f"{100 * value:.0f}%" if unit == "share" else number(value, unit)
        yield element("text", said, x=_at(LEFT - 6), y=_at(frame.y(value) + 4), text_anchor="end")
    for position in dict.fromkeys((1, (1 + frame.positions) // 2, frame.positions)):
        place = {"x": _at(frame.x(position)), "y": _at(HEIGHT - BOTTOM + 16)}
        yield element("text", f"{position:,}", **place, text_anchor="middle")
    yield element("text", "task", x=_at(WIDTH - RIGHT), y=_at(HEIGHT - 4), text_anchor="end")


def _line(frame: Frame, points: Sequence[CurvePoint], class_: str) -> Html:
    places = [f"{_at(frame.x(each.position))},{_at(frame.y(each.value.mean))}" for each in _thinned(points)]
    return element("polyline", points=" ".join(places), class_=class_)


def _dots(frame: Frame, points: Sequence[CurvePoint]) -> Iterator[Html]:
    """Yield dots where there are few values, because a line shows no value without a neighbour."""
    # A dozen dots of 6 units are still apart in a width of 462.
    if len(points) <= 12:
        for each in points:
            yield element(
                "circle", cx=_at(frame.x(each.position)), cy=_at(frame.y(each.value.mean)), r="3", class_="dot"
            )


def _band(frame: Frame, points: Sequence[CurvePoint]) -> Iterator[Html]:
    known = [
        (each.position, each.value.low, each.value.high)
        for each in _thinned(points)
        if each.value.low is not None and each.value.high is not None
    ]
    if len(known) > 1:
        upper = [f"{_at(frame.x(position))},{_at(frame.y(high))}" for position, _, high in known]
        lower = [f"{_at(frame.x(position))},{_at(frame.y(low))}" for position, low, _ in reversed(known)]
        yield element("polygon", points=" ".join(upper + lower), class_="band")


def _thinned(points: Sequence[CurvePoint]) -> Sequence[CurvePoint]:
    """Return evenly spaced points, as many as can be distinguished, with the last one."""
    step = -(-len(points) // experiment_limits.REPORT_POINTS)
    return [*points[:-1:step], points[-1]] if step > 1 else points


def _round_top(value: float) -> float:
    """Return the next of 1, 2, 4, 8, 20, 40, … above a value, so that the lines of the grid have round numbers."""
    if value <= 0:
        return 1.0
    ten = 10 ** math.floor(math.log10(value))
    return float(next(step * ten for step in (1, 2, 4, 8, 20) if step * ten >= value))


def _at(value: float) -> str:
    return f"{value:.1f}"
