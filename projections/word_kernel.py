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

SLACK = 1e-9
"""By more than sums of this size differ in another order of addition, as a share."""
_LOOK = 4
"""A sum is looked at before terms that more than one in so many of the texts with a sum have: looking takes as long as
adding to so many."""
FEW = 32
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
    if numpy_for(sum(len(term.postings) for term in some)) is None:
        selected = _selected(some, formula, texts, k)
    else:
        from rbank_es.projections.word_arrays import selected_by_numpy  # on use: most processes don't load numpy

        selected = selected_by_numpy(some, formula, texts, k)
    found = [(text, _score(some, formula, texts, text)) for text in selected]
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
    slack = rest * SLACK
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
    slack = (rest + max(sums.values(), default=0.0)) * SLACK
    left = iter(others)
    while True:
        least = nlargest(k, sums.values())[-1] if len(sums) >= k else 0.0
        sums = {text: known for text, known in sums.items() if known + rest + slack >= least}
        term = next(left, None) if len(sums) > FEW else None
        if term is None:
            return list(sums)
        for text in sums:
            code = term.postings.code(text)
            if code is not None and (frequency := texts.frequencies[code]) > 0:
                sums[text] += term.weight * formula.saturated(frequency, texts.lengths[text], texts.average)
        rest -= term.weight * most
