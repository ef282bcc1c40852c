"""What a task asks for, as far as its words tell: everything, a number of things, a count, or names."""

from __future__ import annotations

import re

from rbank_es.policies.words import words_of

_CERTAIN = frozenset({"all", "every", "each", "complete"})
"""Words after which a part is no answer. `which` and `list` ask for all as well, but are also used for a few."""

_SOME = frozenset(
    [
        "top",
        "first",
        "last",
        "few",
        "some",
        "example",
        "examples",
        "sample",
        "longest",
        "shortest",
        "largest",
        "smallest",
        "highest",
        "lowest",
        "most",
        "least",
        "biggest",
        "latest",
        "earliest",
        "oldest",
        "newest",
        "best",
        "worst",
        "maximum",
        "minimum",
        "max",
        "min",
        "random",
    ]
)
_NUMBERS = frozenset(
    [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "twelve",
        "twenty",
        "fifty",
        "hundred",
    ]
)
_COUNTING = re.compile(r"\bhow many\b|\bnumber of\b|\bcount\b", re.IGNORECASE)
_NAMING = frozenset(
    [
        "name",
        "names",
        "named",
        "label",
        "labels",
        "labelled",
        "title",
        "titles",
        "titled",
        "called",
        "word",
        "words",
        "text",
        "texts",
        "description",
        "descriptions",
        "comment",
        "comments",
        "synonym",
        "synonyms",
        "term",
        "terms",
        "say",
        "says",
    ]
)


def asks_for_all(task: str) -> bool:
    """Whether a task wants everything of a kind, in so many words, and names no number and no extreme."""
    words = words_of(task)
    return bool(_CERTAIN & set(words)) and not _limits_itself(words)


def _limits_itself(words: list[str]) -> bool:
    return bool((_SOME | _NUMBERS) & set(words)) or any(word.isdigit() and len(word) <= 3 for word in words)


def asks_for_count(task: str) -> bool:
    """Whether a task wants a number of things."""
    return _COUNTING.search(task) is not None


def asks_for_names(task: str) -> bool:
    """Whether a task wants what things are called, or what is written about them."""
    return bool(_NAMING & set(words_of(task)))


def plain(text: str) -> str:
    """A text without what people write differently: case, blanks, punctuation, the commas of thousands."""
    return re.sub(r"[\W_]+", "", re.sub(r"(?<=\d)\.(?=\d)", "dot", text.casefold()))
