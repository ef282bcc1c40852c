"""The active items of a bank that exists in memory only, indexed as `memory_index` indexes them.

A policy ranks by it exactly as by a view of a bank with these items: the same tokenizer over the same columns, and no
other document that BM25 could count. An item is taken in or dropped in the time that its own words take.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from rbank_es.projections.builder import in_memory
from rbank_es.projections.memory_index import FTS_COLUMNS, fts_ddl
from rbank_es.projections.projection import json_of
from rbank_es.state import ItemState

_COLUMNS = ", ".join(f'"{column}"' for column in FTS_COLUMNS)
_TABLE = """
CREATE TABLE active_items (
    text INTEGER PRIMARY KEY, item TEXT NOT NULL UNIQUE, domains TEXT NOT NULL, title TEXT NOT NULL,
    "desc" TEXT NOT NULL, content TEXT NOT NULL, tags TEXT NOT NULL, src TEXT NOT NULL, polarity TEXT NOT NULL,
    role TEXT, scope TEXT, domain TEXT
)
"""
_OUTCOMES = """
CREATE TEMP VIEW item_outcomes AS SELECT item, wins_of(item) AS wins, losses_of(item) AS losses FROM active_items
"""


class ActiveItems:
    """An `ItemIndex` of items that are given one by one. Close it after use; for one thread."""

    def __init__(self, outcomes: Callable[[str], tuple[int, int]]) -> None:
        """Begin without items; `outcomes` returns wins and losses of an item at the present."""
        self._connection: sqlite3.Connection = in_memory()
        # Looked up item by item, because few policies ask, and those about few items.
        self._connection.create_function("wins_of", 1, lambda item: outcomes(item)[0])
        self._connection.create_function("losses_of", 1, lambda item: outcomes(item)[1])
        # Without its text beside it: a deletion is given the words, as in the index of the read models.
        self._connection.execute(fts_ddl("items_fts", ""))
        self._connection.execute(_TABLE)
        self._connection.execute(_OUTCOMES)
        self._numbers = count(1)
        self._held: dict[str, tuple[int, ItemState]] = {}

    def close(self) -> None:
        """Drop the index."""
        self._connection.close()

    def update(self, entries: Iterable[tuple[str, ItemState | None]]) -> None:
        """Take items as they are now; one that isn't active, or None, is dropped."""
        self._connection.execute("BEGIN")
        for id, entry in entries:
            now = entry if entry is not None and entry.state == "active" else None
            held = self._held.get(id)
            if held is not None and now is not None and _facts(held[1]) == _facts(now):
                continue
            if held is not None:
                self._drop(*held)
                del self._held[id]
            if now is not None:
                self._held[id] = self._add(now)
        self._connection.execute("COMMIT")

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        return self._connection.execute(sql, parameters).fetchall()

    def _add(self, entry: ItemState) -> tuple[int, ItemState]:
        number, item = next(self._numbers), entry.item
        facts = (number, item.id, json_of(entry.domains), *_words(entry), item.src, item.polarity)
        self._connection.execute(
            f"INSERT INTO active_items VALUES ({', '.join('?' * 12)})", (*facts, item.role, item.scope, item.domain)
        )
        self._connection.execute(
            f"INSERT INTO items_fts (rowid, {_COLUMNS}) VALUES (?, ?, ?, ?, ?)", (number, *_words(entry))
        )
        return number, entry

    def _drop(self, number: int, entry: ItemState) -> None:
        self._connection.execute("DELETE FROM active_items WHERE text = ?", (number,))
        self._connection.execute(
            f"INSERT INTO items_fts (items_fts, rowid, {_COLUMNS}) VALUES ('delete', ?, ?, ?, ?, ?)",
            (number, *_words(entry)),
        )


def _words(entry: ItemState) -> tuple[str, str, str, str]:
    item = entry.item
    return item.title, item.desc, item.content, "\n".join(item.tags)


def _facts(entry: ItemState) -> tuple[object, ...]:
    return entry.item, entry.domains
