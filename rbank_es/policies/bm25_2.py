"""Retrieval policy bm25-2: BM25 by columns, with Lucene's idf, light stop words and the parts of compound names.

Against bm25-1: stop words count a little, so that a question of few other words finds something ("which classes are
there?"). The parts of `towerHeight` are searched for, and found, beside the whole. A word counts more in a title than
in a content. No idf is below 0 or cut off, so a score tells how much of the query an item covers, also in a small bank.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum, log
from typing import Annotated, Any, ClassVar, Self

from msgspec import Meta
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.events import Floor
from rbank_es.policies import words
from rbank_es.policies.bm25_1 import Weight, ranked_again
from rbank_es.policies.retrieval_protocol import Filters, ItemIndex, RankedItem, RetrievalPolicy, WordShare
from rbank_es.policies.word_relevance import Formula, QueryWord, WordRanking
from rbank_es.policies.words import compound_parts


class Bm25V2(RetrievalPolicy, frozen=True, kw_only=True):
    """BM25 over words and parts of names; scores are from 0 up, and ties are broken by item id."""

    name: ClassVar[str] = "bm25"
    version: ClassVar[int] = 2

    weights: Annotated[
        tuple[Weight, Weight, Weight, Weight],
        Meta(description="Weights of title, desc, content and tags. Default: 2, 1.5, 1 and 1 (docs/retrieval.md)."),
    ] = (2.0, 1.5, 1.0, 1.0)
    parts: Annotated[
        Weight,
        Meta(
            description="Weight of a part of a compound name (the tower of towerHeight), in items and in queries; 0 "
            "leaves parts out. Default: 0.5 (docs/retrieval.md)."
        ),
    ] = 0.5
    stop_words: Annotated[
        str, Meta(description="List of words that count less: english-1, english-2 or none. Default: english-1.")
    ] = "english-1"
    stop_weight: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Weight of a stop word of a query; other words weigh 1. Default: 0.3 (docs/retrieval.md).",
        ),
    ] = 0.3
    k1: Annotated[
        Weight, Meta(description="How much a word gains by repetition: BM25's k1. Default: 1.2, as of Lucene.")
    ] = 1.2
    b: Annotated[
        float, Meta(ge=0, le=1, description="How much a long item loses: BM25's b. Default: 0.75, as of Lucene.")
    ] = 0.75
    support: Annotated[
        Weight,
        Meta(
            description="How far support moves a hit: its score is multiplied by 1 + this, times ln of the runs that "
            "taught the same and count. Default: 0, until experiments with models judge it. With a simulated "
            "learner, 1 gained 1 to 3 points where judges pass failures, and lost 2 where they don't "
            "(docs/studies/poisoned-bank.md)."
        ),
    ] = 0.0
    pool: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.SEARCH_HITS,
            description="Hits that support moves, at least as many as are asked for. Default: 50, our own choice: a "
            "lesson further down has little to do with the query, however often it was learned.",
        ),
    ] = 50

    coverage: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="The least share of the query's idf (times the weights of its words) that an item's words "
            "must cover; less is withheld, so that an unrelated question is given nothing. A word that no item has "
            "counts most; a stop word that none has doesn't count. Default: 0.45 (docs/retrieval.md). 0 turns it off.",
        ),
    ] = 0.45
    share_of_best: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="The least score of a strategy or guardrail that is given unasked, as a share of that of the "
            "best match among both: to a question that one polarity answers, the other often has nothing to say. "
            "Default: 0.75 (docs/retrieval.md). 0 turns it off.",
        ),
    ] = 0.75
    unknown_names: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Weight in coverage of a name or number in the query that no item has: a lesson seldom names "
            "the things that a question is about. A name has a capital where no sentence begins. Default: 0.7 "
            "(docs/retrieval.md).",
        ),
    ] = 0.7
    strangers: Annotated[
        int,
        Meta(
            ge=0,
            le=limits.SEARCH_HITS,
            description="Items without any word of the query that are taken to stand beside the bank's own when "
            "coverage is weighed. Of few items each word is in most, so a word that none has would outweigh all others "
            "together. Default: 20; in banks of 2 to 6 items half as many questions again are given a lesson that "
            "helps (docs/retrieval.md).",
        ),
    ] = 20

    def __post_init__(self) -> None:
        words.stop_words(self.stop_words)

    @property
    def weighs_outcomes(self) -> bool:
        """Whether support moves a hit."""
        return self.support > 0

    @property
    def least_coverage(self) -> float:
        """The least coverage as a number."""
        return self.coverage

    @property
    def formula(self) -> Formula:
        """The numbers of BM25 that the settings give."""
        return Formula(idf="lucene", k1=self.k1, b=self.b, columns=self.weights, parts=self.parts)

    def words(self, query: str) -> tuple[str, ...]:
        """Return the distinct words of a query, stop words and parts of compound names among them."""
        return tuple(word for word, _ in self.query_words(query))

    def query_words(self, query: str) -> tuple[QueryWord, ...]:
        """Return the words that a query searches for, with weights: its own words in order, then parts of names.

        Of more than `limits.QUERY_WORDS`, other words come before stop words.
        """
        text, light = query[: limits.QUERY_CHARS], words.stop_words(self.stop_words)
        weights = {word: self.stop_weight if word in light else 1.0 for word in words.words_of(text)}
        for part in words.words_of(" ".join(compound_parts(text))):
            weights.setdefault(part, self.parts)
        found = [QueryWord(word, weight) for word, weight in weights.items() if weight > 0]
        if len(found) > limits.QUERY_WORDS:
            found = [each for each in found if each.word not in light] + [each for each in found if each.word in light]
        return tuple(found[: limits.QUERY_WORDS])

    def rank(self, query: str, k: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        """Return at most `k` active items that pass the filters, best first."""
        return self._by_words(query, k, max(k, self.pool), filters, index)

    def _by_words(self, query: str, k: int, pool: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        """Return the best `k` items by words; support moves the first `pool`."""
        searched = self.query_words(query)
        if not searched:
            return []
        ranking = index.by_words(searched, self.formula, max(k, pool) if self.support else k, filters)
        shares = self._shares(query, searched, ranking)
        hits = [RankedItem(hit.id, hit.score, tuple(shares[at] for at in hit.matched)) for hit in ranking.hits]
        if self.support:
            hits = [*ranked_again(hits[:pool], pool, index, "item, support", self._gains), *hits[pool:]]
        return hits[:k]

    def _shares(self, query: str, searched: Sequence[QueryWord], ranking: WordRanking) -> list[WordShare]:
        """Return the share of each query word in the whole query's idf, by the weights of its words."""
        light, unknown = words.stop_words(self.stop_words), self.formula.rarity(ranking.documents, 0)
        names = words.names_of(query[: limits.QUERY_CHARS]) if unknown in ranking.idf else ()
        masses = []
        for (word, weight), idf in zip(searched, ranking.idf, strict=True):
            if idf == unknown:
                weight *= 0.0 if word in light else self.unknown_names if word in names else 1.0
            masses.append(weight * self._rarity(idf, ranking.documents))
        whole = fsum(masses) or 1.0
        return [WordShare(each.word, mass / whole) for each, mass in zip(searched, masses, strict=True)]

    def _rarity(self, idf: float, documents: int) -> float:
        """Return the idf that a word would have with the strangers among the items."""
        # From Lucene's idf: ln((documents + 1) / (having + 0.5)). A word whose stem an earlier one has counts there.
        return idf and idf + log((documents + self.strangers + 1) / (documents + 1))

    def without_floor(self) -> Self:
        """Return the policy that ranks as this one does and withholds nothing."""
        return replace(self, floor=0.0, coverage=0.0, share_of_best=0.0)

    def floor_for(self, query: str, filters: Filters, index: ItemIndex) -> Floor | None:
        """Return the figures that an item must reach to be given for a query."""
        best = self.best_score(query, filters, index) if self.share_of_best and filters.unasked else None
        share = None if best is None else self.share_of_best
        floor = Floor(score=self.floor or None, best=best, share_of_best=share, coverage=self.least_coverage or None)
        return None if floor == Floor() else floor

    def _gains(self, rows: Iterable[Sequence[Any]]) -> dict[str, float]:
        # A restored item may have no support.
        return {item: self.support * log(max(1, support)) for item, support in rows}
