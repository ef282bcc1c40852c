"""An index of active items by postings: what a view reads from its file, and a refold keeps in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rbank_es.policies.retrieval import Filters, RankedItem
from rbank_es.policies.word_relevance import Formula, QueryWord, WordHit, WordRanking, terms_of, word_idf
from rbank_es.projections.tokenizer import Tokenizer
from rbank_es.projections.word_kernel import Postings, RankedTexts, WeightedTerm, best_texts

_SQLITE = Formula(idf="sqlite")
"""The formula of FTS5's bm25() with equal weights."""


class PostingIndex(ABC):
    """Active items with their postings. A subclass says where these are."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Begin without items; `tokenizer` reads the words of queries."""
        self._tokenizer = tokenizer
        self._documents = self._total = 0
        self._lengths = array("I")
        self._counts: list[tuple[int, ...]] = []
        self._weighted: dict[Formula, list[float]] = {}

    def by_words(self, words: Sequence[QueryWord], formula: Formula, k: int, filters: Filters) -> WordRanking:
        """Return what `word_relevance.rank_documents` defines."""
        tokens = self._tokenizer.read([word for word, _ in words])
        terms, parts = terms_of(words, tokens), formula.parts > 0
        postings = {term.token: self._postings(term.token, parts) for term in terms}
        rarities = [formula.rarity(self._documents, len(postings[term.token].texts)) for term in terms]
        weights = (term.weight * rarity for term, rarity in zip(terms, rarities, strict=True))
        weighted = [WeightedTerm(weight, postings[term.token]) for weight, term in zip(weights, terms, strict=True)]
        hits = [
            WordHit(id, score, tuple(_matched(tokens, postings, text)))
            for id, score, text in self._best(weighted, formula, k, filters)
        ]
        return WordRanking(tuple(hits), word_idf(terms, rarities, len(words)), self._documents)

    def by_sqlite(self, words: Sequence[str], k: int, filters: Filters) -> list[RankedItem] | None:
        """Return what FTS5's bm25() with equal weights finds; None for a word that it takes as a phrase."""
        tokens = self._tokenizer.tokens(words)
        if tokens is None:
            return None
        # A token that two words of the query have counts twice.
        postings = [self._postings(token, parts=False) for token in tokens]
        weighted = [WeightedTerm(_SQLITE.rarity(self._documents, len(some.texts)), some) for some in postings]
        return [RankedItem(id, -score) for id, score, _ in self._best(weighted, _SQLITE, k, filters)]

    def _best(
        self, terms: Sequence[WeightedTerm], formula: Formula, k: int, filters: Filters
    ) -> list[tuple[str, float, int]]:
        """Return id, score and text of the best `k` items, best first."""
        average = self._total / max(1, self._documents)
        texts = RankedTexts(self._lengths, average, self._frequencies(formula), self._wanted(filters))
        scores = dict(best_texts(terms, formula, texts, k))
        found = [(id, scores[text], text) for text, id in self._items(scores)]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))[: max(0, k)]

    def _frequencies(self, formula: Formula) -> list[float]:
        """Return the weighted frequency of each code."""
        known = self._weighted.setdefault(formula, [])
        known += (formula.frequency(counts, counts[-1]) for counts in self._counts[len(known) :])
        return known

    @abstractmethod
    def _postings(self, term: str, parts: bool) -> Postings:
        """Return the active texts that have a term; also those that have it among `parts` of names alone, if asked."""

    @abstractmethod
    def _wanted(self, filters: Filters) -> bytes | None:
        """Return 1 for each active text that passes the filters; None if all do."""

    @abstractmethod
    def _items(self, texts: Iterable[int]) -> Iterable[tuple[int, str]]:
        """Return the id of the item of each text, beside it."""


def joined(own: Postings, among: Postings) -> Postings:
    """Return the postings of both in order of texts; no text is in both."""
    if not among.texts:
        return own
    pairs = sorted([*zip(*own, strict=True), *zip(*among, strict=True)])
    return Postings(array("I", [text for text, _ in pairs]), array("I", [code for _, code in pairs]))


def _matched(tokens: Sequence[Sequence[str]], postings: Mapping[str, Postings], text: int) -> Iterator[int]:
    """Yield the places of the query words that a text has."""
    for place, read in enumerate(tokens):
        if any(postings[token].code(text) is not None for token in read):
            yield place
