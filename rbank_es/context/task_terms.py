"""The terms that a task names: its words compared with names and labels, by light stemming and without stop words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rbank_es import limits
from rbank_es.ontology.prefixes import local_name
from rbank_es.policies.words import STOP_WORDS, words_of

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PREFIXED = re.compile(r":([^\W\d][\w-]*)")
_IDENTIFIER = re.compile(r"[^\W\d][\w-]*")
_STOP_WORDS = STOP_WORDS["english-1"]
_QUESTION = frozenset(["list", "number", "return", "show", "find", "class", "property"])
"""Stems of words that questions ask with, and seldom about."""

_NAMED = 1_000


class TaskWords:
    """The words of a task, compared with those of terms."""

    def __init__(self, text: str) -> None:
        text = text[: limits.QUERY_CHARS]
        named = (word for word in _IDENTIFIER.findall(text) if word[1:].lower() != word[1:] or "_" in word)
        self._named = frozenset((*named, *_PREFIXED.findall(text)))
        self._stems = _stems(_HUMPS.sub(" ", text)) - _QUESTION

    def fit(self, iri: str, label: str = "") -> int:
        """Return how well a term fits: 0 not at all; most if the task names it, more with few other words."""
        if local_name(iri) in self._named:
            return _NAMED
        return max(self._overlap(words) for words in _wordings(iri, label))

    def words_of(self, iri: str, label: str = "") -> frozenset[str]:
        """Return the words of the task that a term has, as stems."""
        return self._stems & frozenset().union(*_wordings(iri, label))

    def best(self, terms: Iterable[tuple[str, str]], most: int) -> list[int]:
        """Return the places of the terms (IRI and label) that fit best, at most `most`; of equals, the first.

        A term whose words a better one has too comes last, so that more words of the task are covered.
        """
        given = list(terms)
        fits = [(self.fit(iri, label), -place) for place, (iri, label) in enumerate(given)]
        ordered = [-place for _, place in sorted((fit for fit in fits if fit[0]), reverse=True)]
        told: set[str] = set()
        first: list[int] = []
        rest: list[int] = []
        for place in ordered:
            words = self.words_of(*given[place])
            (rest if words <= told and self.fit(*given[place]) < _NAMED else first).append(place)
            told |= words
        return [*first, *rest][:most]

    def _overlap(self, stems: frozenset[str]) -> int:
        common = len(stems & self._stems)
        return 100 * common * common // len(stems) if common else 0


def _wordings(iri: str, label: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the stems of a term's name, and of its label."""
    return _stems(_HUMPS.sub(" ", local_name(iri))), _stems(label)


def stem(word: str) -> str:
    """Return a word without the endings of plurals and of common verb forms: crude, but deterministic."""
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("ses", "xes", "zes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            word = word.removesuffix(ending)
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words_of(text) if word not in _STOP_WORDS)
