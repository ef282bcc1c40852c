"""A search by postings: for each term the texts that have it; of all these texts, those that may be among the best.

The postings of one term are in memory as they are in the file. Texts of a term that many have are marked in a set, a
bit for each text: to count those that are active, and to look one up, takes no list of all.

Most terms of a question are in most texts, and weigh little. So terms are taken in order of weight, until what the
others can add no longer lifts a text that has none of those taken above the best (Turtle and Flood: Query evaluation:
strategies and optimizations, 1995). These sums only select: in plain Python, or where texts are many by numpy. The
selected texts are then scored by the definition, in the order of the query, so both find the same.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence, Set
from functools import cached_property
from heapq import nlargest
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from rbank_es import limits
from rbank_es.policies.bit_slices import numbers_in
from rbank_es.policies.word_relevance import Formula

COUNTED_BYTES = 512
"""Bytes of a set whose bits are counted once: to find a text's place, those of one such part are counted again."""
_GATHERED = 8
"""Marks are counted by numpy from so many times fewer texts on than those from which a search is made by it."""
_SLACK = 1e-9
"""By more than sums of this size differ in another order of addition, as a share."""
_LOOK = 4
"""A sum is looked at before terms that more than one in so many of the texts with a sum have: looking takes as long as
adding to so many."""
_CODES_LISTED = 8
"""The codes of a term are listed where at least one in so many of its texts is asked for: a code that is looked up
alone takes ten times as long as one that is listed."""
FEW = 32
"""Texts that are scored rather than sifted by another term: to score takes a term's time for each term of the query."""


class _Walked:
    """The postings that this process walked in plain Python."""

    number = 0


def _numpy_for(postings: int) -> Any:
    """Return numpy where it is quicker for so many postings; else None."""
    if postings < limits.NUMPY_POSTINGS:
        return None
    if "numpy" not in sys.modules:
        _Walked.number += postings
        if _Walked.number < limits.PYTHON_POSTINGS:
            return None
    try:
        import numpy
    except ImportError:  # it is in no core dependency
        return None
    return numpy


class Postings:
    """The texts that have a term: those marked in a set, and those listed in order. `having` of them are active.

    `codes` are those of all, in order of the texts.
    """

    def __init__(self, marks: bytes, listed: array[int], codes: array[int], having: int) -> None:
        # With a byte more, where texts behind the set are looked up.
        self._marks, self._listed, self._codes, self.having = marks and marks + b"\0", listed, codes, having

    def __len__(self) -> int:
        return len(self._codes)

    def select(self, texts: Set[int]) -> Set[int]:
        """Return which of some texts have the term."""
        marks, bits = self._marks, len(self._marks) << 3
        found = {text for text in texts if text < bits and marks[text >> 3] >> (text & 7) & 1} if marks else set[int]()
        if len(self._listed) <= _CODES_LISTED * len(texts):
            return found | (texts & set(self._listed))
        listed = self._listed
        between = (text for text in texts if listed[0] <= text <= listed[-1])
        return found | {text for text in between if listed[bisect_left(listed, text)] == text}

    def code(self, text: int) -> int | None:
        """Return the code of a text; None if it doesn't have the term."""
        place, byte = bisect_left(self._listed, text), text >> 3
        found = place < len(self._listed) and self._listed[place] == text
        if self._marks:
            byte = min(byte, len(self._marks) - 1)
            if not found and not self._marks[byte] >> (text & 7) & 1:
                return None
            return self._codes[place + self._marked_before(byte, text & 7)]
        return self._codes[place] if found else None

    def code_of(self, texts: int) -> Callable[[int], int | None]:
        """Return `code`, or the same from a list of all codes, whichever is quicker for so many texts."""
        return dict(self.pairs()).get if texts * _CODES_LISTED >= len(self) else self.code

    def pairs(self) -> zip[tuple[int, int]]:
        """Return each text with its code, in order."""
        return zip(self._texts(), self._codes, strict=True)

    def _texts(self) -> Sequence[int]:
        if not self._marks:
            return self._listed
        marked = numbers_in(int.from_bytes(self._marks, "little"))
        return sorted((*marked, *self._listed)) if self._listed else [*marked]

    def _marked_before(self, byte: int, bit: int) -> int:
        part = byte // COUNTED_BYTES
        bits = int.from_bytes(self._marks[part * COUNTED_BYTES : byte + 1], "little")
        return self._counts[part] + (bits & (1 << (byte % COUNTED_BYTES * 8 + bit)) - 1).bit_count()

    @cached_property
    def _counts(self) -> list[int]:
        """The number of texts that are marked before each part of the set."""
        parts = (self._marks[first : first + COUNTED_BYTES] for first in range(0, len(self._marks), COUNTED_BYTES))
        return [0, *accumulate(int.from_bytes(part, "little").bit_count() for part in parts)]

    # ---------------------------------------------------------------- by numpy

    @cached_property
    def arrays(self) -> tuple[Any, Any]:
        """The texts and the codes, in order, as numpy's arrays."""
        import numpy

        texts = numpy.asarray(self._listed)
        if self._marks:
            bits = numpy.unpackbits(numpy.frombuffer(self._marks, numpy.uint8), bitorder="little")
            # Of truth values, because of numbers it takes ten times as long.
            marked = numpy.flatnonzero(bits.view(bool)).astype(numpy.uint32)
            follows = not len(texts) or texts[0] > marked[-1]
            texts = numpy.concatenate((marked, texts))
            texts = texts if follows else numpy.sort(texts, kind="stable")
        return texts, numpy.asarray(self._codes)

    def has(self, texts: Any) -> Any:
        """Return for each text of an array, in order, whether it has the term."""
        import numpy

        found = numpy.zeros(len(texts), bool)
        if self._marks:
            marks = numpy.frombuffer(self._marks, numpy.uint8)
            found = (marks.take(texts >> 3, mode="clip") >> (texts & 7).astype(numpy.uint8) & 1).view(bool)
        if self._listed:
            listed = numpy.asarray(self._listed)
            # Those of a common term are of the last block.
            first = int(texts.searchsorted(listed[0]))
            places = listed.searchsorted(texts[first:].astype(listed.dtype))
            found[first:] |= listed.take(places, mode="clip") == texts[first:]
        return found

    def codes_of(self, texts: Any) -> Any:
        """Return the codes of an array of texts, in order, that have the term."""
        having, codes = self.arrays
        return codes[having.searchsorted(texts.astype(having.dtype))]


def marked_among(texts: array[int], marks: bytes) -> int:
    """Return how many of the texts have a mark of 1."""
    if "numpy" in sys.modules and (numpy := _numpy_for(len(texts) * _GATHERED)) is not None:
        return int(numpy.count_nonzero(numpy.frombuffer(marks, bool)[numpy.asarray(texts)]))
    # Twice as fast as by `map`. It takes two at least, and there is no text 0.
    return sum(itemgetter(0, 0, *texts)(marks))


# ---------------------------------------------------------------- the best texts


class WeightedTerm(NamedTuple):
    """A term of a query, in its order: its weight times its idf, and the texts that have it."""

    weight: float
    postings: Postings


class RankedTexts(Struct, frozen=True):
    """The numbers behind a ranking: each text's length, their average, and the weighted frequency of each code.

    `active` has 1 for an active text. `norms` keeps what numpy computes of the lengths.
    """

    lengths: array[int]
    average: float
    frequencies: array[float]
    active: bytes
    norms: dict[Formula, Any]


class Selector(Protocol):
    """A walk of the terms of a query, in order of weight, which searches with other filters go on with."""

    def select(self, wanted: bytes, k: int) -> list[int]:
        """Return a set of wanted texts that has the best `k`, and all that tie with them."""
        ...


class PostingSearch:
    """The search of some terms among active texts, with one filter after the other.

    A question with a domain is searched with a filter for each nearness, and one that nobody asked also for the best of
    both polarities: the postings of a term are walked once for all of them.
    """

    def __init__(self, terms: Sequence[WeightedTerm], formula: Formula, texts: RankedTexts) -> None:
        """Walk no term yet."""
        self.terms, self.formula = terms, formula
        self._texts = texts
        self._selector: Selector | None = None
        self._scores = dict[int, float]()
        self._some = [term for term in terms if term.weight > 0 and term.postings.having]

    def best(self, wanted: bytes, k: int) -> list[tuple[int, float]]:
        """Return the best `k` wanted texts that score above 0, and those that tie with the last, with their scores.

        `wanted` has 1 for an active text that passes the filters.
        """
        # Without this, every term would be walked to find none.
        if not self._some or k < 1 or 1 not in wanted:
            return []
        if self._selector is None:
            by_numpy = _numpy_for(sum(len(term.postings) for term in self._some)) is not None
            self._selector = (_NumpySelector if by_numpy else _Selector)(self._some, self.formula, self._texts)
        selected = self._selector.select(wanted, k)
        self._score([text for text in selected if text not in self._scores])
        found = [(text, self._scores[text]) for text in selected]
        least = nlargest(k, (score for _, score in found))[-1:]
        return [(text, score) for text, score in found if score > 0 and score >= least[0]]

    def _score(self, texts: Sequence[int]) -> None:
        """Keep the scores of texts by the definition, term by term: those of one filter are among those of another."""
        norms = [self.formula.norm(self._texts.lengths[text], self._texts.average) for text in texts]
        by_numpy = isinstance(self._selector, _NumpySelector)
        scores = (_scores_by_numpy if by_numpy else _scores)(self._some, self.formula, self._texts, texts, norms)
        self._scores.update(zip(texts, scores, strict=True))


def _scores(
    terms: Sequence[WeightedTerm], formula: Formula, ranked: RankedTexts, texts: Sequence[int], norms: Sequence[float]
) -> Sequence[float]:
    frequencies, most, scores = ranked.frequencies, formula.k1 + 1.0, [0.0] * len(texts)
    for weight, postings in terms:
        for place, code in enumerate(map(postings.code_of(len(texts)), texts)):
            if code is not None and (frequency := frequencies[code]) > 0:
                # As `Formula.saturated`, whose call for each would take as long again.
                scores[place] += weight * ((frequency * most) / (frequency + norms[place]))
    return scores


def _scores_by_numpy(
    terms: Sequence[WeightedTerm], formula: Formula, ranked: RankedTexts, texts: Sequence[int], norms: Sequence[float]
) -> Sequence[float]:
    """Return the same numbers: each of these operations rounds as Python's does, in the same order."""
    import numpy

    order = numpy.argsort(numpy.asarray(texts, numpy.uint32))
    numbers = numpy.asarray(texts, numpy.uint32)[order]
    # A frequency of 0 gains nothing, also where the norm is 0.
    lengths, most = numpy.maximum(numpy.asarray(norms)[order], 1e-300), formula.k1 + 1.0
    frequencies, sums = numpy.asarray(ranked.frequencies), numpy.zeros(len(texts))
    for weight, postings in terms:
        has = postings.has(numbers)
        found = frequencies[postings.codes_of(numbers[has])]
        sums[has] += weight * ((found * most) / (found + lengths[has]))
    scores = numpy.empty(len(texts))
    scores[order] = sums
    listed: list[float] = scores.tolist()
    return listed


class _Selector:
    """A `Selector` in plain Python."""

    def __init__(self, terms: Sequence[WeightedTerm], formula: Formula, texts: RankedTexts) -> None:
        self._formula, self._texts = formula, texts
        self._order = sorted(terms, key=lambda term: -term.weight)
        self._rest = (formula.k1 + 1.0) * sum(term.weight for term in terms)
        self._slack = self._rest * _SLACK
        self._sums: dict[int, float] = {}
        self._taken = 0

    def select(self, wanted: bytes, k: int) -> list[int]:
        """Return a set of wanted texts that has the best `k`, and all that tie with them."""
        for term in self._order[self._taken :]:
            if k <= len(self._sums) < _LOOK * len(term.postings) and self._is_enough(wanted, k):
                break
            self._take(term)
        sums = {text: known for text, known in self._sums.items() if wanted[text]}
        return _sifted(sums, self._order[self._taken :], self._formula, self._texts, k)

    def _is_enough(self, wanted: bytes, k: int) -> bool:
        """Return whether no text without a sum can be among the best `k` wanted ones."""
        best = nlargest(k, (known for text, known in self._sums.items() if wanted[text]))
        return len(best) == k and self._rest + self._slack < best[-1]

    def _take(self, term: WeightedTerm) -> None:
        formula, sums = self._formula, self._sums
        lengths, frequencies, active = self._texts.lengths, self._texts.frequencies, self._texts.active
        base, each = formula.k1 * (1.0 - formula.b), formula.k1 * formula.b / self._texts.average
        gain = term.weight * (formula.k1 + 1.0)
        for text, code in term.postings.pairs():
            if active[text] and (frequency := frequencies[code]) > 0:
                added = gain * frequency / (frequency + base + each * lengths[text])
                sums[text] = sums[text] + added if text in sums else added
        self._rest -= gain
        self._taken += 1


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
        term = next(left, None) if len(sums) > FEW else None
        if term is None:
            return list(sums)
        code_of = term.postings.code_of(len(sums))
        for text in sums:
            code = code_of(text)
            if code is not None and (frequency := texts.frequencies[code]) > 0:
                sums[text] += term.weight * formula.saturated(frequency, texts.lengths[text], texts.average)
        rest -= term.weight * most


# ---------------------------------------------------------------- the best texts, by numpy


class _NumpySelector:
    """A `Selector` by numpy.

    A term that is taken touches the texts that have it, not all texts of the bank: what `k` texts reach is known from
    those whose sums were among the highest before, and those whose sums it raised. What a text can gain by the other
    terms follows from which of them it has, before any code of their counts is looked up.

    `_rest` is what the terms not taken yet can add to a sum. Of one selection, `_least` is a sum that `k` wanted texts
    reach, and `_best` are those above it.
    """

    def __init__(self, terms: Sequence[WeightedTerm], formula: Formula, texts: RankedTexts) -> None:
        import numpy

        self._numpy, self._most = numpy, formula.k1 + 1.0
        self._frequencies = numpy.asarray(texts.frequencies)
        self._norms = _norms(formula, texts)
        self._sums = numpy.zeros(len(texts.lengths))
        self._order = sorted(terms, key=lambda term: -term.weight)
        self._rest = self._most * sum(term.weight for term in terms)
        self._slack = self._rest * _SLACK
        self._taken = 0
        self._begin(texts.active, 1)

    def select(self, wanted: bytes, k: int) -> list[int]:
        """Return a set of wanted texts that has the best `k`, and all that tie with them."""
        self._begin(wanted, k)
        while self._taken < len(self._order) and self._least <= self._rest + self._slack:
            self._take(self._order[self._taken])
            self._taken += 1
        bound = self._least - self._rest - self._slack
        chosen = self._numpy.flatnonzero((self._sums > 0) & (self._sums >= bound))
        chosen = chosen[self._wanted[chosen]]
        return self._sifted(chosen, self._sums[chosen], self._order[self._taken :])

    def _begin(self, wanted: bytes, k: int) -> None:
        self._wanted, self._k = self._numpy.frombuffer(wanted, bool), k
        self._least, self._best = 0.0, self._numpy.zeros(0, self._numpy.uint32)
        if self._taken:
            known = self._numpy.flatnonzero((self._sums > 0) & self._wanted)
            self._raise_least(self._sums[known])
            self._best = known[self._sums[known] > self._least].astype(self._numpy.uint32)

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
    """Return the amount that the length of each text adds to a frequency, as `Formula.saturated` has it."""
    import numpy

    if formula not in texts.norms:
        each = formula.k1 * formula.b / texts.average
        norms = formula.k1 * (1.0 - formula.b) + each * numpy.asarray(texts.lengths)
        # A frequency of 0, from a column that weighs nothing, gains nothing, also where k1 is 0.
        texts.norms[formula] = numpy.maximum(norms, 1e-300)
    return texts.norms[formula]
