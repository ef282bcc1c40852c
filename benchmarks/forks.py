"""Forks: a bank that begins as a long one, beside a copy of all its files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.measure import Goal, Row, duration, interleave
from benchmarks.sizes import Sizes
from rbank_es import Bank

ROUNDS = 3


def measure(place: Path, sizes: Sizes, bank: Bank) -> Iterator[Row]:
    """Yield one row: a fork at the head, and one half-way, which computes a digest inside of a closed segment."""
    half = next(event.seq for event in bank.events(after=bank.position // 2) if not event.more)
    points = {"head": bank.position, "half": half}
    turns = {name: partial(_forked, Path(bank.place), place / name, point) for name, point in points.items()}
    samples = interleave(turns | {"copy": partial(_copied, Path(bank.place), place / "copy")}, ROUNDS)
    head, midway, copied = (samples.median(name) for name in ("head", "half", "copy"))
    yield Row(
        "forks",
        f"a fork of {bank.position:,} events in {bank.log.storage().parts} segments",
        f"{duration(head)} at the head, {duration(midway)} half-way",
        floor=f"copying all files {duration(copied)}",
        goal=Goal("≤", 1, "s"),
        value=max(head, midway),
    )


def _forked(parent: Path, place: Path, point: int) -> float:
    with Bank.open(parent) as bank:
        begin = time.perf_counter()
        bank.fork(place, point).close()
        taken = time.perf_counter() - begin
    shutil.rmtree(place)
    return taken


def _copied(parent: Path, place: Path) -> float:
    begin = time.perf_counter()
    shutil.copytree(parent, place)
    taken = time.perf_counter() - begin
    shutil.rmtree(place)
    return taken
