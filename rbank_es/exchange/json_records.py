"""The records of a file of JSON: JSON Lines, one array, or objects that follow one another in any layout.

Tools that save a file again choose the layout, so it never tells forms apart and never makes another record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from rbank_es.errors import BadImport
from rbank_es.events.json_input import RepeatedKey, decode_strict

_BYTE = re.compile(r"\(byte (\d+)\)")
_SPACE = re.compile(r"[ \t\r\n]*")


class JsonRecord(NamedTuple):
    """One record: its number among the lines (or entries) of its file from 1, its bytes, and its object."""

    number: int
    raw: bytes
    fields: dict[str, Any]
    noun: str = "line"

    @property
    def name(self) -> str:
        """The name of the record in messages."""
        return f"{self.noun} {self.number:,}"

    def bad(self, path: str, reason: str) -> BadImport:
        """Return the error for this record."""
        if self.noun == "line":
            return BadImport(path, reason, line=self.number)
        return BadImport(path, f"{self.name}: {reason}")


def first_object(data: bytes) -> dict[str, Any]:
    """Return the first object of a file, in whatever layout; empty where it has none."""
    text = data.decode("utf-8", "replace")
    start = _SPACE.match(text, 1).end() if text.startswith("[") else 0  # type: ignore[union-attr]
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def json_records(path: str, data: bytes) -> Iterator[JsonRecord]:
    """Yield the records of a file; blank lines are skipped. Raises `BadImport` naming the line or the entry."""
    if data.lstrip().startswith(b"["):
        yield from _entries(path, data)
        return
    # Not `splitlines`, which would also count a lone carriage return as the end of a line.
    for number, raw in enumerate(data.split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            fields = decode(path, raw, number)
        except BadImport:
            # Only where the very first line is no record: a later one is a broken line, not another layout.
            if data[: data.find(raw)].strip() or not raw.lstrip().startswith(b"{"):
                raise
            loose = _loose(path, data)
            if not loose:
                raise
            yield from loose
            return
        yield _checked(path, JsonRecord(number, raw, fields))


def _entries(path: str, data: bytes) -> Iterator[JsonRecord]:
    for number, fields in enumerate(decode(path, data), 1):
        yield _checked(path, JsonRecord(number, b"", fields, "entry"))


def _loose(path: str, data: bytes) -> list[JsonRecord]:
    """Return the records of objects that are laid out over several lines; none where they are not all whole."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return []
    decoder, records, at = json.JSONDecoder(), list[JsonRecord](), _SPACE.match(text).end()  # type: ignore[union-attr]
    while at < len(text):
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        raw = text[at:end].encode()
        number = text.count("\n", 0, at) + 1
        records.append(_checked(path, JsonRecord(number, raw, decode(path, raw, number))))
        at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    return records


def _checked(path: str, record: JsonRecord) -> JsonRecord:
    if not isinstance(record.fields, dict):
        raise record.bad(path, f"expected a JSON object, got {type(record.fields).__name__}")
    return record


def decode(path: str, data: bytes, line: int | None = None) -> Any:
    """Decode JSON. Raises `BadImport`, naming the line (of `data`, if none is given), also for a repeated key."""
    try:
        return decode_strict(data)
    except RepeatedKey as error:
        raise BadImport(path, str(error), line=line) from None
    except msgspec.DecodeError as error:
        found = _BYTE.search(str(error))
        at = data.count(b"\n", 0, int(found[1])) + 1 if found and line is None else line
        raise BadImport(path, f"not JSON: {error}", line=at) from None
    # Thousands of brackets are an attack or an accident, and end as a message, not as a traceback.
    except RecursionError:
        raise BadImport(path, "not usable: nested too deeply", line=line) from None


def text_field(path: str, record: JsonRecord, key: str) -> str:
    """Return a field that must be a string. Raises `BadImport`."""
    value = record.fields.get(key)
    if not isinstance(value, str):
        found = "is missing" if key not in record.fields else f"is {type(value).__name__}, expected a string"
        raise record.bad(path, f"{key!r} {found}")
    return value
