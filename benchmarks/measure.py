"""Timing: contestants take turns, round by round; the result is the median of the rounds."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypeVar

from rbank_es.cli.shared.main import GARBAGE_THRESHOLD

Contestant = Callable[[], float]
"""Does its work once and returns the measured seconds."""

Value = TypeVar("Value")

ROUNDS_S, LEAST_ROUNDS = 30, 3
"""Seconds of rounds, and rounds that are run however long they take: all subjects together take minutes, not hours."""

NOT_RUN = "not run"
NONE = "—"


class Samples(NamedTuple):
    """Seconds of each contestant, one number per round."""

    seconds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """Return the median of a contestant's rounds, in seconds."""
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, to: str) -> float:
        """Return the median over rounds of a contestant's time divided by that of `to`."""
        pairs = zip(self.seconds[name], self.seconds[to], strict=True)
        return statistics.median(one / other for one, other in pairs)

    def differences(self, name: str, to: str) -> list[float]:
        """Return the seconds that a contestant took longer than `to`, round by round."""
        return [one - other for one, other in zip(self.seconds[name], self.seconds[to], strict=True)]


class Interval(NamedTuple):
    """A median, and the bounds of 95 % of its resamplings."""

    median: float
    low: float
    high: float


def interval(values: Sequence[float], resamplings: int = 2_000) -> Interval:
    """Return the median of some values with its bootstrap interval; deterministic."""
    dice = random.Random(0)
    medians = sorted(statistics.median(dice.choices(values, k=len(values))) for _ in range(resamplings))
    tail = resamplings // 40
    return Interval(statistics.median(values), medians[tail], medians[-tail - 1])


def interleave(
    contestants: Mapping[str, Contestant], rounds: int, prepare: Callable[[], None] | None = None
) -> Samples:
    """Time the contestants in turn for some rounds, each round beginning with another of them.

    `prepare` is called before each round. An extra first round, which warms page cache and code, isn't counted. Garbage
    is collected before each turn; within it the collector stays on, as in any program. After `ROUNDS_S` seconds no
    round begins but the first `LEAST_ROUNDS`.
    """
    names = list(contestants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    end = time.monotonic() + ROUNDS_S
    for number in range(-1, rounds):
        if number >= LEAST_ROUNDS and time.monotonic() > end:
            break
        if prepare:
            prepare()
        first = number % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            taken = contestants[name]()
            if number >= 0:
                seconds[name].append(taken)
    return Samples(seconds)


@contextmanager
def collected_as_in_the_command() -> Iterator[None]:
    """Look for garbage as often as the command does, for work that people start by a command."""
    before = gc.get_threshold()
    gc.set_threshold(GARBAGE_THRESHOLD)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def timed(work: Callable[[], Any]) -> Contestant:
    """Return a contestant whose whole work is timed."""

    def contestant() -> float:
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin

    return contestant


def processor_timed(work: Callable[[], Any]) -> Contestant:
    """Return a contestant whose processor time is taken, because others may use the machine."""

    def contestant() -> float:
        begin = time.process_time()
        work()
        return time.process_time() - begin

    return contestant


def timed_each(
    work: Callable[[Value], Any], values: Iterable[Value], clock: Callable[[], float] = time.perf_counter
) -> Contestant:
    """Return a contestant that is timed over one value after the other, by a clock."""

    def contestant() -> float:
        begin = clock()
        for value in values:
            work(value)
        return clock() - begin

    return contestant


class Goal(NamedTuple):
    """A bound that a measured value must reach."""

    sign: Literal["≥", "≤"]
    bound: float
    unit: str

    def met(self, value: float) -> bool:
        """Return whether the value, to two decimals, reaches the goal."""
        value = round(value, 2)
        return value >= self.bound if self.sign == "≥" else value <= self.bound

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g} {self.unit}"


class Row(NamedTuple):
    """One line of the report. `value` is compared with the goal; None if it was not run or has no goal."""

    subject: str
    what: str
    ours: str = NOT_RUN
    peer: str = NONE
    floor: str = NONE
    goal: Goal | None = None
    value: float | None = None

    @property
    def verdict(self) -> str:
        """Whether the goal was met, in a word."""
        if self.goal is None:
            return NONE
        if self.value is None:
            return NOT_RUN
        return "yes" if self.goal.met(self.value) else "**no**"


def per_second(count: int, seconds: float) -> str:
    """Return a rate with its unit."""
    rate = count / seconds
    return f"{rate:,.0f}/s" if rate < 1e6 else f"{rate / 1e6:,.2f} M/s"


def duration(seconds: float) -> str:
    """Return a time in the unit that fits."""
    if seconds >= 1:
        return f"{seconds:,.2f} s"
    return f"{seconds * 1e3:,.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:,.0f} µs"
