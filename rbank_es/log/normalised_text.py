"""Texts without what this package's own writers change when they copy a text into another one.

Extraction composes letters with their marks (NFC) and makes one blank of white space. Items and contexts leave hidden
characters out. Files change line ends, prompts indent lines, and terminals wrap them. Whoever compares two folded texts
sees none of that. What is left out of a text at its end is marked by `…`, which `cut_in` reads.
"""

from __future__ import annotations

from typing import NamedTuple
from unicodedata import category, normalize

from rbank_es import limits

DISPUTED = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
"""White space that one writer leaves out as a control, and another one makes a blank."""
_DISPUTED = frozenset(map(ord, DISPUTED))
_SPACES = bytes(code if chr(code) not in DISPUTED else 0x20 for code in range(256))
_ASCII_CONTROLS = bytes(code for code in (*range(0x20), 0x7F) if not chr(code).isspace())
_ELLIPSES = ("…", "...")
_BEFORE_ELLIPSIS = " [("
"""What may stand between the kept words and the ellipsis: a blank, or the bracket of a note."""
_AFTER_ELLIPSIS = " )]"


class _Table(dict[int, int | str | None]):
    """What becomes of each character; `drops` says whether disputed ones are left out."""

    def __init__(self, drops: bool) -> None:
        super().__init__()
        self._drops = drops

    def __missing__(self, code: int) -> int | str | None:
        char = chr(code)
        made: int | str | None = code
        if char.isspace():
            made = None if self._drops and code in _DISPUTED else " "
        elif not char.isprintable() and category(char) != "Zs":
            made = None
        self[code] = made
        return made


_TABLES = (_Table(False), _Table(True))


def folded(text: bytes, *, drops: bool = False) -> str:
    """Return a text in UTF-8 composed, without hidden characters, and with one blank for any white space.

    `drops` leaves disputed white space out. What is no UTF-8 becomes U+FFFD.
    """
    if text.isascii():
        # By bytes: a hundred times as fast, and nearly all lines are ASCII.
        plain = text.translate(None, _ASCII_CONTROLS + DISPUTED[:-1].encode() if drops else _ASCII_CONTROLS)
        return b" ".join(plain.translate(_SPACES).split()).decode()
    kept = text.decode("utf-8", "replace").translate(_TABLES[drops])
    return normalize("NFC", " ".join(kept.split()))


class FoldedWords(NamedTuple):
    """Folded words, once with a blank for disputed white space and once without it."""

    spaced: str
    dropped: str

    @classmethod
    def of(cls, words: str) -> FoldedWords:
        """Return some words folded."""
        given = words.encode("utf-8", "surrogatepass")
        return cls(folded(given), folded(given, drops=True))

    @property
    def ends_to_cut(self) -> tuple[str, ...]:
        """What a cut copy has of the words: their beginning or their end; nothing of words that are too short."""
        least = limits.CUT_WORDS_CHARS
        return (self.spaced[:least], self.spaced[-least:]) if len(self.spaced) > least else ()


def has_hidden(text: bytes) -> bool:
    """Return whether a text may have characters that are left out of it when it is folded."""
    if text.isascii():
        return len(text.translate(None, _ASCII_CONTROLS)) != len(text)
    # No search by a pattern is as quick. A no-break space is taken for one that may be.
    return not text.decode("utf-8", "replace").replace("\n", "").isprintable()


def has_disputed(text: bytes) -> bool:
    """Return whether a text has white space that some writers leave out."""
    return any(char.encode() in text for char in DISPUTED)


def has_ellipsis(text: str) -> bool:
    """Return whether a text has an ellipsis."""
    return any(mark in text for mark in _ELLIPSES)


def cut_in(text: str, words: str) -> bool:
    """Return whether a folded text holds a beginning or an end of some folded words, cut off by an ellipsis.

    It has to have `limits.CUT_WORDS_CHARS` characters of the words: fewer may be of another text.
    """
    least = limits.CUT_WORDS_CHARS
    return len(words) > least and (_ends_in_ellipsis(text, words, least) or _begins_with_ellipsis(text, words, least))


def _ends_in_ellipsis(text: str, words: str, least: int) -> bool:
    at = text.find(words[:least])
    while at >= 0:
        end = least + _alike(text[at + least :], words[least:])
        if text[at + end : at + end + 4].lstrip(_BEFORE_ELLIPSIS).startswith(_ELLIPSES):
            return True
        at = text.find(words[:least], at + 1)
    return False


def _begins_with_ellipsis(text: str, words: str, least: int) -> bool:
    at = text.find(words[-least:])
    while at >= 0:
        back = _alike(text[max(0, at - len(words)) : at][::-1], words[:-least][::-1])
        if text[max(0, at - back - 4) : at - back].rstrip(_AFTER_ELLIPSIS).endswith(_ELLIPSES):
            return True
        at = text.find(words[-least:], at + 1)
    return False


def _alike(one: str, other: str) -> int:
    """Return the number of characters with which two texts both begin."""
    # By halves, because a prompt has 100,000 characters.
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low
