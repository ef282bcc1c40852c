"""The active items of a bank that exists in memory only, indexed as `memory_index` indexes them.

A policy ranks by it exactly as by a view of a bank with these items. What a search needs is brought up to date when a
policy asks: the words for a ranking by words, tables and the full-text index for SQL.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rbank_es.law import ItemState
from rbank_es.policies import Filters, Formula, QueryWord, RankedItem, WordRanking
from rbank_es.policies.stem_relevance import AskedQuestion, Pair, QuestionOrder, QuestionWeights
from rbank_es.policies.vector_relevance import VectorRanking
from rbank_es.projections.builder import in_memory
from rbank_es.projections.in_memory_stems import HeldStems
from rbank_es.projections.in_memory_words import HeldWords, columns_of
from rbank_es.projections.projection import json_of
from rbank_es.projections.tokenizer import FTS_COLUMNS, Tokenizer, fts_ddl
from rbank_es.projections.vector_index import HeldVectors, selected

_COLUMNS = ", ".join(f'"{column}"' for column in FTS_COLUMNS)
_TABLE = """
CREATE TABLE active_items (
    text INTEGER PRIMARY KEY, item TEXT NOT NULL UNIQUE, domains TEXT NOT NULL, title TEXT NOT NULL,
    "desc" TEXT NOT NULL, content TEXT NOT NULL, tags TEXT NOT NULL, src TEXT NOT NULL, polarity TEXT NOT NULL,
    role TEXT, scope TEXT, domain TEXT
)
"""
_OUTCOMES = """
CREATE TEMP VIEW item_outcomes AS
SELECT item, wins_of(item) AS wins, losses_of(item) AS losses, support_of(item) AS support FROM active_items
"""
_ADD = f"INSERT INTO active_items VALUES (NULL{', ?' * 11})"
_INDEX = f"INSERT INTO items_fts (rowid, {_COLUMNS}) SELECT text, {_COLUMNS} FROM active_items WHERE item = ?"
# The index must be given the words that it has.
_UNINDEX = f"""
INSERT INTO items_fts (items_fts, rowid, {_COLUMNS}) SELECT 'delete', text, {_COLUMNS} FROM active_items WHERE item = ?
"""
_BATCH = 500
"""Items whose words are split into tokens at once: they are in memory together."""


class ActiveItems:
    """An `ItemIndex` of items that are given one by one. Close it after use; for one thread."""

    def __init__(self, outcomes: Callable[[str], tuple[int, int]]) -> None:
        """Begin without items; `outcomes` returns wins and losses of an item at the present."""
        self._connection: sqlite3.Connection = in_memory()
        # Looked up item by item, because few policies ask, and those about few items.
        self._connection.create_function("wins_of", 1, lambda item: outcomes(item)[0])
        self._connection.create_function("losses_of", 1, lambda item: outcomes(item)[1])
        self._connection.create_function("support_of", 1, lambda item: self._active[item].support)
        for statement in (fts_ddl("items_fts", ""), _TABLE, _OUTCOMES):
            self._connection.execute(statement)
        self._tokenizer = Tokenizer()
        self._words = HeldWords(self._tokenizer)
        self.vectors = HeldVectors()
        self._active: dict[str, ItemState] = {}
        # The ids of items that changed since their words, and their rows, were brought up to date.
        self._unread, self._unwritten = dict[str, None](), dict[str, None]()
        # The stems are read from the first question on that asks for them.
        self._stems: HeldStems | None = None
        self._unstemmed = dict[str, None]()

    def close(self) -> None:
        """Drop the index."""
        self._tokenizer.close()
        self._connection.close()

    def expect(self, texts: Iterable[str]) -> None:
        """Learn the words of items and queries to come, for which the tokenizer would be asked one by one."""
        self._tokenizer.learn(texts)

    def update(self, entries: Iterable[tuple[str, ItemState | None]]) -> None:
        """Take items as they are now; one that isn't active, or None, is dropped."""
        for id, entry in entries:
            now = entry if entry is not None and entry.state == "active" else None
            was = self._active.pop(id, None)
            if now is not None:
                self._active[id] = now
            if _facts(was) != _facts(now):
                self._unread[id] = self._unwritten[id] = self._unstemmed[id] = None

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        return self._written().execute(sql, parameters).fetchall()

    def best(self, words: Sequence[str], k: int, filters: Filters) -> list[RankedItem] | None:
        """Return the best items by BM25 with equal weights; None for a word that FTS5 takes as a phrase."""
        return self._read().by_sqlite(words, k, filters)

    def by_words(self, words: Sequence[QueryWord], formula: Formula, k: int, filters: Filters) -> WordRanking:
        """Return the best items by the definition of word relevance."""
        return self._read().by_words(words, formula, k, filters)

    def question(self, query: str, reading: QuestionWeights) -> AskedQuestion:
        """Return what is read in a query among the items."""
        return self._read_stems().question(query, reading)

    def by_stems(self, question: AskedQuestion, formula: Formula, k: int, filters: Filters) -> WordRanking:
        """Return the best items by the definition of word relevance, by stems."""
        return self._read_stems().by_stems(question, formula, k, filters)

    def kept(self, question: AskedQuestion) -> dict[object, list[RankedItem]]:
        """Return what a policy keeps of a question, which is forgotten with the next one or when items change."""
        return self._read_stems().kept(question)

    def word_orders(self, question: AskedQuestion, pairs: Mapping[str, Sequence[Pair]]) -> dict[str, QuestionOrder]:
        """Return what items have of a question's order, by the definition of stem relevance."""
        return self._read_stems().word_orders(question, pairs)

    def by_vector(self, query: str, model: str, filters: Filters) -> VectorRanking | None:
        """Return how near items are to a query by the vectors that were taken; None where the query has none."""
        connection = self._written()
        return selected(connection, self.vectors.cosines(connection, query, model), filters)

    def _read(self) -> HeldWords:
        """Return the words of the items as they are now."""
        self._bring(self._words, self._unread)
        return self._words

    def _read_stems(self) -> HeldStems:
        """Return the stems of the items as they are now."""
        if self._stems is None:
            self._stems, self._unstemmed = HeldStems(self._tokenizer), dict.fromkeys(self._active)
        self._bring(self._stems, self._unstemmed)
        return self._stems

    def _bring(self, words: HeldWords | HeldStems, changed: dict[str, None]) -> None:
        """Bring words up to date with the items that changed since."""
        ids = list(changed)
        for start in range(0, len(ids), _BATCH):
            words.update({id: self._active.get(id) for id in ids[start : start + _BATCH]})
        changed.clear()

    def _written(self) -> sqlite3.Connection:
        """Return the tables with the items as they are now."""
        run = self._connection.execute
        run("BEGIN")
        for id in self._unwritten:
            run(_UNINDEX, (id,))
            run("DELETE FROM active_items WHERE item = ?", (id,))
            if (entry := self._active.get(id)) is not None:
                item = entry.item
                words = columns_of(item)
                facts = item.src, item.polarity, item.role, item.scope, item.domain
                run(_ADD, (id, json_of(entry.domains), *words, *facts))
                run(_INDEX, (id,))
        run("COMMIT")
        self._unwritten.clear()
        return self._connection


def _facts(entry: ItemState | None) -> tuple[object, ...] | None:
    # Neither support nor wins and losses, for which SQL calls back when a policy asks.
    return None if entry is None else (entry.item, entry.domains)
