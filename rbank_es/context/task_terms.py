"""Which terms a task names: its words against those of names and labels, with light stemming and no stop words."""

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
"""What questions ask with, and seldom about."""

_NAMED = 1_000


class TaskWords:
    """The words of a task, and how well a term fits them."""

    def __init__(self, text: str) -> None:
        text = text[: limits.QUERY_CHARS]
        named = (word for word in _IDENTIFIER.findall(text) if word[1:].lower() != word[1:] or "_" in word)
        self._named = frozenset((*named, *_PREFIXED.findall(text)))
        self._stems = _stems(_HUMPS.sub(" ", text)) - _QUESTION

    def fit(self, iri: str, label: str = "") -> int:
        """How well a term fits: 0 not at all; more for a term that the task names, and for one with few other words."""
        if local_name(iri) in self._named:
            return _NAMED
        return max(self._overlap(words) for words in _wordings(iri, label))

    def words_of(self, iri: str, label: str = "") -> frozenset[str]:
        """The words of the task that a term has, as stems."""
        return self._stems & frozenset().union(*_wordings(iri, label))

    def best(self, terms: Iterable[tuple[str, str]], most: int) -> list[int]:
        """The places of the terms (IRI and label) that fit best, at most so many; of those that fit alike, the first.

        A term with no word that a better one doesn't have comes after those that say something else of the task.
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
    """The words of a term, as its name and as its label has them."""
    return _stems(_HUMPS.sub(" ", local_name(iri))), _stems(label)


def stem(word: str) -> str:
    """A word without the endings of plurals and of the commonest verb forms; crude, and the same every time."""
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
    return frozenset(map(stem, _kept(words_of(text))))


def _kept(words: Iterable[str]) -> Iterable[str]:
    return (word for word in words if word not in _STOP_WORDS)
