"""Runs of an agent of one's own: the time of a recorded run, of its recall in a large bank, and of a first run.

A run is recall, five tools, the end and a verdict: nine groups, each synced before the agent goes on. The floor is nine
appends of a line of the same size to a plain file, each synced.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.corpus import make_item_bank, vocabulary
from benchmarks.measure import NONE, Goal, Row, Samples, duration, interleave, timed
from benchmarks.sizes import Sizes
from rbank_es import Bank

GROUPS, LINE = 9, b"x" * 600 + b"\n"
GOAL_MS = 10.0

_IMPORTS = "import msgspec, sqlite3, click"
_FIRST_RUN = """
from rbank_es import Bank
with Bank.open({place!r}, create=True) as bank:
    with bank.record("Which lamps are lit?") as run:
        run.tool("look", {{}}, "hall")
        run.finish("hall")
    run.judge(True, by="tests")
"""


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the row of a run, that of a recall, and that of a process that records its first run."""
    make_item_bank(place / "bank", sizes.items).close()
    # Opened again, because that bank is made without syncing.
    with Bank.open(place / "bank") as bank:
        questions = _questions()
        recalls = list[float]()
        contestants = {
            "ours": timed(lambda: _run(bank, next(questions), recalls)),
            "floor": timed(partial(_synced_lines, place / "floor")),
        }
        samples = interleave(contestants, sizes.recording_rounds)
    yield _row("recall, five tools, end, verdict of a run, each synced", samples, "ours", "floor", "nine synced lines")
    # The first recalls build the read models, and warm what a long-lived agent has warm.
    warm = sorted(recalls[len(recalls) // 5 :])
    middle = warm[len(warm) // 2]
    goal = Goal("≤", GOAL_MS, "ms")
    what = f"recall among {sizes.items:,} items, its record included"
    yield Row("recorded runs", what, duration(middle), NONE, NONE, goal, middle * 1000)
    yield _first_run(place, sizes)


def _row(what: str, samples: Samples, ours: str, floor: str, floor_is: str) -> Row:
    took = samples.median(ours)
    beside = f"{floor_is} {duration(samples.median(floor))}"
    return Row("recorded runs", what, duration(took), NONE, beside, Goal("≤", GOAL_MS, "ms"), took * 1000)


def _run(bank: Bank, question: str, recalls: list[float]) -> None:
    with bank.record(question, model="m") as run:
        begin = time.perf_counter()
        run.recall()
        recalls.append(time.perf_counter() - begin)
        for number in range(5):
            run.tool("search", {"n": number}, "hall " * 20)
        run.finish("the hall's")
    run.judge(True, by="tests", reason="as expected")


def _questions() -> Iterator[str]:
    dice, words = random.Random(1), vocabulary()[0]
    while True:
        yield " ".join(dice.choices(words, k=8))


def _synced_lines(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for _ in range(GROUPS):
            os.write(fd, LINE)
            os.fdatasync(fd)
    finally:
        os.close(fd)


def _first_run(place: Path, sizes: Sizes) -> Row:
    program = _FIRST_RUN.format(place=str(place / "first"))
    subprocess.run([sys.executable, "-c", program], check=True)
    contestants = {
        "ours": timed(lambda: subprocess.run([sys.executable, "-c", program], check=True)),
        "imports": timed(lambda: subprocess.run([sys.executable, "-c", _IMPORTS], check=True)),
    }
    samples = interleave(contestants, sizes.start_rounds)
    return Row(
        "recorded runs",
        "a process that imports rbank_es and records its first run",
        duration(samples.median("ours")),
        NONE,
        f"imports of msgspec, sqlite3 and click {duration(samples.median('imports'))}",
        Goal("≤", 2.5, "x floor"),
        samples.ratio("ours", "imports"),
    )
