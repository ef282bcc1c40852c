"""The selection of a search by postings, by numpy: in the place of plain Python where texts are many.

A term that is taken touches the texts that have it, not all texts of the bank: what `k` texts reach is known from
those whose sums were among the highest before, and those whose sums it raised. What a text can gain by the terms that
were not taken is known from which of them it has, before any code of their counts is looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rbank_es.policies.word_relevance import Formula
from rbank_es.projections.posting_search import FEW, SLACK, RankedTexts, WeightedTerm


def selected_by_numpy(terms: Sequence[WeightedTerm], formula: Formula, texts: RankedTexts, k: int) -> list[int]:
    """Return a set of texts that has the best `k`, and all that tie with them."""
    return _Selection(terms, formula, texts, k).run()


class _Selection:
    """One search. `_rest` is what the terms not taken yet can add to a sum, `_least` a sum that `k` texts reach."""

    def __init__(self, terms: Sequence[WeightedTerm], formula: Formula, texts: RankedTexts, k: int) -> None:
        import numpy

        self._numpy, self._k, self._most = numpy, k, formula.k1 + 1.0
        self._frequencies = numpy.asarray(texts.frequencies)
        self._norms = _norms(formula, texts)
        self._wanted = numpy.frombuffer(texts.wanted, bool)
        self._sums = numpy.zeros(len(texts.lengths))
        self._order = sorted(terms, key=lambda term: -term.weight)
        self._rest = self._most * sum(term.weight for term in terms)
        self._slack = self._rest * SLACK
        self._least, self._best = 0.0, numpy.zeros(0, numpy.uint32)

    def run(self) -> list[int]:
        """Return the texts."""
        taken = 0
        while taken < len(self._order) and self._least <= self._rest + self._slack:
            self._take(self._order[taken])
            taken += 1
        bound = self._least - self._rest - self._slack
        chosen = self._numpy.flatnonzero((self._sums > 0) & (self._sums >= bound))
        chosen = chosen[self._wanted[chosen]]
        return self._sifted(chosen, self._sums[chosen], self._order[taken:])

    def _take(self, term: WeightedTerm) -> None:
        """Add to the sums what a term gains each text."""
        numbers, codes = term.postings.arrays
        sums = self._sums[numbers] + self._gains(term, numbers, codes)
        self._sums[numbers] = sums
        self._rest -= term.weight * self._most
        high = numbers[sums > self._least]
        high = high[self._wanted[high]]
        best = self._numpy.concatenate((self._best[~term.postings.has(self._best)], high))
        sums = self._sums[best]
        self._raise_least(sums)
        # Fewer than `k`: of those that only reach it, no number of others raises it.
        self._best = self._numpy.sort(best[sums > self._least])

    def _gains(self, term: WeightedTerm, numbers: Any, codes: Any) -> Any:
        found = self._frequencies[codes]
        return term.weight * self._most * found / (found + self._norms[numbers])

    def _raise_least(self, sums: Any) -> None:
        place = len(sums) - self._k
        if place >= 0:
            self._least = max(self._least, float(self._numpy.partition(sums, place)[place]))

    def _sifted(self, chosen: Any, sums: Any, others: Sequence[WeightedTerm]) -> list[int]:
        """Return those of the chosen texts that may be among the best: by what they can gain by the other terms."""
        gains = [term.weight * self._most for term in others]
        having: list[Any] = []
        # At first by which terms they have: that takes no codes.
        highest, rest = sums, sum(gains)
        for term, gain in zip(others, gains, strict=True):
            has, rest = term.postings.has(chosen), rest - gain
            highest = highest + gain * has
            kept = highest + rest >= self._least - self._slack
            chosen, sums, highest, *having = (each[kept] for each in (chosen, sums, highest, *having, has))
        for term, gain in zip(others, gains, strict=True):
            if len(chosen) <= FEW:
                break
            has, *having = having
            some = chosen[has]
            added = self._gains(term, some, term.postings.codes_of(some))
            sums[has] += added
            highest[has] += added - gain
            self._raise_least(sums[sums > self._least])
            kept = highest >= self._least - self._slack
            chosen, sums, highest, *having = (each[kept] for each in (chosen, sums, highest, *having))
        return [int(text) for text in chosen]


def _norms(formula: Formula, texts: RankedTexts) -> Any:
    """Return what the length of each text adds to a frequency, as `Formula.saturated` has it."""
    import numpy

    if formula not in texts.norms:
        each = formula.k1 * formula.b / texts.average
        norms = formula.k1 * (1.0 - formula.b) + each * numpy.asarray(texts.lengths)
        # A frequency of 0, from a column that weighs nothing, gains nothing, also where k1 is 0.
        texts.norms[formula] = numpy.maximum(norms, 1e-300)
    return texts.norms[formula]
