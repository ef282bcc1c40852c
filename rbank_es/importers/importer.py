"""What all importers share: units of events, ids and times that follow from the source, and lines of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import BadImport
from rbank_es.events import Event
from rbank_es.events.json_input import RepeatedKey, decode_given

Form = Literal["items", "trajectory", "reasoningbank", "events"]

_BYTE = re.compile(r"\(byte (\d+)\)")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_SHORT_DIGEST = 8


class Unit(msgspec.Struct, frozen=True):
    """Events that are appended together or not at all. `size` is what they take in the log, in bytes."""

    events: tuple[Event, ...]
    size: int = 0


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A file as events that are not appended yet.

    `decided` tells whether the units say already what became of their candidates; where they don't, it is for `plan`.
    `left_out` counts events of the file that have no place in another bank.
    """

    path: str
    form: Form
    units: tuple[Unit, ...]
    decided: bool = True
    left_out: int = 0


class Line(NamedTuple):
    """One line of JSON Lines: its number from 1, its bytes, and the object that it holds."""

    number: int
    raw: bytes
    fields: dict[str, Any]


def name_of(text: str, digest: bytes) -> str:
    """A run id: the text with unfit characters replaced, and a short digest that makes it unique.

    A text that ends in that digest already is left as it is, so that what was exported comes back under its name.
    """
    short = "-" + digest.hex()[:_SHORT_DIGEST]
    fit = _UNFIT.sub("-", text.removesuffix(short)).strip("-.") or "run"
    return fit[: limits.NAME_CHARS - len(short)] + short


def utc_time(recorded: str) -> str:
    """A recorded ISO time as the log writes times: UTC, microseconds. Without a zone it is taken to be UTC.

    Raises ValueError for anything else.
    """
    try:
        moment = datetime.fromisoformat(recorded)
        return utc_text(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC))
    except (ValueError, OverflowError):
        raise ValueError(f"{recorded[:80]!r} is not an ISO time such as 2026-01-31T12:00:00") from None


def utc_text(moment: datetime) -> str:
    """A moment in UTC as the log writes it: `2026-01-31T12:00:00.000000Z`."""
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def recorded_time(time: str) -> str:
    """A time of the log as recorders of trajectories write it: no zone, no fraction where there is none."""
    return datetime.fromisoformat(time).replace(tzinfo=None).isoformat()


def canonical(value: Any) -> str:
    """JSON that doesn't depend on spacing or on the order of keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def json_lines(path: str, data: bytes) -> Iterator[Line]:
    """The objects of JSON Lines; blank lines are skipped. Raises `BadImport` naming the line."""
    for number, raw in enumerate(data.split(b"\n"), 1):
        if raw.strip():
            fields = decode(path, raw, number)
            if not isinstance(fields, dict):
                raise BadImport(path, f"expected a JSON object, got {type(fields).__name__}", line=number)
            yield Line(number, raw, fields)


def decode(path: str, data: bytes, line: int | None = None) -> Any:
    """JSON decoded. Raises `BadImport`, naming the line (of `data`, if none is given), or a key that is there twice."""
    try:
        return decode_given(data)
    except RepeatedKey as error:
        raise BadImport(path, str(error), line=line) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        found = _BYTE.search(str(error))
        at = data.count(b"\n", 0, int(found[1])) + 1 if found and line is None else line
        raise BadImport(path, f"not JSON: {error}", line=at) from None
    except RecursionError:
        raise BadImport(path, "not usable: nested too deeply", line=line) from None


def text_field(path: str, line: Line, key: str) -> str:
    """A field that must be a string. Raises `BadImport`."""
    value = line.fields.get(key)
    if not isinstance(value, str):
        found = "is missing" if key not in line.fields else f"is {type(value).__name__}, expected a string"
        raise BadImport(path, f"{key!r} {found}", line=line.number)
    return value


def events_of(units: Iterable[Unit]) -> Sequence[Event]:
    """All events of the units, in order."""
    return [event for unit in units for event in unit.events]
