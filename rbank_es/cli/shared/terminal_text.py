"""Texts made fit for a terminal: nothing that steers it gets through, and nothing is wider than it."""

from __future__ import annotations

from itertools import chain

ELLIPSIS = "…"
# Control characters, and those that turn the direction of text: a stored text must not be able to
# move the cursor, hide a line, or show a command other than the one that is there.
_STEERING = chain(range(0x20), range(0x7F, 0xA0), (0x2028, 0x2029), range(0x202A, 0x202F), range(0x2066, 0x206A))
_SPELLED = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in _STEERING}
_SPELLED_BUT_LINES = {code: spelled for code, spelled in _SPELLED.items() if code != ord("\n")}


def line(text: str) -> str:
    """The text on one line: runs of white space as one blank, control characters spelled out."""
    return " ".join(text.split()).translate(_SPELLED)


def block(text: str) -> str:
    """The text on its own lines, control characters spelled out, tabs as blanks."""
    return text.replace("\r\n", "\n").expandtabs(4).translate(_SPELLED_BUT_LINES)


def width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    import unicodedata  # only texts beyond ASCII pay for it

    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """The text, or its beginning and an ellipsis, in at most so many columns (at least one)."""
    if width(text) <= columns:
        return text
    taken, used = [], 0
    for char in text:
        used += _columns(char)
        if used > columns - 1:
            break
        taken.append(char)
    return "".join(taken).rstrip() + ELLIPSIS


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """The text filled up with blanks to so many columns; a wider one stays as it is."""
    blanks = " " * max(0, columns - width(text))
    return blanks + text if right else text + blanks


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 run`, `2 runs`, `1,234 entries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def moment(at: str | None) -> str:
    """A stored time as people read it: `2026-01-31 12:00:00`, UTC."""
    return (at or "")[:19].replace("T", " ")


def size_text(size_bytes: int) -> str:
    """A size in the unit that suits it: `812 bytes`, `1.2 MiB`."""
    if size_bytes < 1024:
        return count(size_bytes, "byte")
    size, unit = size_bytes / 1024, "KiB"
    for larger in ("MiB", "GiB"):
        if size >= 1024:
            size, unit = size / 1024, larger
    return f"{size:.1f} {unit}"
