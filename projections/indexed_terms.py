"""Which terms of texts a file has postings of: those that a retrieval policy reads which is, or was, in force.

To index terms takes a fifth of a rebuild, and a bank whose policy never changed searches by words or by stems, not by
both. Once such a policy is in force, all texts are indexed, and so they are in every rebuild behind that position. A
search by another policy, as a comparison asks for, makes the postings in temporary tables of its view.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Final

from rbank_es.projections.projection import json_of
from rbank_es.projections.search_tables import POSTING_TABLES, Terms, fill_words
from rbank_es.projections.stem_tables import STEM_TABLES, fill_stems

POLICIES_WITHOUT: Final[Mapping[Terms, tuple[str, ...]]] = {
    "word": ("bm25-3",),
    "stem": ("bm25-1", "bm25-2", "hybrid-1"),
}
"""The retrieval policies that never read terms. Any other may."""

# Before the first choice bm25-1 is in force, which matters where there is a text to search.
_IS_READ = """
WITH chosen (label, seq) AS (
    SELECT name || '-' || version, from_seq FROM policy_choices WHERE kind = 'retrieval'
), first (seq) AS (SELECT from_seq FROM candidates ORDER BY text LIMIT 1), ranking (label) AS (
    SELECT label FROM chosen
    UNION SELECT 'bm25-1' FROM first WHERE NOT EXISTS (SELECT 1 FROM chosen WHERE chosen.seq < first.seq)
)
SELECT EXISTS (SELECT 1 FROM ranking WHERE label NOT IN (SELECT value FROM json_each(?)))
"""


def index_words(connection: sqlite3.Connection, after: int, upto: int) -> None:
    """Take the words of new candidates into the postings, where a policy reads them: see `Projection.indexers`."""
    if _is_read(connection, "word"):
        fill_words(connection)


def index_stems(connection: sqlite3.Connection, after: int, upto: int) -> None:
    """Take the stems of new candidates into the tables, where a policy reads them: see `Projection.indexers`."""
    if _is_read(connection, "stem"):
        fill_stems(connection)


def provide_words(connection: sqlite3.Connection) -> None:
    """Make the postings of words in temporary tables, if the file has none."""
    _provide(connection, "word", POSTING_TABLES, fill_words)


def provide_stems(connection: sqlite3.Connection) -> None:
    """Make the tables of stems as temporary ones, if the file has none."""
    _provide(connection, "stem", {**POSTING_TABLES, **STEM_TABLES}, fill_stems)


def _is_read(connection: sqlite3.Connection, of: Terms) -> bool:
    return bool(connection.execute(_IS_READ, (json_of(POLICIES_WITHOUT[of]),)).fetchone()[0])


def _provide(
    connection: sqlite3.Connection, of: Terms, tables: Mapping[str, str], fill: Callable[[sqlite3.Connection], None]
) -> None:
    if not connection.execute(f"SELECT EXISTS (SELECT 1 FROM {of}_lengths)").fetchone()[0]:
        for name, ddl in tables.items():
            if name.startswith(of) or name not in POSTING_TABLES:
                connection.execute(ddl.replace("CREATE TABLE", "CREATE TEMP TABLE", 1))
        fill(connection)
