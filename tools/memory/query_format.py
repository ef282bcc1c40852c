"""Writing out a query's pieces the same way every time: one triple a line, as few blanks as can be read."""

from __future__ import annotations

from collections.abc import Sequence

from rbank_es.tools.memory.query_roles import Piece

_APART = frozenset({"SELECT", "DISTINCT", "REDUCED", "BY", "VALUES", "IN", "AS", "WHERE", "NOT", "EXISTS", "HAVING"})
"""Words that stand apart from a bracket after them; all others are functions, or read well as one."""

INDENT = "  "


LINE_CHARS = 100
"""A group of one line that fits into this many characters, braces included, stays on its line."""


def laid_out(pieces: Sequence[tuple[Piece, str]]) -> str:
    """The text of a query: each piece with what is written for it."""
    lines: list[str] = [""]
    depth = nodes = 0
    previous: tuple[Piece, str] | None = None
    for piece, text in pieces:
        mark = text if piece.kind == "symbol" else ""
        nodes += (mark == "[") - (mark == "]")
        ends = mark == "}" and piece.role != "value"
        if ends:
            depth = max(0, depth - 1)
            _break(lines, depth)
        glued = not lines[-1].strip() or _is_glued(previous, piece, text)
        lines[-1] += text if glued else f" {text}"
        if ends:
            _join(lines)
        depth += mark == "{" and piece.role != "value"
        if mark == "}" or (mark == "{" and piece.role != "value") or (mark in (".", ";") and nodes <= 0):
            _break(lines, depth + (mark == ";"))
        previous = (piece, text)
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _break(lines: list[str], depth: int) -> None:
    if lines[-1].strip():
        lines.append(INDENT * depth)
    else:
        lines[-1] = INDENT * depth


def _join(lines: list[str]) -> None:
    """Put a group of one line on the line where it opens."""
    if len(lines) < 3 or not lines[-3].endswith("{") or "{" in lines[-2]:
        return
    joined = f"{lines[-3]} {lines[-2].strip()} {lines[-1].strip()}"
    if len(joined) <= LINE_CHARS:
        lines[-3:] = [joined]


def _is_glued(previous: tuple[Piece, str] | None, piece: Piece, text: str) -> bool:
    """Whether a piece follows the one before it without a blank."""
    if previous is None:
        return True
    before, written = previous
    if piece.kind == "symbol" and (text in (")", "]", ",") or (piece.role == "path" and text not in ("^", "!", "("))):
        return True
    if before.kind == "symbol" and (written in ("(", "[", "!") or (before.role == "path" and written in "/|^!")):
        return True
    if piece.kind == "symbol" and text == "(":
        return before.role == "function" or (before.kind == "word" and written not in _APART)
    return False
