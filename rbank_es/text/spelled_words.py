"""Spelling: the words of a text as they are written, in every script, and the edits between two of them.

Scripts without spaces (Han, kana, hangul, Thai, Lao, Khmer, Myanmar) are read as pairs of neighbouring letters; one
letter alone is itself. Names in other letters between them are words of their own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

_DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff"
# Signs that `\w` leaves out and that belong to a word: accents, points, vowels of Indian scripts.
_SIGNS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0970-\u0dff"
_RUN = rf"[{_DENSE}]+|(?:[^\W_{_DENSE}]|[{_SIGNS}])+"
_FIRST_DENSE = f"[{_DENSE}]"
# Accents of Latin, Greek and Cyrillic letters; elsewhere a mark may be a vowel.
_ACCENTS = "(?<=[a-z\u0370-\u052f])[\u0300-\u036f]+"
# Where a name has another word: at an underscore and at a capital, of several capitals at the last one (HTTPServer, but
# not IRIs). Of any script: a letter that is neither of these has no case.
_SMALL, _CAPITAL = (
    "a-z\u00df-\u00f6\u00f8-\u00ff\u03ac-\u03ce\u0430-\u045f",
    "A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03ab\u0400-\u042f",
)
_JOINT = rf"_|(?<=[{_SMALL}0-9])(?=[{_CAPITAL}])|(?<=[{_CAPITAL}])(?=[{_CAPITAL}](?!s(?![{_SMALL}]))[{_SMALL}])"
_ASCII_WORDS = "".join(char.lower() if char.isalnum() else " " for char in map(chr, range(128)))
_APART = "\0"
_ASCII_TEXTS = _APART + _ASCII_WORDS[1:]

LEAST_TYPO_CHARS, LEAST_TWO_TYPO_CHARS = 5, 8
"""Letters of a word that may have an edit, and two: a shorter word has too many neighbours."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern, compiled when a text first needs it: they take 25 ms, a seventh of the first search."""
    return re.compile(pattern)


def is_dense(word: str) -> bool:
    """Return whether a word is of a script without spaces: a pair of its letters, or one letter."""
    return word[:1] > "\u0dff" and _compiled(_FIRST_DENSE).match(word) is not None


def composed(text: str) -> str:
    """Return a text in which letters that look the same are the same: full width, ligatures, accents (NFKC)."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def spelled(text: str) -> list[str]:
    """Return the words of a text in order, with repetitions, composed and in lower case; of a run without spaces its
    pairs of letters.
    """
    if text.isascii():  # most are: a fifth of the cost
        return text.translate(_ASCII_WORDS).split()
    words: list[str] = []
    for run in runs_of(text):
        if len(run) > 1 and is_dense(run):
            words += map("".join, zip(run, run[1:], strict=False))
        else:
            words.append(run)
    return words


def spelled_apart(texts: Iterable[str]) -> list[str]:
    """Return the words of several texts as `spelled` does, with a word that no text has between two of them."""
    text = f" {_APART} ".join(texts)
    if text.isascii():  # in one go: a third of the cost
        return text.translate(_ASCII_TEXTS).split()
    return [word for some in text.split(f" {_APART} ") for word in (*spelled(some), _APART)]


def runs_of(text: str) -> list[str]:
    """Return the words of a text as `spelled` does, but a run without spaces whole."""
    return _compiled(_RUN).findall(composed(text).lower())


def name_words(name: str) -> list[str]:
    """Return the words of a name or a sentence, in lower case: `hasPoint` and `Air_Flow_Sensor` have several."""
    return spelled(apart(name))


def apart(name: str) -> str:
    """Return a name composed, with a blank between its words."""
    return _compiled(_JOINT).sub(" ", composed(name))


def plain_name(name: str) -> str:
    """Return the letters and digits of a name, in lower case and without accents: all its spellings share them."""
    return "".join(map(fold, spelled(name)))


def fold(word: str) -> str:
    """Return a word without the accents of Latin, Greek and Cyrillic letters."""
    if word.isascii():
        return word
    return unicodedata.normalize("NFC", _compiled(_ACCENTS).sub("", unicodedata.normalize("NFD", word)))


def edits_allowed(word: str) -> int:
    """Return how many edits a word may be from another that is meant: 0, 1 or 2."""
    if len(word) < LEAST_TYPO_CHARS or not word.isalpha() or is_dense(word):
        return 0
    return 1 if len(word) < LEAST_TWO_TYPO_CHARS else 2


def letters_of(word: str) -> int:
    """Return a set of the letters of a word, a bit for each of 61 classes: an edit changes two bits at most."""
    bits = 0
    for letter in word:
        bits |= 1 << ord(letter) % 61  # a number that SQLite has no sign for
    return bits


def edits(a: str, b: str, most: int) -> int:
    """Return the edits between two words (a letter more, less, or another; neighbours swapped): `most` + 1 for more."""
    # What both begin and end with needs no edit, so most pairs end here.
    start = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        start += 1
    end = 0
    for x, y in zip(reversed(a[start:]), reversed(b[start:]), strict=False):
        if x != y:
            break
        end += 1
    a, b = a[start : len(a) - end], b[start : len(b) - end]
    if not a or not b:
        return min(len(a) + len(b), most + 1)
    before, row = [0], list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        new = [i]
        for j, y in enumerate(b, 1):
            cost = min(row[j] + 1, new[-1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            new.append(cost)
        if min(new) > most:
            return most + 1
        before, row = row, new
    return min(row[-1], most + 1)
