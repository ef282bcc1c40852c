"""The kernel of a search by words: of many texts with any of its terms, those that may be among the best.

Most terms of a question are in most texts, and weigh little. So terms are taken in order of weight, until what the
others can add no longer lifts a text that has none of those taken above the best (Turtle and Flood: Query evaluation:
strategies and optimizations, 1995). These sums only select. The selected texts are then scored by the definition, in
the order of the query, so numpy and plain Python find the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import nlargest
from typing import Any, NamedTuple

from rbank_es.policies.word_relevance import Formula
from rbank_es.projections.postings import Postings, numpy_for

_SLACK = 1e-9
"""By more than sums of this size differ in another order of addition, as a share."""
_LOOK = 4
"""A sum is looked at before terms that more than one in so many of the texts with a sum have: looking takes as long as
adding to so many."""
_FEW = 32
"""Texts that are scored rather than sifted by another term: to score takes a term's time for each term of the query."""


class WeightedTerm(NamedTuple):
    """A term of a query, in its order: its weight times its idf, and the texts that have it."""

    weight: float
    postings: Postings


class RankedTexts(NamedTuple):
    """What a search ranks: the length of each text by number, and their average; the weighted frequency of each code.

    `wanted` has 1 for an active text that passes the filters. `norms` keeps what numpy computes of the lengths.
    """

    lengths: array[int]
    average: float
    frequencies: array[float]
    wanted: bytes
    norms: dict[Formula, Any]


def best_texts(terms: Sequence[WeightedTerm], formula: Formula, texts: RankedTexts, k: int) -> list[tuple[int, float]]:
    """Return the best `k` wanted texts that score above 0, and those that tie with the last, with their scores."""
    some = [term for term in terms if term.weight > 0 and term.postings.having]
    if not some or k < 1:
        return []
    numpy = numpy_for(sum(len(term.postings) for term in some))
    select = _selected if numpy is None else _selected_by_numpy
    found = [(text, _score(some, formula, texts, text)) for text in select(some, formula, texts, k)]
    least = nlargest(k, (score for _, score in found))[-1:]
    return [(text, score) for text, score in found if score > 0 and score >= least[0]]


def _score(terms: Sequence[WeightedTerm], formula: Formula, texts: RankedTexts, text: int) -> float:
    """Return the score of a text by the definition."""
    score, length = 0.0, texts.lengths[text]
    for weight, postings in terms:
        code = postings.code(text)
        if code is not None and (frequency := texts.frequencies[code]) > 0:
            score += weight * formula.saturated(frequency, length, texts.average)
    return score


def _selected(terms: Sequence[WeightedTerm], formula: Formula, texts: RankedTexts, k: int) -> list[int]:
    """Return a set of texts that has the best `k`, and all that tie with them."""
    lengths, frequencies, wanted = texts.lengths, texts.frequencies, texts.wanted
    most, base, each = formula.k1 + 1.0, formula.k1 * (1.0 - formula.b), formula.k1 * formula.b / texts.average
    order = sorted(terms, key=lambda term: -term.weight)
    rest = most * sum(term.weight for term in order)
    slack = rest * _SLACK
    sums: dict[int, float] = {}
    taken = 0
    for weight, postings in order:
        if k <= len(sums) < _LOOK * len(postings) and rest + slack < nlargest(k, sums.values())[-1]:
            break
        gain = weight * most
        for text, code in postings.pairs():
            if wanted[text] and (frequency := frequencies[code]) > 0:
                added = gain * frequency / (frequency + base + each * lengths[text])
                sums[text] = sums[text] + added if text in sums else added
        rest -= gain
        taken += 1
    return _sifted(sums, order[taken:], formula, texts, k)


def _sifted(
    sums: dict[int, float], others: Sequence[WeightedTerm], formula: Formula, texts: RankedTexts, k: int
) -> list[int]:
    """Return the texts that may be among the best: by their sums, and what the other terms can add."""
    most = formula.k1 + 1.0
    rest = most * sum(term.weight for term in others)
    slack = (rest + max(sums.values(), default=0.0)) * _SLACK
    left = iter(others)
    while True:
        least = nlargest(k, sums.values())[-1] if len(sums) >= k else 0.0
        sums = {text: known for text, known in sums.items() if known + rest + slack >= least}
        term = next(left, None) if len(sums) > _FEW else None
        if term is None:
            return list(sums)
        for text in sums:
            code = term.postings.code(text)
            if code is not None and (frequency := texts.frequencies[code]) > 0:
                sums[text] += term.weight * formula.saturated(frequency, texts.lengths[text], texts.average)
        rest -= term.weight * most


def _selected_by_numpy(terms: Sequence[WeightedTerm], formula: Formula, texts: RankedTexts, k: int) -> list[int]:
    """Return a set as `_selected` does, by numpy."""
    import numpy

    most, frequencies, norms = formula.k1 + 1.0, numpy.asarray(texts.frequencies), _norms(formula, texts)

    def gains(weight: float, some: Any, codes: Any) -> Any:
        found = frequencies[codes]
        return weight * most * found / (found + norms[some])

    sums = numpy.where(numpy.frombuffer(texts.wanted, bool), 0.0, -numpy.inf)
    order = sorted(terms, key=lambda term: -term.weight)
    rest = most * sum(term.weight for term in order)
    slack = rest * _SLACK
    whole, least, taken, reached = rest, 0.0, 0, 0
    for weight, postings in order:
        # No sum is above what the terms taken can add.
        if k <= reached < _LOOK * len(postings) and whole - rest > rest:
            least = _least(numpy, sums, k, least)
            if least > rest + slack:
                break
        numbers, codes = postings.arrays
        sums[numbers] += gains(weight, numbers, codes)
        taken, reached, rest = taken + 1, reached + len(numbers), rest - weight * most
    # Those with a sum, but for the ones that all other terms together don't lift among the best.
    chosen = numpy.flatnonzero((sums > 0) & (sums >= least - rest - slack))
    sums, left = sums[chosen], iter(order[taken:])
    while True:
        least = _least(numpy, sums, k, least)
        kept = sums >= least - rest - slack
        chosen, sums = chosen[kept], sums[kept]
        term = next(left, None) if len(chosen) > _FEW else None
        if term is None:
            return [int(text) for text in chosen]
        has, codes = term.postings.among(chosen)
        sums[has] += gains(term.weight, chosen[has], codes)
        rest -= term.weight * most


def _norms(formula: Formula, texts: RankedTexts) -> Any:
    """Return what the length of each text adds to a frequency, as `Formula.saturated` has it."""
    import numpy

    if formula not in texts.norms:
        each = formula.k1 * formula.b / texts.average
        norms = formula.k1 * (1.0 - formula.b) + each * numpy.asarray(texts.lengths)
        # A frequency of 0, from a column that weighs nothing, gains nothing, also where k1 is 0.
        texts.norms[formula] = numpy.maximum(norms, 1e-300)
    return texts.norms[formula]


def _least(numpy: Any, sums: Any, k: int, known: float) -> float:
    """Return the `k`th largest of sums that only grew since it was `known`; 0 if there are fewer."""
    some = sums[sums > known]
    # Those that were as large as the known one may still be; and of equal numbers, to find the kth takes very long.
    return float(numpy.partition(some, len(some) - k)[len(some) - k]) if len(some) >= k else known
