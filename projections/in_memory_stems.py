"""Rankings of active items by the stems of their words, for a refold: in memory, whose items come and go."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from rbank_es.law import ItemState
from rbank_es.policies.stem_relevance import read_text
from rbank_es.projections.in_memory_words import HeldToken, HeldWords, columns_of
from rbank_es.projections.stem_index import ActiveStems, by_frequency
from rbank_es.projections.stem_tables import counted_stems
from rbank_es.projections.tokenizer import Tokenizer
from rbank_es.text.stems import LANGUAGES


class HeldStems(ActiveStems[HeldToken]):
    """The stems of items that come and go, with the words as they are written."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Begin without items. Raises `BadPolicy` without the stemmer that stems are by."""
        self._held = HeldWords(tokenizer, lambda rows: map(counted_stems, map(read_text, rows)))
        super().__init__(self._held)
        self._languages = Counter[int]()
        self._items: dict[str, Sequence[str]] = {}
        # By length: those that may be meant, and how many items have each.
        self._written = defaultdict[int, Counter[tuple[str, str]]](Counter)

    def update(self, entries: Mapping[str, ItemState | None]) -> None:
        """Take active items as they are now, by id; None for one that isn't active."""
        self._held.update(entries)
        for id, entry in entries.items():
            if id in self._items:
                self._count(self._items.pop(id), -1)
            if entry is not None:
                self._items[id] = columns_of(entry.item)
                self._count(self._items[id], 1)
        self._forget()

    def _count(self, columns: Sequence[str], times: int) -> None:
        text = read_text(columns)
        self._languages[LANGUAGES.index(text.language)] += times
        for spelling, stem in text.spellings():
            self._written[len(spelling)][spelling, stem] += times

    @property
    def languages(self) -> Sequence[str]:
        """The languages of the items, the most frequent first; English where there is none."""
        return by_frequency(lambda number: self._languages[number])

    def near(self, word: str, most: int) -> Iterable[tuple[str, str]]:
        """Return words that may be near to a word, with their stems."""
        return chain.from_iterable(self._written[chars] for chars in range(len(word) - most, len(word) + most + 1))

    def has_spelling(self, spelling: str, stem: str) -> bool:
        """Return whether an item has a word that is written so, with this stem."""
        return self._written[len(spelling)][spelling, stem] > 0

    def _columns_of(self, ids: Sequence[str]) -> Iterable[tuple[str, Sequence[str]]]:
        return [(id, self._items[id]) for id in ids]
