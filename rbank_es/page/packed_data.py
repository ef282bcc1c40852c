"""A compact form of JSON values that repeat each other: distinct objects by shape, distinct lines, gzip in base 85.

An object stands once, however many values hold it, and so does each line of a long text. `app/packed_values.js` reads
the form.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import msgspec

from rbank_es.limits import page_limits

_HARMLESS = bytes.maketrans(b"<>&", b",.:")

Column = list[Any] | dict[str, list[Any]]


class ValuePool:
    """The distinct objects and lines of the values that were put into it, and into the pool `before`.

    A value becomes itself if it is a number, a short text or the like; `{"o": number}` for an object; a list of values,
    or `{"l": differences}` of the numbers of objects; `{"t": spans}` for a long text, of the numbers of its lines.
    """

    def __init__(self, before: ValuePool | None = None) -> None:
        self._before = before
        self._objects: dict[bytes | str, int] = {}
        self._order: list[int] = []
        self._shapes: dict[tuple[str, ...], tuple[int, list[list[Any]]]] = {}
        self._lines: dict[str, int] = {}
        self._first: int = before.size if before else 0
        self._first_line: int = before.line_count if before else 0

    @property
    def size(self) -> int:
        """The number of objects here and before."""
        return self._first + len(self._order)

    @property
    def line_count(self) -> int:
        """The number of lines here and before."""
        return self._first_line + len(self._lines)

    def put(self, value: Any) -> Any:
        """Return the form of a JSON value, and keep what it is made of."""
        if isinstance(value, str):
            return {"t": self._spans(value)} if len(value) > page_limits.PAGE_LINED_CHARS else value
        if isinstance(value, dict):
            return {"o": self.number(value)}
        if not isinstance(value, list | tuple):
            return value
        if value and all(isinstance(each, dict) for each in value):
            return {"l": _differences([self.number(each) for each in value])}
        return [self.put(each) for each in value]

    def number(self, value: dict[str, Any]) -> int:
        """Return the number of an object, and keep it."""
        key = _key(value)
        known = self._known(key)
        if known is None:
            parts = [self.put(each) for each in value.values()]
            place, columns = self._shapes.setdefault(tuple(value), (len(self._shapes), [[] for _ in value]))
            for column, part in zip(columns, parts, strict=True):
                column.append(part)
            known = self._objects[key] = self.size
            self._order.append(place)
        return known

    def packed(self) -> dict[str, Any]:
        """Return what is kept here: the columns of each shape, the shape of each object, and the lines."""
        return {
            "shapes": [
                [list(names), list(map(packed_column, columns))] for names, (_, columns) in self._shapes.items()
            ],
            "order": [part for shape, same in groupby(self._order) for part in (shape, len(list(same)))],
            "lines": "\n".join(self._lines) if self._lines else None,
        }

    def _known(self, key: bytes | str) -> int | None:
        return self._objects.get(key, None if self._before is None else self._before._known(key))

    def _spans(self, text: str) -> list[int]:
        """Return the numbers of a text's lines in spans, first and length in turn."""
        spans: list[int] = []
        for line in text.split("\n"):
            number = self._line(line)
            if number is None:
                number = self._lines[line] = self.line_count
            if spans and spans[-2] + spans[-1] == number:
                spans[-1] += 1
            else:
                spans += (number, 1)
        return spans

    def _line(self, line: str) -> int | None:
        return self._lines.get(line, None if self._before is None else self._before._line(line))


def _key(value: dict[str, Any]) -> bytes | str:
    """Return what tells an object from all others: its JSON, because to Python 1, 1.0 and True are equal."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8
        return repr(value)


def _differences(numbers: Iterable[int]) -> list[int]:
    before, made = 0, []
    for number in numbers:
        made.append(number - before)
        before = number
    return made


def packed_column(values: Sequence[Any]) -> Column:
    """Return a column as differences where it never falls, as places in a list of distinct values where that is
    shorter, else as it is.
    """
    # By exact type: a bool is an int too, and would come back as a number.
    if all(type(value) is int for value in values):
        deltas = _differences(values)
        return {"deltas": deltas} if min(deltas) >= 0 else list(values)
    # By what is written, because to Python 1, 1.0 and True are equal.
    places: dict[str, int] = {}
    distinct: list[Any] = []
    at = []
    for value in values:
        place = places.setdefault(repr(value), len(distinct))
        if place == len(distinct):
            distinct.append(value)
        at.append(place)
    return {"values": distinct, "at": at} if len(distinct) * 2 <= len(values) else list(values)


def compact_json(data: Any) -> str:
    """Return data as JSON in which no text can end its script element or open a comment."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def gzipped(data: Any) -> str:
    """Return data as JSON, gzipped, in base 85; the same data give the same text.

    The alphabet is that of `base64.b85encode` with `,.:` for `<>&`, because the text stands in an HTML document.
    """
    # A lone surrogate has no UTF-8: as an escape in ASCII it survives.
    try:
        raw = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raw = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    return base64.b85encode(gzip.compress(raw, 9, mtime=0)).translate(_HARMLESS).decode()
