"""Searches by words over many items: processor time live, in the past and in a fresh process; cost of an append."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec.structs import force_setattr

from benchmarks.corpus import SEED, Corpus, make_item_bank
from benchmarks.measure import Goal, Row, duration
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.bank import PROJECTIONS
from rbank_es.policies import Bm25V1, Bm25V2, RetrievalPolicy, match_expression
from rbank_es.projections.memory_index import MEMORY_INDEX
from rbank_es.projections.view import View

K = 10
SHARES = (0.25, 0.5, 0.99)
"""Positions of searches in the past, as shares of the log."""
_BM25 = "SELECT rowid, bm25(items_fts) FROM items_fts WHERE items_fts MATCH ? ORDER BY bm25(items_fts) LIMIT ?"
# In a process of its own. Without numpy, because a process that searches once must not wait for it.
_FRESH = """
import sys
from rbank_es import Bank
with Bank.open(sys.argv[1]) as bank, bank.as_of(sys.argv[2]) as view:
    view.search(sys.argv[3], 10)
"""
_POSTING_BYTES = "SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT value FROM json_each(?))"


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the rows for a bank of `sizes.items` items."""
    bank = make_item_bank(place / "items", sizes.items)
    bank.project()
    queries = Corpus(SEED + 1).queries(max(40, sizes.queries))
    yield _fresh(bank, queries[0], "live", bank.position)
    yield _fresh(bank, queries[0], "half way", bank.position // 2)
    yield from _searches(bank, queries)
    yield from _peers(place, bank, queries)
    yield _disk(bank)
    yield _append(place, bank, sizes)


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


def _searches(bank: Bank, queries: Sequence[str]) -> Iterator[Row]:
    policies: tuple[RetrievalPolicy, ...] = (Bm25V1(), Bm25V2(coverage=0, share_of_best=0))
    for share in (1.0, *SHARES):
        position = int(bank.position * share)
        for policy in policies:
            # A bank of its own, because a bank keeps the views of the last positions open.
            with Bank.open(bank.place) as other:
                begin = time.process_time()
                view = other.as_of(position)
                opening = time.process_time() - begin
                with view:
                    [first] = _times(lambda query: _found(view, query, policy), queries[:1])  # noqa: B023
                    seconds = _times(lambda query: _found(view, query, policy), queries[1:])  # noqa: B023
            at = "live" if share == 1 else f"as of position {position:,}"
            p95 = seconds[int(len(seconds) * 0.95)]
            yield Row(
                "search times",
                f"{policy.label}, the best {K} for 14 words, {at}",
                _shown(seconds),
                floor=f"view opened in {duration(opening)}, its first search {duration(first)}",
                goal=Goal("≤", 15, "ms (p95)"),
                value=p95 * 1e3,
            )


def _found(view: View, query: str, policy: RetrievalPolicy) -> object:
    return view.search(query, K, policy=policy)


def _fresh(bank: Bank, query: str, what: str, position: int) -> Row:
    """Return the row of a first search: processor time of a whole process, less that of Python alone."""
    place = str(bank.place)
    ours = min(_processor_seconds([_FRESH, place, str(position), query]) for _ in range(5))
    bare = min(_processor_seconds(["pass"]) for _ in range(5))
    return Row(
        "search times",
        f"a first search in a fresh process, {what}",
        duration(ours),
        floor=f"Python alone {duration(bare)}",
        goal=Goal("≤", 100, "ms more"),
        value=(ours - bare) * 1e3,
    )


def _processor_seconds(arguments: Sequence[str]) -> float:
    # Write byte code as an installation does, because this shell may forbid it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", *arguments], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _peers(place: Path, bank: Bank, queries: Sequence[str]) -> Iterator[Row]:
    """Yield rows of others over the same texts: their analysers differ, and none of them has a past."""
    with closing(sqlite3.connect(bank.log.derived_directory / PROJECTIONS)) as plain:
        active = "FROM candidates WHERE text IN (SELECT text FROM item_states WHERE state = ? AND to_seq IS NULL)"
        texts = ["\n".join(row) for row in plain.execute(f'SELECT title, "desc", content, tags {active}', ("active",))]
        expressions = {query: match_expression(query) for query in queries}
        seconds = _times(lambda query: plain.execute(_BM25, (expressions[query], K)).fetchall(), queries)
        yield Row("search times", f"FTS5's ORDER BY bm25() over {len(texts):,} items", peer=_shown(seconds), ours="—")
    for name, made in (("tantivy", _tantivy), ("bm25s", _bm25s)):
        if find_spec(name) is None:
            yield Row("search times", f"{name} (not installed)")
        else:
            seconds = _times(made(place, texts), queries)
            yield Row("search times", f"{name} over the same items", peer=_shown(seconds), ours="—")


def _tantivy(place: Path, texts: Sequence[str]) -> Callable[[str], Any]:
    import tantivy

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
    import bm25s

    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(list(texts), show_progress=False), show_progress=False)

    def search(query: str) -> object:
        words = bm25s.tokenize([query], show_progress=False)
        return retriever.retrieve(words, k=K, show_progress=False, n_threads=0)

    return search


def _disk(bank: Bank) -> Row:
    path = bank.log.derived_directory / PROJECTIONS
    tables = [name for name, ddl in MEMORY_INDEX.virtual.items() if "VIRTUAL" not in ddl]
    with closing(sqlite3.connect(path)) as plain:
        (taken,) = plain.execute(_POSTING_BYTES, (json.dumps(tables),)).fetchone()
        full = [f"items_fts_{part}" for part in ("data", "idx", "docsize", "config")]
        (index,) = plain.execute(_POSTING_BYTES, (json.dumps(full),)).fetchone()
    of_file = f"FTS5's index {index / 1e6:,.1f} MB, the whole file {path.stat().st_size / 1e6:,.1f} MB"
    return Row("search times", "  bytes on disk of postings and changes", f"{taken / 1e6:,.1f} MB", floor=of_file)


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
    return Row(
        "search times",
        "  one item more, appended and projected",
        duration(each["ours"]),
        f"without postings {duration(each['without'])}",
        goal=Goal("≤", 2, "x without"),
        value=sum(seconds["ours"]) / sum(seconds["without"]),
    )
