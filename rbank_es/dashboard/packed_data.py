"""Compact forms of the data of an exported page: columns, a table of lines, and gzip in base 85."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from typing import Any

_HARMLESS = bytes.maketrans(b"<>&", b",.:")

Column = list[Any] | dict[str, list[Any]]


def packed_column(values: Sequence[Any]) -> Column:
    """Return a column as differences where it never falls, as places in a list of distinct values where that is
    shorter, else as it is.
    """
    if not values:
        return []
    # By exact type: a bool is an int too, and would come back as a number.
    if all(type(value) is int for value in values):
        deltas = [after - before for before, after in zip([0, *values], values, strict=False)]
        return {"deltas": deltas} if min(deltas) >= 0 else list(values)
    places: dict[Any, int] = {}
    at = [places.setdefault(value, len(places)) for value in values]
    return {"values": list(places), "at": at} if len(places) * 2 <= len(values) else list(values)


def packed_table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, Column]:
    """Return rows by column; a last column `to_seq` that is None throughout is left out."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    table = {name: packed_column(column) for name, column in zip(names, columns, strict=True)}
    if "to_seq" in table and all(value is None for value in columns[names.index("to_seq")]):
        del table["to_seq"]
    return table


class LineTable:
    """The distinct lines of many texts, each of which becomes a list of spans of their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def lines(self) -> str:
        """The lines by number, one under the other."""
        return "\n".join(self._numbers)

    def put(self, text: str) -> list[int]:
        """Return the numbers of a text's lines in spans, first and length in turn."""
        spans: list[int] = []
        for line in text.split("\n"):
            number = self._numbers.setdefault(line, len(self._numbers))
            if spans and spans[-2] + spans[-1] == number:
                spans[-1] += 1
            else:
                spans += (number, 1)
        return spans


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
