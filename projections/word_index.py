"""Rankings of active items by the words that their texts have: the search, and the reader of the postings for it.

What `WordIndex` keeps in memory is of one position, and stays right whatever is appended to the file: which texts are
active, and the postings of the terms that were asked for. `in_memory_words` has the items of a refold instead.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence, Set
from itertools import chain, compress, starmap
from typing import Any, Generic, Protocol, TypeVar

from rbank_es import limits
from rbank_es.policies.retrieval_protocol import Filters, RankedItem
from rbank_es.policies.word_relevance import Formula, QueryWord, WordHit, WordRanking, terms_of, word_idf
from rbank_es.projections.posting_search import Postings, PostingSearch, RankedTexts, WeightedTerm, marked_among
from rbank_es.projections.projection import json_of
from rbank_es.projections.search_tables import PostingRows, Terms, fact_sets, facts_at, marked, numbers_of, posting_rows
from rbank_es.projections.tokenizer import Tokenizer

_SQLITE = Formula(idf="sqlite")
"""The formula of FTS5's bm25() with equal weights."""
_NUMBER = "SELECT number FROM {0}_terms WHERE term = ?"
_RECENT = "SELECT text, char(10) || terms || char(10), own, codes FROM {0}_recent_texts ORDER BY text"
_RANKINGS_KEPT = 8
_DIGITS = b"01" + bytes(254)
_NO_ROWS = PostingRows(b"", array("I"), array("H"))
_ITEMS = "SELECT text, item FROM candidates WHERE text IN (SELECT value FROM json_each(?))"
_TEXTS = """
SELECT text FROM item_states WHERE item IN (SELECT value FROM json_each(:items)) AND state = 'active'
AND from_seq <= :seq AND (to_seq IS NULL OR to_seq > :seq)
"""


class Having(Protocol):
    """The active texts that have a term."""

    @property
    def having(self) -> int:
        """Their number."""
        ...

    def select(self, texts: Set[int]) -> Set[int]:
        """Return which of some texts have it."""
        ...


Texts = TypeVar("Texts", bound=Having)


class ActiveWords(ABC, Generic[Texts]):
    """The words of active items, whose texts have numbers. A subclass says where they are."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Begin without items; `tokenizer` reads the words of queries."""
        self._tokenizer = tokenizer
        self._documents = 0

    def by_words(self, words: Sequence[QueryWord], formula: Formula, k: int, filters: Filters) -> WordRanking:
        """Return the hits that `word_relevance.rank_documents` defines."""
        return self.by_terms(words, self._tokenizer.read([word for word, _ in words]), formula, k, filters)

    def by_terms(
        self,
        words: Sequence[QueryWord],
        tokens: Sequence[Sequence[str]],
        formula: Formula,
        k: int,
        filters: Filters,
    ) -> WordRanking:
        """Return the hits that `word_relevance.rank_documents` defines for words that are read as these tokens."""
        terms = terms_of(words, tokens)
        having = {term.token: self.having(term.token, formula) for term in terms}
        rarities = [formula.rarity(self._documents, some.having) for some in having.values()]
        weights = [term.weight * rarity for term, rarity in zip(terms, rarities, strict=True)]
        best = self._best(list(zip(weights, having.values(), strict=True)), formula, k, filters)
        matched: dict[int, list[int]] = {text: [] for _, _, text in best}
        for place, read in enumerate(tokens):
            for text in set().union(*(having[token].select(matched.keys()) for token in read)):
                matched[text].append(place)
        hits = tuple(WordHit(id, score, tuple(matched[text])) for id, score, text in best)
        return WordRanking(hits, word_idf(terms, rarities, len(words)), self._documents)

    def by_sqlite(self, words: Sequence[str], k: int, filters: Filters) -> list[RankedItem] | None:
        """Return the hits of FTS5's bm25() with equal weights; None for a word that it takes as a phrase."""
        tokens = self._tokenizer.tokens(words)
        if tokens is None:
            return None
        # A token that two words of the query have counts twice.
        having = [self.having(token, _SQLITE) for token in tokens]
        weighted = [(_SQLITE.rarity(self._documents, some.having), some) for some in having]
        return [RankedItem(id, -score) for id, score, _ in self._best(weighted, _SQLITE, k, filters)]

    @abstractmethod
    def having(self, term: str, formula: Formula) -> Texts:
        """Return the active texts that have a term, in columns or, where these count, among parts of names."""

    @abstractmethod
    def _best(
        self, terms: Sequence[tuple[float, Texts]], formula: Formula, k: int, filters: Filters
    ) -> list[tuple[str, float, int]]:
        """Return id, score and text of the best `k` items that pass the filters, best first, ties in order of id.

        The terms are in order of the query, each with its weight times its idf.
        """


class WordIndex(ActiveWords[Postings]):
    """The words of the items active at a position. For the holder of the connection, inside of a transaction."""

    def __init__(self, connection: sqlite3.Connection, position: int, terms: Terms = "word") -> None:
        """Read who is active; words are read as they are asked for."""
        super().__init__(Tokenizer())
        self._terms: Terms = terms
        self._run, self._position = connection, position
        self._facts = facts_at(connection, position)
        self._sets = fact_sets(connection, position)
        self.active = marked(self._facts, self._sets, len(self._sets))
        # As a set, by its digits: the last text is the first of them.
        self._active_set = int(b"0" + self.active[::-1].translate(_DIGITS), 2)
        self._masks: dict[Filters, bytes] = {}
        self._known: dict[tuple[str, bool], Postings] = {}
        self._weighted: dict[Formula, array[float]] = {}
        self._norms: dict[Formula, Any] = {}
        # Of the last questions: the floor of each polarity asks for the best of both.
        self._rankings: dict[tuple[object, ...], WordRanking] = {}
        # The text of each item in these.
        self._found: dict[str, int] = {}
        # Of the last question, which is asked with several filters.
        self._search: PostingSearch | None = None
        self._kept, self._version = 0, -1
        self._recent: list[tuple[int, str, int, array[int]]] | None = None
        self.refresh()
        self._documents = self.active.count(1)
        self._average = sum(compress(self._lengths, self.active)) / max(1, self._documents)

    def close(self) -> None:
        """Drop what is in memory."""
        self._tokenizer.close()

    def by_terms(
        self,
        words: Sequence[QueryWord],
        tokens: Sequence[Sequence[str]],
        formula: Formula,
        k: int,
        filters: Filters,
    ) -> WordRanking:
        """Return the hits that `word_relevance.rank_documents` defines for words that are read as these tokens."""
        asked = (tuple(words), tuple(tokens), formula, k, filters)
        if asked not in self._rankings:
            if len(self._rankings) == _RANKINGS_KEPT:
                self._rankings.clear()
                self._found.clear()
            self._rankings[asked] = super().by_terms(words, tokens, formula, k, filters)
        return self._rankings[asked]

    def _best(
        self, terms: Sequence[tuple[float, Postings]], formula: Formula, k: int, filters: Filters
    ) -> list[tuple[str, float, int]]:
        scores = dict(self._search_of(list(starmap(WeightedTerm, terms)), formula).best(self._wanted(filters), k))
        rows = self._run.execute(_ITEMS, (json_of([*scores]),)).fetchall()
        self._found |= {id: text for text, id in rows}
        return sorted(((id, scores[text], text) for text, id in rows), key=lambda hit: (-hit[1], hit[0]))[: max(0, k)]

    def texts_of(self, ids: Sequence[str]) -> dict[int, str]:
        """Return the text of each of some items that the last ranking has, with its id."""
        return {self._found[id]: id for id in ids}

    def _search_of(self, terms: list[WeightedTerm], formula: Formula) -> PostingSearch:
        """Return the search of some terms: the last one, if it was of the same."""
        last = self._search
        if last is None or (last.terms, last.formula) != (terms, formula):
            texts = RankedTexts(self._lengths, self._average, self._frequencies(formula), self.active, self._norms)
            last = self._search = PostingSearch(terms, formula, texts)
        return last

    def _frequencies(self, formula: Formula) -> array[float]:
        """Return the weighted frequency of each code."""
        if formula not in self._weighted:
            sql = f'SELECT title, "desc", content, tags, parts FROM {self._terms}_counts ORDER BY code'
            codes = self._run.execute(sql)
            self._weighted[formula] = array("d", (formula.frequency(counts, counts[-1]) for counts in codes))
        return self._weighted[formula]

    def _wanted(self, filters: Filters) -> bytes:
        """Return 1 for each active text that passes the filters."""
        if filters not in self._masks:
            admitted = {number for number, facts in self._sets.items() if filters.admits(facts)}
            mask = bytearray(marked(self._facts, admitted, len(self._sets)))
            given = {"items": json_of(sorted(filters.without)), "seq": self._position}
            for (text,) in self._run.execute(_TEXTS, given) if filters.without else ():
                mask[text] = 0
            self._masks[filters] = bytes(mask.ljust(len(self._lengths), b"\0"))
            if len(self._masks) > limits.FILTER_MASKS_KEPT:
                del self._masks[next(iter(self._masks))]
        return self._masks[filters]

    # ---------------------------------------------------------------- reading

    def refresh(self) -> None:
        """Take in what other processes wrote to the file since. For the beginning of a transaction."""
        (version,) = self._run.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self._refresh()

    def _refresh(self) -> None:
        blobs = self._run.execute(f"SELECT lengths FROM {self._terms}_lengths ORDER BY first")
        self._lengths = numbers_of(b"".join(blob for (blob,) in blobs)) or array("I", (0,))
        # A later text than any of the position is in no mask yet.
        self.active = self.active.ljust(len(self._lengths), b"\0")
        self._masks.clear()
        self._rankings.clear()
        self._found.clear()
        self._search = None
        self._weighted.clear()
        self._norms.clear()
        self._recent = None

    def having(self, term: str, formula: Formula) -> Postings:
        """Return the active texts that have a term, in columns or, where these count, among parts of names."""
        parts = formula.parts > 0
        key = (term, parts)
        known = self._known.get(key)
        if known is None:
            row = self._run.execute(_NUMBER.format(self._terms), (term,)).fetchone()
            number = None if row is None else row[0]
            own, among = self._recently(term)
            known = self._read(number, own, parts=False)
            if parts:
                known = _joined(known, self._read(number, among, parts=True))
            self._keep(key, known)
        return known

    def _keep(self, key: tuple[str, bool], postings: Postings) -> None:
        self._kept += len(postings)
        if self._kept > limits.POSTINGS_KEPT:
            self._known.clear()
            self._kept = len(postings)
        self._known[key] = postings

    def _read(self, number: int | None, recent: list[tuple[int, int]], *, parts: bool) -> Postings:
        # No later text has ever been active.
        last = len(self._facts)
        marks, listed, codes = (
            _NO_ROWS if number is None else posting_rows(self._run, self._terms, number, last, parts=parts)
        )
        if recent:
            numbers, new = zip(*recent, strict=True)
            # Widened only where it must be: a common term has many codes.
            wide = max(new) >= 1 << 16 and codes.typecode == "H"
            listed, codes = listed + array("I", numbers), array("I", codes) if wide else codes
            codes = codes + array(codes.typecode, new)
        having = marked_among(listed, self.active) + (int.from_bytes(marks, "little") & self._active_set).bit_count()
        return Postings(marks, listed, codes, having)

    def _recently(self, term: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return text and code of the postings of a term among the texts that are in no block yet.

        First of those that have it in columns, then of those that have it among parts of names alone.
        """
        if self._recent is None:
            rows = self._run.execute(_RECENT.format(self._terms)).fetchall()
            self._recent = [(text, terms, own, numbers_of(codes)) for text, terms, own, codes in rows]
        # Sought in the lines, because splitting those of 127 texts takes as long as 80 terms.
        line = f"\n{term}\n"
        found: tuple[list[tuple[int, int]], list[tuple[int, int]]] = [], []
        for text, terms, own, codes in self._recent:
            if line in terms:
                place = terms.count("\n", 0, terms.index(line))
                found[place >= own].append((text, codes[place]))
        return found


def _joined(own: Postings, among: Postings) -> Postings:
    """Return the postings of both in order of texts; no text is in both."""
    if not among.having:
        return own
    pairs = sorted(chain(own.pairs(), among.pairs()))
    texts, codes = ([each[column] for each in pairs] for column in (0, 1))
    return Postings(b"", array("I", texts), array("I", codes), own.having + among.having)
