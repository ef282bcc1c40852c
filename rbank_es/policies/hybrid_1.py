"""Retrieval policy hybrid-1: bm25-2, and the cosine of vectors that a model gave query and items, fused.

Vectors are recorded as events, so that ranking asks nobody: live, as of a position and replayed it is the same. Where
the query has no recorded vector, bm25-2 ranks alone. An item without one counts as if its vector said the same as its
words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.events import Floor
from rbank_es.events.items import Name
from rbank_es.events.run_events import Shortfall
from rbank_es.policies.bm25_1 import Weight
from rbank_es.policies.bm25_2 import Bm25V2
from rbank_es.policies.retrieval_protocol import Filters, ItemIndex, RankedItem
from rbank_es.policies.vector_relevance import VectorRanking, nearest


class HybridV1(Bm25V2, frozen=True, kw_only=True):
    """Words and vectors, fused by rank or by score; ties are broken by item id."""

    name: ClassVar[str] = "hybrid"
    version: ClassVar[int] = 1

    model: Annotated[
        Name,
        Meta(
            description="Name of the model whose vectors count, as `retrieval embed` records it. Default: none, which "
            "ranks as bm25-2 does: which model is the choice of whoever pays for it."
        ),
    ] = ""
    fusion: Annotated[
        Literal["rank", "score"],
        Meta(
            description="rank adds 1 / (rank_constant + rank) of both rankings; score adds the shares of the best "
            "score and of the best cosine. Default: rank, reciprocal rank fusion, which needs no common scale "
            "(Cormack, Clarke and Büttcher, SIGIR 2009)."
        ),
    ] = "rank"
    rank_constant: Annotated[
        Weight,
        Meta(description="How little the first ranks outweigh the next in fusion by rank. Default: 60, as there."),
    ] = 60.0
    vector_weight: Annotated[
        Weight, Meta(description="Weight of vectors where words weigh 1. Default: 1, as there: both weigh the same.")
    ] = 1.0
    cosine: Annotated[
        float,
        Meta(
            ge=-1,
            le=1,
            description="The least cosine by which an item is found that no word finds. Default: 1, so that vectors "
            "move hits and add none, because no number suits every model: unrelated texts have 0.1 by one and 0.7 by "
            "another. Retrieval compare shows what a value of one's own does.",
        ),
    ] = 1.0

    def rank(self, query: str, k: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        """Return at most `k` active items that pass the filters, best first."""
        near = index.by_vector(query, self.model, filters)
        if near is None:
            return super().rank(query, k, filters, index)
        if not (filters.unasked and filters.polarity and self.share_of_best):
            return self._fused(query, near, filters, index)[:k]
        # Fused scores of two rankings don't compare, so the floor needs both polarities in one.
        every = replace(filters, polarity=None)
        both = self._fused(query, index.by_vector(query, self.model, every) or near, every, index)
        condition, values = filters.sql()
        found = json.dumps([item.id for item in both])
        sql = f"SELECT c.item FROM active_items c WHERE c.item IN (SELECT value FROM json_each(?)) AND {condition}"
        wanted = {id for (id,) in index.rows(sql, (found, *values))}
        return [item for item in both if item.id in wanted][:k]

    def _fused(self, query: str, near: VectorRanking, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        worded = self._by_words(query, limits.SEARCH_HITS, self.pool, filters, index)
        by_words = {item.id: item.score for item in worded}
        by_vector = dict(nearest(near.cosines, limits.SEARCH_HITS))
        found = by_words.keys() | {id for id, cosine in by_vector.items() if cosine >= self.cosine}
        says, hints = self._parts(by_words), self._parts(by_vector)
        fused: dict[str, float] = {}
        for id in found:
            said = says.get(id, 0.0)
            # Without a vector, an item must not fall behind those that have one.
            hinted = hints.get(id, 0.0) if id in near.cosines else said
            fused[id] = said + self.vector_weight * hinted
        # Without shares, the floor of words lets an item pass that its vector found.
        shares = {item.id: item.shares for item in worded if near.cosines.get(item.id, -1.0) < self.cosine}
        return [RankedItem(id, fused[id], shares.get(id)) for id in sorted(found, key=lambda id: (-fused[id], id))]

    def shortfall(self, item: RankedItem, floor: Floor) -> Shortfall | None:
        """Return the figure of an item that is below the floor; one that its vector found is only held to a score."""
        # A fused score is at most half of the best where no word finds the item.
        return super().shortfall(item, floor if item.shares is not None else replace(floor, share_of_best=None))

    def fallback_for(self, query: str, index: ItemIndex) -> str | None:
        """Return `no-query-vector` where bm25-2 ranks alone, `items-without-vector` where it ranks some items."""
        near = index.by_vector(query, self.model, Filters())
        if near is None:
            return "no-query-vector"
        return "items-without-vector" if len(near.cosines) < near.items else None

    def _parts(self, ranked: Mapping[str, float]) -> dict[str, float]:
        """Return the part of each item's fused score that a ranking adds; the items are in order, best first."""
        if self.fusion == "rank":
            return {id: 1 / (self.rank_constant + rank) for rank, id in enumerate(ranked, 1)}
        best = max(ranked.values(), default=0.0)
        return {id: max(score, 0.0) / best if best > 0 else 0.0 for id, score in ranked.items()}
