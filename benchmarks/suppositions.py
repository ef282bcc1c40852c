"""What-if: banks refolded under another policy, with their searches repeated, over three sizes.

Most of the time goes to corrections. The corpus forgets items, so each goes through all decisions again: one item more
or less changes what is forgotten. The banks rank by the policy that their retrievals name, or none could be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.corpus import make_bank
from benchmarks.measure import Goal, Row, collected_as_in_the_command, duration
from benchmarks.sizes import Sizes

LENGTHS = (1_000, 10_000, 100_000)
RECORDED = {"retrieval": {"name": "bm25", "version": 2}}
APPEND = {"consolidation": {"name": "append"}}


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the row of another consolidation policy, supposed from the beginning."""
    lengths = [length for length in LENGTHS if length <= max(sizes.events, LENGTHS[1])]
    took, folded, searched = list[float](), 0.0, 0
    for length in lengths:
        with make_bank(place / f"supposed-{length}", length, RECORDED) as bank, collected_as_in_the_command():
            begin = time.process_time()
            bank.state()
            folded = time.process_time() - begin
            begin = time.process_time()
            searched = bank.whatif(policies=APPEND).searched
            took.append(time.process_time() - begin)
    yield Row(
        "what-if",
        f"another policy over {' / '.join(f'{length:,}' for length in lengths)} events, {searched:,} searches repeated "
        "in the last (processor time)",
        " / ".join(map(duration, took)),
        floor=f"the last one folded once {duration(folded)}",
        goal=Goal("≤", 10, "s"),
        value=took[-1],
    )
