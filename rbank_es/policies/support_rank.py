"""Retrieval policy support-1: the best hits of bm25-1, ranked again by how many lessons came to the same.

An item's score is BM25's, times 1 + `weight` times the natural logarithm of its support: the runs that taught it and
count. So an item that one run taught keeps its score, and a lesson that many runs taught outweighs one that was
taught once. Under `append` nearly all support is 1; it is for a policy that consolidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rbank_es import limits
from rbank_es.policies.bm25_1 import Bm25V1, Weight, ranked_again
from rbank_es.policies.retrieval import Filters, ItemIndex, RankedItem


class SupportRanking(Bm25V1, frozen=True, kw_only=True):
    """BM25, moved by the number of lessons that came to the same; ties are broken by item id."""

    name: ClassVar[str] = "support"

    weight: Annotated[
        Weight,
        Meta(
            description="How far support moves a hit: one of support 3 gains 1.1 times so many times its BM25 score. "
            "Default: 1, our own choice, tried with a simulated learner only (docs/studies/poisoned-bank.md)."
        ),
    ] = 1.0
    pool: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.SEARCH_HITS,
            description="Hits of BM25 that are ranked again, at least as many as are asked for. Default: 50, our own "
            "choice: a lesson further down has little to do with the query, however often it was learned.",
        ),
    ] = 50

    @property
    def weighs_outcomes(self) -> bool:
        """Yes: support moves a hit."""
        return True

    def rank(self, query: str, k: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        """Return at most `k` active items that pass the filters, best first."""
        hits = super().rank(query, max(k, self.pool), filters, index)
        return ranked_again(hits, k, index, "item, support", self._gains)

    def _gains(self, rows: Iterable[Sequence[Any]]) -> dict[str, float]:
        # A restored item may have no support.
        return {item: self.weight * log(max(1, support)) for item, support in rows}
