"""The words of an ontology's terms, and how well each term fits a question: by stems, as a bank's items are read.

Terms are read once. A search compares its words with each distinct word of the terms, of which few need a stem: those
that begin as a stem does. So a search of a large ontology costs less than reading its comments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from rbank_es.ontology.prefixes import local_name
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, TermKind
from rbank_es.text.spelled_words import fold, name_words
from rbank_es.text.stems import language_of, stems_of

_SAME_BEGINNING_CHARS = 2
"""Letters that a word and its stem begin with alike."""


class WantedWord(NamedTuple):
    """A word of a question among some words: those of the same stem, and others that it is a part of."""

    same: frozenset[str]
    having: frozenset[str]

    def fit(self, words: Sequence[str]) -> float:
        """Return 1 for words with one of the same stem, 0.5 for others that have it as a part, else 0."""
        return 1.0 if not self.same.isdisjoint(words) else 0.5 * (not self.having.isdisjoint(words))


class ReadTerm(NamedTuple):
    """A class or property of an ontology, with the words of its name, label, comment and notes."""

    kind: TermKind
    term: ClassInfo | PropertyInfo
    name: tuple[str, ...]
    label: tuple[str, ...]
    comment: tuple[str, ...]
    notes: tuple[tuple[str, ...], ...]

    def fit(self, wanted: Sequence[WantedWord]) -> float:
        """Return how well the term fits: by its name or label, else by its comment, else by a note."""
        best = max(fit(wanted, self.name), fit(wanted, self.label)) or fit(wanted, self.comment) / 10
        # A match in a note alone ranks behind all others.
        return best or max((fit(wanted, note) for note in self.notes), default=0.0) / 1_000


def _read(kind: TermKind, term: ClassInfo | PropertyInfo) -> ReadTerm:
    name, label, comment = (tuple(name_words(text)) for text in (local_name(term.iri), term.label, term.comment))
    return ReadTerm(kind, term, name, label, comment, tuple(tuple(name_words(note)) for note in term.notes))


class TermWords:
    """The classes and properties of an ontology by their words."""

    def __init__(self, classes: Iterable[ClassInfo], properties: Iterable[PropertyInfo]) -> None:
        """Read the terms."""
        self._terms = [_read("class", each) for each in classes] + [_read("property", each) for each in properties]
        # Each distinct word, and itself without accents.
        self._known = {
            word: fold(word) for each in self._terms for words in (*each[2:5], *each.notes) for word in words
        }

    @cached_property
    def language(self) -> str:
        """The language of labels and comments; English where they show none."""
        return language_of([word for each in self._terms for word in (*each.label, *each.comment)]) or "english"

    def fitting(self, text: str) -> Iterator[tuple[float, ReadTerm]]:
        """Yield how well terms fit the words of a text, up to 4, for those that fit at all."""
        wanted = [meant_words(stem, self._known.items(), self.language) for stem in self.stems(text)]
        anything = frozenset[str]().union(*(each.same | each.having for each in wanted))
        for each in self._terms:
            if any(not anything.isdisjoint(words) for words in (*each[2:5], *each.notes)):
                yield each.fit(wanted), each

    def stems(self, text: str) -> list[str]:
        """Return the stems of a question, in the language of the terms."""
        return [stems_of(self.language)[word] for word in name_words(text)]

    def fit(self, stems: Sequence[str], text: str) -> float:
        """Return how well a short text fits stems of `stems`, up to 4."""
        words = name_words(text)
        known = [(word, fold(word)) for word in words]
        return fit([meant_words(stem, known, self.language) for stem in stems], words)


def meant_words(stem: str, known: Iterable[tuple[str, str]], language: str) -> WantedWord:
    """Return which of some words, each with itself without accents, a stem means."""
    stems, begins = stems_of(language), stem[:_SAME_BEGINNING_CHARS]
    parts = [(word, plain) for word, plain in known if plain.startswith(begins) or stem in plain]
    same = frozenset(word for word, plain in parts if plain.startswith(begins) and stems[word] == stem)
    return WantedWord(same, frozenset(word for word, plain in parts if stem in plain))


def fit(wanted: Sequence[WantedWord], words: Sequence[str]) -> float:
    """Return how well words fit those that are wanted, up to 4: most where they are the same, in order."""
    if not wanted:
        return 0.0
    if len(words) == len(wanted) and all(word in each.same for word, each in zip(words, wanted, strict=True)):
        return 4.0
    hits = sum(each.fit(words) for each in wanted)
    # Among terms with all the words, the shorter name is more likely the one that was meant.
    return hits / len(wanted) * (2.0 + 1.0 / max(1, len(words))) if hits else 0.0
