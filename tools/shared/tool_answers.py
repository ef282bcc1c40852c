"""The answers of tools: small JSON objects that survive the sandbox's boundary, within their budget of characters.

At the boundary (dspy 3.4 with Pyodide, measured) None becomes '' or JsNull, integers beyond 2^53 become floats, 1.0
becomes 1, and keys of digits change their order. A NaN, a Struct, any other object or a key named `constructor` turns
the whole answer into text. So no encoded answer holds any of these: its keys are texts, none of them of digits only;
its values are texts, booleans, integers within 2^53, finite floats that are no integers within 2^53, and lists and
dicts of these. It passes JSON and the sandbox unchanged.

A page holds at least one row if there is one, because following `next_offset` must reach the end, whatever the rows
hold. A text that is too long is truncated with `ELLIPSIS`, and counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from enum import Enum
from typing import Any, NamedTuple, TypeVar

import msgspec

from rbank_es import limits
from rbank_es.events import Ref
from rbank_es.events.codec import encodable
from rbank_es.limits import tool_limits
from rbank_es.system.text_cuts import ELLIPSIS, cut
from rbank_es.tools.shared.tool_family import ToolError, ToolSession

Thing = TypeVar("Thing")

LEAST_CAP_CHARS = 150
"""Characters that the note about a truncation takes."""

NEXT = "ask for less: a narrower question, a smaller limit, or a slice"
_RESERVED = frozenset({"__dspy_tool_bridge_error__", "__proto__", "constructor"})
"""Keys with a meaning at the boundary: a dict with `constructor` was seen to arrive as `[object Object]`."""

OK_CHARS = 11
"""Characters of an answer beside its body: `"ok":true,`."""

WIDTHS = (150, 75, 40, 20, 10, 4)
"""Characters to which the texts of a row without room are truncated, step by step, before columns are dropped."""


def encode(value: Mapping[str, Any], cap_chars: int) -> dict[str, Any]:
    """Return the value as a result of at most `cap_chars` characters of JSON, which are at least `LEAST_CAP_CHARS`.

    A larger result is truncated (lists and texts at their ends), and its `truncated` and `next` say so.
    """
    plain = _dict(value, 0)
    if size(plain) <= cap_chars:
        return plain
    # A tool's own advice is better than the general one.
    own = plain.get("next")
    note = {"truncated": True, "next": own if isinstance(own, str) and size(own) <= cap_chars // 4 else NEXT}
    rest = {name: part for name, part in plain.items() if name not in note}
    return {**_shrunk_dict(rest, cap_chars - size(note) + 1), **note}


def size(value: Any) -> int:
    """Return the characters of the value as compact JSON."""
    return len(msgspec.json.encode(value).decode())


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` that fits, or 0. Every number below one that fits must fit, too."""
    # By bisection, because escapes make the JSON of a text up to six times as long, which only measuring tells.
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


HANDLE = "<its own handle>"
"""The place, in a text about the next step, of the alias of the handle that an answer has: no alias is longer."""


def noted(note: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with a note of the toolbox before its own."""
    return {**body, "note": "; ".join(filter(None, (note, body.get("note"))))} if note else body


def handle_of(ref: Ref) -> dict[str, Any]:
    """Return a handle as the agent gets it."""
    return {"key": ref.key, "dtype": ref.dtype, "size": ref.sz, "preview": ref.prev}


def _plain(value: Any, depth: int) -> Any:
    if value is None:
        return ""
    if isinstance(value, Enum):
        return _plain(value.value, depth)
    if isinstance(value, str):
        return encodable(str(value))
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -limits.COUNT_MOST <= value <= limits.COUNT_MOST else _digits(value)
    if isinstance(value, float):
        return _number(float(value))
    return _compound(value, depth)


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # Python refuses to spell out integers of thousands of digits
        return hex(value)


def _number(value: float) -> int | float | str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return int(value) if value.is_integer() and abs(value) <= limits.COUNT_MOST else value


def _compound(value: Any, depth: int) -> Any:
    if depth >= tool_limits.TOOL_RESULT_DEPTH:
        return ELLIPSIS
    if isinstance(value, Ref):
        return _dict(handle_of(value), depth)
    if isinstance(value, msgspec.Struct):
        return _dict(msgspec.structs.asdict(value), depth)
    if isinstance(value, Mapping):
        return _dict(value, depth)
    if isinstance(value, (list, tuple)):
        return [_plain(part, depth + 1) for part in value]
    if isinstance(value, (set, frozenset)):
        # Sorted, because the order of a set differs between processes, and a rerun compares answers.
        return sorted((_plain(part, depth + 1) for part in value), key=repr)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "replace")
    return value.isoformat() if isinstance(value, date) else f"<{type(value).__name__}>"


def _dict(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    done: dict[str, Any] = {}
    for key, part in value.items():
        if part is not None:
            done[_key(key, done)] = _plain(part, depth + 1)
    return done


def _key(key: Any, taken: Mapping[str, Any]) -> str:
    """Return a key that keeps its place and its meaning at the boundary."""
    name = encodable(key) if isinstance(key, str) else str(_plain(key, tool_limits.TOOL_RESULT_DEPTH))
    if name.isdigit() or name in _RESERVED:
        name = f"_{name}"
    while name in taken:
        name = f"_{name}"
    return name


def _shrunk(value: Any, room: int) -> Any:
    """Return the value in at most `room` characters of JSON; None if nothing of it fits."""
    if size(value) <= room:
        return value
    if isinstance(value, str):
        return _shrunk_text(value, room)
    if isinstance(value, list):
        return _shrunk_list(value, room)
    return _shrunk_dict(value, room) if isinstance(value, dict) and room >= 2 else None


def _shrunk_text(text: str, room: int) -> str | None:
    if room < 3:
        return None
    return text[: largest(min(len(text), room), lambda chars: size(text[:chars] + ELLIPSIS) <= room)] + ELLIPSIS


def _shrunk_list(values: list[Any], room: int) -> list[Any] | None:
    if room < 2:
        return None
    kept: list[Any] = []
    left = room - 2
    for value in values:
        needed = size(value) + bool(kept)
        if needed > left:
            part = _shrunk(value, left) if not kept else None
            return [part] if part is not None else kept
        kept.append(value)
        left -= needed
    return kept


def _shrunk_dict(value: dict[str, Any], room: int) -> dict[str, Any]:
    """Keep small values whole, truncate large ones to an equal share of the rest, drop keys that don't fit."""
    left = max(0, room - 2)
    shares: dict[str, int] = {}
    # Smallest first: the room that they don't need goes to the larger ones.
    waiting = sorted(value, key=lambda name: size(value[name]) + size(name))
    for index, name in enumerate(waiting):
        fixed = size(name) + 2
        shares[name] = max(0, min(size(value[name]), left // (len(waiting) - index) - fixed))
        left -= shares[name] + fixed if shares[name] else 0
    cut = {name: _shrunk(part, shares[name]) for name, part in value.items() if shares[name]}
    return {name: part for name, part in cut.items() if part is not None}


def shown_names(variables: Sequence[str]) -> tuple[str, ...]:
    """Return the names under which variables are shown: the sandbox's boundary would reorder mere digits."""
    names: dict[str, None] = {}
    for variable in variables:
        name = f"_{variable}" if variable.isdigit() else variable
        while name in names:
            name = f"_{name}"
        names[name] = None
    return tuple(names)


# ---------------------------------------------------------------- pages of rows


class Fit(NamedTuple):
    """Rows that fit, the number of truncated texts and of dropped columns, and whether an IRI was truncated."""

    rows: list[dict[str, Any]]
    clipped: int = 0
    left_out: int = 0
    truncated_iris: bool = False


def page(
    rows: Sequence[dict[str, Any]],
    offset: int,
    total: int,
    cap_chars: int,
    *,
    name: str = "rows",
    beside: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the body of an answer that pages through rows: the rows that fit, and where the next page begins.

    `rows` are those wanted, of `total`; the first of them is number `offset`. `beside` is merged into the body, which
    is at most `cap_chars` characters of JSON with it.
    """
    # Measured in its longest form, so that no later field exceeds the cap.
    frame = {name: [], **(beside or {}), **whereabouts(offset, len(rows), total)}
    found = fit(rows, cap_chars - size(frame) - OK_CHARS)
    return body_of(name, found, {**(beside or {})}, offset, total)


def fit(rows: Sequence[dict[str, Any]], room_chars: int) -> Fit:
    """Return the first rows in `room_chars` characters of JSON at most; a first row that is too large is truncated."""
    kept = leading(rows, room_chars, lambda row: size(row) + 1)
    return Fit(kept) if kept or not rows else narrowed(rows[0], room_chars - 1)


def narrowed(row: dict[str, Any], room_chars: int) -> Fit:
    """Return one row in `room_chars` characters of JSON: its texts truncated, then its last columns dropped."""
    narrow, clipped = row, 0
    for width in WIDTHS:
        narrow, clipped = clip_all(row, width)
        if size(narrow) <= room_chars:
            return Fit([narrow], clipped)
    kept = some(narrow, room_chars)
    return Fit([kept], clipped, len(row) - len(kept))


def some(parts: Mapping[str, Any], room_chars: int) -> dict[str, Any]:
    """Return the first parts of an object that fit into `room_chars` characters of JSON."""
    return dict(leading(parts.items(), room_chars - 2, lambda pair: size(pair[0]) + size(pair[1]) + 2))


def leading(values: Iterable[Thing], room: int, chars_of: Callable[[Thing], int]) -> list[Thing]:
    """Return the first values that fit into `room` characters together."""
    kept: list[Thing] = []
    for value in values:
        room -= chars_of(value)
        if room < 0:
            break
        kept.append(value)
    return kept


def clip_all(value: Any, width: int) -> tuple[Any, int]:
    """Return the value with every text in it truncated (keys stay whole), and the number of truncated texts."""
    if isinstance(value, str):
        return cut(value, width), int(len(value) > width)
    if isinstance(value, dict):
        pairs = {name: clip_all(part, width) for name, part in value.items()}
        return {name: part for name, (part, _) in pairs.items()}, sum(count for _, count in pairs.values())
    if isinstance(value, list):
        parts = [clip_all(part, width) for part in value]
        return [part for part, _ in parts], sum(count for _, count in parts)
    return value, 0


_NOTE = "some columns have no room: select fewer"
_TRUNCATED_IRIS = "an IRI that ends in … is cut, and no name of anything"


def whereabouts(offset: int, limit: int, total: int) -> dict[str, Any]:
    """Return the longest form of the fields that say where a page is."""
    numbers = {"returned": limit, "total": total, "offset": offset, "next_offset": offset + limit, "clipped": 10**6}
    return {**numbers, "has_more": False, "note": f"{_NOTE}; {_TRUNCATED_IRIS}"}


def body_of(name: str, found: Fit, beside: Mapping[str, Any], offset: int, total: int) -> dict[str, Any]:
    """Return the body of a page: its rows under `name`, what stands beside them, and where the next page begins."""
    after = offset + len(found.rows)
    body: dict[str, Any] = {name: found.rows, **beside, "returned": len(found.rows), "total": total, "offset": offset}
    body["has_more"] = after < total
    if body["has_more"]:
        body["next_offset"] = after
    if found.clipped:
        body["clipped"] = found.clipped
    notes = [*([_NOTE] if found.left_out else []), *([_TRUNCATED_IRIS] if found.truncated_iris else [])]
    if not found.rows and offset and offset >= total:
        notes = [f"there is no row {offset}"]
    if notes:
        body["note"] = "; ".join(notes)
    return body


# ---------------------------------------------------------------- the budget of a run

HANDLE_CHARS = 300
"""Characters of a handle: alias, key of 36, kind, size, and a preview of 80 with its escapes."""

UNBOUNDED = tool_limits.PAYLOAD_BYTES
"""The budget of the naive mode in characters: what one payload can hold."""

_WORDS_CHARS = {"label": tool_limits.SHOWN_LABEL_CHARS, "comment": tool_limits.SHOWN_COMMENT_CHARS}
_ROW_CHARS = 40

EMPTY_CHARS = 120
"""Characters that a text leaves for the empty lists after it."""


class AnswerBudget:
    """The characters that the answers of a run may take."""

    def __init__(self, session: ToolSession) -> None:
        self._session, self.naive = session, session.naive
        self.cap_chars = UNBOUNDED if session.naive else tool_limits.TOOL_RETURN_CHARS
        self.slice_chars = UNBOUNDED if session.naive else tool_limits.SLICE_RETURN_CHARS
        self.value_chars = UNBOUNDED if session.naive else tool_limits.SHOWN_VALUE_CHARS

    def left(self, body: dict[str, Any], *, handle: bool = False) -> int:
        """Return the characters that a body leaves."""
        beside = size(noted(self._session.note, {})) + (HANDLE_CHARS if handle else 0)
        return self.cap_chars - OK_CHARS - size(body) - beside

    def put(
        self, body: dict[str, Any], name: str, rows: Sequence[dict[str, Any]], *, share: int = 100, handle: bool = False
    ) -> None:
        """Add the first rows that fit into a share (in percent) of the rest; their total if some are left out."""
        room = self.left({**body, name: [], f"{name}_total": len(rows)}, handle=handle) * share // 100
        kept = fit([self.brief(row) for row in rows], room).rows if room >= _ROW_CHARS else []
        body[name] = kept
        if len(kept) < len(rows):
            body[f"{name}_total"] = len(rows)

    def list(self, body: dict[str, Any], name: str, values: Sequence[str]) -> None:
        """Add the first names that fit into half of the rest, whole ones only."""
        left = self.left({**body, name: []}) // 2
        body[name] = leading(
            values if self.naive else values[: tool_limits.LISTED_BOUNDS], left, lambda value: size(value) + 1
        )

    def holds(self, body: dict[str, Any], name: str, rows: Sequence[dict[str, Any]]) -> bool:
        """Return whether all rows fit into the rest."""
        return self.left({**body, name: rows}) >= 0

    def say(
        self,
        body: dict[str, Any],
        name: str,
        text: str,
        most: int = tool_limits.SHOWN_TEXT_CHARS,
        *,
        handle: bool = False,
    ) -> None:
        """Add a text, truncated to what a body with empty lists after it leaves; nothing if under 16 fit."""
        room = self.left({**body, name: ""}, handle=handle) - EMPTY_CHARS
        if shown := self._clipped(text, most, room):
            body[name] = shown

    def texts(self, body: dict[str, Any], name: str, texts: Sequence[str], most: int, total: int) -> None:
        """Add the first of `total` texts to half of the rest, each truncated to `most`; `total` if some stay out.

        The first is truncated further if it has to be. Nothing is added if there are none, or no room even for their
        number.
        """
        room = self.left({**body, name: [], f"{name}_total": total})
        if not total or room < 0:
            return
        left, kept = (room - EMPTY_CHARS) // 2, list[str]()
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
        """Return the text in at most `most` characters and `room` of JSON; nothing if under 16 would stay."""
        shown = text if self.naive else cut(text, most)
        while shown and size(shown) - 2 > room:
            # Step by step, because escapes make the JSON longer than the text by an unknown factor.
            shown = cut(shown, len(shown) * 3 // 4)
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
        """Return the body of a page of rows made of things; in the naive mode, of all that follow the offset."""
        end = len(things) if self.naive else offset + limit
        rows = [self.brief(row_of(thing)) for thing in things[offset:end]]
        return page(rows, offset, len(things), self.cap_chars, name=name, beside=beside)

    def brief(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row with its label and comment truncated."""
        if self.naive or not any(len(row.get(name, "")) > most for name, most in _WORDS_CHARS.items()):
            return row
        return {name: cut(part, _WORDS_CHARS[name]) if name in _WORDS_CHARS else part for name, part in row.items()}

    @staticmethod
    def was_truncated(body: dict[str, Any]) -> bool:
        """Return whether a list in the body is incomplete."""
        return any(name.endswith("_total") for name in body)

    def most(self, n: int, least: int) -> int:
        """Return how many things may be asked for: from 1 to `least`, any number in the naive mode."""
        return max(1, n if self.naive else min(n, least))


def told_by(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of an encoded answer that are not the source's: its error, its next step, its note."""
    if error := answer.get("error"):
        yield from (json.dumps(answer), json.dumps(error), str(error["message"]), str(error["hint"]))
    yield from (str(answer[name]) for name in ("next", "note") if name in answer)


def within(name: str, value: int, most: int) -> int:
    """Return a limit between 1 and `most`. Raises `ToolError` for one below."""
    if value < 1:
        raise ToolError("bad_limit", f"{name} is {value}", f"give a number from 1 to {most:,}")
    return min(value, most)


def from_zero(value: int) -> int:
    """Return an offset. Raises `ToolError` for a negative one."""
    if value < 0:
        raise ToolError("bad_offset", f"offset is {value}", "offsets count from 0; go on from next_offset")
    return value
