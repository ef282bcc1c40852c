"""Retrieval, all its goals in one run: processor time live, in the past and in a fresh process; memory and bytes on
disk; the cost of an append; the quality on labelled cases.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import Any, NamedTuple

from msgspec.structs import force_setattr

from benchmarks import recall_sets, retrieval_quality
from benchmarks.corpus import SEED, Corpus, make_item_bank
from benchmarks.measure import Goal, Row, collected_as_in_the_command, duration
from benchmarks.sizes import Sizes
from rbank_es import Bank, Item
from rbank_es.bank import READ_MODELS
from rbank_es.events import Decision, MemoriesConsolidated, MemoriesExtracted
from rbank_es.policies.words import any_of, query_words
from rbank_es.projections.memory_index import MEMORY_INDEX
from rbank_es.projections.read_models import ReadModels, rebuild
from rbank_es.projections.view import View

K = 10
SHARES = (1.0, 0.25, 0.5, 0.99)
"""Positions of searches, as shares of the log: the first is live."""
POLICIES = ("bm25-1", "bm25-2", "bm25-3")
SPELLINGS, GROUP_WORDS, TYPOS = 100_000, 10_000, 60
"""Words that items have, those of one append, and those that are misspelt, by two neighbours exchanged."""
_BM25 = "SELECT rowid, bm25(items_fts) FROM items_fts WHERE items_fts MATCH ? ORDER BY bm25(items_fts) LIMIT ?"
# In processes of their own. Without numpy, because a process that searches once must not wait for it.
_FRESH = """
import sys
from rbank_es import Bank
with Bank.open(sys.argv[1]) as bank, bank.as_of(sys.argv[2]) as view:
    view.search(sys.argv[3], 10)
"""
# With numpy and views before, as where a process has searched a dozen times. Not `ru_maxrss`, because a child begins
# with that of its parent.
_SEARCHING = """
import json, sys, time
try:
    import numpy
except ImportError:
    pass
from rbank_es import Bank
from rbank_es.policies import Bm25V1, Bm25V2, Bm25V3
place, position, label, k = sys.argv[1:]
policy = {"bm25-1": Bm25V1, "bm25-2": Bm25V2, "bm25-3": Bm25V3}[label]().without_floor()
seconds, now = [], time.process_time
with Bank.open(place) as bank:
    for seen in range(1, 6):
        with bank.as_of(seen) as view:
            view.search("any", 1, policy=policy)
    begin = now()
    with bank.as_of(int(position)) as view:
        opened = now() - begin
        for query in json.load(sys.stdin):
            begin = now()
            view.search(query, int(k), policy=policy)
            seconds.append(now() - begin)
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([opened, seconds[0], sorted(seconds[1:]), peak]))
"""
_POSTING_BYTES = "SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT value FROM json_each(?))"


class _Searches(NamedTuple):
    """Processor seconds to open a view, of its first search, and of the others in order of size; peak memory in KiB."""

    opening: float
    first: float
    others: Sequence[float]
    peak_kib: int

    @property
    def p50(self) -> float:
        return self.others[len(self.others) // 2]

    @property
    def p95(self) -> float:
        return self.others[int(len(self.others) * 0.95)]


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the rows for a bank of `sizes.items` items, for one of `sizes.many_items`, and of the quality."""
    bank, _ = _made(place / "items", sizes.items)
    queries = Corpus(SEED + 1).queries(max(40, sizes.queries))
    yield _fresh(bank, queries[0], "live", bank.position)
    yield _fresh(bank, queries[0], "half way", bank.position // 2)
    found = {label: _searched_at(bank, queries, label) for label in POLICIES}
    for label, searches in found.items():
        yield from _searches(searches, label)
    yield _above(found)
    yield _typo(place / "spellings")
    yield _exact(place, bank, queries)
    yield from _peers(place, bank, queries)
    yield _disk(bank)
    yield _append(place, bank, sizes)
    yield from _many(place, queries, sizes.many_items)
    yield from recall_sets.rows()
    yield from retrieval_quality.rows()


def _row(what: str, ours: str, goal: Goal | None = None, value: float | None = None, **cells: str) -> Row:
    return Row("retrieval", what, ours, goal=goal, value=value, **cells)


def _made(place: Path, items: int) -> tuple[Bank, str]:
    """Return a bank of so many items with its read models, and the processor time of both."""
    # At Python's own threshold, a third of the time goes into looking for garbage.
    with collected_as_in_the_command():
        begin = time.process_time()
        bank = make_item_bank(place, items)
        learned = time.process_time() - begin
        bank.project()
    return bank, f"log {duration(learned)}, read models {duration(time.process_time() - begin - learned)}"


def _times(search: Callable[[str], Any], queries: Sequence[str]) -> list[float]:
    """Return the processor seconds of each query, in order of size."""
    seconds = []
    for query in queries:
        begin = time.process_time()
        search(query)
        seconds.append(time.process_time() - begin)
    return sorted(seconds)


def _shown(seconds: Sequence[float]) -> str:
    return f"p50 {duration(seconds[len(seconds) // 2])}, p95 {duration(seconds[int(len(seconds) * 0.95)])}"


def _searched(bank: Bank, queries: Sequence[str], label: str, position: int) -> _Searches:
    command = [sys.executable, "-c", _SEARCHING, str(bank.place), str(position), label, str(K)]
    found = subprocess.run(command, input=json.dumps(queries), check=True, capture_output=True, text=True)
    return _Searches(*json.loads(found.stdout))


def _searched_at(bank: Bank, queries: Sequence[str], label: str) -> list[_Searches]:
    return [_searched(bank, queries, label, int(bank.position * share)) for share in SHARES]


def _above(found: Mapping[str, Sequence[_Searches]]) -> Row:
    """Return what a search by the default policy takes more than by the one before it."""
    more = [1e3 * (ours.p50 - before.p50) for ours, before in zip(found["bm25-3"], found["bm25-2"], strict=True)]
    cells = " / ".join(f"{each:.2f} ms" for each in more)
    return _row("bm25-3 over bm25-2, live and in the past: p50", cells, Goal("≤", 1, "ms more"), max(more))


def _typo(place: Path) -> Row:
    """Return what a misspelt word takes more than the word as an item has it, among a hundred thousand of them."""
    random, bank = Random(SEED), Bank.create(place, unsafe_no_sync=True)
    words = ["".join(random.choices(ascii_lowercase, k=random.randint(5, 10))) for _ in range(SPELLINGS)]
    for start in range(0, SPELLINGS, GROUP_WORDS):
        some = words[start : start + GROUP_WORDS]
        made = [Item.make(" ".join(some[at : at + 8]), " ".join(some[at : at + 40])) for at in range(0, len(some), 40)]
        heads, texts = tuple(item.head for item in made), tuple(item.text for item in made)
        extracted = bank.append(MemoriesExtracted(kind="manual", heads=heads, candidates=texts)).events[0]
        added = tuple(Decision(candidate=number, action="add", item=item.id) for number, item in enumerate(made))
        bank.append(MemoriesConsolidated(extraction=extracted.id, policy="append-1", decisions=added))
    asked = random.sample([word for word in words if len(word) > 5], TYPOS)
    with bank.as_of() as view:
        right, wrong = (
            [_times(lambda query: view.search(query, K), [change(word)])[0] for word in asked]
            for change in (str, lambda word: word[:3] + word[4] + word[3] + word[5:])
        )
    bank.close()
    more = sorted(1e3 * (late - soon) for late, soon in zip(wrong, right, strict=True))
    what = f"a misspelt word more than the word itself, {SPELLINGS:,} spellings, bm25-3"
    cells = f"p50 {more[TYPOS // 2]:.1f} ms, p95 {more[int(TYPOS * 0.95)]:.1f} ms"
    return _row(what, cells, Goal("≤", 5, "ms (p50)"), more[TYPOS // 2])


def _searches(found: Sequence[_Searches], label: str) -> Iterator[Row]:
    """Yield what searches by a policy take: each cell is live, then as of the other shares, and the worst counts."""
    what = f"{label}, the best {K} for 14 words, live and as of {', '.join(f'{each:.0%}' for each in SHARES[1:])}"

    def row(name: str, of: Callable[[_Searches], float], bound: float) -> Row:
        cells = " / ".join(duration(of(each)) for each in found)
        return _row(f"{what}: {name}", cells, Goal("≤", bound, f"ms ({name})"), max(map(of, found)) * 1e3)

    yield row("p50", lambda each: each.p50, 5)
    yield row("p95", lambda each: each.p95, 15)
    yield row("view opened and p50", lambda each: each.opening + each.p50, 10)
    past = max(each.p50 for each in found[1:]) / found[0].p50
    yield _row(f"{what}: p50 of the past", f"{past:.2f} x live", Goal("≤", 1.1, "x live"), past)
    yield _row(f"  {label}: first search of a view", " / ".join(duration(each.first) for each in found))
    yield _memory(label, found)


def _memory(what: str, found: Sequence[_Searches]) -> Row:
    return _row(
        f"  {what}: peak memory of the process that searches", f"{max(each.peak_kib for each in found) >> 10} MiB"
    )


def _found(view: View, query: str) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in view.search(query, K)]


def _exact(place: Path, bank: Bank, queries: Sequence[str]) -> Row:
    """Return how many searches half way are those of a bank that ends there: ids, order and scores."""
    half, path = bank.position // 2, place / "replayed.sqlite"
    rebuild(path, bank.log, upto=half)
    with bank.as_of(half) as view, ReadModels.open(path).live() as truth:
        same = sum(_found(view, query) == _found(truth, query) for query in queries)
    what = "as of half way: ids, order and scores as in a replay"
    return _row(what, f"{same} of {len(queries)}", Goal("≥", 100, "% of queries"), 100 * same / len(queries))


def _many(place: Path, queries: Sequence[str], items: int) -> Iterator[Row]:
    """Yield the rows of a bank of very many items."""
    what = f"bm25-2 over {items or 1_000_000:,} items, live and half way"
    goal = Goal("≤", 25, "ms (p50)")
    if not items:
        yield Row("retrieval", what, goal=goal)
        return
    bank, made = _made(place / "many", items)
    found = [_searched(bank, queries, "bm25-2", position) for position in (bank.position, bank.position // 2)]
    cells = " / ".join(_shown(each.others) for each in found)
    yield _row(what, cells, goal, max(each.p50 for each in found) * 1e3, floor=f"made in {made}")
    opened = " / ".join(f"{duration(each.opening)}, {duration(each.first)}" for each in found)
    yield _row(f"  {items:,} items: view opened, its first search", opened)
    yield _memory(f"{items:,} items", found)
    yield _disk(bank)


def _fresh(bank: Bank, query: str, what: str, position: int) -> Row:
    """Return the row of a first search: processor time of a whole process, less that of Python alone."""
    place = str(bank.place)
    ours = min(_processor_seconds([_FRESH, place, str(position), query]) for _ in range(5))
    bare = min(_processor_seconds(["pass"]) for _ in range(5))
    what = f"a first search in a fresh process, {what}"
    return _row(what, duration(ours), Goal("≤", 100, "ms more"), (ours - bare) * 1e3, floor=f"Python {duration(bare)}")


def _processor_seconds(arguments: Sequence[str]) -> float:
    # Write byte code as an installation does, because this shell may forbid it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", *arguments], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _peers(place: Path, bank: Bank, queries: Sequence[str]) -> Iterator[Row]:
    """Yield rows of others over the same texts: their analysers differ, and none of them has a past."""
    with closing(sqlite3.connect(bank.log.derived_directory / READ_MODELS)) as plain:
        active = "FROM candidates WHERE text IN (SELECT text FROM item_states WHERE state = ? AND to_seq IS NULL)"
        texts = ["\n".join(row) for row in plain.execute(f'SELECT title, "desc", content, tags {active}', ("active",))]
        expressions = {query: any_of(query_words(query)) for query in queries}
        seconds = _times(lambda query: plain.execute(_BM25, (expressions[query], K)).fetchall(), queries)
        yield _row(f"FTS5's ORDER BY bm25() over {len(texts):,} items", "—", peer=_shown(seconds))
    for name, made in (("tantivy", _tantivy), ("bm25s", _bm25s)):
        if find_spec(name) is None:
            yield Row("retrieval", f"{name} (not installed)")
        else:
            seconds = _times(made(place, texts), queries)
            yield _row(f"{name} over the same items", "—", peer=_shown(seconds))


def _tantivy(place: Path, texts: Sequence[str]) -> Callable[[str], Any]:
    import tantivy  # pyright: ignore[reportMissingImports]

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    writer = index.writer(num_threads=1)
    for text in texts:
        writer.add_document(tantivy.Document(text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    return lambda query: searcher.search(index.parse_query(query, ["text"]), K).hits


def _bm25s(place: Path, texts: Sequence[str]) -> Callable[[str], Any]:
    import bm25s  # pyright: ignore[reportMissingImports]

    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(list(texts), show_progress=False), show_progress=False)

    def search(query: str) -> object:
        words = bm25s.tokenize([query], show_progress=False)
        return retriever.retrieve(words, k=K, show_progress=False, n_threads=0)

    return search


def _disk(bank: Bank) -> Row:
    path = bank.log.derived_directory / READ_MODELS
    tables = [name for name, ddl in MEMORY_INDEX.virtual.items() if "VIRTUAL" not in ddl]
    with closing(sqlite3.connect(path)) as plain:
        (taken,) = plain.execute(_POSTING_BYTES, (json.dumps(tables),)).fetchone()
        full = [f"items_fts_{part}" for part in ("data", "idx", "docsize", "config")]
        (index,) = plain.execute(_POSTING_BYTES, (json.dumps(full),)).fetchone()
    of_file = f"FTS5's index {index / 1e6:,.1f} MB, the whole file {path.stat().st_size / 1e6:,.1f} MB"
    return _row("  bytes on disk of postings and changes", f"{taken / 1e6:,.1f} MB", floor=of_file)


def _append(place: Path, bank: Bank, sizes: Sizes) -> Row:
    """Return the row of one item more: read models brought up to it, with the postings and without them."""
    shutil.copytree(bank.place, place / "without")
    corpus, seconds = Corpus(SEED + 2), {"ours": list[float](), "without": list[float]()}
    indexers = {"ours": MEMORY_INDEX.indexers, "without": ()}
    with Bank.open(bank.place) as ours, Bank.open(place / "without") as without:
        banks = {"ours": ours, "without": without}
        without.project()
        try:
            for _ in range(sizes.appends):
                for name, one in banks.items():
                    one.append(corpus.one_item())
                    force_setattr(MEMORY_INDEX, "indexers", indexers[name])
                    begin = time.process_time()
                    one.project()
                    seconds[name].append(time.process_time() - begin)
        finally:
            force_setattr(MEMORY_INDEX, "indexers", indexers["ours"])
    each = {name: sorted(some)[len(some) // 2] for name, some in seconds.items()}
    ratio, without = sum(seconds["ours"]) / sum(seconds["without"]), f"without postings {duration(each['without'])}"
    what = "  one item more, appended and projected"
    return _row(what, duration(each["ours"]), Goal("≤", 2, "x without"), ratio, peer=without)
