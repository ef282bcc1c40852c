"""Stem relevance: what a question searches for among items read by stems, and how much of it an item covers.

The items are those active at one position: which words exist, how frequent they are and which languages the bank has
is as of then. Whatever ranks by stems finds what these functions say.

A word of a question is read by the language of the question, else by those of the bank, the most frequent first: the
first stem that an item has. A word that no item has, of five letters or more, is read as the nearest word as it is
written in an item: by edits, then by how many items have its stem, then by alphabet. Names in code, what stands in
quotation marks, stop words, digits and parts of names are never read as other words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise, repeat
from typing import Protocol

from msgspec import Struct

from rbank_es import limits
from rbank_es.policies.word_relevance import Formula, QueryWord
from rbank_es.policies.words import compound_parts, names_of
from rbank_es.text.spelled_words import composed, edits, edits_allowed, fold, is_dense, spelled, spelled_apart
from rbank_es.text.stems import is_light, language_of, stems_of, stop_words_by_language

# From the beginning of a run of letters on: else a question of one long run would take cubic time.
_EXACT = re.compile(r"[\"“„«`]([^\"”“»`]+)[\"”“»`]|(?<!\w)(\w*[a-z][A-Z_:]\w*)")
_LEAST_MEANT_CHARS = 4
_BLANK = "_"  # no word has it
LEAST_SHAPE = 0.5
"""The share of two shapes from which on sentences count as asked in the same way."""


Pair = tuple[str, str]
"""Two words that stand beside each other in a question, as they are written."""


class SpelledText(Struct, frozen=True):
    """A text by its language, the words of its columns (title, desc, content, tags), and those of its names' parts."""

    language: str
    columns: tuple[list[str], ...]
    parts: list[str]

    def spellings(self) -> set[tuple[str, str]]:
        """Return each word that a misspelt one may mean, without accents, with its stem."""
        stems = stems_of(self.language)
        words = {word for words in (*self.columns, self.parts) for word in words}
        return {(fold(word), stems[word]) for word in words if may_be_meant(word)}


def read_text(columns: Sequence[str]) -> SpelledText:
    """Return the words of title, desc, content and tags. A text that shows no language is read as English."""
    texts = [composed(text) for text in columns]
    words = tuple(map(spelled, texts))
    # A line break is in no name, so the parts of the columns are those of their lines.
    parts = compound_parts("\n".join(texts))
    return SpelledText(
        language_of([each for some in words for each in some]) or "english", words, spelled(" ".join(parts))
    )


def may_be_meant(word: str) -> bool:
    """Return whether a misspelt word may be read as this one."""
    return len(word) >= _LEAST_MEANT_CHARS and word.isalpha() and not is_dense(word)


class QuestionWeights(Struct, frozen=True, kw_only=True):
    """The weights by which a question is read: `light` is that of stop words.

    `typo` is the share of a weight that a word keeps which is read as its nearest; 0 reads none so.
    """

    light: float
    typo: float
    formula: Formula


class AskedWord(Struct, frozen=True):
    """A word that a question searches for: the stem, None if no item has it, and the weight.

    `meant` is the word of an item as which it is read where it is none itself; `light` is a stop word.
    """

    word: str
    stem: str | None
    weight: float
    meant: str | None = None
    light: bool = False


class AskedQuestion(Struct, frozen=True):
    """The words of a question, each stem once; its neighbouring words; those that name or number one thing; its shape,
    and the neighbours that each stop word has in that, in the language in which it is read.
    """

    words: tuple[AskedWord, ...]
    pairs: tuple[Pair, ...]
    names: frozenset[str]
    shape: frozenset[Pair]
    stops: Mapping[str, int]
    language: str


class QuestionOrder(Struct, frozen=True):
    """What the order of words in a text has of a question's: pairs that stand beside each other; of the shapes of
    question and title the share that both have, 0 or from `LEAST_SHAPE` to 1; and then the stop words that both have.
    """

    pairs: list[Pair]
    shape: float
    light: frozenset[str]


class StemWords(Protocol):
    """The items active at one position, by the stems of their words."""

    @property
    def languages(self) -> Sequence[str]:
        """The languages of their texts, the most frequent first; one at least."""
        ...

    def having(self, stem: str, formula: Formula) -> int:
        """Return how many of them have a stem, in columns or, where the formula counts these, in parts of names."""
        ...

    def near(self, word: str, most: int) -> Iterable[tuple[str, str]]:
        """Return all words of the items, with their stems, that are at most so many edits from a word, and maybe
        others, also of items that aren't active.
        """
        ...

    def has_spelling(self, spelling: str, stem: str) -> bool:
        """Return whether one of them has a word that is written so, without accents, and has this stem."""
        ...


def query_spellings(query: str) -> list[str]:
    """Return the words of a query in order, with repetitions; of a long one, those of its beginning."""
    return spelled(query[: limits.QUERY_CHARS])


def read_question(query: str, reading: QuestionWeights, items: StemWords) -> AskedQuestion:
    """Return what a query searches for: its own words in order, then parts of names, at most `limits.QUERY_WORDS`."""
    text = composed(query[: limits.QUERY_CHARS])
    written = spelled(text)
    shown = language_of(written)
    language = shown or items.languages[0]
    order = list(dict.fromkeys((language, *items.languages)))
    exact = {word for found in _EXACT.findall(text) for each in found for word in spelled(each)}
    found: dict[str, AskedWord] = {}
    for word, weight, light in _weighted(text, written, reading, language):
        stem = next((stem for name in order if items.having(stem := stems_of(name)[word], reading.formula)), None)
        meant = None
        if stem is None and not light and weight == 1.0 and word not in exact and reading.typo:
            meant, stem = nearest(fold(word), reading.formula, items) or (None, None)
        asked = AskedWord(word, stem, weight * reading.typo if meant else weight, meant, light)
        known = found.get(stem or word)
        if known is None or known.weight < asked.weight:
            found[stem or word] = asked
    pairs = dict.fromkeys(pairwise(written))
    # Only what no item has is asked about for its name.
    names = names_of(text) if any(each.stem is None for each in found.values()) else frozenset[str]()
    shape = shape_of(written, language)
    counts = Counter(mark for pair in shape for mark in {*pair} - {"", _BLANK})
    return AskedQuestion(tuple(found.values()), tuple(pairs), names, shape, counts, language)


def _weighted(
    text: str, written: Sequence[str], reading: QuestionWeights, language: str
) -> list[tuple[str, float, bool]]:
    """Return each word of a question with its weight, and whether it says little."""
    parts = spelled(" ".join(compound_parts(text)))
    light = {word: is_light(word, language) for word in (*written, *parts)}
    weights = {word: reading.light if light[word] else 1.0 for word in written}
    for part in parts:
        weights.setdefault(part, reading.formula.parts)
    found = [(word, weight, light[word]) for word, weight in weights.items() if weight > 0]
    if len(found) > limits.QUERY_WORDS:
        found.sort(key=lambda each: each[2])  # stable: other words come before stop words
    return found[: limits.QUERY_WORDS]


def nearest(word: str, formula: Formula, items: StemWords) -> tuple[str, str] | None:
    """Return the nearest word that an active item has, and its stem; None if none is near enough."""
    # By one edit first: those two away are many, and are rarely needed.
    for most in range(1, edits_allowed(word) + 1):
        found: list[tuple[int, int, str, str]] = []
        for spelling, stem in items.near(word, most):
            # The first letter stays, unless it was swapped with the second.
            begins = spelling[0] == word[0] or spelling[:2] == word[1::-1]
            if begins and abs(len(spelling) - len(word)) <= most and (apart := edits(word, spelling, most)) <= most:
                found.append((apart, -items.having(stem, formula), spelling, stem))
        alive = (each for each in sorted(found) if each[1] and items.has_spelling(each[2], each[3]))
        if (best := next(alive, None)) is not None:
            return best[2:]
    return None


def word_order(question: AskedQuestion, pairs: Sequence[Pair], columns: Sequence[str]) -> QuestionOrder:
    """Return what title, desc, content and tags have of a question's order, of its pairs of words some alone."""
    beside: list[Pair] = []
    if pairs:
        # With blanks around each word: to search in one text is quicker than to compare words.
        text = f" {'  '.join(spelled_apart(columns))} "
        beside = [pair for pair in pairs if f" {pair[0]}  {pair[1]} " in text]
    title = spelled(columns[0])
    light = frozenset(question.stops.keys() & (title if columns[0].isascii() else map(fold, title)))
    # Most titles have too few: their shapes need not be read.
    share = shape_share(question, light) and _shared(question.shape, shape_of(title, question.language))
    return QuestionOrder(beside, share, light) if share >= LEAST_SHAPE else QuestionOrder(beside, 0.0, frozenset())


def shape_share(question: AskedQuestion, light: Iterable[str]) -> float:
    """Return the most of a question's shape that a title with some of its stop words may have, 0 if too little."""
    count = sum(map(question.stops.get, light, repeat(0)))
    # A blank may be first and last.
    share = min(1.0, (count + 2) / len(question.shape))
    return share if count and share >= LEAST_SHAPE else 0.0


def _shared(one: frozenset[Pair], other: frozenset[Pair]) -> float:
    common = len(one & other)
    return common / (len(one) + len(other) - common)


def shape_of(words: Sequence[str], language: str) -> frozenset[Pair]:
    """Return the shape of a sentence: the neighbours among its stop words, without accents, in which other words are
    blanks, equal ones behind each other are one, and both ends are an empty word.
    """
    marks = ["", *(mark for mark, _ in groupby(_marks(words, language))), ""]
    return frozenset(zip(marks, marks[1:], strict=False))


def _marks(words: Sequence[str], language: str) -> Iterable[str]:
    stops = stop_words_by_language()[language]
    return [
        fold(word) if word in stops or (not word.isascii() and is_light(word, language)) else _BLANK for word in words
    ]


def searched(question: AskedQuestion) -> tuple[list[QueryWord], list[tuple[str, ...]]]:
    """Return the words of a question, and the stems of each, as `word_relevance.rank_documents` takes them."""
    words = [QueryWord(each.word, each.weight) for each in question.words]
    return words, [() if each.stem is None else (each.stem,) for each in question.words]


def unknown_letters(question: AskedQuestion) -> Mapping[str, float]:
    """Return the share that a pair of letters counts which no item has: by those of its letters that are missing.

    A letter of a neighbouring pair that an item has isn't missing. A letter is half a word, and two pairs have it.
    """
    dense = [each for each in question.words if is_dense(each.word)]
    ends = {each.word[-1] for each in dense if each.stem is not None}
    starts = {each.word[0] for each in dense if each.stem is not None}
    return {
        each.word: ((each.word[0] not in ends) + (each.word[-1] not in starts)) / 4
        for each in dense
        if each.stem is None
    }
