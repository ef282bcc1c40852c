"""Retrieval policy utility-1: the best hits of bm25-1, ranked again by what their uses have proven.

An item's score is BM25's, times 1 + `weight` times the lower end of the Wilson interval of its wins among its decided
uses. So an untried item keeps its score, and one win moves an item by a fifth of the weight. It rises further as runs
that used it keep succeeding. It is a correlation: an item given to easy tasks rises too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rbank_es import limits
from rbank_es.policies.bm25_1 import Bm25V1, Weight, ranked_again
from rbank_es.policies.retrieval import Filters, ItemIndex, RankedItem
from rbank_es.system.proportion import proven_share


class UtilityRanking(Bm25V1, frozen=True, kw_only=True):
    """BM25, moved by the win rate that an item has proven; ties are broken by item id."""

    name: ClassVar[str] = "utility"

    weight: Annotated[
        Weight,
        Meta(
            description="How far utility moves a hit: an item that always wins gains so many times its BM25 score. "
            "Default: 0.5, our own choice: relevance decides first."
        ),
    ] = 0.5
    pool: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.SEARCH_HITS,
            description="Hits of BM25 that are ranked again, at least as many as are asked for. Default: 50, our own "
            "choice: a proven item further down has little to do with the query.",
        ),
    ] = 50

    @property
    def weighs_outcomes(self) -> bool:
        """Yes: wins and losses move a hit."""
        return True

    def rank(self, query: str, k: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        """Return at most `k` active items that pass the filters, best first."""
        hits = super().rank(query, max(k, self.pool), filters, index)
        return ranked_again(hits, k, index, "item, wins, losses", self._gains)

    def _gains(self, rows: Iterable[Sequence[Any]]) -> dict[str, float]:
        return {item: self.weight * proven_share(wins, wins + losses) for item, wins, losses in rows}
