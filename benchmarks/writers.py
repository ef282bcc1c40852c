"""Eight processes that append to one log, against one: events a second of all of them together."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from benchmarks.append import bytes_of, raw_append
from benchmarks.corpus import groups
from benchmarks.measure import Contestant, Goal, Row, interleave, per_second
from benchmarks.peers import Table
from benchmarks.sizes import Sizes
from rbank_es.log import FileLog

MANY = 8
KINDS = 100
"""Different events that each writer goes through, over and over."""

Append = Callable[[int], Any]
Opener = Callable[[], Append]


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """One row: many writers against one."""
    given = groups(1, KINDS)
    written = bytes_of(place / "bytes", given)
    FileLog.create(place / "ours").close()
    Table(place / "table.sqlite").close()
    openers: dict[str, Opener] = {
        "ours": lambda: _ours(place / "ours", given),
        "raw": lambda: _raw(place / "raw", written),
        "table": lambda: _table(place / "table.sqlite", written),
    }
    contestants: dict[str, Contestant] = {}
    for name, opener in openers.items():
        contestants[f"{name} 1"] = partial(_together, opener, 1, sizes.writer_appends)
        contestants[f"{name} {MANY}"] = partial(_together, opener, MANY, sizes.writer_appends)
    samples = interleave(contestants, sizes.writer_rounds)

    def cell(name: str) -> str:
        one, many = (per_second(sizes.writer_appends, samples.median(f"{name} {n}")) for n in (1, MANY))
        return f"{one} → {many} ({samples.ratio(f'{name} 1', f'{name} {MANY}'):.2f} x)"

    yield Row(
        "writers",
        f"durable single appends, 1 process → {MANY}",
        cell("ours"),
        f"SQLite {cell('table')}",
        f"write + fdatasync, unlocked {cell('raw')}",
        Goal("≥", 2, "x one writer"),
        samples.ratio("ours 1", f"ours {MANY}"),
    )


def _ours(place: Path, given: list[Any]) -> Append:
    log = FileLog.open(place)
    return lambda number: log.append(given[number % KINDS])


def _raw(place: Path, written: list[bytes]) -> Append:
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    return lambda number: raw_append(fd, written[number % KINDS])


def _table(place: Path, written: list[bytes]) -> Append:
    table = Table(place)
    rows = [data.splitlines() for data in written]
    return lambda number: table.append(rows[number % KINDS])


def _together(opener: Opener, processes: int, appends: int) -> float:
    """Seconds from the first append of any process to the last one's end, `appends` in all."""
    context = multiprocessing.get_context("fork")
    barrier, spans = context.Barrier(processes), context.SimpleQueue()
    share = appends // processes
    workers = [context.Process(target=_work, args=(opener, share, barrier, spans)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    found = [spans.get() for _ in workers]
    for worker in workers:
        worker.join()
    return float(max(end for _, end in found) - min(begin for begin, _ in found))


def _work(opener: Opener, appends: int, barrier: Barrier, spans: Any) -> None:
    append = opener()
    append(0)
    barrier.wait()
    begin = time.perf_counter()
    for number in range(appends):
        append(number)
    spans.put((begin, time.perf_counter()))
