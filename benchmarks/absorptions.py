"""Absorption: a bank brings in what another one recorded in ten thousand runs, and decides about every candidate.

No words are known beforehand, and the consolidation policy is the default one, which compares each candidate with the
items that came before it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.corpus import make_bank
from benchmarks.measure import Goal, Row, collected_as_in_the_command, duration
from benchmarks.sizes import Sizes
from rbank_es import Bank

EVENTS = 240_000
"""Events of the other bank, in which a run has 24 on average."""


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the row of one absorption into an empty bank."""
    other, bank = make_bank(place / "other", EVENTS), Bank.create(place / "absorbing")
    with other, bank, collected_as_in_the_command():
        begin = time.process_time()
        made = bank.absorb(other)
        seconds = time.process_time() - begin
    counts = (
        f"{made.brought_runs:,} runs of another bank, {made.brought:,} events, {made.brought_candidates:,} candidates"
    )
    what = f"{counts} (processor time)"
    yield Row("absorption", what, ours=duration(seconds), goal=Goal("≤", 30, "s"), value=seconds)
