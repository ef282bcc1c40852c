"""The words of active items in memory: for a refold, whose items come and go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from rbank_es.policies.bit_slices import Documents
from rbank_es.policies.retrieval import Filters, ItemFacts
from rbank_es.policies.word_relevance import Formula
from rbank_es.projections.tokenizer import CountedText, Tokenizer, counted_texts
from rbank_es.projections.word_index import ActiveWords
from rbank_es.projections.word_scores import HeldToken, WordScores
from rbank_es.state import ItemState

_FORMULAS = 2
"""Formulas whose scores are kept: those of the policies in force and supposed."""


class HeldWords(ActiveWords[HeldToken]):
    """Items by small numbers. An item is taken in or dropped in the time that its own words take."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Begin without items."""
        super().__init__(tokenizer)
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
        rows = [(item.title, item.desc, item.content, "\n".join(item.tags)) for item in (each.item for each in held)]
        for entry, text in zip(held, counted_texts(self._tokenizer, rows), strict=True):
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

    def _having(self, term: str, formula: Formula) -> HeldToken:
        return self._scored(formula).token(term)

    def _best(
        self, terms: Sequence[tuple[float, HeldToken]], formula: Formula, k: int, filters: Filters
    ) -> list[tuple[str, float, int]]:
        wanted = reduce(or_, (some for facts, some in self._with.items() if filters.admits(facts)), 0)
        for id in filters.without & self._held.keys():
            wanted &= ~(1 << self._held[id][0])
        found = self._scored(formula).best(terms, k, wanted)
        return sorted(((self._ids[n], score, n) for n, score in found), key=lambda hit: (-hit[1], hit[0]))[: max(0, k)]


def _facts(entry: ItemState) -> ItemFacts:
    return ItemFacts(entry.item.src, entry.item.polarity, entry.item.role, entry.domains)
