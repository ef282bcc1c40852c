"""Retrieval policy bm25-3: bm25-2 over stems of eight languages and pairs of letters, forgiving of typos.

Against bm25-2: a word that no item has is read as the nearest that one has. Words are cut to stems by the language of
the text. Scripts without spaces are read by pairs of letters. Among the first hits, neighbouring words of the question
count that stand beside each other. Length counts less, and a word that no item has counts less against an item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import fsum
from typing import Annotated, ClassVar, Literal, Self, get_args

from msgspec import Meta, Struct
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import BadPolicy
from rbank_es.events.items import Polarity
from rbank_es.policies.bm25_1 import Weight, ranked_again
from rbank_es.policies.bm25_2 import Bm25V2
from rbank_es.policies.retrieval_protocol import Filters, ItemIndex, RankedItem, WordShare
from rbank_es.policies.stem_relevance import (
    AskedQuestion,
    AskedWord,
    Pair,
    QuestionOrder,
    QuestionWeights,
    query_spellings,
    shape_share,
    unknown_letters,
)
from rbank_es.policies.word_relevance import WordHit, WordRanking
from rbank_es.text.spelled_words import fold

COVERAGES = {"balanced": 0.4, "cautious": 0.5}
"""The least coverage by name (docs/retrieval.md)."""


class Bm25V3(Bm25V2, frozen=True, kw_only=True):
    """BM25 over stems; scores are from 0 up, and ties are broken by item id."""

    version: ClassVar[int] = 3

    stop_words: Annotated[
        str,
        Meta(
            description="Lists of words that count less: languages-1, those of the query's language of eight; or none. "
            "Default: languages-1."
        ),
    ] = "languages-1"
    b: Annotated[
        float,
        Meta(ge=0, le=1, description="How much a long item loses: BM25's b. Default: 0.4 (docs/retrieval.md)."),
    ] = 0.4
    typo: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Weight of a word of the query that no item has, read as the nearest one that an item has: one "
            "edit away from five letters on, two from eight; 0 reads none so. Default: 0.9 (docs/retrieval.md).",
        ),
    ] = 0.9
    pairs: Annotated[
        Weight,
        Meta(
            description="Gain of a hit for each pair of neighbouring words of the query that stand beside each other "
            "in it, times the idf of the rarer word. Default: 0.125 (docs/retrieval.md)."
        ),
    ] = 0.125
    shape: Annotated[
        Weight,
        Meta(
            description="Gain of a hit whose title is of the query's shape, so that a question finds those that are "
            "asked in the same way: this times the idf of the stop words that both have, times the square of the share "
            "that both have of the neighbours among their stop words, where other words are blanks. Default: 0.75 "
            "(docs/retrieval.md)."
        ),
    ] = 0.75
    pool: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.SEARCH_HITS,
            description="Hits that pairs, shape and support move: the first so many by words. Default: 50, because "
            "each makes a search slower (docs/retrieval.md).",
        ),
    ] = 50
    coverage: Annotated[  # pyright: ignore[reportIncompatibleVariableOverride]
        Annotated[float, Meta(ge=0, le=1)] | Literal["balanced", "cautious"],
        Meta(
            description="The least share of the query's idf (times the weights of its words) that an item's words must "
            "cover; less is withheld, so that an unrelated question is given nothing. balanced is 0.4; cautious, 0.5, "
            "gives less and errs less. Default: balanced (docs/retrieval.md). 0 turns it off."
        ),
    ] = "balanced"  # type: ignore[assignment]
    unknown: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Weight in coverage of a word in the query that no item has, if it is no stop word. "
            "Default: 0.8 (docs/retrieval.md).",
        ),
    ] = 0.8
    unknown_names: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="As unknown, of a name or number: a lesson seldom names the things that a question is about. A "
            "name has a capital where no sentence begins. Default: 0.56 (docs/retrieval.md).",
        ),
    ] = 0.56

    def __post_init__(self) -> None:
        if self.stop_words not in ("languages-1", "none"):
            raise BadPolicy(f"there is no list of stop words {self.stop_words!r}; there are: languages-1, none")

    @property
    def least_coverage(self) -> float:
        """The least coverage as a number."""
        return COVERAGES[self.coverage] if isinstance(self.coverage, str) else self.coverage

    @property
    def reading(self) -> QuestionWeights:
        """The weights by which a question is read."""
        light = 1.0 if self.stop_words == "none" else self.stop_weight
        return QuestionWeights(light=light, typo=self.typo, formula=self.formula)

    def words(self, query: str) -> tuple[str, ...]:
        """Return the distinct words of a query, as they are written."""
        return tuple(dict.fromkeys(query_spellings(query)))

    def rank(self, query: str, k: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        """Return at most `k` active items that pass the filters, best first. Raises `BadPolicy` without the stemmer."""
        question = index.question(query, self.reading)
        # As many as are asked for with a floor, whose two polarities ask for each other's best.
        reach = max(k, 1 + limits.WITHHELD_HITS)
        # Support may change while items don't.
        kept = {} if self.support else index.kept(question)
        key = (self, reach, filters)
        if key not in kept:
            kept[key] = self._ranking(question, reach, filters, index)
        return kept[key][:k]

    def _ranking(self, question: AskedQuestion, reach: int, filters: Filters, index: ItemIndex) -> list[RankedItem]:
        ranking = index.by_stems(question, self.formula, max(reach, self.pool), filters)
        exact = max(reach, self.pool) if self.support else reach
        first, rest = ranking.hits[: self.pool], ranking.hits[self.pool :]
        if self.pairs or self.shape:
            first = tuple(self._moved(first, question, ranking, exact, index))
        shares = self._shares_of(question, ranking)
        hits = [
            RankedItem(hit.id, hit.score, tuple(shares[at] for at in hit.matched)) for hit in (*first, *rest)[:exact]
        ]
        if self.support:
            return [
                *ranked_again(hits[: self.pool], self.pool, index, "item, support", self._gains),
                *hits[self.pool :],
            ]
        return hits

    def best_score(self, query: str, filters: Filters, index: ItemIndex) -> float | None:
        """Return the best score of either polarity, each ranked by itself: a question is asked for both anyway."""
        rankings = (self._in_order(query, 1, 0, replace(filters, polarity=each), index) for each in get_args(Polarity))
        firsts = [next(ranking, None) for ranking in rankings]
        return max((abs(first[0].score) for first in firsts if first is not None), default=None)

    def _moved(
        self, hits: Sequence[WordHit], question: AskedQuestion, ranking: WordRanking, reach: int, index: ItemIndex
    ) -> list[WordHit]:
        """Return hits in order of their scores with what the order of words gains them; the first `reach` are exact."""
        gains = _OrderGains.of(question, ranking, self.pairs, self.shape)
        most, possible = gains.most, cache(gains.possible)

        def moved(some: Sequence[WordHit], least: float) -> list[WordHit]:
            may = {hit.id: (hit.score, possible(hit.matched)) for hit in some if hit.score + most >= least}
            risen = {id: each for id, (score, each) in may.items() if each.most and score + each.most >= least}
            orders = index.word_orders(question, {id: [*each.pairs] for id, each in risen.items()})
            gained = {id: risen[id].gain(order) for id, order in orders.items()}
            return [replace(hit, score=hit.score + gained[hit.id]) if hit.id in gained else hit for hit in some]

        first = moved(hits[:reach], 0.0)
        # Scores only rise, so those don't fall below the least of these; what can't reach it needs no reading.
        rest = moved(hits[reach:], min((hit.score for hit in first), default=0.0))
        return sorted((*first, *rest), key=lambda hit: (-hit.score, hit.id))

    def _shares_of(self, question: AskedQuestion, ranking: WordRanking) -> list[WordShare]:
        """Return the share of each word in the whole question's idf; of one read as another, what that one covers."""
        unknown, letters = self.formula.rarity(ranking.documents, 0), unknown_letters(question)
        masses, whole = list[float](), list[float]()
        for asked, idf in zip(question.words, ranking.idf, strict=True):
            counts = asked.weight
            if asked.stem is None:
                counts *= self._unknown_weight(asked, question) * letters.get(asked.word, 1.0)
            masses.append(counts * self._rarity(unknown if asked.stem is None else idf, ranking.documents))
            whole.append(masses[-1] / self.typo if asked.meant else masses[-1])
        total = fsum(whole) or 1.0
        return [
            WordShare(asked.word, mass / total, asked.meant) for asked, mass in zip(question.words, masses, strict=True)
        ]

    def _unknown_weight(self, asked: AskedWord, question: AskedQuestion) -> float:
        return 0.0 if asked.light else self.unknown_names if asked.word in question.names else self.unknown


class _PossibleGain(Struct, frozen=True):
    """What a hit may gain by the order of its words: by pairs of neighbours, and by stop words where its title has the
    question's shape, of which it has at most a share; the most in all.
    """

    pairs: Mapping[Pair, float]
    light: Mapping[str, float]
    share: float
    most: float

    def gain(self, order: QuestionOrder) -> float:
        """Return the gain by the order of words in the text."""
        pairs = map(self.pairs.__getitem__, order.pairs)
        share = min(order.shape, self.share)
        if not share:  # most: a shape is rarely shared
            return fsum(pairs)
        return fsum((*pairs, *(share * share * self.light[word] for word in order.light if word in self.light)))


class _OrderGains(Struct, frozen=True):
    """The gains for a question: of pairs of neighbours, with their places, and of stop words, with their place."""

    question: AskedQuestion
    pairs: Sequence[tuple[Pair, int, int, float]]
    light: Sequence[tuple[str, int, float]]

    @classmethod
    def of(cls, question: AskedQuestion, ranking: WordRanking, pairs: float, shape: float) -> Self:
        """Return the gains for a question by the weights of `pairs` and `shape`."""
        idf, words = ranking.idf, question.words
        places = {asked.word: place for place, asked in enumerate(words)}
        at = [(pair, places[pair[0]], places[pair[1]]) for pair in question.pairs if places.keys() >= {*pair}]
        # Two stop words are for the shape.
        told = [(pair, a, b) for pair, a, b in at if pairs and not (words[a].light and words[b].light)]
        light = [(fold(asked.word), place) for place, asked in enumerate(words) if asked.light and shape]
        return cls(
            question,
            [(pair, a, b, pairs * max(idf[a], idf[b])) for pair, a, b in told],
            [(word, place, shape * idf[place]) for word, place in light],
        )

    @property
    def most(self) -> float:
        """The most that any hit may gain."""
        return fsum((*(gain for *_, gain in self.pairs), *(gain for *_, gain in self.light)))

    def possible(self, matched: tuple[int, ...]) -> _PossibleGain:
        """Return what a hit may gain by the words that it has."""
        has = frozenset(matched)
        pairs = {pair: gain for pair, a, b, gain in self.pairs if a in has and b in has}
        light = {word: gain for word, place, gain in self.light if place in has}
        share = shape_share(self.question, light)
        return _PossibleGain(pairs, light, share, fsum(pairs.values()) + share * share * fsum(light.values()))
