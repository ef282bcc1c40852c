"""The texts that are active at each position, with the facts that filters ask for.

A text is active while its words are those of an active item. Each change is a position, a text and a number: of its
facts from then on, or 0 where it is active no longer. Changes are in rows of `CHUNK_CHANGES`, in order. Before every
`SNAPSHOT_ROWS`th row, the numbers of all texts are kept as they were, so that the past is read as fast as the present.
"""

from __future__ import annotations

import sqlite3
import sys
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator

import msgspec

from rbank_es.policies.retrieval import ItemFacts
from rbank_es.projections.projection import json_of

CHUNK_CHANGES = 512
"""Changes of a row: 8 kB, which an append writes again."""
SNAPSHOT_ROWS = 16
"""Rows of changes from one snapshot to the next: to apply so many takes half a millisecond."""

ACTIVE_TEXT_TABLES = {
    # `facts`: a JSON list of source, polarity, role and domains.
    "fact_sets": (
        "CREATE TABLE fact_sets (number INTEGER PRIMARY KEY, facts TEXT NOT NULL UNIQUE, from_seq INTEGER NOT NULL)"
    ),
    "active_texts": (
        "CREATE TABLE active_texts (chunk INTEGER PRIMARY KEY, from_seq INTEGER NOT NULL, seqs BLOB NOT NULL, "
        "texts BLOB NOT NULL, facts BLOB NOT NULL)"
    ),
    "active_text_snapshots": "CREATE TABLE active_text_snapshots (chunk INTEGER PRIMARY KEY, facts BLOB NOT NULL)",
}
"""The tables by name, with the statements that create them."""

# The states of an item follow each other without a gap, so the one that ended was the one before. It is looked up by
# its beginning, which is in the key: by its end, all states of an item would be read for each of them.
_STATES = """
SELECT s.from_seq, p.text, CASE s.state WHEN 'active' THEN s.text END, p.domains, s.domains, c.src, c.polarity, c.role
FROM item_states s CROSS JOIN candidates c ON c.text = s.text
LEFT JOIN item_states p ON p.item = s.item AND p.from_seq = (
    SELECT max(q.from_seq) FROM item_states q WHERE q.item = s.item AND q.from_seq < s.from_seq
) AND p.to_seq = s.from_seq AND p.state = 'active'
WHERE s.from_seq > ? AND s.from_seq <= ? AND (s.state = 'active' OR p.text IS NOT NULL)
ORDER BY s.from_seq, s.item
"""
_LAST_SNAPSHOT = """
SELECT s.chunk, s.facts FROM active_text_snapshots s CROSS JOIN active_texts a ON a.chunk = s.chunk
WHERE s.chunk <= ? AND a.from_seq <= ? ORDER BY s.chunk DESC LIMIT 1
"""
_CHANGES = """
SELECT seqs, texts, facts FROM active_texts WHERE chunk >= ? AND chunk < ? AND from_seq <= ? ORDER BY chunk
"""
_NO_END = 2**62


def index_active_texts(connection: sqlite3.Connection, after: int, upto: int) -> None:
    """Take the changes of active items after a position up to another: see `Projection.indexers`."""
    last = connection.execute(
        "SELECT chunk, seqs, texts, facts FROM active_texts ORDER BY chunk DESC LIMIT 1"
    ).fetchone()
    chunk, columns = (0, [array(code) for code in "QII"]) if last is None else (last[0], _columns(last[1:]))
    known: dict[str, int] = {}
    for change in _changes(connection, after, upto, known):
        if len(columns[0]) == CHUNK_CHANGES:
            _write(connection, chunk, columns)
            chunk, columns = chunk + 1, [array(code) for code in "QII"]
            if chunk % SNAPSHOT_ROWS == 0:
                state = zlib.compress(facts_at(connection, _NO_END, chunk).tobytes(), 1)
                connection.execute("INSERT INTO active_text_snapshots VALUES (?, ?)", (chunk, state))
        for column, value in zip(columns, change, strict=True):
            column.append(value)
    if columns[0]:
        _write(connection, chunk, columns)


def facts_at(connection: sqlite3.Connection, seq: int, before: int = _NO_END) -> array[int]:
    """Return the number of its facts for each text, as of a position: 0 where it isn't active.

    Only of the changes in rows before the chunk `before`.
    """
    row = connection.execute(_LAST_SNAPSHOT, (before, seq)).fetchone()
    state, first = array("I"), 0
    if row is not None:
        first = row[0]
        state.frombytes(zlib.decompress(row[1]))
    for blobs in connection.execute(_CHANGES, (first, before, seq)).fetchall():
        seqs, texts, facts = _columns(blobs)
        if seqs[-1] > seq:
            end = bisect_right(seqs, seq)
            texts, facts = texts[:end], facts[:end]
        if (missing := max(texts) + 1 - len(state)) > 0:
            state.frombytes(bytes(state.itemsize * missing))
        for text, number in zip(texts, facts, strict=True):
            state[text] = number
    return state


def fact_sets(connection: sqlite3.Connection, seq: int) -> dict[int, ItemFacts]:
    """Return by number all facts that an active item had up to a position."""
    rows = connection.execute("SELECT number, facts FROM fact_sets WHERE from_seq <= ?", (seq,))
    return {number: msgspec.json.decode(facts, type=ItemFacts) for number, facts in rows}


def marked(facts: array[int], chosen: Container[int], most: int) -> bytes:
    """Return 1 for each text whose number of facts, `most` at the greatest, is among the chosen; else 0."""
    if most > 255:
        return bytes(map(chosen.__contains__, facts))
    # By the lowest byte of each number: 20 times as fast.
    lowest = facts.tobytes()[0 if sys.byteorder == "little" else facts.itemsize - 1 :: facts.itemsize]
    return lowest.translate(bytes(number in chosen for number in range(256)))


def _columns(blobs: Iterable[bytes]) -> list[array[int]]:
    columns = [array(code) for code in "QII"]
    for column, blob in zip(columns, blobs, strict=True):
        column.frombytes(blob)
    return columns


def _write(connection: sqlite3.Connection, chunk: int, columns: list[array[int]]) -> None:
    row = (chunk, columns[0][0], *(column.tobytes() for column in columns))
    connection.execute("INSERT OR REPLACE INTO active_texts VALUES (?, ?, ?, ?, ?)", row)


def _changes(
    connection: sqlite3.Connection, after: int, upto: int, known: dict[str, int]
) -> Iterator[tuple[int, int, int]]:
    """Yield position, text and number of facts of each change."""
    for seq, was, text, domains, of_now, *facts in connection.execute(_STATES, (after, upto)).fetchall():
        if was is not None and was != text:
            yield seq, was, 0
        # Most states that follow each other differ in support alone.
        if text is not None and (was != text or domains != of_now):
            yield seq, text, _number(connection, json_of((*facts, msgspec.Raw(of_now.encode()))), seq, known)


def _number(connection: sqlite3.Connection, facts: str, seq: int, known: dict[str, int]) -> int:
    number = known.get(facts)
    if number is None:
        rows = connection.execute("SELECT number FROM fact_sets WHERE facts = ?", (facts,)).fetchall()
        if not rows:
            # Numbers begin with 1: 0 is of a text that isn't active.
            sql = "INSERT INTO fact_sets (facts, from_seq) VALUES (?, ?) RETURNING number"
            rows = connection.execute(sql, (facts, seq)).fetchall()
        number = known[facts] = rows[0][0]
    return number
