"""A retrieval policy as a plugin adds it, which weighs outcomes: the best hits of bm25-1, moved by their win rates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from rbank_es.policies import POLICIES, Bm25V1, Filters, ItemIndex, RankedItem
from rbank_es.policies.bm25_1 import ranked_again
from rbank_es.system.proportion import proven_share


class ProvenRanking(Bm25V1, frozen=True, kw_only=True):
    """BM25, moved by the win rate that an item has proven, among the `pool` best."""

    name: ClassVar[str] = "proven"

    weight: float = 0.5
    pool: int = 50

    @property
    def weighs_outcomes(self) -> bool:
        return True

    def rank(self, query: str, k: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        hits = super().rank(query, max(k, self.pool), filters, index)
        return ranked_again(hits, k, index, "item, wins, losses", self._gains)

    def _gains(self, rows: Iterable[Sequence[Any]]) -> dict[str, float]:
        return {item: self.weight * proven_share(wins, wins + losses) for item, wins, losses in rows}


PROVEN = {"name": "proven", "version": 1}
POLICIES.add("retrieval:proven-1", ProvenRanking)
