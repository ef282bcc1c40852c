"""BM25 over documents that come and go, in memory: the best few are found without scoring all that match.

The formula is that of SQLite's FTS5 with equal weights of all columns, in its order of operations. FTS5 counts the
documents of every word and scores every match anew for each query; here both are kept, and a document that can't be
among the best any more isn't scored further (MaxScore: Turtle and Flood 1995).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import nlargest
from math import log
from typing import NamedTuple

# Constants of FTS5's bm25().
_K1, _B = 1.2, 0.75
_LEAST_IDF = 1e-6
# By more than sums of this many floats differ in another order of addition.
_SLACK = 1e-9

_FEW = 4
"""So many times the documents that are wanted are scored as soon as no others are left."""


_LENGTH_BITS = 40
_Occurrence = int
"""How often a document has a token, above `_LENGTH_BITS` bits, and how many tokens it has in all, in these."""


class _Weights(dict[_Occurrence, float]):
    """What an occurrence weighs beside the token's rarity, by the average length of the documents; made as needed."""

    def __init__(self, average: float) -> None:
        super().__init__()
        self._average = average

    def __missing__(self, occurrence: _Occurrence) -> float:
        times, length = divmod(occurrence, 1 << _LENGTH_BITS)
        norm = _K1 * (1 - _B + _B * length / self._average)
        weight = self[occurrence] = (times * (_K1 + 1.0)) / (times + norm)
        return weight


class _Term(NamedTuple):
    holding: Mapping[int, _Occurrence]
    idf: float
    bound: float


class WordScores:
    """Documents as bags of tokens, by number."""

    def __init__(self) -> None:
        """Begin without documents."""
        self._holding: dict[str, dict[int, _Occurrence]] = {}
        self._documents: dict[int, Mapping[str, int]] = {}
        self._lengths: dict[int, int] = {}
        self._occurrences: dict[_Occurrence, _Occurrence] = {}
        self._having_length = Counter[int]()
        self._most = Counter[str]()
        self._tokens = 0

    def add(self, number: int, tokens: Mapping[str, int]) -> None:
        """Take in a document: how often it has each token."""
        self._documents[number] = tokens
        length = self._lengths[number] = sum(tokens.values())
        for token, times in tokens.items():
            # The same object for the same number: a search reads so many that the caches of a processor matter.
            occurrence = times << _LENGTH_BITS | length
            occurrence = self._occurrences.setdefault(occurrence, occurrence)
            self._holding.setdefault(token, {})[number] = occurrence
            # Never lowered: a bound may be too high.
            if times > self._most[token]:
                self._most[token] = times
        self._having_length[length] += 1
        self._tokens += length

    def drop(self, number: int) -> None:
        """Drop a document."""
        for token in self._documents.pop(number):
            del self._holding[token][number]
        length = self._lengths.pop(number)
        self._having_length[length] -= 1
        if not self._having_length[length]:
            del self._having_length[length]
        self._tokens -= length

    def best(self, tokens: Sequence[str], count: int) -> list[tuple[int, float]]:
        """Return at least the `count` best documents with any of the tokens, or all, with their scores, best first.

        As of FTS5, a score is below 0, and a token that is named twice weighs twice. Those that tie are in any order.
        """
        weights = _Weights(self._tokens / len(self._documents) if self._documents else 1.0)
        terms = [term for token in tokens if (term := self._term(token, weights)) is not None]
        left = self._candidates(sorted(terms, key=lambda term: len(term.holding)), weights, count)
        scored = [(number, -_score(terms, number, weights)) for number in left]
        return sorted(scored, key=lambda each: each[1])

    def _term(self, token: str, weights: _Weights) -> _Term | None:
        holding = self._holding.get(token)
        if not holding:
            return None
        idf = log((len(self._documents) - len(holding) + 0.5) / (len(holding) + 0.5))
        idf = _LEAST_IDF if idf <= 0 else idf
        most = self._most[token] << _LENGTH_BITS | min(self._having_length)
        return _Term(holding, idf, idf * weights[most])

    def _candidates(self, terms: Sequence[_Term], weights: _Weights, count: int) -> list[int]:
        """Return the documents that may be among the best, from terms of few documents to those of many."""
        sums: dict[int, float] = {}
        least, rest, done = -1.0, sum(term.bound for term in terms), 0
        for term in terms:
            if least > rest + _SLACK:
                break  # One that has none of the terms so far isn't among the best.
            idf, get = term.idf, sums.get
            for number, occurrence in term.holding.items():
                sums[number] = get(number, 0.0) + idf * weights[occurrence]
            rest -= term.bound
            done += 1
            # Before, no score is likely to be above the rest.
            if 2 * max(sums.values()) > rest:
                least = max(least, _least(terms, sums, weights, count))
        for term in terms[done:]:
            sums = {number: score for number, score in sums.items() if score >= least - rest - _SLACK}
            if len(sums) <= _FEW * count:
                return [*sums]
            idf, holding = term.idf, term.holding
            for number in holding.keys() & sums.keys():
                sums[number] += idf * weights[holding[number]]
            rest -= term.bound
            least = max(least, _least(terms, sums, weights, count))
        return [number for number, score in sums.items() if score >= least - _SLACK]


def _least(terms: Sequence[_Term], sums: Mapping[int, float], weights: _Weights, count: int) -> float:
    """Return a score that so many documents reach: the least whole one of the best so far."""
    if len(sums) < count:
        return -1.0
    best = nlargest(count, sums, key=sums.__getitem__)
    return min(_score(terms, number, weights) for number in best)


def _score(terms: Sequence[_Term], number: int, weights: _Weights) -> float:
    """Return the whole score of a document, added up in the order of the query."""
    score = 0.0
    for term in terms:
        occurrence = term.holding.get(number)
        if occurrence is not None:
            score += term.idf * weights[occurrence]
    return score
