"""The times that a person waits for a bank, over three sizes of it: a context, a search with a domain, one that nobody
asked for, and the first decision after the bank was opened. Processor time, because others may use the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.corpus import SEED, Corpus, make_bank
from benchmarks.long_banks import items_of
from benchmarks.measure import NONE, Goal, Row, duration
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.context.assembly import build_context
from rbank_es.data import lights
from rbank_es.events import Decision, Event, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.derived_ids import decisions_id
from rbank_es.ontology.loader import load_ontology
from rbank_es.projections.view import View

SHARES = (100, 10, 1)
"""Sizes of the banks, as parts of the largest."""
GROUP_ITEMS = 250
OPENED = 3
"""Times that each bank is opened for its first decision."""

Asked = Callable[[str], object]


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield a row for each wait; it has the times by size, and the goal is for the largest bank."""
    yield from _reading(place, [sizes.events // share for share in SHARES], max(20, sizes.queries))
    yield from _deciding(place, [sizes.items // share for share in SHARES])


def _reading(place: Path, lengths: Sequence[int], queries: int) -> Iterator[Row]:
    asked, ontology = Corpus(SEED + 1).queries(queries), load_ontology(lights().ontology)
    alone = _p50(partial(build_context, source=ontology), asked)
    took: dict[str, list[float]] = {name: [] for name in ("context", "plain", "domain", "other", "unasked")}
    for length in lengths:
        with make_bank(place / f"events-{length}", length) as bank:
            bank.project()
            with bank.as_of() as view:
                for name, search in _searches(view).items():
                    took[name].append(_p50(search, asked))
            took["context"].append(_p50(partial(build_context, bank=bank, source=ontology), asked))
    sizes = f"banks of {_list(lengths)} events"
    yield _row(
        f"build_context over an ontology, {sizes}", took["context"], 20, floor=f"without a bank {duration(alone)}"
    )
    plain = f"without a domain {_times(took['plain'])}"
    for name in ("domain", "other"):
        what = "its items'" if name == "domain" else "one that no item has"
        ratio = took[name][-1] / took["plain"][-1]
        goal = Goal("≤", 1.3, "x without a domain")
        yield Row(
            "waits", f"a search with a domain, {what}, {sizes}", _times(took[name]), plain, goal=goal, value=ratio
        )
    yield _row(f"a search that nobody asked for, with a domain, {sizes}", took["unasked"], 8)


def _searches(view: View) -> dict[str, Asked]:
    """Return the searches to time. The first one reads the words, which a process keeps for the others."""

    def plain(query: str) -> object:
        return view.search(query, 10)

    for query in Corpus(SEED + 1).queries(20):
        plain(query)
    return {
        "plain": plain,
        "domain": lambda query: view.search(query, 10, domain="units"),
        "other": lambda query: view.search(query, 10, domain="another"),
        "unasked": lambda query: view.retrieve(query, 1, polarity="success", domain="units", unasked=True),
    }


def _deciding(place: Path, counts: Sequence[int]) -> Iterator[Row]:
    corpus = Corpus(SEED + 7)
    first, steady = list[float](), list[float]()
    for count in counts:
        with _learned(place / f"items-{count}", corpus, count) as bank:
            bank.project()
        some, more = list[float](), list[float]()
        for _ in range(OPENED):
            with Bank.open(place / f"items-{count}") as bank:
                took = [_remembered(bank, corpus) for _ in range(10)]
            some.append(took[0])
            more += took[1:]
        first.append(median(some))
        steady.append(median(more))
    sizes = f"banks of {_list(counts)} items"
    yield _row(f"the first item remembered after opening, {sizes}", first, 50)
    yield _row(f"the following ones, {sizes}", steady, 3)


def _learned(place: Path, corpus: Corpus, count: int) -> Bank:
    """Make a bank of so many items, each learned by itself, in which no correction is due."""
    bank = Bank.create(place, unsafe_no_sync=True)
    for start in range(0, count, GROUP_ITEMS):
        events: list[Event] = []
        for item in items_of(corpus, min(GROUP_ITEMS, count - start)):
            id, decision = bank.log.new_id(), Decision(candidate=0, action="add", item=item.id)
            events += [
                MemoriesExtracted(id=id, kind="manual", heads=(item.head,), candidates=(item.text,)),
                MemoriesConsolidated(id=decisions_id(id), extraction=id, policy="dedup-2", decisions=(decision,)),
            ]
        bank.append(events)
    return bank


def _remembered(bank: Bank, corpus: Corpus) -> float:
    title, content = corpus.text(8), corpus.text(40)
    begin = time.process_time()
    bank.remember(title, content)
    return time.process_time() - begin


def _p50(work: Asked, queries: Sequence[str]) -> float:
    took = []
    for query in queries:
        begin = time.process_time()
        work(query)
        took.append(time.process_time() - begin)
    return median(took)


def _row(what: str, took: Sequence[float], goal_ms: float, floor: str = NONE) -> Row:
    return Row("waits", what, _times(took), floor=floor, goal=Goal("≤", goal_ms, "ms"), value=took[-1] * 1e3)


def _times(took: Sequence[float]) -> str:
    return " / ".join(map(duration, took))


def _list(numbers: Sequence[int]) -> str:
    return " / ".join(f"{number:,}" for number in numbers)
