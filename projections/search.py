"""Full-text search as of a position: SQLite's BM25 over exactly the items that were active there.

BM25 weighs a word by how many documents have it, and a document by its length against the average. So an index that
also holds later or ended items gives other scores and another order. The live index holds the active items; where
another set was active at the position that is looked at, an index of that set is made in memory, once per view.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, get_args

from msgspec import Struct

from rbank_es import limits
from rbank_es.errors import BadSearch
from rbank_es.events.items import JUDGE_SOURCES, Polarity
from rbank_es.projections.memory_index import FTS_COLUMNS, fts_ddl

if TYPE_CHECKING:
    from rbank_es.policies.retrieval import RetrievalPolicy

HEADROOM, HEADROOM_FILTERED = 16, 64
"""Hits that are fetched beyond those wanted, to be sorted among ties, or dropped by filters; more are fetched if not
enough. Each makes a search a little slower."""


class Found(Struct, frozen=True, kw_only=True):
    """One item found. `score` is BM25's: below 0, lower is better. `rank` counts from 1."""

    id: str
    title: str
    desc: str
    src: str
    polarity: str
    score: float
    rank: int


class Filters(Struct, frozen=True, kw_only=True):
    """What a hit must be, beside fitting the query. `judges_source` is one of those that only judges are given."""

    polarity: str | None = None
    domain: str | None = None
    role: str | None = None
    judges_source: str | None = None

    def __post_init__(self) -> None:
        if self.judges_source not in (None, *JUDGE_SOURCES):
            raise BadSearch(f"{self.judges_source!r} is no source of judges: {', '.join(sorted(JUDGE_SOURCES))}")
        if self.polarity not in (None, *get_args(Polarity)):
            raise BadSearch(f"{self.polarity!r} is no polarity: give one of {', '.join(get_args(Polarity))}")

    def sql(self) -> tuple[str, list[str]]:
        """A condition on `candidates c`, and its parameters."""
        wanted = {"polarity": self.polarity, "domain": self.domain, "role": self.role}
        given = {name: value for name, value in wanted.items() if value is not None}
        judges = [self.judges_source] if self.judges_source else sorted(JUDGE_SOURCES)
        known = f"c.src {'IN' if self.judges_source else 'NOT IN'} ({', '.join('?' * len(judges))})"
        return " AND ".join([known, *(f"c.{name} = ?" for name in given)]), [*judges, *given.values()]


_WEIGHTS = ", ".join("?" * len(FTS_COLUMNS))
_SCORE = f"bm25(items_fts, {_WEIGHTS})"

# The best are picked before anything else is looked up; filters then apply to those few. Fast, but of hits that tie
# with the last one picked, some may be missing.
_PICK = f"""
SELECT c.text, c.item, f.score, {{condition}} AS wanted
FROM (SELECT rowid, {_SCORE} AS score FROM items_fts WHERE items_fts MATCH ? ORDER BY score LIMIT ?) f
CROSS JOIN main.candidates c ON c.text = f.rowid
"""
# Every match is looked up first, what passes is scored, and ties are in order: always complete, and slower.
_SIFT = f"""
SELECT c.text, c.item, {_SCORE} AS score, 1
FROM items_fts CROSS JOIN main.candidates c ON c.text = items_fts.rowid
WHERE items_fts MATCH ? AND {{condition}}
ORDER BY score, c.item LIMIT ?
"""
_SHOW = 'SELECT item, title, "desc", src, polarity FROM main.candidates WHERE text = ?'

_CHANGED_SINCE = "SELECT EXISTS (SELECT 1 FROM main.item_states WHERE from_seq > ?)"
_FILL = """
INSERT INTO temp.items_fts (rowid, title, "desc", content, tags)
SELECT text, title, "desc", content, tags FROM main.candidates WHERE text IN (
    SELECT b.text FROM main.item_states s CROSS JOIN main.item_births b ON b.item = s.item
    WHERE s.state = 'active' AND s.from_seq <= :seq AND (s.to_seq IS NULL OR s.to_seq > :seq)
) ORDER BY text
"""

Hit = tuple[int, str, float, int]


class Searcher:
    """Searches one connection as of one position."""

    def __init__(self, connection: sqlite3.Connection, position: int) -> None:
        self._connection, self._position, self._own_index = connection, position, False

    def search(self, query: str, k: int | None, filters: Filters, policy: RetrievalPolicy) -> list[Found]:
        """See `View.search`."""
        from rbank_es.policies.retrieval import match_expression

        k = policy.k if k is None else k
        if not 1 <= k <= limits.SEARCH_HITS:
            raise BadSearch(f"can't return {k:,} hits: give a number from 1 to {limits.SEARCH_HITS}")
        expression = match_expression(query, policy.stop_words)
        if expression is None:
            return []
        with self._index() as connection:
            hits = _best(connection, expression, k, tuple(policy.weights), filters)
            return [_show(connection, hit, rank) for rank, hit in enumerate(hits, 1)]

    @contextmanager
    def _index(self) -> Iterator[sqlite3.Connection]:
        """The index of the items active at the position stands under the name `items_fts` until this ends."""
        if self._own_index:
            yield self._connection
            return
        # One transaction, so that nobody changes the live index between looking whether it fits and using it.
        self._connection.execute("BEGIN")
        try:
            if self._connection.execute(_CHANGED_SINCE, (self._position,)).fetchone()[0]:
                self._connection.execute(fts_ddl("temp.items_fts", ""))
                self._connection.execute("INSERT INTO temp.items_fts (items_fts, rank) VALUES ('automerge', 0)")
                self._connection.execute(_FILL, {"seq": self._position})
                self._own_index = True
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            self._own_index = False
            self._connection.execute("ROLLBACK")
            raise


def _best(
    connection: sqlite3.Connection, expression: str, k: int, weights: tuple[float, ...], filters: Filters
) -> list[Hit]:
    condition, values = filters.sql()
    limit = k + (HEADROOM if filters == Filters() else HEADROOM_FILTERED)
    picked: list[Hit] = connection.execute(
        _PICK.format(condition=condition), (*values, *weights, expression, limit)
    ).fetchall()
    picked.sort(key=lambda hit: (hit[2], hit[1]))
    whole = [hit for hit in picked if len(picked) < limit or hit[2] < picked[-1][2]]
    wanted = [hit for hit in whole if hit[3]]
    if len(wanted) >= k or len(picked) < limit:
        return wanted[:k]
    return connection.execute(_SIFT.format(condition=condition), (*weights, expression, *values, k)).fetchall()


def _show(connection: sqlite3.Connection, hit: Hit, rank: int) -> Found:
    text, _, score, _ = hit
    item, title, desc, src, polarity = connection.execute(_SHOW, (text,)).fetchone()
    return Found(id=item, title=title, desc=desc, src=src, polarity=polarity, score=score, rank=rank)
