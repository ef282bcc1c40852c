"""The words of items that are in memory only, as postings: for a refold, whose items come and go."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from rbank_es.policies.retrieval import Filters, ItemFacts
from rbank_es.projections.posting_index import PostingIndex, joined
from rbank_es.projections.posting_tables import counted, counts_of, tokens_by_column
from rbank_es.projections.tokenizer import Tokenizer
from rbank_es.projections.word_kernel import Postings
from rbank_es.state import ItemState

_Key = tuple[str, bool]
"""A term, and whether texts have it among parts of names alone."""


class HeldWords(PostingIndex):
    """Items by small numbers. An item is taken in or dropped in the time that its own words take."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Begin without items."""
        super().__init__(tokenizer)
        self._lists: dict[_Key, Postings] = {}
        self._keys: dict[int, list[_Key]] = {}
        self._ids: dict[int, str] = {}
        self._codes: dict[int, int] = {}
        # 0 is of a number without an item.
        self._sets: dict[ItemFacts, int] = {}
        self._facts = array("I")

    def update(self, entries: Mapping[int, ItemState | None]) -> None:
        """Take the items with these numbers as they are now; None for a number without one."""
        for number in entries:
            if number in self._keys:
                self._drop(number)
        held = {number: entry for number, entry in entries.items() if entry is not None}
        rows = [(item.title, item.desc, item.content, "\n".join(item.tags)) for item in (e.item for e in held.values())]
        for (number, entry), columns in zip(held.items(), tokens_by_column(self._tokenizer, rows), strict=True):
            own, among, length = counted(columns)
            self._begin(number, entry, length)
            self._keys[number] = [*((term, False) for term in own), *((term, True) for term in among)]
            for key, packed in zip(self._keys[number], [*own.values(), *among.values()], strict=True):
                texts, codes = self._lists.setdefault(key, Postings(array("I"), array("I")))
                place = bisect_left(texts, number)
                texts.insert(place, number)
                codes.insert(place, self._code(packed))

    def _begin(self, number: int, entry: ItemState, length: int) -> None:
        missing = number + 1 - len(self._lengths)
        for column in (self._lengths, self._facts) if missing > 0 else ():
            column.extend([0] * missing)
        item = entry.item
        facts = ItemFacts(item.src, item.polarity, item.role, entry.domains)
        self._facts[number] = self._sets.setdefault(facts, len(self._sets) + 1)
        self._lengths[number], self._ids[number] = length, item.id
        self._documents += 1
        self._total += length

    def _drop(self, number: int) -> None:
        for key in self._keys.pop(number):
            texts, codes = self._lists[key]
            place = bisect_left(texts, number)
            del texts[place], codes[place]
        self._documents -= 1
        self._total -= self._lengths[number]
        self._facts[number] = 0

    def _code(self, packed: int) -> int:
        code = self._codes.get(packed)
        if code is None:
            code = self._codes[packed] = len(self._counts)
            self._counts.append(counts_of(packed))
        return code

    def _postings(self, term: str, parts: bool) -> Postings:
        nothing = Postings(array("I"), array("I"))
        own = self._lists.get((term, False), nothing)
        return joined(own, self._lists.get((term, True), nothing)) if parts else own

    def _wanted(self, filters: Filters) -> bytes:
        admitted = {number for facts, number in self._sets.items() if filters.admits(facts)}
        mask = bytearray(map(admitted.__contains__, self._facts))
        for number, id in self._ids.items() if filters.without else ():
            if id in filters.without:
                mask[number] = 0
        return bytes(mask)

    def _items(self, texts: Iterable[int]) -> Iterable[tuple[int, str]]:
        return ((text, self._ids[text]) for text in texts)
