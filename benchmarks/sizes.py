"""Sizes of the three forms of the benchmarks."""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """Events of the bank that is read, appends and searches of one turn, and rounds of each subject."""

    form: str
    events: int
    appends: int
    append_rounds: int
    writer_appends: int
    writer_rounds: int
    reading_rounds: int
    rebuild_rounds: int
    counter_points: int
    queries: int
    search_rounds: int
    start_rounds: int = 25
    rerun_rounds: int = 11
    recording_rounds: int = 25
    latency_rounds: int = 3
    sandbox_rounds: int = 2
    items: int = 10_000
    many_items: int = 0
    show_rounds: int = 5
    correction_rounds: int = 3
    review_banks: int = 5
    harness_rounds: int = 3


SHORT = Sizes("short", 100_000, 100, 25, 1_600, 5, 5, 5, 5, 20, 5)
SMALL = Sizes(
    "small", 20_000, 20, 3, 200, 1, 1, 1, 2, 10, 1,
    start_rounds=3, rerun_rounds=3, recording_rounds=3, latency_rounds=1, sandbox_rounds=1,
    items=2_000, show_rounds=2, correction_rounds=1, review_banks=1, harness_rounds=1,
)  # fmt: skip
"""For a look at whether everything runs: its figures say little."""
FULL = Sizes(
    "full", 1_000_000, 200, 51, 4_000, 9, 5, 3, 9, 40, 5,
    rerun_rounds=25, recording_rounds=101, latency_rounds=9, sandbox_rounds=9,
    items=100_000, many_items=1_000_000, show_rounds=9, correction_rounds=5,
    review_banks=30, harness_rounds=15,
)  # fmt: skip
