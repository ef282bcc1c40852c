"""Appending, one event or a hundred at a time, each append on disk before the next begins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.corpus import groups
from benchmarks.measure import Contestant, Goal, Row, Samples, duration, interleave, per_second, timed_each
from benchmarks.peers import Library, LibraryApplication, Table
from benchmarks.sizes import Sizes
from rbank_es.events import Event
from rbank_es.log import FileLog
from rbank_es.log.system import System

Groups = list[list[Event]]


class Recording(System):
    """Notes the bytes that a log writes."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, fd: int, data: bytes) -> None:
        """Note the bytes, and write them."""
        self.written.append(data)
        super().write(fd, data)


def bytes_of(place: Path, given: Groups) -> list[bytes]:
    """What a log writes for each of the groups."""
    system = Recording()
    with FileLog.create(place, calls=system, unsafe_no_sync=True) as log:
        system.written.clear()
        for group in given:
            log.append(group)
        return system.written


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Rows for single appends and for groups of 100."""
    yield from _of_size(place, 1, sizes.appends, sizes.append_rounds, 0.90)
    yield from _of_size(place, 100, sizes.appends // 10, sizes.append_rounds, 0.45)


def _of_size(place: Path, size: int, count: int, rounds: int, bound: float) -> Iterator[Row]:
    given = groups(size, count)
    written = bytes_of(place / f"bytes-{size}", given)
    with ExitStack() as stack:
        contestants = _contestants(stack, place, given, written, size)
        samples = interleave(contestants, rounds)
    events = size * count
    mean = sum(map(len, written)) // count
    yield _row(samples, f"durable append, {size} at a time ({mean:,} bytes each)", events, bound)
    cost = (samples.median("ours") - samples.median("raw")) / count
    yield Row("append", f"  what an append of {size} costs beyond write and sync", duration(max(cost, 0)))


def _contestants(
    stack: ExitStack, place: Path, given: Groups, written: list[bytes], size: int
) -> dict[str, Contestant]:
    log = stack.enter_context(FileLog.create(place / f"ours-{size}"))
    fd = os.open(place / f"raw-{size}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    stack.callback(os.close, fd)
    table, library = Table(place / f"table-{size}.sqlite"), Library(place / f"library-{size}.sqlite")
    application = LibraryApplication(place / f"application-{size}.sqlite")
    for peer in (table, library, application):
        stack.callback(peer.close)
    rows = [data.splitlines() for data in written]
    fields: list[list[dict[str, Any]]] = [[msgspec.to_builtins(event) for event in group] for group in given]
    return {
        "ours": timed_each(log.append, given),
        "raw": timed_each(partial(raw_append, fd), written),
        "table": timed_each(table.append, rows),
        "library": lambda: _library(library, rows),
        "application": lambda: _application(application, fields),
    }


def raw_append(fd: int, data: bytes) -> None:
    """The floor: the bytes, and the sync."""
    os.write(fd, data)
    os.fdatasync(fd)


def _library(library: Library, rows: list[list[bytes]]) -> float:
    stored = [library.stored(group) for group in rows]
    return timed_each(library.recorder.insert_events, stored)()


def _application(application: LibraryApplication, fields: list[list[dict[str, Any]]]) -> float:
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
