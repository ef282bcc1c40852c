"""How much an answer may say: a budget of characters, or all of it in the naive mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rbank_es import limits
from rbank_es.tools.runtime.encoder import size
from rbank_es.tools.runtime.reply import ToolError
from rbank_es.tools.runtime.row_pages import OK_CHARS, clip, fit, page
from rbank_es.tools.runtime.tool_session import Desk

Thing = TypeVar("Thing")

HANDLE_CHARS = 300
"""What a handle needs: alias, key of 36 characters, kind, size, a preview of 80 characters with its escapes."""

UNBOUNDED = limits.PAYLOAD_BYTES
"""The budget of the naive mode: what one text can hold."""

_WORDS_CHARS = {"label": 80, "comment": 200}
_ROW_CHARS = 40
_EMPTY_CHARS = 120


class Room:
    """The room that the answers of a run have."""

    def __init__(self, desk: Desk) -> None:
        self.naive = desk.naive
        self.cap_chars = UNBOUNDED if desk.naive else limits.TOOL_RETURN_CHARS
        self.slice_chars = UNBOUNDED if desk.naive else limits.SLICE_RETURN_CHARS

    def left(self, body: dict[str, Any], *, handle: bool = False) -> int:
        """Characters that a body leaves."""
        return self.cap_chars - OK_CHARS - size(body) - (HANDLE_CHARS if handle else 0)

    def put(
        self,
        body: dict[str, Any],
        name: str,
        rows: Sequence[dict[str, Any]],
        *,
        share: int = 100,
        handle: bool = False,
    ) -> None:
        """Add the first rows that fit into a share (in percent) of what is left; how many there are, if more."""
        room = self.left({**body, name: [], f"{name}_total": len(rows)}, handle=handle) * share // 100
        kept = fit([self.brief(row) for row in rows], room).rows if room >= _ROW_CHARS else []
        body[name] = kept
        if len(kept) < len(rows):
            body[f"{name}_total"] = len(rows)

    def list(self, body: dict[str, Any], name: str, values: Sequence[str], most: int = 3) -> None:
        """Add the first names, whole ones only: half of what is left is theirs."""
        left = self.left({**body, name: []}) // 2
        kept: list[str] = []
        for value in values if self.naive else values[:most]:
            left -= size(value) + 1
            if left < 0:
                break
            kept.append(value)
        body[name] = kept

    def holds(self, body: dict[str, Any], name: str, rows: Sequence[dict[str, Any]]) -> bool:
        """Whether all rows fit into what is left."""
        return self.left({**body, name: rows}) >= 0

    def say(self, body: dict[str, Any], name: str, text: str, most: int = 400, *, handle: bool = False) -> None:
        """Add a text, clipped to what is left; nothing if that is none. Lists that follow keep room to be empty."""
        room = self.left({**body, name: ""}, handle=handle) - _EMPTY_CHARS
        if shown := self._clipped(text, most, room):
            body[name] = shown

    def texts(self, body: dict[str, Any], name: str, texts: Sequence[str], most: int, total: int) -> None:
        """Add the first of `total` texts, each clipped to `most`, to half of what is left; how many there are, if more.

        The first is clipped further where it has to be, the others are there or not. Nothing where there are none, and
        where not even their number has room.
        """
        room = self.left({**body, name: [], f"{name}_total": total})
        if not total or room < 0:
            return
        left, kept = (room - _EMPTY_CHARS) // 2, list[str]()
        for text in texts:
            shown = self._clipped(text, most, UNBOUNDED if kept else left - 3)  # its quotes and its comma
            left -= size(shown) + 1
            if not shown or left < 0:
                break
            kept.append(shown)
        body[name] = kept
        if len(kept) < total:
            body[f"{name}_total"] = total

    def _clipped(self, text: str, most: int, room: int) -> str:
        """The text in at most `most` characters and `room` of JSON; nothing where too little of it would be left."""
        shown = text if self.naive else clip(text, most)
        while shown and size(shown) - 2 > room:
            shown = clip(shown, len(shown) * 3 // 4)
            if len(shown) < 16:
                return ""
        return shown

    def page(
        self,
        things: Sequence[Thing],
        offset: int,
        limit: int,
        name: str,
        beside: dict[str, Any],
        row_of: Callable[[Thing], dict[str, Any]],
    ) -> dict[str, Any]:
        """The body of a page of rows, made of things; in the naive mode, of all that follow the offset."""
        end = len(things) if self.naive else offset + limit
        rows = [self.brief(row_of(thing)) for thing in things[offset:end]]
        return page(rows, offset, len(things), self.cap_chars, name=name, beside=beside)

    def brief(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row whose label and comment are no longer than they need to be."""
        if self.naive or not any(len(row.get(name, "")) > most for name, most in _WORDS_CHARS.items()):
            return row
        return {name: clip(part, _WORDS_CHARS[name]) if name in _WORDS_CHARS else part for name, part in row.items()}

    @staticmethod
    def cut(body: dict[str, Any]) -> bool:
        """Whether a list in the body holds less than there is."""
        return any(name.endswith("_total") for name in body)

    def most(self, n: int, least: int = 20) -> int:
        """How many things may be asked for: at least one, at most `least`, and any number in the naive mode."""
        return max(1, n if self.naive else min(n, least))


def within(name: str, value: int, most: int) -> int:
    """A limit between 1 and `most`. Raises `ToolError` for one below."""
    if value < 1:
        raise ToolError("bad_limit", f"{name} is {value}", f"give a number from 1 to {most:,}")
    return min(value, most)


def from_zero(value: int) -> int:
    """An offset. Raises `ToolError` for a negative one."""
    if value < 0:
        raise ToolError("bad_offset", f"offset is {value}", "offsets count from 0; go on from next_offset")
    return value
