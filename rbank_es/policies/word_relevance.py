"""Word relevance: how BM25 ranks items for the words of a query. This is its definition, in plain Python.

A document is an item as the full-text index reads it: how often it has each token, by column, and each part of its
compound names. Whatever ranks faster (a view's postings, the index of a refold) finds the same hits with the same
scores, bit for bit. It adds up the same numbers in the same order:

    frequency = title·f₁ + desc·f₂ + content·f₃ + tags·f₄ + parts·fₚ
    score     = Σ (weight·idf) · ((frequency·(k1 + 1)) / (frequency + k1·(1 − b + b·length / average)))

The sum is over the terms of the query, in its order. A length is the number of tokens in the four columns, without
parts; the average is that of all documents. Filters drop hits, and no score depends on them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import log
from typing import Literal, NamedTuple

from msgspec import Struct

Columns = tuple[float, float, float, float]
"""A weight each of title, desc, content and tags."""

# SQLite's own floor, for words that half of the documents have: `bm25-1` scores by it.
_LEAST_SQLITE_IDF = 1e-6


class QueryWord(NamedTuple):
    """A word of a query as the full-text index's tokenizer is to read it, and how much it counts."""

    word: str
    weight: float


class Formula(Struct, frozen=True, kw_only=True):
    """The numbers of BM25. `parts` weighs a part of a compound name; 0 leaves parts out.

    `lucene` is ln(1 + (N − n + ½) / (n + ½)), above 0 for every word; `sqlite` is FTS5's ln((N − n + ½) / (n + ½)),
    which is 1e-6 for each word that half of the documents have.
    """

    idf: Literal["sqlite", "lucene"] = "lucene"
    k1: float = 1.2
    b: float = 0.75
    columns: Columns = (1.0, 1.0, 1.0, 1.0)
    parts: float = 0.0

    def rarity(self, documents: int, having: int) -> float:
        """Return the idf of a token that so many of the documents have."""
        odds = (documents - having + 0.5) / (having + 0.5)
        if self.idf == "lucene":
            return log(1.0 + odds)
        return log(odds) if odds > 1.0 else _LEAST_SQLITE_IDF

    def frequency(self, counts: Sequence[int], parts: int) -> float:
        """Return the weighted frequency of a token in a document, from its counts by column and among parts."""
        title, desc, content, tags = self.columns
        of_columns = title * counts[0] + desc * counts[1] + content * counts[2] + tags * counts[3]
        return of_columns + self.parts * parts

    def saturated(self, frequency: float, length: int, average: float) -> float:
        """Return the saturated frequency in a document of that length: from 0 to k1 + 1."""
        return (frequency * (self.k1 + 1.0)) / (frequency + self.norm(length, average))

    def norm(self, length: float, average: float) -> float:
        """Return the frequency that counts half of the most in a document of that length."""
        return self.k1 * (1.0 - self.b + self.b * length / average)


class Document(Struct, frozen=True):
    """The counts of an item's tokens: by column (title, desc, content, tags), and among parts of compound names."""

    columns: tuple[Mapping[str, int], Mapping[str, int], Mapping[str, int], Mapping[str, int]]
    parts: Mapping[str, int]

    @property
    def length(self) -> int:
        """Return the number of tokens, without parts."""
        return sum(sum(column.values()) for column in self.columns)

    def counts(self, token: str) -> tuple[int, ...]:
        """Return how often each column has a token."""
        return tuple(column.get(token, 0) for column in self.columns)

    def has(self, token: str, formula: Formula) -> bool:
        """Return whether the item has a token in any column, or among its parts where these count."""
        return any(token in column for column in self.columns) or (formula.parts > 0 and token in self.parts)


class WordHit(Struct, frozen=True):
    """An item found. `score` is above 0, higher is better; `matched` are the places of the query words that it has."""

    id: str
    score: float
    matched: tuple[int, ...]


class WordRanking(Struct, frozen=True):
    """The hits, best first, ties in order of id; the idf of each query word, whether an item has it or not; and of how
    many active items.

    The idf is 0 of a word whose stem an earlier word has already, and of one that the tokenizer reads as nothing.
    """

    hits: tuple[WordHit, ...]
    idf: tuple[float, ...]
    documents: int


class Term(NamedTuple):
    """A token to score by: the place of the first query word that is read as it, and the greatest of their weights."""

    token: str
    place: int
    weight: float


def terms_of(words: Sequence[QueryWord], tokens: Sequence[Sequence[str]]) -> list[Term]:
    """Return the terms of a query in order, each token once; `tokens` has those of each word, mostly one."""
    found: dict[str, Term] = {}
    for place, (word, read) in enumerate(zip(words, tokens, strict=True)):
        for token in read:
            known = found.get(token)
            if known is None:
                found[token] = Term(token, place, word.weight)
            elif known.weight < word.weight:
                found[token] = known._replace(weight=word.weight)
    return list(found.values())


def word_idf(terms: Sequence[Term], rarities: Sequence[float], words: int) -> tuple[float, ...]:
    """Return the idf of each of so many query words: the greatest of its terms', 0 of a word without terms."""
    idf = [0.0] * words
    for term, rarity in zip(terms, rarities, strict=True):
        idf[term.place] = max(idf[term.place], rarity)
    return tuple(idf)


def rank_documents(
    words: Sequence[QueryWord],
    tokens: Sequence[Sequence[str]],
    formula: Formula,
    k: int,
    documents: Mapping[str, Document],
    wanted: Container[str],
) -> WordRanking:
    """Return the best `k` of the wanted documents, by id, for a query whose words are read as these tokens."""
    terms = terms_of(words, tokens)
    having = [sum(document.has(term.token, formula) for document in documents.values()) for term in terms]
    rarities = [formula.rarity(len(documents), count) for count in having]
    average = sum(document.length for document in documents.values()) / max(1, len(documents))
    hits = []
    for id, document in documents.items():
        score = _score(terms, rarities, formula, document, average) if id in wanted else 0.0
        if score > 0:
            matched = (place for place, read in enumerate(tokens) if any(document.has(t, formula) for t in read))
            hits.append(WordHit(id, score, tuple(matched)))
    hits.sort(key=lambda hit: (-hit.score, hit.id))
    return WordRanking(tuple(hits[: max(0, k)]), word_idf(terms, rarities, len(words)), len(documents))


def _score(
    terms: Sequence[Term], rarities: Sequence[float], formula: Formula, document: Document, average: float
) -> float:
    score, length = 0.0, document.length
    for term, rarity in zip(terms, rarities, strict=True):
        frequency = formula.frequency(document.counts(term.token), document.parts.get(term.token, 0))
        if frequency > 0:
            # In this order of operations, which every faster search keeps, because floats don't associate.
            score += (term.weight * rarity) * formula.saturated(frequency, length, average)
    return score
