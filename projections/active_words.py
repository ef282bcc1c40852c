"""Searches by the words of active items: those that a view reads from its file, and those that a refold holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from typing import Generic, Protocol, TypeVar

from rbank_es.policies.retrieval import Filters, RankedItem
from rbank_es.policies.word_relevance import Formula, QueryWord, WordHit, WordRanking, terms_of, word_idf
from rbank_es.projections.tokenizer import Tokenizer

_SQLITE = Formula(idf="sqlite")
"""The formula of FTS5's bm25() with equal weights."""


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
        """Return what `word_relevance.rank_documents` defines."""
        tokens = self._tokenizer.read([word for word, _ in words])
        terms = terms_of(words, tokens)
        having = {term.token: self._having(term.token, formula) for term in terms}
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
        """Return what FTS5's bm25() with equal weights finds; None for a word that it takes as a phrase."""
        tokens = self._tokenizer.tokens(words)
        if tokens is None:
            return None
        # A token that two words of the query have counts twice.
        having = [self._having(token, _SQLITE) for token in tokens]
        weighted = [(_SQLITE.rarity(self._documents, some.having), some) for some in having]
        return [RankedItem(id, -score) for id, score, _ in self._best(weighted, _SQLITE, k, filters)]

    @abstractmethod
    def _having(self, term: str, formula: Formula) -> Texts:
        """Return the active texts that have a term, in columns or, where these count, among parts of names."""

    @abstractmethod
    def _best(
        self, terms: Sequence[tuple[float, Texts]], formula: Formula, k: int, filters: Filters
    ) -> list[tuple[str, float, int]]:
        """Return id, score and text of the best `k` items that pass the filters, best first, ties in order of id.

        The terms are in order of the query, each with its weight times its idf.
        """
