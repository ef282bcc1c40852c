"""The declaration of an importer, the registry of importers, and the choice of one for a file.

An importer is one file with an `IMPORTER`: `recognise` decides from the beginning of a file whether it is of this form,
`parse` returns its events, with ids that follow from the source. A file's name plays no part. Importers share the units
of events, times and lines of JSON below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import BadEvent, BadImport, LimitExceeded
from rbank_es.events import Event
from rbank_es.events.json_input import RepeatedKey, decode_strict
from rbank_es.log.groups import Circumstances, compose, prepare
from rbank_es.system.given_file import without_mark
from rbank_es.system.registry import Registry, checked_result

TIMESTAMP = "@timestamp"
"""Key of `extra` for an event's time as its source wrote it, where `occurred_at` doesn't give it back."""

_BYTE = re.compile(r"\(byte (\d+)\)")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
# 32 bits of the file's digest: enough to keep apart files that name a run alike, short enough to type.
_SHORT_DIGEST = 8
_SALT = "A" * 24


class ImportUnit(msgspec.Struct, frozen=True):
    """Events that are appended together or not at all. `size` is their size in the log, in bytes."""

    events: tuple[Event, ...]
    size: int = 0


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A file as events that are not appended yet.

    `decided`: the units hold the decisions about their candidates; where they don't, `plan` adds them. `exported`: the
    events have ids of their own from another bank's log, which may end anywhere. `left_out` counts events of
    the file that have no place in another bank. `zoneless`: ids of events (with a field `extra`) whose time was written
    without a zone, and was read as UTC.
    """

    path: str
    form: str
    units: tuple[ImportUnit, ...]
    decided: bool = True
    exported: bool = False
    left_out: int = 0
    zoneless: frozenset[str] = frozenset()


class Opening(NamedTuple):
    """The beginning of a file, by which importers tell their own.

    `data` is the whole file without byte order mark and leading white space; `fields` the JSON object on its first
    line, empty where there is none.
    """

    data: bytes
    fields: dict[str, Any]


class Importer(msgspec.Struct, frozen=True, kw_only=True):
    """One form of files: `about` describes it in messages, `parse` gets the file's path and bytes.

    `parse` is pure, and raises `BadImport` with the line.
    """

    form: str
    about: str
    recognise: Callable[[Opening], bool]
    parse: Callable[[str, bytes], Parsed]


IMPORTERS: Registry[Importer] = Registry(
    "importer",
    {
        "items": "rbank_es.exchange.item_lists:IMPORTER",
        "trajectory": "rbank_es.exchange.trajectories:IMPORTER",
        "events": "rbank_es.exchange.event_lines:IMPORTER",
        "reasoningbank": "rbank_es.exchange.reasoningbank:IMPORTER",
    },
)
"""Every importer by its form, in the order in which they are asked; those of plugins come last."""


def parse(path: str, data: bytes) -> Parsed:
    """Parse a file into events, checked against every limit of the log; nothing is appended.

    `path` names the file in messages, and its stem the run of a trajectory. Pure. Raises `BadImport` with the line,
    `LimitExceeded` for more than `limits.IMPORT_FILE_BYTES`.
    """
    if len(data) > limits.IMPORT_FILE_BYTES:
        raise LimitExceeded(f"bytes of {path}", len(data), limits.IMPORT_FILE_BYTES, "split it at line ends")
    bare = without_mark(data, path)
    importer = _importer_of(path, bare)
    parsed = checked_result(importer.parse(path, bare), Parsed, importer.form, importer.parse)
    return replace(parsed, units=tuple(_sized(path, unit) for unit in parsed.units))


def _importer_of(path: str, data: bytes) -> Importer:
    start = data.lstrip()
    number = data.count(b"\n", 0, len(data) - len(start)) + 1
    fields: Any = {}
    broken: BadImport | None = None
    if start.startswith(b"{"):
        try:
            fields = decode(path, start.partition(b"\n")[0], number)
        except BadImport as error:
            # Kept, because an importer may still recognise the file; else the reason is the better message.
            broken = error
    opening = Opening(start, fields)
    # Ours first, because a plugin must not take files over that were imported before.
    for _, importer in IMPORTERS.all():
        if importer.recognise(opening):
            return importer
    raise broken or _of_no_form(path, opening, number)


def _of_no_form(path: str, opening: Opening, line: int) -> BadImport:
    known = ", ".join(importer.about for _, importer in IMPORTERS.all())
    if opening.fields or opening.data.startswith(b"{"):
        keys = ", ".join(sorted(opening.fields)[: limits.CHOICES_NAMED]) or "none"
        return BadImport(path, f"of no known form: its first object has the keys {keys}; known are {known}", line=line)
    found = "it begins with neither [ nor {" if opening.data else "it is empty"
    return BadImport(path, f"of no known form: {found}; known are {known}")


def _sized(path: str, unit: ImportUnit) -> ImportUnit:
    """Return the unit with its size, after every check that an append makes."""
    count = len(unit.events)
    if count > limits.GROUP_EVENTS:
        allowed = f"{limits.GROUP_EVENTS:,} of one append"
        raise BadImport(path, f"{count:,} events belong together, more than the {allowed}")
    try:
        # With a made-up salt and position: only the checks and the size count here.
        prepared = prepare(unit.events, [event.id for event in unit.events], [_SALT] * count)
        group = compose(prepared, Circumstances(1, "", 0, 0, {}, lambda: _SALT))
    except (BadEvent, LimitExceeded) as error:
        raise BadImport(path, str(error)) from None
    return replace(unit, size=len(group.data))


class JsonLine(NamedTuple):
    """One line of JSON Lines: its number from 1, its bytes, and its object."""

    number: int
    raw: bytes
    fields: dict[str, Any]


def name_of(text: str, digest: bytes) -> str:
    """Return a run id: the text with unfit characters replaced, and a short digest that makes it unique.

    A text that ends in that digest is left as it is, because an exported run must come back under its name.
    """
    short = "-" + digest.hex()[:_SHORT_DIGEST]
    # A run id becomes part of file names and of commands.
    fit = _UNFIT.sub("-", text.removesuffix(short)).strip("-.") or "run"
    return fit[: limits.NAME_CHARS - len(short)] + short


def utc_time(recorded: str) -> str:
    """Return a recorded ISO time as the log writes times: UTC, microseconds. A time without a zone is read as UTC.

    Raises ValueError for anything else.
    """
    try:
        moment = datetime.fromisoformat(recorded)
        return utc_text(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC))
    except (ValueError, OverflowError):
        raise ValueError(f"{recorded[: limits.GIVEN_CHARS]!r} is not an ISO time such as 2026-01-31T12:00:00") from None


def has_zone(recorded: str) -> bool:
    """Return whether a recorded ISO time names its zone. Raises ValueError for anything else than an ISO time."""
    return datetime.fromisoformat(recorded).tzinfo is not None


def utc_text(moment: datetime) -> str:
    """Return a moment in UTC as the log writes it: `2026-01-31T12:00:00.000000Z`."""
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def recorded_time(time: str) -> str:
    """Return a time of the log as recorders of trajectories write it: no zone, and no fraction if it is zero."""
    return datetime.fromisoformat(time).replace(tzinfo=None).isoformat()


def canonical(value: Any) -> str:
    """Return JSON that doesn't depend on spacing or on the order of keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def json_lines(path: str, data: bytes) -> Iterator[JsonLine]:
    """Yield the objects of JSON Lines; blank lines are skipped. Raises `BadImport` naming the line."""
    # Not `splitlines`, which would also count a lone carriage return as the end of a line.
    for number, raw in enumerate(data.split(b"\n"), 1):
        if raw.strip():
            fields = decode(path, raw, number)
            if not isinstance(fields, dict):
                raise BadImport(path, f"expected a JSON object, got {type(fields).__name__}", line=number)
            yield JsonLine(number, raw, fields)


def decode(path: str, data: bytes, line: int | None = None) -> Any:
    """Decode JSON. Raises `BadImport`, naming the line (of `data`, if none is given), also for a repeated key."""
    try:
        return decode_strict(data)
    except RepeatedKey as error:
        raise BadImport(path, str(error), line=line) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        found = _BYTE.search(str(error))
        at = data.count(b"\n", 0, int(found[1])) + 1 if found and line is None else line
        raise BadImport(path, f"not JSON: {error}", line=at) from None
    # Thousands of brackets are an attack or an accident, and end as a message, not as a traceback.
    except RecursionError:
        raise BadImport(path, "not usable: nested too deeply", line=line) from None


def text_field(path: str, line: JsonLine, key: str) -> str:
    """Return a field that must be a string. Raises `BadImport`."""
    value = line.fields.get(key)
    if not isinstance(value, str):
        found = "is missing" if key not in line.fields else f"is {type(value).__name__}, expected a string"
        raise BadImport(path, f"{key!r} {found}", line=line.number)
    return value


def events_of(units: Iterable[ImportUnit]) -> Sequence[Event]:
    """Return all events of the units, in order."""
    return [event for unit in units for event in unit.events]
