"""Stored text as people may see it: each character is visible, or spelled out as `\\u202e`.

A terminal obeys control characters, the bidirectional algorithm reorders text around its marks, and some characters
have no shape at all. So a stored text could show a reader something else than what programs and agents read. Every
output for people (terminal, page, CSV) passes `visible`; JSON passes `visible_json`, which keeps its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rbank_es import limits

JOINERS = "\u200c\u200d"
"""Invisible, but words of Persian and Hindi, and many emoji, are misspelt without them."""

# Characters that Unicode calls ignorable although they are letters or marks: they take part in words and have no shape.
_SHAPELESS = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
_PRESENTATIONS = "\ufe0e\ufe0f"  # an emoji as text or as picture: harmless, once, after a character beyond ASCII
_ASCII_SPELLED = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F)}
_ASCII_SHOWN = "([ -~]+)"
_ASCII_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def visible(text: str, keep: str = "") -> str:
    """Return the text with every hidden or steering character spelled out, except those in `keep`.

    Hidden are control characters, formats (bidirectional, zero width, tags), line and paragraph separators, lone
    surrogates, unassigned and private characters, ignorable ones, and marks past the fourth on one letter.
    """
    if text.isascii():
        if not _ASCII_CONTROL.search(text):
            return text
        return text.translate({code: each for code, each in _ASCII_SPELLED.items() if chr(code) not in keep})
    return _replaced(text, spelled, keep)


def visible_json(document: bytes) -> bytes:
    """Return a JSON document of the same value, with the hidden characters in its strings escaped."""
    if document.isascii() and b"\x7f" not in document:
        return document
    return _replaced(document.decode(), _json_escape, "\n\r\t").encode()


def without_hidden(text: str) -> str:
    """Return the text as contexts show it to agents: hidden characters left out, joiners and white space kept."""
    if text.isprintable():
        return text
    return "".join(char for char in text if char.isspace() or char in JOINERS or not _is_other(char))


def spelled(char: str) -> str:
    """Return a character as its escape: `\\x1b`, `\\u202e` or `\\U000e0041`."""
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _replaced(text: str, spell: Callable[[str], str], keep: str) -> str:
    # A mark without a letter would join what the program itself printed before.
    marks, last, shown = limits.LETTER_MARKS, "", list[str]()
    # Runs of printable ASCII at once: character by character, a document of 10 MB takes 10 s of processor.
    for place, part in enumerate(re.split(_ASCII_SHOWN, text)):
        if place % 2:
            marks, last = 0, part[-1]
            shown.append(part)
        else:
            marks, last = _replace(part, spell, keep, marks, last, shown)
    return "".join(shown)


def _replace(
    part: str, spell: Callable[[str], str], keep: str, marks: int, last: str, shown: list[str]
) -> tuple[int, str]:
    """Add the characters of a part to `shown`; return the marks on the last letter so far, and the last character."""
    from unicodedata import combining

    for char in part:
        # `isprintable` is false for all categories C and Z: one look for most characters.
        hidden = not char.isprintable() and not (char.isspace() and not _is_other(char)) and char not in keep
        if combining(char) or _is_mark(char):
            marks += 1
            hidden = hidden or marks > limits.LETTER_MARKS
        else:
            marks = 0
        if not hidden and re.match(_SHAPELESS, char):
            hidden = char not in _PRESENTATIONS or last.isascii() or last in _PRESENTATIONS
        shown.append(spell(char) if hidden else char)
        last = char
    return marks, last


def _is_mark(char: str) -> bool:
    from unicodedata import category

    return not char.isascii() and category(char) in ("Mn", "Me")


def _is_other(char: str) -> bool:
    from unicodedata import category

    return category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
