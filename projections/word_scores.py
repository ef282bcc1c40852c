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


class _Term(NamedTuple):
    holding: Mapping[int, int]
    idf: float
    bound: float


class WordScores:
    """Documents as bags of tokens, by number."""

    def __init__(self) -> None:
        """Begin without documents."""
        self._holding: dict[str, dict[int, int]] = {}
        self._documents: dict[int, Mapping[str, int]] = {}
        self._lengths: dict[int, int] = {}
        self._having_length = Counter[int]()
        self._most = Counter[str]()
        self._tokens = 0

    def add(self, number: int, tokens: Mapping[str, int]) -> None:
        """Take in a document: how often it has each token."""
        self._documents[number] = tokens
        for token, times in tokens.items():
            self._holding.setdefault(token, {})[number] = times
            # Never lowered: a bound may be too high.
            if times > self._most[token]:
                self._most[token] = times
        length = self._lengths[number] = sum(tokens.values())
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
        norms = self._norms()
        terms = [term for token in tokens if (term := self._term(token, norms)) is not None]
        left = self._candidates(sorted(terms, key=lambda term: len(term.holding)), norms, count)
        scored = [(number, -self._score(terms, number, norms)) for number in left]
        return sorted(scored, key=lambda each: each[1])

    def _norms(self) -> dict[int, float]:
        """Return by the length of a document what BM25 adds to the number of times that it has a token."""
        average = self._tokens / len(self._documents) if self._documents else 1.0
        return {length: _K1 * (1 - _B + _B * length / average) for length in self._having_length}

    def _term(self, token: str, norms: Mapping[int, float]) -> _Term | None:
        holding = self._holding.get(token)
        if not holding:
            return None
        idf = log((len(self._documents) - len(holding) + 0.5) / (len(holding) + 0.5))
        idf = _LEAST_IDF if idf <= 0 else idf
        most = self._most[token]
        return _Term(holding, idf, idf * (most * (_K1 + 1) / (most + norms[min(norms)])))

    def _score(self, terms: Sequence[_Term], number: int, norms: Mapping[int, float]) -> float:
        score, norm = 0.0, norms[self._lengths[number]]
        for term in terms:
            times = term.holding.get(number, 0)
            score += term.idf * ((times * (_K1 + 1.0)) / (times + norm))
        return score

    def _candidates(self, terms: Sequence[_Term], norms: Mapping[int, float], count: int) -> list[int]:
        """Return the documents that may be among the best, from terms of few documents to those of many."""
        sums: dict[int, float] = {}
        lengths, least, rest, done = self._lengths, -1.0, sum(term.bound for term in terms), 0
        for term in terms:
            if least > rest + _SLACK:
                break  # One that has none of the terms so far isn't among the best.
            share, get = term.idf * (_K1 + 1), sums.get
            for number, times in term.holding.items():
                sums[number] = get(number, 0.0) + share * times / (times + norms[lengths[number]])
            rest -= term.bound
            done += 1
            # Before, no score is likely to be above the rest.
            if 2 * max(sums.values()) > rest:
                least = max(least, self._least(terms, sums, norms, count))
        for term in terms[done:]:
            sums = {number: score for number, score in sums.items() if score >= least - rest - _SLACK}
            if len(sums) <= _FEW * count:
                return [*sums]
            share, holding = term.idf * (_K1 + 1), term.holding
            for number in holding.keys() & sums.keys():
                times = holding[number]
                sums[number] += share * times / (times + norms[lengths[number]])
            rest -= term.bound
            least = max(least, self._least(terms, sums, norms, count))
        return [number for number, score in sums.items() if score >= least - _SLACK]

    def _least(
        self, terms: Sequence[_Term], sums: Mapping[int, float], norms: Mapping[int, float], count: int
    ) -> float:
        """Return a score that so many documents reach: the least whole one of the best so far."""
        if len(sums) < count:
            return -1.0
        best = nlargest(count, sums, key=sums.__getitem__)
        return min(self._score(terms, number, norms) for number in best)
