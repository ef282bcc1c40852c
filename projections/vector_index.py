"""The projection `vector_index`: the vectors that models gave texts, by the digest of the text.

A vector is used for whatever has the same words at the position that is asked about. So it follows an item through an
end and a return, a fork and an absorption. It is lost with the item's words: nothing has the digest of erased ones.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

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
_KNOWN = """
SELECT purpose, digest FROM main.word_vectors WHERE model = ? AND from_seq <= ? AND (to_seq IS NULL OR to_seq > ?)
"""
_LAST = "SELECT vector FROM main.word_vectors WHERE model = ? AND from_seq <= ? ORDER BY from_seq DESC LIMIT 1"
_WORDS = 'SELECT item, title, "desc", content, tags FROM active_items ORDER BY item'
_WANTED = "SELECT c.item FROM active_items c WHERE {condition}"


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


Cosines = Mapping[str, float | None]
"""The cosine of a query with each active item by id; None for an item without a usable vector."""


class HeldVectors:
    """Vectors in memory, taken from events one by one."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], dict[str, bytes]] = {}

    def take(self, event: WordsEmbedded) -> None:
        """Take the vectors of an event, in place of earlier ones of the same texts."""
        self._held.setdefault((event.model, event.purpose), {}).update(vectors_of(event))

    def cosines(self, connection: sqlite3.Connection, query: str, model: str) -> Cosines | None:
        """Return the cosines of a query with `active_items`; None where it has no vector."""
        wanted = self._held.get((model, "query"), {}).get(text_digest(query))
        known = self._held.get((model, "item"), {})
        return None if wanted is None else _compared(connection, wanted, known.items())


def cosines_at(connection: sqlite3.Connection, position: int, query: str, model: str) -> Cosines | None:
    """Return the cosines of a query with the items active at a position; None where it has no vector there."""
    from rbank_es.policies.vector_relevance import loaded

    row = connection.execute(_OF_QUERY, (model, text_digest(query), position, position)).fetchone()
    if row is None:
        return None
    known = connection.execute(_OF_ITEMS, (model, position, position))
    return _compared(connection, loaded(row[0]), ((digest, loaded(vector)) for digest, vector in known))


def _compared(connection: sqlite3.Connection, query: bytes, vectors: Iterable[tuple[str, bytes]]) -> Cosines:
    from rbank_es.policies.vector_relevance import compared

    digests = {
        item: text_digest(embedded_text(title, desc, content, tags=tags))
        for item, title, desc, content, tags in connection.execute(_WORDS)
    }
    wanted = frozenset(digests.values())
    found = compared(query, ((digest, vector) for digest, vector in vectors if digest in wanted), len(wanted))
    return {item: found.get(digest) for item, digest in digests.items()}


def selected(connection: sqlite3.Connection, cosines: Cosines | None, filters: Filters) -> VectorRanking | None:
    """Return the cosines of the items that pass filters; None for None."""
    from rbank_es.policies.vector_relevance import VectorRanking

    if cosines is None:
        return None
    condition, values = filters.sql()
    rows = connection.execute(_WANTED.format(condition=condition), values)
    found = {item: cosines[item] for (item,) in rows}
    return VectorRanking({item: cosine for item, cosine in found.items() if cosine is not None}, len(found))


class KnownVectors(Struct, frozen=True):
    """Digests of the texts that have a vector of a model at a position, and the size of the last one."""

    items: frozenset[str]
    queries: frozenset[str]
    dimensions: int | None


def known_vectors(connection: sqlite3.Connection, position: int, model: str) -> KnownVectors:
    """Return the digests of the texts with a vector of a model at a position."""
    rows = connection.execute(_KNOWN, (model, position, position)).fetchall()
    of_purpose = {name: frozenset(row[1] for row in rows if row[0] == name) for name in ("item", "query")}
    from rbank_es.policies.vector_relevance import dimensions

    last = connection.execute(_LAST, (model, position)).fetchone()
    return KnownVectors(of_purpose["item"], of_purpose["query"], None if last is None else dimensions(last[0]))


def unembedded(connection: sqlite3.Connection, position: int, model: str) -> list[tuple[str, str]]:
    """Return the active items whose words have no vector of a model: their ids and texts, by id."""
    known = known_vectors(connection, position, model)
    rows = connection.execute(_WORDS)
    texts = ((item, embedded_text(title, desc, content, tags=tags)) for item, title, desc, content, tags in rows)
    return [(item, text) for item, text in texts if text and text_digest(text) not in known.items]
