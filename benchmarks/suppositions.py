"""What-if: a bank of a hundred thousand events refolded under another policy.

Of 19 s, 16 go to 129 corrections. The corpus forgets items, so each goes through all decisions again: one item more or
less changes what is forgotten. No retrieval is repeated: those of the corpus name another policy than the one in force.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.corpus import make_bank
from benchmarks.measure import Goal, Row, collected_as_in_the_command, duration
from benchmarks.sizes import Sizes

EVENTS = 100_000
APPEND = {"consolidation": {"name": "append"}}


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the row of another consolidation policy, supposed from the beginning."""
    with make_bank(place / "supposed", EVENTS) as bank, collected_as_in_the_command():
        begin = time.process_time()
        found = bank.whatif(policies=APPEND)
        seconds = time.process_time() - begin
    what = f"another policy over {EVENTS:,} events, {found.searched:,} searches repeated (processor time)"
    yield Row("what-if", what, ours=duration(seconds), goal=Goal("≤", 10, "s"), value=seconds)
