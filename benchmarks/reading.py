"""Reading a log from its first event to its last: all events, or those of the types that the fold needs."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import simdjson

from benchmarks.measure import Goal, Row, Samples, interleave, per_second, timed
from benchmarks.peers import Library, Table, is_text
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.events.codec import decode_event, encode_json
from rbank_es.law import RELEVANT
from rbank_es.log import lines


def measure(place: Path, sizes: Sizes, bank: Bank) -> Iterator[Row]:
    """Yield rows for a typed replay of all events, and for a scan of the types that the fold reads."""
    position = bank.position
    yield from _replay(place / "whole", sizes, bank, _whole_events(bank), "inline in the peers")
    yield from _replay(place / "apart", sizes, bank, _lines(bank), "apart in all")
    samples = interleave(
        {
            "ours": timed(lambda: _consume(bank.log.read(types=RELEVANT))),
            "simdjson": timed(lambda: _parse(bank)),
            "prefix": timed(lambda: _consume(map(decode_event, of_types(bank, RELEVANT)))),
        },
        sizes.reading_rounds,
    )
    yield _scan_row(samples, position, sum(1 for _ in bank.log.read(types=RELEVANT)))


def _replay(place: Path, sizes: Sizes, bank: Bank, given: Iterator[bytes], texts: str) -> Iterator[Row]:
    place.mkdir()
    position, table, library = bank.position, Table(place / "table.sqlite"), Library(place / "library.sqlite")
    for line in given:
        table.add(line)
        library.add(line)
    table.flush()
    library.flush()
    samples = interleave(
        {
            "ours": timed(lambda: _consume(bank.log.read())),
            "table": timed(lambda: _consume(map(decode_event, table.bodies()))),
            "library": timed(lambda: _consume(library.events(position))),
            "decode": timed(lambda: _consume(map(decode_event, _numbered(bank)))),
        },
        sizes.reading_rounds,
    )
    table.close()
    library.close()
    shutil.rmtree(place)
    speed = {name: per_second(position, samples.median(name)) for name in samples.seconds}
    what, floor = f"whole log, typed; long texts {texts}", f"decode alone {speed['decode']}"
    for name, peer, bound in (("library", "eventsourcing", 8), ("table", "SQLite", 2)):
        goal = Goal("≥", bound, "x peer")
        yield Row("reading", what, speed["ours"], f"{peer} {speed[name]}", floor, goal, samples.ratio(name, "ours"))


def _scan_row(samples: Samples, events: int, relevant: int) -> Row:
    speed = {name: per_second(events, samples.median(name)) for name in samples.seconds}
    return Row(
        "reading",
        f"{relevant / events:.0%} of the events: those that the fold reads, typed",
        speed["ours"],
        f"pysimdjson, one field of every line {speed['simdjson']}",
        f"filter and decode, unchecked {speed['prefix']}",
        Goal("≥", 0.7, "x peer"),
        samples.ratio("simdjson", "ours"),
    )


def _consume(events: Iterable[Any]) -> None:
    deque(events, maxlen=0)


def _lines(bank: Bank) -> Iterator[bytes]:
    """Yield all lines of the log except those that open and close its segments."""
    for path in sorted(Path(bank.place).glob("*.jsonl")):
        with path.open("rb") as file:
            yield from (line for line in file if not line.startswith(lines.SEGMENT))


def _whole_events(bank: Bank) -> Iterator[bytes]:
    """Return every event as JSON, its long texts resolved."""
    return map(encode_json, bank.events(resolve=True))


def _numbered(bank: Bank) -> Iterator[bytes]:
    return (line for line in _lines(bank) if not is_text(line))


def of_types(bank: Bank, types: Iterable[str]) -> Iterator[bytes]:
    """Return the lines of some types, recognised by their prefix."""
    beginnings = tuple(b'{"type":"%b"' % name.encode() for name in types)
    return (line for line in _lines(bank) if line.startswith(beginnings))


def _parse(bank: Bank) -> None:
    parser: Any = simdjson.Parser()
    for line in _lines(bank):
        parser.parse(line)["type"]
