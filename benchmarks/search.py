"""Searches at the head and in the past, and whether the past is found exactly."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.corpus import SEED, Corpus
from benchmarks.measure import Goal, Row, duration, interleave, timed
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.bank import READ_MODELS
from rbank_es.policies.words import any_of, query_words
from rbank_es.projections.read_models import ReadModels, rebuild
from rbank_es.projections.view import View

K = 10
SHARES = (0.25, 0.5, 0.75, 1.0)
"""Positions of searches in the past, as shares of the log without its last event."""
_BM25 = "SELECT rowid, bm25(items_fts) FROM items_fts WHERE items_fts MATCH ? ORDER BY bm25(items_fts) LIMIT ?"
_MATCH = "SELECT count(*) FROM items_fts WHERE items_fts MATCH ?"


def measure(place: Path, sizes: Sizes, bank: Bank) -> Iterator[Row]:
    """Yield rows for searches at the head and as of earlier positions."""
    bank.project()
    queries = Corpus(SEED + 1).queries(sizes.queries)
    yield _live(sizes, bank, queries)
    yield from _past(place, sizes, bank, queries)


def _live(sizes: Sizes, bank: Bank, queries: list[str]) -> Row:
    expressions = [any_of(words) for query in queries if (words := query_words(query))]
    assert len(expressions) == len(queries)
    with bank.as_of() as view, closing(sqlite3.connect(bank.log.derived_directory / READ_MODELS)) as plain:
        plain.execute("SELECT count(*) FROM candidates").fetchone()
        (items,) = plain.execute("SELECT count(*) FROM items_fts_docsize").fetchone()
        samples = interleave(
            {
                "ours": timed(partial(_search, view, queries)),
                "fts5": timed(lambda: [plain.execute(_BM25, (words, K)).fetchall() for words in expressions]),
                "match": timed(lambda: [plain.execute(_MATCH, (words,)).fetchall() for words in expressions]),
            },
            sizes.search_rounds,
        )
    each = {name: duration(samples.median(name) / len(queries)) for name in samples.seconds}
    return Row(
        "search",
        f"the best {K} of {items:,} items for 14 words, mean of {len(queries)} queries",
        each["ours"],
        f"FTS5's ORDER BY bm25(), the same expression and LIMIT {each['fts5']}",
        f"matching alone {each['match']}",
        Goal("≤", 1, "x peer"),
        samples.ratio("ours", "fts5"),
    )


def _search(view: View, queries: list[str]) -> list[list[tuple[str, float]]]:
    return [[(hit.id, hit.score) for hit in view.search(query, K)] for query in queries]


def _past(place: Path, sizes: Sizes, bank: Bank, queries: list[str]) -> Iterator[Row]:
    same = asked = 0
    for share in SHARES:
        position = int((bank.position - 1) * share)
        replayed = place / f"replayed-{position}.sqlite"
        rebuild(replayed, bank.log, upto=position)
        with bank.as_of(position) as view, ReadModels.open(replayed).live() as truth:
            first = timed(partial(_search, view, queries[:1]))()
            found = _search(view, queries)
            asked += len(queries)
            same += sum(one == other for one, other in zip(found, _search(truth, queries), strict=True))
            samples = interleave(
                {"ours": timed(partial(_search, view, queries)), "truth": timed(partial(_search, truth, queries))},
                sizes.search_rounds,
            )
        replayed.unlink()
        each = {name: duration(samples.median(name) / len(queries)) for name in samples.seconds}
        yield Row(
            "search",
            f"  as of position {position:,}",
            f"first {duration(first)}, later {each['ours']}",
            f"a bank replayed to there {each['truth']}",
        )
    what = f"  as of {len(SHARES)} positions: ids, order and scores as in a replay"
    goal = Goal("≥", 100, "% of queries")
    yield Row("search", what, f"{same} of {asked}", goal=goal, value=100 * same / asked)
