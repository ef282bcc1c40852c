"""Counters: uses and wins of every item, as of any position."""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.measure import Goal, Row, duration, interleave
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.bank import READ_MODELS
from rbank_es.law import usage

_USES = "SELECT DISTINCT item, run FROM exposures WHERE from_seq <= ?"
ROUNDS = 5


def measure(place: Path, sizes: Sizes, bank: Bank) -> Iterator[Row]:
    """Yield one row: the counters at positions spread over the log."""
    bank.project()
    step = bank.position // sizes.counter_points
    positions = range(step, bank.position + 1, step)
    opening: list[float] = []
    turns = {f"ours {position}": partial(_ours, bank, position, opening) for position in positions}
    turns |= {f"floor {position}": partial(_floor, bank, position) for position in positions}
    samples = interleave(turns, ROUNDS)
    ours = {position: samples.median(f"ours {position}") for position in positions}
    slowest = max(ours, key=lambda position: ours[position])
    folded = _check(bank, positions[len(positions) // 2])
    yield Row(
        "counters",
        f"uses and wins of all items as of {len(positions)} positions in {bank.position:,} events",
        f"{duration(min(ours.values()))} to {duration(ours[slowest])}, "
        f"and {duration(statistics.median(opening))} to open the view",
        f"folding the log half-way {duration(folded)}, same answer",
        f"reading the uses alone {duration(samples.median(f'floor {slowest}'))}",
        Goal("≤", 100, "ms at the slowest"),
        ours[slowest] * 1e3,
    )


def _ours(bank: Bank, position: int, opening: list[float]) -> float:
    begin = time.perf_counter()
    with bank.as_of(position) as view:
        opened = time.perf_counter()
        view.usage()
        end = time.perf_counter()
    opening.append(opened - begin)
    return end - opened


def _floor(bank: Bank, position: int) -> float:
    with closing(sqlite3.connect(bank.log.derived_directory / READ_MODELS)) as connection:
        begin = time.perf_counter()
        connection.execute(_USES, (position,)).fetchall()
        return time.perf_counter() - begin


def _check(bank: Bank, position: int) -> float:
    """Return the seconds of folding the log to a position. Raises AssertionError if its counters differ."""
    begin = time.perf_counter()
    folded = usage(bank.state(position))
    taken = time.perf_counter() - begin
    with bank.as_of(position) as view:
        assert view.usage() == folded, f"the counters at {position} are not those of the fold"
    return taken
