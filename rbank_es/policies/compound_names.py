"""Compound names: the words that `towerHeight` and `tower_height` are made of.

The tokenizer of the full-text index reads `lt:towerHeight` as the words lt and towerheight, and `tower_height` as tower
and height. So a question about a tower's height misses the first, and one that quotes `towerHeight` misses the second.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# Only texts with one of these may have a compound name. Other scripts with two cases are looked at letter by letter.
# It begins with the few characters that may show one, because to look for these takes a fifth of the time.
_ASCII_HINT = re.compile(r"[A-Z_](?:(?<=[a-z0-9][A-Z])|(?<=[A-Z]{2})[a-z]|(?<=[A-Za-z0-9]_)[A-Za-z0-9])")
_NAME = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
_LEAST_PART_CHARS = 2
"""A part of one letter distinguishes nothing: the x of xCoordinate, the e of eBook."""


def compound_parts(text: str) -> list[str]:
    """Return the words that stand for the compound names of a text, beside those that the tokenizer finds.

    Of a name in camel case, they are its parts; of names that underscores join, the names run together. In order of the
    text, with repetitions, in the case of the text.
    """
    if text.isascii():
        if not _ASCII_HINT.search(text):
            return []
    else:
        # Composed, as queries are: a combining mark would end a word.
        text = unicodedata.normalize("NFC", text)
    return [part for match in _NAME.finditer(text) for part in _parts_of(match[0])]


def _parts_of(name: str) -> Iterator[str]:
    pieces = [piece for piece in name.split("_") if piece]
    if len(pieces) > 1:
        yield "".join(pieces)
    for piece in pieces:
        # Most words have no capital behind their first letter, and those in capitals are of one part.
        if piece[1:] != piece[1:].lower() and not piece.isupper():
            parts = list(_camel_parts(piece))
            if len(parts) > 1:
                yield from (part for part in parts if len(part) >= _LEAST_PART_CHARS)


def _camel_parts(word: str) -> Iterator[str]:
    start = 0
    for place in range(1, len(word)):
        if word[place].isupper() and (not word[place - 1].isupper() or _begins_word(word, place)):
            yield word[start:place]
            start = place
    yield word[start:]


def _begins_word(word: str, place: int) -> bool:
    """Return whether a capital behind a capital begins a word: the S of HTTPServer does, the I of IRIs doesn't."""
    rest = word[place + 1 :]
    return rest[:1].islower() and rest != "s"
