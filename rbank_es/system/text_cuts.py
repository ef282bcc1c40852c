"""Texts cut to a number of characters, marked where they were cut: at the end, between words, or in the middle.

What runs in the sandbox has its own (`rbank_es/sandbox/guest.py`), because it can import nothing of this package.
"""

from __future__ import annotations

ELLIPSIS = "…"
"""The mark at the end of a text that goes on."""

_NOTE_CHARS = 50
"""The room for the line that says how much of the middle is left out."""


def cut(text: str, chars: int) -> str:
    """Return a text in at most `chars` characters (1 or more), ended by `…` where it was cut."""
    return text if len(text) <= chars else text[: chars - 1] + ELLIPSIS


def cut_words(text: str, chars: int) -> str:
    """Return a text in at most `chars` characters, ended by `…` behind a word if it was cut (or within a long one)."""
    if len(text) <= chars:
        return text
    room = text[: chars - 1]
    space = max(room.rfind(" "), room.rfind("\n"))
    return (room[:space] if space > chars // 2 else room).rstrip() + ELLIPSIS


def cut_middle(text: str, chars: int) -> str:
    """Return a text in at most `chars` characters, or a note's, with a line in place of its middle if it was cut."""
    if len(text) <= chars:
        return text
    half = max(chars - _NOTE_CHARS, 0) // 2
    return f"{text[:half]}\n... {len(text) - 2 * half:,} characters left out ...\n{text[len(text) - half :]}"
