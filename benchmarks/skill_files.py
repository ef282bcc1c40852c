"""Skills: places brought to what a bank says now, after a lesson of a thousand lost its support."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from unittest.mock import patch

from benchmarks.corpus import SEED, Corpus
from benchmarks.long_banks import bank_of
from benchmarks.measure import Goal, Row, duration
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.agents.skill_export import sync_skills, write_skills

ITEMS = 1_000


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield a row for `skills --sync` of a thousand items, the bank opened again each time."""
    with bank_of(place / "bank", Corpus(SEED + 7), ITEMS) as bank:
        items = list(bank.state().items)
    with patch.dict(os.environ, {"XDG_DATA_HOME": str(place / "data")}):
        with Bank.open(place / "bank") as bank:
            write_skills(bank, place / "skills")
        took = []
        for item in items[: 2 * sizes.correction_rounds + 1]:
            with Bank.open(place / "bank") as bank:
                bank.retract(item, because="measured")
            begin = time.perf_counter()
            with Bank.open(place / "bank") as bank:
                [report] = sync_skills(bank).places
            took.append(time.perf_counter() - begin)
            assert report.left == (item,) and report.lessons > 0.9 * ITEMS, report
    yield Row(
        "skills",
        f"skills of {ITEMS:,} items brought to what the bank says now, after one of them was retracted",
        duration(median(took)),
        goal=Goal("≤", 1, "s"),
        value=median(took),
    )
