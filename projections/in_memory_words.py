"""The words of active items in memory: for a refold, whose items come and go.

The best few by BM25 are found without scoring all that match. A search first adds up, for all documents at once, upper
bounds of what their tokens score. Then it scores by the definition those that may be among the best. For the bounds,
the documents that have a token are in bands by what the token weighs in them: sets, as `bit_slices` has them. A band
may be placed badly, because weights move with the average length of the documents. Its bound is always right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial, reduce
from math import ceil
from operator import or_
from typing import NamedTuple

from rbank_es.events.items import Item
from rbank_es.law import ItemState
from rbank_es.policies.bit_slices import Documents, documents_of, highest, numbers_in, reaching, sliced, sliced_sum
from rbank_es.policies.retrieval_protocol import Filters, ItemFacts
from rbank_es.policies.word_relevance import Formula
from rbank_es.projections.search_tables import Counting
from rbank_es.projections.tokenizer import CountedText, Tokenizer, counted_texts, counts_of
from rbank_es.projections.word_index import ActiveWords

_SLACK = 1e-9
"""By more than sums of floats differ in another order of addition, as a share."""
_BANDS = 12
"""Bands of weights. With 18, 35 instead of 38 documents are scored for 11 hits among 6,000, where lengths vary little;
there are more sets to join, which takes longer than that saves. With 9, 44 are scored."""
_STEPS = 32
"""Whole numbers are added: up to so many for an average term of the query. With half of them, half as many documents
again are scored; with twice as many, a tenth fewer, and there are more slices to add."""
_FEW = 3
"""So many times the documents that are wanted are scored first, to know how good the best are."""
_RARE = 256
"""No sets are kept of a token that fewer than one in so many documents have. They would take more memory than all else
that is known of it. They are quickly made."""

_LATE = 4
"""If more than one in so many documents are missing in the bands of a token, they are made again, not completed."""

_FORMULAS = 2
"""Formulas whose scores are kept: those of the policies in force and supposed."""

_Occurrence = int
"""The number of a pair: how often a document has a token, by column, and how long the document is."""


class _Band(NamedTuple):
    """The bound on the weight of occurrences: the greatest frequency, and the least length for each unit of it."""

    frequency: float
    length_each: float

    def bound(self, formula: Formula, average: float) -> float:
        """Return the upper bound of all weights, by the average length of the documents."""
        shorter = (1.0 - formula.b) / self.frequency + formula.b * self.length_each / average
        return (formula.k1 + 1.0) / (1.0 + formula.k1 * shorter)


class HeldToken:
    """The documents that have a token. `bands` is kept where many have it and it was searched for; `late` has the
    bands of those that were added since, and are in no set yet.
    """

    __slots__ = ("bands", "holding", "late")

    def __init__(self) -> None:
        self.holding: dict[int, _Occurrence] = {}
        self.bands: dict[int, Documents] = {}
        self.late: dict[int, int] = {}

    @property
    def having(self) -> int:
        """The number of documents that have the token."""
        return len(self.holding)

    def select(self, texts: Set[int]) -> Set[int]:
        """Return which of some documents have the token."""
        return texts & self.holding.keys()


_Terms = Sequence[tuple[float, HeldToken]]
"""The terms of a query in its order, each with its weight times its idf."""


class WordScores:
    """Documents as bags of tokens, by number. Numbers should be small, and used again: sets have a bit for each."""

    def __init__(self, formula: Formula) -> None:
        """Begin without documents, to be scored by one formula."""
        self._formula = formula
        self._tokens = defaultdict[str, HeldToken](HeldToken)
        self._bands: dict[int, _Band] = {}
        self._numbers: dict[tuple[int, int], _Occurrence] = {}
        # The frequency, and the band, of each occurrence.
        self._frequencies: list[float] = []
        self._band_of: list[int] = []
        self._lengths: dict[int, int] = {}
        self._documents = self._total = self._last = 0

    def add(self, number: int, text: CountedText) -> None:
        """Take in a document."""
        self._last = max(self._last, number)
        self._documents += 1
        self._total += text.length
        self._lengths[number] = text.length
        tokens = self._counts(text)
        occurrences = {packed: self._occurrence(packed, text.length) for packed in {packed for _, packed in tokens}}
        for name, packed in tokens:
            token, occurrence = self._tokens[name], occurrences[packed]
            token.holding[number] = occurrence
            if token.bands:
                token.late[number] = self._band_of[occurrence]

    def drop(self, number: int, text: CountedText) -> None:
        """Drop a document."""
        self._documents -= 1
        self._total -= text.length
        for name, _ in self._counts(text):
            token = self._tokens[name]
            occurrence = token.holding.pop(number)
            if number in token.late:
                del token.late[number]
            elif token.bands:
                token.bands[self._band_of[occurrence]] ^= 1 << number

    def token(self, name: str) -> HeldToken:
        """Return a token, which no document may have."""
        return self._tokens.get(name) or HeldToken()

    def best(self, terms: Iterable[tuple[float, HeldToken]], count: int, wanted: Documents) -> list[tuple[int, float]]:
        """Return the best `count` of the wanted documents, and those that tie with the last, with their scores.

        The terms are in order of the query, each with its weight times its idf; a score is above 0.
        """
        some = [(gain, token) for gain, token in terms if gain > 0 and token.holding]
        if not some or count < 1:
            return []
        average = self._total / self._documents
        scale = _STEPS * len(some) / ((self._formula.k1 + 1.0) * sum(gain for gain, _ in some))
        sums = [each & wanted for each in self._bounds(some, average, scale)]
        first = highest(sums, _FEW * count)
        scores = self._scores(some, first, average)
        least = _last_of(scores, count)
        others = reaching(sums, max(1, int(least * (1.0 - _SLACK) * scale))) & ~first
        scores |= self._scores(some, others, average)
        least = _last_of(scores, count)
        return [(number, score) for number, score in scores.items() if score > 0 and score >= least]

    def _counts(self, text: CountedText) -> list[tuple[str, int]]:
        """Return each token of a document that is searched for, with its packed counts."""
        among = text.among.items() if self._formula.parts > 0 else ()
        return [*text.own.items(), *among]

    def _occurrence(self, packed: int, length: int) -> _Occurrence:
        """Return an occurrence, which is in a band from its first time on."""
        known = self._numbers.get((packed, length))
        if known is not None:
            return known
        counts = counts_of(packed)
        frequency = self._formula.frequency(counts, counts[-1])
        number = self._numbers[packed, length] = len(self._frequencies)
        self._frequencies.append(frequency)
        self._band_of.append(self._band(frequency, length) if frequency else -1)
        return number

    def _band(self, frequency: float, length: int) -> int:
        band = _Band(frequency, length / frequency)
        share = band.bound(self._formula, self._total / self._documents) / (self._formula.k1 + 1.0)
        number = int(share * _BANDS)
        known = self._bands.get(number, band)
        self._bands[number] = _Band(max(known.frequency, frequency), min(known.length_each, band.length_each))
        return number

    def _in_bands(self, token: HeldToken) -> dict[int, Documents]:
        """Return the documents that have a token, by band."""
        few, late = len(token.holding) * _RARE < self._last, token.late
        if few or not token.bands or len(late) * _LATE > len(token.holding):
            made = self._bands_of(token.holding)
            token.bands = {} if few else made
        else:
            made = token.bands
            for number, band in late.items():
                made[band] = made.get(band, 0) | 1 << number
        late.clear()
        return made

    def _bands_of(self, holding: Mapping[int, _Occurrence]) -> dict[int, Documents]:
        bands = defaultdict[int, list[int]](list)
        for number, occurrence in holding.items():
            bands[self._band_of[occurrence]].append(number)
        return {band: documents_of(some, self._last) for band, some in bands.items()}

    def _bounds(self, terms: _Terms, average: float, scale: float) -> list[Documents]:
        """Return, as slices, a bound of each document's score times `scale`: rounded up, above 0 if it has a term."""
        bounds = {number: band.bound(self._formula, average) * scale for number, band in self._bands.items()}
        bounds[-1] = 0.0
        return sliced_sum(
            sliced((documents, ceil(gain * bounds[band])) for band, documents in self._in_bands(token).items())
            for gain, token in terms
        )

    def _scores(self, terms: _Terms, documents: Documents, average: float) -> dict[int, float]:
        """Return the whole scores of documents, each added up in the order of the query."""
        frequencies, most = self._frequencies, self._formula.k1 + 1.0
        norms = {number: self._formula.norm(self._lengths[number], average) for number in numbers_in(documents)}
        scores = dict.fromkeys(norms, 0.0)
        for gain, token in terms:
            holding = token.holding
            for number in holding.keys() & norms.keys():
                # A frequency of 0, from a column that weighs nothing, weighs nothing, also where k1 is 0.
                if frequency := frequencies[holding[number]]:
                    # As `Formula.saturated`, whose call would take as long as all the rest.
                    scores[number] += gain * ((frequency * most) / (frequency + norms[number]))
        return scores


def _last_of(scores: Mapping[int, float], count: int) -> float:
    """Return the `count`th best score; 0 if there are fewer."""
    return sorted(scores.values())[-count] if len(scores) >= count else 0.0


# ---------------------------------------------------------------- items


class HeldWords(ActiveWords[HeldToken]):
    """Items by small numbers. An item is taken in or dropped in the time that its own words take."""

    def __init__(self, tokenizer: Tokenizer, counted: Counting | None = None) -> None:
        """Begin without items. `counted` yields the counts of columns; by default those of the tokenizer's tokens."""
        super().__init__(tokenizer)
        self._counted = counted or partial(counted_texts, tokenizer)
        self._scores: dict[Formula, WordScores] = {}
        self._held: dict[str, tuple[int, ItemState, CountedText]] = {}
        # Numbers are used again, because sets have a bit for each.
        self._ids, self._free = list[str](), list[int]()
        self._with = defaultdict[ItemFacts, Documents](int)

    def update(self, entries: Mapping[str, ItemState | None]) -> None:
        """Take active items as they are now, by id; None for one that isn't active."""
        for id in entries:
            if id in self._held:
                self._drop(*self._held.pop(id))
        held = [entry for entry in entries.values() if entry is not None]
        rows = [columns_of(entry.item) for entry in held]
        for entry, text in zip(held, self._counted(rows), strict=True):
            if not self._free:
                self._free.append(len(self._ids))
                self._ids.append("")
            number = self._free.pop()
            self._ids[number] = entry.item.id
            self._held[entry.item.id] = number, entry, text
            self._with[_facts(entry)] |= 1 << number
            for scores in self._scores.values():
                scores.add(number, text)
        self._documents = len(self._held)

    def _drop(self, number: int, entry: ItemState, text: CountedText) -> None:
        self._with[_facts(entry)] ^= 1 << number
        self._free.append(number)
        for scores in self._scores.values():
            scores.drop(number, text)

    def _scored(self, formula: Formula) -> WordScores:
        scores = self._scores.get(formula)
        if scores is None:
            if len(self._scores) == _FORMULAS:
                del self._scores[next(iter(self._scores))]
            scores = self._scores[formula] = WordScores(formula)
            for number, _, text in self._held.values():
                scores.add(number, text)
        return scores

    def having(self, term: str, formula: Formula) -> HeldToken:
        """Return the documents that have a term."""
        return self._scored(formula).token(term)

    def _best(
        self, terms: Sequence[tuple[float, HeldToken]], formula: Formula, k: int, filters: Filters
    ) -> list[tuple[str, float, int]]:
        wanted = reduce(or_, (some for facts, some in self._with.items() if filters.admits(facts)), 0)
        for id in filters.without & self._held.keys():
            wanted &= ~(1 << self._held[id][0])
        found = self._scored(formula).best(terms, k, wanted)
        return sorted(((self._ids[n], score, n) for n, score in found), key=lambda hit: (-hit[1], hit[0]))[: max(0, k)]


def columns_of(item: Item) -> tuple[str, str, str, str]:
    """Return title, desc, content and tags of an item, as the read models have them."""
    return item.title, item.desc, item.content, "\n".join(item.tags)


def _facts(entry: ItemState) -> ItemFacts:
    return ItemFacts(entry.item.src, entry.item.polarity, entry.item.role, entry.domains)
