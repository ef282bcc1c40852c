"""Writers: eight processes that append to one log beside one, in events a second of all together."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from benchmarks.append import Given, raw_append
from benchmarks.measure import Contestant, Goal, Row, interleave, per_second
from benchmarks.peers import Table
from benchmarks.sizes import Sizes
from rbank_es.log.file.file_log import FileLog

MANY = 8

Append = Callable[[int], object]
Opener = Callable[[], Append]
"""Opens a log in the process that appends; returns the function that appends the group of a number."""


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield one row: many writers beside one."""
    given, count = Given(place / "given", 1, sizes.writer_appends), sizes.writer_appends
    contestants: dict[str, Contestant] = {}
    for processes in (1, MANY):
        log, raw, table = (place / f"{name}-{processes}" for name in ("ours", "raw", "table"))
        FileLog.create(log).close()
        Table(table).close()
        contestants[f"ours {processes}"] = partial(_together, partial(_ours, log, given), processes, count)
        contestants[f"raw {processes}"] = partial(_together, partial(_raw, raw, given), processes, count)
        contestants[f"table {processes}"] = partial(_together, partial(_table, table, given), processes, count)
    samples = interleave(contestants, sizes.writer_rounds, given.renew)

    def cell(name: str) -> str:
        one, many = (per_second(count, samples.median(f"{name} {processes}")) for processes in (1, MANY))
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


def _ours(place: Path, given: Given) -> Append:
    log = FileLog.open(place)
    return lambda number: log.append(given.events[number])


def _raw(place: Path, given: Given) -> Append:
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    return lambda number: raw_append(fd, given.bytes[number])


def _table(place: Path, given: Given) -> Append:
    table, rows = Table(place), [data.splitlines() for data in given.bytes]
    return lambda number: table.append(rows[number])


def _together(opener: Opener, processes: int, appends: int) -> float:
    """Return the seconds that some appends take all processes together, without the first of each process.

    The first append isn't counted, because it opens files and finds the end of the log.
    """
    context = multiprocessing.get_context("fork")
    barrier, spans = context.Barrier(processes), context.SimpleQueue()
    shares = [range(first, appends, processes) for first in range(processes)]
    workers = [context.Process(target=_work, args=(opener, share, barrier, spans)) for share in shares]
    for worker in workers:
        worker.start()
    found = [spans.get() for _ in workers]
    for worker in workers:
        worker.join()
    seconds = max(end for _, end in found) - min(begin for begin, _ in found)
    return float(seconds) * appends / (appends - processes)


def _work(opener: Opener, share: range, barrier: Barrier, spans: Any) -> None:
    gc.freeze()  # because the collector would make a forked child copy every page that it visits
    append = opener()
    append(share[0])
    barrier.wait()
    begin = time.perf_counter()
    for number in share[1:]:
        append(number)
    spans.put((begin, time.perf_counter()))
