"""The projection `vector_index`: the vectors that models gave texts, by the digest of the text.

A vector is used for whatever has the same words at the position that is asked about. So it follows an item through an
end and a return, a fork and an absorption. It is lost with the item's words: nothing has the digest of erased ones.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rbank_es.events import WordsEmbedded
from rbank_es.events.vector_text import embedded_text, read_vector, text_digest
from rbank_es.projections.projection import Projection, Put, Table

if TYPE_CHECKING:
    from rbank_es.policies import Filters
    from rbank_es.policies.vector_relevance import VectorRanking

VECTORS = Table(
    name="word_vectors",
    columns="model TEXT NOT NULL, purpose TEXT NOT NULL, digest TEXT NOT NULL, vector TEXT NOT NULL",
    key=("model", "purpose", "digest", "from_seq"),
    current=3,
    bulky=True,
)

_OF_QUERY = """
SELECT vector FROM main.word_vectors WHERE model = ? AND purpose = 'query' AND digest = ?
AND from_seq <= ? AND (to_seq IS NULL OR to_seq > ?)
"""
_OF_ITEMS = """
SELECT digest, vector FROM main.word_vectors WHERE model = ? AND purpose = 'item'
AND from_seq <= ? AND (to_seq IS NULL OR to_seq > ?)
"""
_WORDS = 'SELECT c.item, c.title, c."desc", c.content, c.tags FROM active_items c WHERE {condition}'


def vectors_of(event: WordsEmbedded) -> Iterator[tuple[str, bytes]]:
    """Yield digest and rounded vector of each text; a vector that was erased, or is none, is left out."""

    from rbank_es.policies.vector_relevance import rounded  # on use: with it come all policies

    for text in event.vectors:
        try:
            digest, numbers = read_vector(text if isinstance(text, str) else "")
        except ValueError:
            continue
        yield digest, rounded(numbers)


def record_vectors(event: WordsEmbedded) -> list[Put]:
    """Record the vectors of an event in place of earlier ones of the same texts."""

    from rbank_es.policies.vector_relevance import stored

    # By digest, because a row can't begin and end at one position: of two vectors of one text, the last counts.
    made = {digest: stored(vector) for digest, vector in vectors_of(event)}
    return [
        Put(VECTORS.name, (event.model, event.purpose, digest, vector, event.seq)) for digest, vector in made.items()
    ]


VECTOR_INDEX = Projection(
    name="vector_index",
    version=1,
    title="The vectors that models gave items' words and queries",
    handlers={WordsEmbedded: record_vectors},
    resolves=frozenset({"words_embedded"}),
    tables=(VECTORS,),
)


class HeldVectors:
    """Vectors in memory, taken from events one by one."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], dict[str, bytes]] = {}

    def take(self, event: WordsEmbedded) -> None:
        """Take the vectors of an event, in place of earlier ones of the same texts."""
        self._held.setdefault((event.model, event.purpose), {}).update(vectors_of(event))

    def ranked(self, connection: sqlite3.Connection, query: str, model: str, filters: Filters) -> VectorRanking | None:
        """Return how near the items of `active_items` are to a query; None where it has no vector."""
        wanted = self._held.get((model, "query"), {}).get(text_digest(query))
        known = self._held.get((model, "item"), {})
        return None if wanted is None else _ranked(connection, wanted, known.get, filters)


def ranked_by_vector(
    connection: sqlite3.Connection, position: int, query: str, model: str, filters: Filters
) -> VectorRanking | None:
    """Return how near the items active at a position are to a query; None where it has no vector there."""

    from rbank_es.policies.vector_relevance import loaded

    row = connection.execute(_OF_QUERY, (model, text_digest(query), position, position)).fetchone()
    if row is None:
        return None
    known = dict(connection.execute(_OF_ITEMS, (model, position, position)))

    def find(digest: str) -> bytes | None:
        text = known.get(digest)
        return None if text is None else loaded(text)

    return _ranked(connection, loaded(row[0]), find, filters)


def _ranked(
    connection: sqlite3.Connection, query: bytes, find: Callable[[str], bytes | None], filters: Filters
) -> VectorRanking:

    from rbank_es.policies.vector_relevance import compared

    condition, values = filters.sql()
    rows = connection.execute(_WORDS.format(condition=condition), values)
    items = [
        (item, find(text_digest(embedded_text(title, desc, content, tags=tags))))
        for item, title, desc, content, tags in rows
    ]
    return compared(query, items)
