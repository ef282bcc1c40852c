"""The search for the event since which a run was given something else, in a long bank."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from benchmarks.corpus import SEED, Corpus
from benchmarks.long_banks import items_of
from benchmarks.measure import Goal, Row, duration, interleave, timed
from benchmarks.sizes import Sizes
from rbank_es import Bank, Item
from rbank_es.events import (
    Decision,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    NoteLogged,
    RunStarted,
)

GOAL_S = 10
GOAL_CHECKS = 20
TASK = "Which boats wait for the tide?"
PLANTED = Item.make("Which boats wait for the tide", "All boats wait for the tide.", "success")
GROUP = 2_000


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield rows for the checks and the time of one bad run; other items outranked each other in between."""
    with _planted_bank(place / "bank", sizes) as bank:
        found = bank.bisect(["bad"], ["good"])
        [one] = found.runs
        [planted] = [change for change in found.changes if PLANTED.id in change.gained]
        assert planted.type == "memories_consolidated" and all(change.steady for change in one.changes)
        samples = interleave({"ours": timed(partial(bank.bisect, ["bad"], ["good"]))}, sizes.show_rounds)
        what = f"bisect of {bank.position:,} events, {one.places:,} changes of memory"
        yield Row(
            "bisection",
            f"{what}: checks for {len(one.changes)} changes",
            f"{len(one.checks)} checks",
            goal=Goal("≤", GOAL_CHECKS, "checks"),
            value=len(one.checks),
        )
        yield Row(
            "bisection",
            f"{what}: time",
            duration(samples.median("ours")),
            goal=Goal("≤", GOAL_S, "s"),
            value=samples.median("ours"),
        )


def _planted_bank(place: Path, sizes: Sizes) -> Bank:
    """Return a bank of `sizes.items` items, with a good run after a tenth of them and the planted item after a half."""
    bank, corpus = Bank.create(place), Corpus(SEED)
    # What most of a log consists of, in place of calls of models and tools.
    notes = [NoteLogged(note="{}")] * ((sizes.events - 2 * sizes.items) // sizes.items)
    group: list[Event] = []
    for number, item in enumerate(items_of(corpus, sizes.items)):
        if number == sizes.items // 10:
            bank.append(group)
            group = []
            _ran(bank, "good")
        # Words of the task in some of the others, because only those compete with the planted item.
        words = f"{item.content} {' '.join(TASK.split()[: 2 + number % 4])}" if number % 50 == 0 else item.content
        for learned in (Item.make(item.title, words, "success"), *([PLANTED] if number == sizes.items // 2 else [])):
            group += _learned(bank, learned)
        group += notes
        if len(group) > GROUP:
            bank.append(group)
            group = []
    bank.append(group)
    _ran(bank, "bad")
    bank.project()
    return bank


def _learned(bank: Bank, item: Item) -> list[Event]:
    id, added = bank.log.new_id(), Decision(candidate=0, action="add", item=item.id)
    return [
        MemoriesExtracted(id=id, kind="manual", heads=(item.head,), candidates=(item.text,)),
        MemoriesConsolidated(extraction=id, policy="append-1", decisions=(added,)),
    ]


def _ran(bank: Bank, run: str) -> None:
    with bank.as_of() as view:
        searched = replace(view.retrieve(TASK, 2).event, run=run)
    bank.append([RunStarted(run=run, task=TASK), searched])
