"""BM25 over documents that come and go, in memory: the best few are found without scoring all that match.

The formula is that of SQLite's FTS5 with equal weights of all columns, in its order of operations. FTS5 counts the
documents of every word and scores every match anew for each query. Here both are kept. A search first adds up, for all
documents at once, upper bounds of what their tokens score, and then scores only those that may be among the best.

For the bounds, the documents that have a token are in bands by what the token weighs in them: sets, as `bit_slices` has
them. A band may be placed badly, because weights move with the average length of the documents. Its bound is always
right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, log
from typing import NamedTuple

from rbank_es.projections.bit_slices import Documents, documents_of, highest, numbers_in, reaching, sliced_sum

# Constants of FTS5's bm25().
_K1, _B = 1.2, 0.75
_LEAST_IDF = 1e-6
# By more than sums of this many floats differ in another order of addition.
_SLACK = 1e-9

_BANDS = 4
"""Bands per unit of weight, which is at most 2.2. With 8, half as many documents are scored where lengths vary much (34
instead of 69 for 3 hits among 6,000), but there are more sets to add, which takes a quarter longer."""
_STEPS = 8
"""Whole numbers are added: so many for the rarity of an average token of the query. With 4, nearly twice as many
documents are scored; with 16, adding takes a quarter longer."""
_FEW = 3
"""So many times the documents that are wanted are scored first, to know how good the best are."""
_RARE = 256
"""Of a token that fewer than one in so many documents have, no sets are kept, because they would take more memory than
all else that is known of it. They are quickly made."""

_LATE = 4
"""If more than one in so many documents are missing in the bands of a token, they are made again, not completed."""

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


class _Band(NamedTuple):
    """What bounds the weight of occurrences: most of a token in a document, and the least length for each."""

    times: int
    length_each: float

    def bound(self, average: float) -> float:
        """Return what no weight is above, by the average length of the documents."""
        return (_K1 + 1.0) / (1 + _K1 * ((1 - _B) / self.times + _B * self.length_each / average))


class _Token:
    """The documents that have a token. `bands` is kept where many have it and it was searched for; `late` has the
    bands of those that were added since, and are in no set yet.
    """

    __slots__ = ("bands", "holding", "late")

    def __init__(self) -> None:
        self.holding: dict[int, _Occurrence] = {}
        self.bands: dict[int, Documents] = {}
        self.late: dict[int, int] = {}


class _Term(NamedTuple):
    """A token of a query, and how rare it is."""

    token: _Token
    idf: float


class WordScores:
    """Documents as bags of tokens, by number. Numbers should be small, and used again: sets have a bit for each."""

    def __init__(self) -> None:
        """Begin without documents."""
        self._known = defaultdict[str, _Token](_Token)
        self._documents: dict[int, Mapping[str, int]] = {}
        self._bands: dict[int, _Band] = {}
        self._band_of: dict[_Occurrence, int] = {}
        self._tokens = self._last = 0

    def add(self, number: int, tokens: Mapping[str, int]) -> None:
        """Take in a document: how often it has each token."""
        self._documents[number] = tokens
        self._last = max(self._last, number)
        length = sum(tokens.values())
        self._tokens += length
        occurrences = {times: self._occurrence(times, length) for times in set(tokens.values())}
        for name, times in tokens.items():
            token = self._known[name]
            token.holding[number] = occurrences[times]
            if token.bands:
                token.late[number] = self._band_of[occurrences[times]]

    def drop(self, number: int) -> None:
        """Drop a document."""
        tokens = self._documents.pop(number)
        self._tokens -= sum(tokens.values())
        for name in tokens:
            token = self._known[name]
            occurrence = token.holding.pop(number)
            if number in token.late:
                del token.late[number]
            elif token.bands:
                token.bands[self._band_of[occurrence]] ^= 1 << number

    def _occurrence(self, times: int, length: int) -> _Occurrence:
        """Return an occurrence, which is in a band from its first time on."""
        occurrence, band = times << _LENGTH_BITS | length, _Band(times, length / times)
        if occurrence not in self._band_of:
            number = int(band.bound(self._tokens / len(self._documents)) * _BANDS)
            known = self._bands.get(number, band)
            self._band_of[occurrence] = number
            self._bands[number] = _Band(max(known.times, times), min(known.length_each, band.length_each))
        return occurrence

    def _in_bands(self, token: _Token) -> dict[int, Documents]:
        """Return the documents that have a token, by band."""
        few, late = len(token.holding) * _RARE < self._last, token.late
        if few or not token.bands or len(late) * _LATE > len(token.holding):
            made = self._bands_of(token.holding, token.holding)
            token.bands = {} if few else made
        else:
            made = token.bands
            for number, band in late.items():
                made[band] = made.get(band, 0) | 1 << number
        late.clear()
        return made

    def _bands_of(self, numbers: Iterable[int], holding: Mapping[int, _Occurrence]) -> dict[int, Documents]:
        bands = defaultdict[int, list[int]](list)
        for number in numbers:
            bands[self._band_of[holding[number]]].append(number)
        return {band: documents_of(some, self._last) for band, some in bands.items()}

    def best(self, tokens: Sequence[str], count: int) -> list[tuple[int, float]]:
        """Return the `count` best documents that have any of the tokens, or all if fewer do, with their scores.

        Best first; those that tie are in any order. As of FTS5, a score is below 0, and a token that is named twice
        weighs twice.
        """
        terms = [term for token in tokens if (term := self._term(token)) is not None]
        if not terms:
            return []
        average = self._tokens / len(self._documents)
        weights, scale = _Weights(average), _STEPS * len(terms) / sum(term.idf for term in terms)
        sums = self._bounds(terms, average, scale)
        first = highest(sums, _FEW * count)
        scores = {number: _score(terms, number, weights) for number in numbers_in(first)}
        least = sorted(scores.values())[-count] if len(scores) >= count else 0.0
        others = reaching(sums, max(1, int((least - _SLACK) * scale))) & ~first
        scores |= {number: _score(terms, number, weights) for number in numbers_in(others)}
        # Behind the best, documents are missing that were not scored.
        return sorted(((number, -score) for number, score in scores.items()), key=lambda each: each[1])[:count]

    def _term(self, name: str) -> _Term | None:
        token = self._known.get(name)
        if token is None or not token.holding:
            return None
        having = len(token.holding)
        idf = log((len(self._documents) - having + 0.5) / (having + 0.5))
        return _Term(token, _LEAST_IDF if idf <= 0 else idf)

    def _bounds(self, terms: Sequence[_Term], average: float, scale: float) -> list[Documents]:
        """Return, as slices, a bound of each document's score times `scale`: rounded up, above 0 if it has a term."""
        bounds = {number: band.bound(average) * scale for number, band in self._bands.items()}
        return sliced_sum(
            (documents, ceil(idf * bounds[band]))
            for token, idf in terms
            for band, documents in self._in_bands(token).items()
            if documents
        )


def _score(terms: Sequence[_Term], number: int, weights: _Weights) -> float:
    """Return the whole score of a document, added up in the order of the query."""
    score = 0.0
    for token, idf in terms:
        occurrence = token.holding.get(number)
        if occurrence is not None:
            score += idf * weights[occurrence]
    return score
