"""The active items of a bank that exists in memory only, indexed as `memory_index` indexes them.

A policy ranks by it exactly as by a view of a bank with these items: the same tokenizer over the same columns, and no
other document that BM25 could count. An item is taken in or dropped in the time that its own words take.

Hits that are clearly apart are found without SQLite, by `WordScores`, many times as fast; the full-text index is
brought up to date only when a policy needs it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from rbank_es.policies import Filters, Formula, QueryWord, RankedItem, WordRanking
from rbank_es.policies.vector_relevance import VectorRanking
from rbank_es.projections.builder import in_memory
from rbank_es.projections.full_text import FTS_COLUMNS, fts_ddl
from rbank_es.projections.held_words import HeldWords
from rbank_es.projections.projection import json_of
from rbank_es.projections.tokenizer import Tokenizer
from rbank_es.projections.vector_index import HeldVectors, selected
from rbank_es.projections.word_scores import WordScores
from rbank_es.state import ItemState

_COLUMNS = ", ".join(f'"{column}"' for column in FTS_COLUMNS)
_TABLE = """
CREATE TABLE active_items (
    text INTEGER PRIMARY KEY, item TEXT NOT NULL UNIQUE, domains TEXT NOT NULL, title TEXT NOT NULL,
    "desc" TEXT NOT NULL, content TEXT NOT NULL, tags TEXT NOT NULL, src TEXT NOT NULL, polarity TEXT NOT NULL,
    role TEXT, scope TEXT, domain TEXT
)
"""
_INDEX = f"INSERT INTO items_fts (rowid, {_COLUMNS}) VALUES (?, ?, ?, ?, ?)"
_UNINDEX = f"INSERT INTO items_fts (items_fts, rowid, {_COLUMNS}) VALUES ('delete', ?, ?, ?, ?, ?)"
_OUTCOMES = """
CREATE TEMP VIEW item_outcomes AS
SELECT item, wins_of(item) AS wins, losses_of(item) AS losses, support_of(item) AS support FROM active_items
"""
_PASSING = """
SELECT c.text, c.item FROM active_items c WHERE c.text IN (SELECT value FROM json_each(?)) AND {condition}
"""
_BATCH = 500
"""Items whose words are split into tokens at once: they are in memory together."""
_TRIES = (2, 16, 64)
"""Documents that are scored beyond the hits that are wanted, because filters drop some. More, where those aren't enough
of the first few; after the last, SQLite is asked."""
_APART = 1e-9
"""By this much the scores of hits must differ for their order to be sure: many times what rounding makes of a score, on
a processor that fuses operations too."""


class ActiveItems:
    """An `ItemIndex` of items that are given one by one. Close it after use; for one thread."""

    def __init__(self, outcomes: Callable[[str], tuple[int, int]]) -> None:
        """Begin without items; `outcomes` returns wins and losses of an item at the present."""
        self._connection: sqlite3.Connection = in_memory()
        # Looked up item by item, because few policies ask, and those about few items.
        self._connection.create_function("wins_of", 1, lambda item: outcomes(item)[0])
        self._connection.create_function("losses_of", 1, lambda item: outcomes(item)[1])
        self._connection.create_function("support_of", 1, lambda item: self._held[item][1].support)
        # Without its text beside it: a deletion is given the words, as in the index of the read models.
        self._connection.execute(fts_ddl("items_fts", ""))
        self._connection.execute(_TABLE)
        self._connection.execute(_OUTCOMES)
        self._tokenizer, self._scores = Tokenizer(), WordScores()
        self.vectors = HeldVectors()
        self._unindexed: list[tuple[str, tuple[object, ...]]] = []
        # The index is quicker where numbers are used again.
        self._free: list[int] = []
        self._held: dict[str, tuple[int, ItemState]] = {}
        self._words = HeldWords(self._tokenizer)
        self._uncounted: set[int] = set()

    def close(self) -> None:
        """Drop the index."""
        self._tokenizer.close()
        self._connection.close()

    def update(self, entries: Iterable[tuple[str, ItemState | None]]) -> None:
        """Take items as they are now; one that isn't active, or None, is dropped."""
        self._connection.execute("BEGIN")
        added: list[tuple[int, ItemState]] = []
        for id, entry in entries:
            now = entry if entry is not None and entry.state == "active" else None
            held = self._held.get(id)
            if held is not None and now is not None and _facts(held[1]) == _facts(now):
                self._held[id] = held[0], now
                continue
            if held is not None:
                self._drop(*held)
                del self._held[id]
            if now is not None:
                self._held[id] = self._free.pop() if self._free else len(self._held) + 1, now
                added.append(self._held[id])
        for start in range(0, len(added), _BATCH):
            self._add(added[start : start + _BATCH])
        self._connection.execute("COMMIT")

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        if self._unindexed:
            self._connection.execute("BEGIN")
            for statement, values in self._unindexed:
                self._connection.execute(statement, values)
            self._connection.execute("COMMIT")
            self._unindexed.clear()
        return self._connection.execute(sql, parameters).fetchall()

    def best(self, words: Sequence[str], k: int, filters: Filters) -> list[RankedItem] | None:
        """Return the best items by BM25 with equal weights; None where scores are too close to tell."""
        tokens = self._tokenizer.tokens(words)
        if tokens is None:
            return None
        condition, values = filters.sql()
        for more in _TRIES:
            scored = self._scores.best(tokens, k + more)
            complete = len(scored) < k + more
            numbers = json_of([number for number, _ in scored])
            passing = dict(self._connection.execute(_PASSING.format(condition=condition), (numbers, *values)))
            wanted = [RankedItem(passing[number], score) for number, score in scored if number in passing][: k + 1]
            if complete or len(wanted) > k:
                apart = all(after.score - hit.score > _APART for hit, after in pairwise(wanted))
                return wanted[:k] if apart else None
        return None

    def by_words(self, words: Sequence[QueryWord], formula: Formula, k: int, filters: Filters) -> WordRanking:
        """Return the best items by the definition of word relevance."""
        if self._uncounted:
            held = {number: entry for number, entry in self._held.values() if number in self._uncounted}
            uncounted = sorted(self._uncounted)
            for start in range(0, len(uncounted), _BATCH):
                self._words.update({number: held.get(number) for number in uncounted[start : start + _BATCH]})
            self._uncounted.clear()
        return self._words.by_words(words, formula, k, filters)

    def by_vector(self, query: str, model: str, filters: Filters) -> VectorRanking | None:
        """Return how near items are to a query by the vectors that were taken; None where the query has none."""
        return selected(self._connection, self.vectors.cosines(self._connection, query, model), filters)

    def _add(self, entries: Sequence[tuple[int, ItemState]]) -> None:
        texts = ["\n".join(_words(entry)) for _, entry in entries]
        for (number, entry), tokens in zip(entries, self._tokenizer.counted(texts), strict=True):
            item, words = entry.item, _words(entry)
            facts = (number, item.id, json_of(entry.domains), *words, item.src, item.polarity)
            self._connection.execute(
                f"INSERT INTO active_items VALUES ({', '.join('?' * 12)})", (*facts, item.role, item.scope, item.domain)
            )
            self._scores.add(number, tokens)
            self._unindexed.append((_INDEX, (number, *words)))
            self._uncounted.add(number)

    def _drop(self, number: int, entry: ItemState) -> None:
        self._connection.execute("DELETE FROM active_items WHERE text = ?", (number,))
        self._scores.drop(number)
        self._free.append(number)
        self._uncounted.add(number)
        self._unindexed.append((_UNINDEX, (number, *_words(entry))))


def _words(entry: ItemState) -> tuple[str, str, str, str]:
    item = entry.item
    return item.title, item.desc, item.content, "\n".join(item.tags)


def _facts(entry: ItemState) -> tuple[object, ...]:
    return entry.item, entry.domains
