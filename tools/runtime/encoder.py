"""The one encoder of tool results: every answer becomes a small JSON object that survives the sandbox's boundary.

At the boundary (dspy 3.4 with Pyodide, measured) None becomes '' or JsNull, integers beyond 2^53 become floats, 1.0
becomes 1, and keys of digits change their order. A NaN, a Struct, any other object or a key named `constructor` turns
the whole answer into text. So no encoded result holds any of these.

An encoded result is a dict. Its keys are texts, none of them of digits only. Its values are texts, booleans, integers
within 2^53, finite floats that are no integers within 2^53, and lists and dicts of these. It passes JSON and the
sandbox unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date
from enum import Enum
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.events import Ref

EXACT = 2**53 - 1
"""The largest integer that JavaScript holds exactly (ECMA-262, Number.MAX_SAFE_INTEGER)."""

ELLIPSIS = "…"
"""The mark of a truncated text."""

LEAST_CAP_CHARS = 150
"""Characters that the note about a truncation takes."""

NEXT = "ask for less: a narrower question, a smaller limit, or a slice"
_RESERVED = frozenset({"__dspy_tool_bridge_error__", "__proto__", "constructor"})
"""Keys with a meaning at the boundary: a dict with `constructor` was seen to arrive as `[object Object]`."""


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


def handle_of(ref: Ref) -> dict[str, Any]:
    """Return a handle as the agent gets it."""
    return {"key": ref.key, "dtype": ref.dtype, "size": ref.sz, "preview": ref.prev}


def text_of(text: str) -> str:
    """Return the text with lone surrogates, which no UTF-8 can hold, replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _plain(value: Any, depth: int) -> Any:
    if value is None:
        return ""
    if isinstance(value, Enum):
        return _plain(value.value, depth)
    if isinstance(value, str):
        return text_of(str(value))
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -EXACT <= value <= EXACT else _digits(value)
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
    return int(value) if value.is_integer() and abs(value) <= EXACT else value


def _compound(value: Any, depth: int) -> Any:
    if depth >= limits.TOOL_RESULT_DEPTH:
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
    name = text_of(key) if isinstance(key, str) else str(_plain(key, limits.TOOL_RESULT_DEPTH))
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
