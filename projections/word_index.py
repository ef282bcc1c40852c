"""The reader of the postings: a ranking of the items active at one position, by the words that their texts have.

All that is kept in memory is of that position, and stays right whatever is appended to the file: which texts are
active, and the postings of the terms that were asked for, of the active texts alone.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress

from rbank_es import limits
from rbank_es.policies.retrieval import Filters, RankedItem
from rbank_es.policies.word_relevance import Formula, QueryWord, WordHit, WordRanking, terms_of, word_idf
from rbank_es.projections.active_texts import fact_sets, facts_at
from rbank_es.projections.posting_tables import codes_of, numbers_of, places_of, recent_texts
from rbank_es.projections.projection import json_of
from rbank_es.projections.tokenizer import Tokenizer
from rbank_es.projections.word_kernel import Postings, RankedTexts, WeightedTerm, alive_among, best_texts

_NUMBER = "SELECT number FROM word_terms WHERE term = ?"
_POSTINGS = """
SELECT texts, codes FROM postings WHERE place BETWEEN :first AND :last UNION ALL
SELECT texts, codes FROM recent_postings WHERE place BETWEEN :first AND :last
"""
_ITEMS = "SELECT text, item FROM candidates WHERE text IN (SELECT value FROM json_each(?))"
_TEXTS = """
SELECT text FROM item_states WHERE item IN (SELECT value FROM json_each(:items)) AND state = 'active'
AND from_seq <= :seq AND (to_seq IS NULL OR to_seq > :seq)
"""
_SQLITE = Formula(idf="sqlite")
"""The formula of FTS5's bm25() with equal weights."""


class WordIndex:
    """The words of the items active at a position. For the holder of the connection, inside of a transaction."""

    def __init__(self, connection: sqlite3.Connection, position: int) -> None:
        """Read who is active; words are read as they are asked for."""
        self._run, self._position = connection, position
        self._facts = facts_at(connection, position)
        self._sets = fact_sets(connection, position)
        self._version = -1
        self._active = bytes(map(bool, self._facts))
        self._masks: dict[Filters, bytes | None] = {}
        self._known: dict[tuple[str, bool], Postings] = {}
        self._kept = 0
        self._weighted: dict[Formula, list[float]] = {}
        self._recent: dict[tuple[str, bool], Postings] | None = None
        self._tokenizer = Tokenizer()
        self.refresh()
        self.documents = self._active.count(1)
        length = sum(compress(self._lengths, self._active))
        self._average = length / max(1, self.documents)

    def close(self) -> None:
        """Drop what is in memory."""
        self._tokenizer.close()

    def by_words(self, words: Sequence[QueryWord], formula: Formula, k: int, filters: Filters) -> WordRanking:
        """Return what `word_relevance.rank_documents` defines."""
        tokens = self._tokenizer.read([word for word, _ in words])
        terms, parts = terms_of(words, tokens), formula.parts > 0
        postings = {term.token: self._postings(term.token, parts) for term in terms}
        rarities = [formula.rarity(self.documents, len(postings[term.token].texts)) for term in terms]
        weighted = [
            WeightedTerm(term.weight * rarity, postings[term.token])
            for term, rarity in zip(terms, rarities, strict=True)
        ]
        hits = [
            WordHit(id, score, tuple(_matched(tokens, postings, text)))
            for id, score, text in self._best(weighted, formula, k, filters)
        ]
        return WordRanking(tuple(hits), word_idf(terms, rarities, len(words)))

    def by_sqlite(self, words: Sequence[str], k: int, filters: Filters) -> list[RankedItem] | None:
        """Return what FTS5's bm25() with equal weights finds; None for a word that it takes as a phrase."""
        tokens = self._tokenizer.tokens(words)
        if tokens is None:
            return None
        # A token that two words of the query have counts twice.
        postings = [self._postings(token, parts=False) for token in tokens]
        weighted = [WeightedTerm(_SQLITE.rarity(self.documents, len(some.texts)), some) for some in postings]
        return [RankedItem(id, -score) for id, score, _ in self._best(weighted, _SQLITE, k, filters)]

    # ---------------------------------------------------------------- ranking

    def _best(
        self, terms: Sequence[WeightedTerm], formula: Formula, k: int, filters: Filters
    ) -> list[tuple[str, float, int]]:
        """Return id, score and text of the best `k` items, best first."""
        texts = RankedTexts(self._lengths, self._average, self._frequencies(formula), self._wanted(filters))
        scores = dict(best_texts(terms, formula, texts, k))
        found = [(id, scores[text], text) for text, id in self._run.execute(_ITEMS, (json_of([*scores]),))]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))[: max(0, k)]

    def _frequencies(self, formula: Formula) -> list[float]:
        if formula not in self._weighted:
            self._weighted[formula] = [formula.frequency(counts, counts[-1]) for counts in self._counts]
        return self._weighted[formula]

    def _wanted(self, filters: Filters) -> bytes | None:
        """Return 1 for each active text that passes the filters; None if all do."""
        if filters not in self._masks:
            admitted = {number for number, facts in self._sets.items() if filters.admits(facts)}
            everything = len(admitted) == len(self._sets) and not filters.without
            self._masks[filters] = None if everything else self._mask(admitted, filters.without)
            if len(self._masks) > limits.FILTER_MASKS_KEPT:
                del self._masks[next(iter(self._masks))]
        return self._masks[filters]

    def _mask(self, admitted: set[int], without: Iterable[str]) -> bytes:
        mask = bytearray(map(admitted.__contains__, self._facts))
        if without:
            given = {"items": json_of(sorted(without)), "seq": self._position}
            for (text,) in self._run.execute(_TEXTS, given):
                mask[text] = 0
        return bytes(mask.ljust(len(self._lengths), b"\0"))

    # ---------------------------------------------------------------- reading

    def refresh(self) -> None:
        """Take in what other processes wrote to the file since. For the beginning of a transaction."""
        (version,) = self._run.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self._refresh()

    def _refresh(self) -> None:
        blobs = self._run.execute("SELECT lengths FROM text_lengths ORDER BY first")
        self._lengths = numbers_of(b"".join(blob for (blob,) in blobs)) or array("I", (0,))
        # A later text than any of the position is in no mask yet.
        self._active = self._active.ljust(len(self._lengths), b"\0")
        self._masks.clear()
        self._counts: list[tuple[int, ...]] = self._run.execute(
            'SELECT title, "desc", content, tags, parts FROM word_counts ORDER BY code'
        ).fetchall()
        self._weighted.clear()
        self._recent = None

    def _postings(self, term: str, parts: bool) -> Postings:
        """Return the active texts that have a term; also those that have it among `parts` of names alone, if asked."""
        key = (term, parts)
        known = self._known.get(key)
        if known is None:
            own = self._read(term, parts=False)
            among = self._read(term, parts=True) if parts else own
            known = _joined(own, among) if parts and among.texts else own
            self._keep(key, known)
        return known

    def _keep(self, key: tuple[str, bool], postings: Postings) -> None:
        self._kept += len(postings.texts)
        if self._kept > limits.POSTINGS_KEPT:
            self._known.clear()
            self._kept = len(postings.texts)
        self._known[key] = postings

    def _read(self, term: str, *, parts: bool) -> Postings:
        texts, codes = array("I"), array("H")
        row = self._run.execute(_NUMBER, (term,)).fetchone()
        if row is not None:
            first, last = places_of(row[0], parts=parts)
            for numbers, blob in self._run.execute(_POSTINGS, {"first": first, "last": last}):
                some = numbers_of(numbers)
                new = codes_of(blob, len(some))
                if new.typecode != codes.typecode:
                    codes, new = array("I", codes), array("I", new)
                texts.extend(some)
                codes.extend(new)
        recent = self._recently(term, parts)
        if recent is not None:
            texts.extend(recent.texts)
            codes = array("I", codes)
            codes.extend(recent.codes)
        return alive_among(Postings(texts, codes), self._active)

    def _recently(self, term: str, parts: bool) -> Postings | None:
        """Return the postings of a term among the texts that are in no block yet."""
        if self._recent is None:
            self._recent = {}
            for text, terms, own, codes in recent_texts(self._run):
                for place, (name, code) in enumerate(zip(terms, codes, strict=True)):
                    some = self._recent.setdefault((name, place >= own), Postings(array("I"), array("I")))
                    some.texts.append(text)
                    some.codes.append(code)
        return self._recent.get((term, parts))


def _joined(own: Postings, among: Postings) -> Postings:
    """Return both in order of texts; no text is in both."""
    pairs = sorted([*zip(*own, strict=True), *zip(*among, strict=True)])
    return Postings(array("I", [text for text, _ in pairs]), array("I", [code for _, code in pairs]))


def _matched(tokens: Sequence[Sequence[str]], postings: Mapping[str, Postings], text: int) -> Iterator[int]:
    """Yield the places of the query words that a text has."""
    for place, read in enumerate(tokens):
        if any(postings[token].code(text) is not None for token in read):
            yield place
