"""Rankings of active items by the stems of their words, for a view: by its postings."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic

from rbank_es.policies.retrieval_protocol import Filters, RankedItem
from rbank_es.policies.stem_relevance import (
    AskedQuestion,
    Pair,
    QuestionOrder,
    QuestionWeights,
    SpelledText,
    read_question,
    read_text,
    searched,
    word_order,
)
from rbank_es.policies.word_relevance import Formula, WordRanking
from rbank_es.projections.posting_search import Postings
from rbank_es.projections.projection import json_of
from rbank_es.projections.stem_tables import languages_of, spellings_near
from rbank_es.projections.word_index import ActiveWords, Texts, WordIndex
from rbank_es.text.stems import LANGUAGES, require_stemmer

_WITH_PARTS = Formula(parts=1.0)
_TEXTS_READ = 32
"""Texts that are read at once to find a spelling: mostly the first one has it."""
_COLUMNS = """
SELECT text, title, "desc", content, tags FROM candidates WHERE text IN (SELECT value FROM json_each(?)) ORDER BY text
"""


class ActiveStems(ABC, Generic[Texts]):
    """The stems of active items: `stem_relevance.StemWords`. What is kept is of the last question."""

    def __init__(self, words: ActiveWords[Texts]) -> None:
        """Begin with the items by their stems. Raises `BadPolicy` without the stemmer that these are by."""
        require_stemmer()
        self._words = words
        self._asked: tuple[str, QuestionWeights] | None = None
        self._question: AskedQuestion | None = None
        self._word_orders: dict[str, QuestionOrder] = {}
        self._kept = dict[object, list[RankedItem]]()

    def question(self, query: str, reading: QuestionWeights) -> AskedQuestion:
        """Return what `read_question` reads among the items."""
        if self._question is None or self._asked != (query, reading):
            self._forget()
            self._asked, self._question = (query, reading), read_question(query, reading, self)
        return self._question

    def kept(self, question: AskedQuestion) -> dict[object, list[RankedItem]]:
        """Return what a policy keeps of a question, which is forgotten with the next one."""
        self._keep(question)
        return self._kept

    def by_stems(self, question: AskedQuestion, formula: Formula, k: int, filters: Filters) -> WordRanking:
        """Return the hits that `word_relevance.rank_documents` defines by stems."""
        return self._words.by_terms(*searched(question), formula, k, filters)

    def word_orders(self, question: AskedQuestion, pairs: Mapping[str, Sequence[Pair]]) -> dict[str, QuestionOrder]:
        """Return for some of these items, by id, what each has of a question's order, and of its pairs there."""
        self._keep(question)
        unread = [id for id in pairs if id not in self._word_orders]
        for id, columns in self._columns_of(unread) if unread else ():
            self._word_orders[id] = word_order(question, pairs[id], columns)
        return {id: self._word_orders[id] for id in pairs}

    def having(self, stem: str, formula: Formula) -> int:
        """Return how many items have a stem."""
        return self._words.having(stem, formula).having

    @property
    @abstractmethod
    def languages(self) -> Sequence[str]:
        """The languages of the items, the most frequent first; English where there is none."""

    @abstractmethod
    def near(self, word: str, most: int) -> Iterable[tuple[str, str]]:
        """Return words that may be near to a word, with their stems."""

    @abstractmethod
    def has_spelling(self, spelling: str, stem: str) -> bool:
        """Return whether an item has a word that is written so, with this stem."""

    @abstractmethod
    def _columns_of(self, ids: Sequence[str]) -> Iterable[tuple[str, Sequence[str]]]:
        """Return id, and title, desc, content and tags, of active items."""

    def _keep(self, question: AskedQuestion) -> None:
        if question is not self._question:
            self._forget()
            self._question = question

    def _forget(self) -> None:
        """Drop what is kept of a question: another one is asked, or the items changed."""
        self._asked = self._question = None
        self._word_orders.clear()
        self._kept.clear()


def by_frequency(count: Callable[[int], int]) -> tuple[str, ...]:
    """Return the languages that some text has, most frequent first; `count` returns the texts by number of language."""
    counts = {name: count(number) for number, name in enumerate(LANGUAGES)}
    return tuple(name for name in sorted(counts, key=lambda name: -counts[name]) if counts[name]) or LANGUAGES[:1]


class StemIndex(ActiveStems[Postings]):
    """The stems of the items active at a position. For the holder of the connection, inside of a transaction."""

    def __init__(self, connection: sqlite3.Connection, position: int) -> None:
        """Read who is active. Raises `BadPolicy` without the stemmer that stems are by."""
        self._index = WordIndex(connection, position, "stem")
        super().__init__(self._index)
        self._run = connection
        self._spellings: dict[tuple[str, str], bool] = {}
        self._languages: tuple[str, ...] | None = None

    def close(self) -> None:
        """Drop what is in memory."""
        self._index.close()

    def refresh(self) -> None:
        """Take in what other processes wrote to the file since. For the beginning of a transaction."""
        self._index.refresh()

    @property
    def languages(self) -> Sequence[str]:
        """The languages of the items, the most frequent first; English where there is none."""
        if self._languages is None:
            self._languages = self._counted_languages()
        return self._languages

    def _counted_languages(self) -> tuple[str, ...]:
        # As whole numbers, of a byte for each text: in Python, to look at each text would take 100 times as long.
        known, active = languages_of(self._run), self._index.active
        shown = int.from_bytes(known, "little") + int.from_bytes(b"\1" * len(known), "little")
        of_active = shown & int.from_bytes(active[: len(known)], "little") * 255
        numbers = of_active.to_bytes(len(known), "little")
        return by_frequency(lambda number: numbers.count(number + 1))

    def near(self, word: str, most: int) -> Iterable[tuple[str, str]]:
        """Return words that may be near to a word, with their stems."""
        return spellings_near(self._run, word, most)

    def has_spelling(self, spelling: str, stem: str) -> bool:
        """Return whether an item has a word that is written so, with this stem."""
        known = self._spellings.get((spelling, stem))
        if known is None:
            # Among parts of names, too.
            pairs, active = self._index.having(stem, _WITH_PARTS).pairs(), self._index.active
            texts = (text for text, _ in pairs if active[text])
            found = any((spelling, stem) in text.spellings() for text in self._read(texts))
            known = self._spellings[spelling, stem] = found
        return known

    def _read(self, texts: Iterator[int]) -> Iterator[SpelledText]:
        while some := [*islice(texts, _TEXTS_READ)]:
            yield from (read_text(columns) for _, *columns in self._run.execute(_COLUMNS, (json_of(some),)).fetchall())

    def _columns_of(self, ids: Sequence[str]) -> Iterable[tuple[str, Sequence[str]]]:
        texts = self._index.texts_of(ids)
        rows = self._run.execute(_COLUMNS, (json_of([*texts]),)).fetchall()
        return [(texts[text], columns) for text, *columns in rows]
