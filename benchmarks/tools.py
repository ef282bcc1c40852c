"""Tool calls: checked, bounded and recorded, beside the function alone, with and without sync."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import Goal, Row, duration, interleave, timed_each
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.tools.memory.query_extractor import QueryPattern
from rbank_es.tools.shared.handle_store import Store
from rbank_es.tools.shared.tool_family import Reply, ToolSession
from rbank_es.tools.shared.toolbox import Toolbox

CALLS = 200
GOAL_US = 100


def counted(text: str, n: int = 3) -> Reply:
    """Return next to nothing, as a tool that costs nothing itself."""
    return Reply({"length": len(text), "head": text[:n]})


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield a row without sync (it has the goal), and one with it."""
    for name, options in (("the event written without sync", {"unsafe_no_sync": True}), ("the event on disk", {})):
        with Bank.create(place / name.replace(" ", "-"), **options) as bank:
            yield _row(name, bank, sizes, goal=bool(options))


def _row(name: str, bank: Bank, sizes: Sizes, *, goal: bool) -> Row:
    session = ToolSession(bank, "run-1", Store(bank, "run-1"), QueryPattern())
    tool = Toolbox(session, {"counted": counted}).functions["counted"]
    texts = [f"text {n}" for n in range(CALLS)]
    contestants: dict[str, Callable[[str], Any]] = {"ours": tool, "bare": counted}
    samples = interleave(
        {each: timed_each(partial(work), texts) for each, work in contestants.items()}, sizes.search_rounds
    )
    over_s = (samples.median("ours") - samples.median("bare")) / CALLS
    return Row(
        "tools",
        f"one call, checked, bounded, recorded; {name}",
        duration(samples.median("ours") / CALLS),
        floor=f"the function alone {duration(samples.median('bare') / CALLS)}",
        goal=Goal("≤", GOAL_US, "µs over the function") if goal else None,
        value=over_s * 1e6 if goal else None,
    )
