"""Retrieval policy bm25-1: SQLite's BM25 over title, desc, content and tags, the words of the query joined by OR.

OR, because by AND, as FTS5 joins words itself, few questions find anything (recall@10 of 0.0006 on a public dialogue
set, against 0.65).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.policies import words
from rbank_es.policies.retrieval_protocol import Filters, ItemIndex, RankedItem, RetrievalPolicy

Weight = Annotated[float, Meta(ge=0, le=limits.POLICY_WEIGHT)]

HEADROOM, HEADROOM_FILTERED = 16, 64
"""Hits that are fetched beyond `k`, because some tie or are dropped by filters; more are fetched if not enough. Each
makes a search a little slower."""

# FTS5's own weights, for which `index.best` has a quicker way.
_EQUAL = (1.0, 1.0, 1.0, 1.0)
_SCORE = "bm25(items_fts, ?, ?, ?, ?)"

# The best are picked before anything else is looked up; filters then apply to those few. Fast, but of hits that tie
# with the last one picked, some may be missing.
_PICK = f"""
SELECT c.item, f.score, {{condition}} AS wanted
FROM (SELECT rowid, {_SCORE} AS score FROM items_fts WHERE items_fts MATCH ? ORDER BY score LIMIT ?) f
CROSS JOIN active_items c ON c.text = f.rowid
"""
# Every match is looked up first, those that pass are scored, and ties are in order: always complete, and slower.
_SIFT = f"""
SELECT c.item, {_SCORE} AS score
FROM items_fts CROSS JOIN active_items c ON c.text = items_fts.rowid
WHERE items_fts MATCH ? AND {{condition}}
ORDER BY score, c.item LIMIT ?
"""


Gains = Callable[[Iterable[Sequence[Any]]], Mapping[str, float]]
"""Returns by item the share of its score that a hit gains, from rows of `item_outcomes`."""


def ranked_again(hits: Sequence[RankedItem], k: int, index: ItemIndex, columns: str, gains: Gains) -> list[RankedItem]:
    """Return the best `k` hits after each gained a share of its score, by the columns of its outcomes."""
    ids = json.dumps([hit.id for hit in hits])
    rows = index.rows(f"SELECT {columns} FROM item_outcomes WHERE item IN (SELECT value FROM json_each(?))", (ids,))
    gained = gains(rows)
    moved = [replace(hit, score=hit.score * (1 + gained.get(hit.id, 0.0))) for hit in hits]
    return sorted(moved, key=lambda hit: (-abs(hit.score), hit.id))[:k]


class Bm25V1(RetrievalPolicy, frozen=True, kw_only=True):
    """BM25 over the full-text index; ties are broken by item id."""

    name: ClassVar[str] = "bm25"

    weights: Annotated[
        tuple[Weight, Weight, Weight, Weight],
        Meta(description="Weights of title, desc, content and tags. Default: 1 each, SQLite's own."),
    ] = _EQUAL
    stop_words: Annotated[
        str,
        Meta(description="List of words that aren't searched for: english-1, english-2 or none. Default: english-1."),
    ] = "english-1"

    def __post_init__(self) -> None:
        words.stop_words(self.stop_words)

    @property
    def weighs_outcomes(self) -> bool:
        """No: words alone decide."""
        return False

    def words(self, query: str) -> tuple[str, ...]:
        """Return the distinct words of a query without stop words, or all of them if it has no others."""
        return words.query_words(query, self.stop_words)

    def rank(self, query: str, k: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        """Return at most `k` active items that pass the filters, best first."""
        searched = self.words(query)
        if not searched:
            return []
        quick = index.best(searched, k, filters) if self.weights == _EQUAL else None
        if quick is not None:
            return quick
        expression = words.any_of(searched)
        condition, values = filters.sql()
        limit = k + (HEADROOM if filters == Filters(ontology=filters.ontology) else HEADROOM_FILTERED)
        picked = index.rows(_PICK.format(condition=condition), (*values, *self.weights, expression, limit))
        picked.sort(key=lambda hit: (hit[1], hit[0]))
        # Of hits that tie with the last one picked, others may be missing: those are not complete, and are left out.
        complete = [hit for hit in picked if len(picked) < limit or hit[1] < picked[-1][1]]
        wanted = [RankedItem(id, score) for id, score, fits in complete if fits]
        if len(wanted) < k and len(picked) == limit:
            sifted = index.rows(_SIFT.format(condition=condition), (*self.weights, expression, *values, k))
            wanted = [RankedItem(*hit) for hit in sifted]
        return wanted[:k]
