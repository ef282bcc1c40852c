"""Appending, one event or a hundred at a time, each append on disk before the next begins."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.corpus import groups
from benchmarks.measure import Contestant, Goal, Row, Samples, duration, interleave, per_second, timed_each
from benchmarks.peers import Library, LibraryApplication, Table
from benchmarks.sizes import Sizes
from rbank_es.events import Event
from rbank_es.log.disk import System
from rbank_es.log.file.file_log import FileLog

Groups = list[list[Event]]


class RecordingSystem(System):
    """System calls that keep the bytes that a log writes."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, fd: int, data: bytes) -> None:
        """Keep the bytes, and write them."""
        self.written.append(data)
        super().write(fd, data)


class Given:
    """Input of all contestants of a round: events, and the bytes that a log writes for them.

    They are new in each round, because the log stores a long text only once.
    """

    def __init__(self, place: Path, size: int, count: int) -> None:
        self._groups, self._count, self._system = groups(size), count, RecordingSystem()
        self._log = FileLog.create(place, calls=self._system, unsafe_no_sync=True)
        self.events: Groups = []
        self.bytes: list[bytes] = []

    def renew(self) -> None:
        """Make the events of the next round."""
        self.events = list(islice(self._groups, self._count))
        self._system.written.clear()
        ends = []
        for group in self.events:
            self._log.append(group)
            ends.append(len(self._system.written))
        # The last write is the group's, because a segment may have been closed and another begun before it.
        self.bytes = [self._system.written[end - 1] for end in ends]


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield rows for single appends and for groups of 100, of these the processor time, too."""
    yield from _of_size(place / "1", 1, sizes.appends, sizes.append_rounds, 0.90)
    yield from _of_size(place / "100", 100, sizes.appends // 10, sizes.append_rounds, 0.45)
    yield _processor_row(place / "processor", 100, sizes.appends // 10, sizes.append_rounds)


def _of_size(place: Path, size: int, count: int, rounds: int, bound: float) -> Iterator[Row]:
    place.mkdir()
    given = Given(place / "given", size, count)
    with ExitStack() as stack:
        samples = interleave(_contestants(stack, place, given), rounds, given.renew)
    mean = sum(map(len, given.bytes)) // count
    yield _row(samples, f"durable append, {size} at a time ({mean:,} bytes each)", size * count, bound)
    cost = (samples.median("ours") - samples.median("raw")) / count
    yield Row("append", f"  what an append of {size} costs beyond write and sync", duration(max(cost, 0)))


def _processor_row(place: Path, size: int, count: int, rounds: int) -> Row:
    """Return the row of processor time beside SQLite's rows, which are given encoded."""
    place.mkdir()
    given = Given(place / "given", size, count)
    with FileLog.create(place / "ours") as log, closing(Table(place / "table.sqlite")) as table:
        contestants: dict[str, Contestant] = {
            "ours": lambda: timed_each(log.append, given.events, time.process_time)(),
            "table": lambda: _table(table, given, time.process_time),
        }
        samples = interleave(contestants, rounds, given.renew)
    return Row(
        "append",
        f"durable append, {size} at a time, processor time of an append",
        duration(samples.median("ours") / count),
        f"SQLite {duration(samples.median('table') / count)}",
        goal=Goal("≥", 1, "x as quick as SQLite"),
        value=samples.ratio("table", "ours"),
    )


def _contestants(stack: ExitStack, place: Path, given: Given) -> dict[str, Contestant]:
    log = stack.enter_context(FileLog.create(place / "ours"))
    fd = os.open(place / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    stack.callback(os.close, fd)
    table, library = Table(place / "table.sqlite"), Library(place / "library.sqlite")
    application = LibraryApplication(place / "application.sqlite")
    for peer in (table, library, application):
        stack.callback(peer.close)
    return {
        "ours": lambda: timed_each(log.append, given.events)(),
        "raw": lambda: timed_each(partial(raw_append, fd), given.bytes)(),
        "table": lambda: _table(table, given),
        "library": lambda: _library(library, given),
        "application": lambda: _application(application, given),
    }


def raw_append(fd: int, data: bytes) -> None:
    """Write the bytes and sync: the floor."""
    os.write(fd, data)
    os.fdatasync(fd)


def _table(table: Table, given: Given, clock: Callable[[], float] = time.perf_counter) -> float:
    rows = [data.splitlines() for data in given.bytes]
    return timed_each(table.append, rows, clock)()


def _library(library: Library, given: Given) -> float:
    stored = [library.stored(data.splitlines()) for data in given.bytes]
    return timed_each(library.recorder.insert_events, stored)()


def _application(application: LibraryApplication, given: Given) -> float:
    fields: list[list[dict[str, Any]]] = [[msgspec.to_builtins(event) for event in group] for group in given.events]
    application.begin()
    return timed_each(application.append, fields)()


def _row(samples: Samples, what: str, events: int, bound: float) -> Row:
    speed = {name: per_second(events, samples.median(name)) for name in samples.seconds}
    return Row(
        "append",
        what,
        speed["ours"],
        f"SQLite {speed['table']}; eventsourcing recorder {speed['library']}, Application {speed['application']}",
        f"write + fdatasync {speed['raw']}",
        Goal("≥", bound, "x floor"),
        samples.ratio("raw", "ours"),
    )
