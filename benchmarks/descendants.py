"""What is downstream of an item that misled many runs: the lineage read and walked, and asked as a graph in SPARQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.measure import Goal, Row, duration
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.bank.lineage_graph import LineageGraph, Walk
from rbank_es.bank.memory_graph import MemoryGraph
from rbank_es.events import (
    ContextBuilt,
    Decision,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    RunFinished,
    RunJudged,
    RunStarted,
)
from rbank_es.events.items import Item
from rbank_es.projections.lineage_edges import LineageNode

ROOT = Item.make("Given to every run", "It misled all of them.", "success")
NODES_A_RUN = 7
"""A run, its context, judgment, extraction, candidate, decision and item."""
BATCH = 1_000


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield rows for walks over 10,000 and 100,000 descendants, and for a query over those."""
    for number, goal in ((10_000, Goal("≤", 1, "s")), (100_000, None)):
        with misled(place / str(number), number // NODES_A_RUN) as bank:
            bank.project()
            took, counts = list[float](), dict[str, int]()
            for _ in range(sizes.show_rounds):
                begin = time.perf_counter()
                counts = downstream(bank).counts
                took.append(time.perf_counter() - begin)
            assert sum(counts.values()) == number // NODES_A_RUN * NODES_A_RUN, counts
            name = f"everything downstream of an item, {number:,} descendants"
            yield Row("descendants", name, duration(median(took)), goal=goal, value=median(took))
            if goal is not None:
                yield _asked(bank)


def misled(place: Path, runs: int) -> Bank:
    """Make a bank in which an item was given to many runs, each of which taught another one."""
    bank = Bank.create(place, unsafe_no_sync=True)
    bank.append([RunStarted(run="first"), *_taught("first", ROOT, 0)])
    for begin in range(0, runs, BATCH):
        bank.append([event for number in range(begin, min(begin + BATCH, runs)) for event in _given(number)])
    return bank


def _given(number: int) -> list[Event]:
    run, item = f"run-{number}", Item.make(f"Lesson {number}", f"Of run {number}.", "success")
    return [
        RunStarted(run=run),
        ContextBuilt(run=run, chars=100, items=(ROOT.id,)),
        RunFinished(run=run, outcome="submitted"),
        RunJudged(run=run, purpose="learning", verdict="success", judge="lm", judge_version="1", kind="lm"),
        *_taught(run, item, number + 1),
    ]


def _taught(run: str, item: Item, number: int) -> list[Event]:
    id = f"{number:08x}-0000-7000-8000-000000000000"
    decision = Decision(candidate=0, action="add", item=item.id)
    return [
        MemoriesExtracted(id=id, kind="success", runs=(run,), heads=(item.head,), candidates=(item.text,)),
        MemoriesConsolidated(extraction=id, policy="dedup-1", decisions=(decision,)),
    ]


def downstream(bank: Bank) -> Walk:
    """Return everything downstream of the item that all runs were given, as of the head."""
    with bank.as_of() as view:
        return LineageGraph.of(view).effects(LineageNode("item", ROOT.id))


def _asked(bank: Bank) -> Row:
    begin = time.perf_counter()
    with MemoryGraph(bank, bank.position) as graph:
        source = graph.source
        made = time.perf_counter() - begin
        _, answer = source.query("SELECT (COUNT(?run) AS ?n) { ?item rbank:used_in ?run }")
    assert answer.rows
    return Row(
        "descendants", "the memory graph of that bank, made", duration(made), f"a query {answer.duration_s:.3f} s"
    )
