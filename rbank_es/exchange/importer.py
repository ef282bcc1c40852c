"""The declaration of an importer, the registry of importers, and the choice of one for a file.

An importer is one file with an `IMPORTER`: `recognise` decides from the beginning of a file whether it is of this form,
`parse` returns its events, with ids that follow from the identity of each record (`rbank_es.exchange.record_identity`).
A file's name plays no part. Importers share the units of events below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import BadEvent, BadImport, LimitExceeded
from rbank_es.events import Event
from rbank_es.exchange.json_records import first_object, json_records
from rbank_es.exchange.unsupported_files import foreign_form
from rbank_es.log import EventLog
from rbank_es.log.groups import Circumstances, compose, prepare
from rbank_es.system.input_file import without_mark
from rbank_es.system.registry import Registry, checked_result
from rbank_es.system.utc_times import recorded_time

TIMESTAMP = "@timestamp"
"""Key of `extra` for an event's time as its source wrote it, where `occurred_at` doesn't give it back."""

_SALT = "A" * 24


class ImportUnit(msgspec.Struct, frozen=True):
    """The events of one record. What is new of them is appended together or not at all.

    `events` is empty where only its bank can tell what is new. `size` is their size in the log, in bytes. `record`
    names the record in messages. `copy`: the events have the ids that the bank gave them which recorded them first.

    For a record that grows line by line: `lines` are the ids of all its lines, those without an event of their own
    included. `answers` has, by the id of an event that tells of a call and its result, the event that tells of the
    result alone, for a bank that has the call alone: `is_unanswered` tells that of a stored event. `apart(n)` returns
    the record as one that is told from others by its first `n` lines, None where it has fewer or a name in its source.

    `replaces` are ids of extractions of the same record that count no more beside this one, and `replaced_by` those
    beside which its own extraction counts no more: what was drawn without a verdict, and under one.

    `by_id`: whatever a bank has under the id of an event says the same, so what is there isn't read and compared.
    """

    events: tuple[Event, ...]
    size: int = 0
    record: str = ""
    copy: bool = False
    lines: frozenset[str] = frozenset()
    answers: dict[str, Event] = {}
    replaces: frozenset[str] = frozenset()
    replaced_by: frozenset[str] = frozenset()
    is_unanswered: Callable[[Event], bool] = lambda event: False
    apart: Callable[[int], ImportUnit | None] | None = None
    by_id: bool = False


class LineRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A line that can't be read, by its number from 1, and why."""

    line: int
    reason: str


class RecordChange(msgspec.Struct, frozen=True, kw_only=True):
    """A known record that a file has otherwise than the bank: what it adds to its run, and what differs.

    `added` counts new events by type. `differing` names the types of events that were left out because they are known
    with other content.
    """

    record: str
    run: str
    added: dict[str, int] = {}
    differing: tuple[str, ...] = ()


class News(NamedTuple):
    """What of a file is new in a bank, what changed of what it knows, and what people should know before it is
    written. `known` counts the units with nothing new, `left_out` the events or items that stay out."""

    units: list[ImportUnit]
    changes: tuple[RecordChange, ...] = ()
    notes: tuple[str, ...] = ()
    known: int = 0
    left_out: int = 0


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A file as events that are not appended yet.

    `decided`: the units hold the decisions about their candidates; where they don't, `plan` adds them. `exported`: the
    events have ids of their own from another bank's log, which may end anywhere. `listed`: the candidates are items of
    a list, known by their own ids. `left_out` counts events of the file that have no place in another bank. `zoneless`:
    ids of events (with a field `extra`) whose time was written without a zone, and was read as UTC. `notes` are
    sentences about what can't be known of the file's records; people read them before anything is written.

    Of a form that is read line by line, `lines_refused` counts lines that can't be read while the others come in;
    `refusals` are the first of them. `unknown_types` counts lines of types that the importer doesn't know. `withdrawn`
    are the runs that their user took back, which are left out: names by the id of the event with which each starts.

    `compared(log, parsed, position)` returns what is new where the rule of `known_records` isn't the form's.
    """

    path: str
    form: str
    units: tuple[ImportUnit, ...]
    decided: bool = True
    exported: bool = False
    listed: bool = False
    left_out: int = 0
    zoneless: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    lines_refused: int = 0
    refusals: tuple[LineRefusal, ...] = ()
    unknown_types: dict[str, int] = {}
    withdrawn: dict[str, str] = {}
    compared: Callable[[EventLog, Parsed, int], News] | None = None


class Opening(NamedTuple):
    """The beginning of a file, by which importers tell their own.

    `data` is the whole file, or a beginning of it, without byte order mark and leading white space; `fields` its first
    JSON object, in whatever layout, empty where there is none.
    """

    data: bytes
    fields: dict[str, Any]


class Importer(msgspec.Struct, frozen=True, kw_only=True):
    """One form of files: `about` describes it in messages, `parse` gets the file's path and bytes.

    `parse` is pure, and raises `BadImport` with the line. `stream` is for a form whose files have no bound and grow
    while they are read: it yields a file in pieces, the last of which has what is said of the whole; it raises as
    `parse`.
    """

    form: str
    about: str
    recognise: Callable[[Opening], bool]
    parse: Callable[[str, bytes], Parsed]
    stream: Callable[[Path], Iterator[Parsed]] | None = None


IMPORTERS: Registry[Importer] = Registry(
    "importer",
    {
        "items": "rbank_es.exchange.item_lists:IMPORTER",
        "trajectory": "rbank_es.exchange.trajectories:IMPORTER",
        "reasoningbank": "rbank_es.exchange.reasoningbank:IMPORTER",
        # Before events, because lines of transcripts have a type too.
        "atif": "rbank_es.agents.transcripts.transcript_importers:ATIF",
        "gemini-cli": "rbank_es.agents.transcripts.transcript_importers:GEMINI",
        "claude-code": "rbank_es.agents.transcripts.transcript_importers:CLAUDE_CODE",
        "codex": "rbank_es.agents.transcripts.transcript_importers:CODEX",
        "chat": "rbank_es.agents.transcripts.transcript_importers:CHAT",
        "otlp": "rbank_es.agents.traces.trace_importer:IMPORTER",
        "events": "rbank_es.exchange.event_lines:IMPORTER",
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
    importer = importer_of(path, bare)
    parsed = checked_result(importer.parse(path, bare), Parsed, importer.form, importer.parse)
    return replace(parsed, units=tuple(sized(path, unit) for unit in parsed.units))


def importer_of(path: str, data: bytes) -> Importer:
    """Return the importer of a file, told by its bytes. Raises `BadImport` where there is none."""
    start = data.lstrip()
    opening = Opening(start, first_object(start) if start.startswith((b"{", b"[")) else {})
    if (importer := recognised(opening)) is not None:
        return importer
    if start.startswith((b"{", b"[")):
        # What is broken is the better message.
        next(json_records(path, data), None)
    raise _of_no_form(path, opening, data.count(b"\n", 0, len(data) - len(start)) + 1)


def recognised(opening: Opening) -> Importer | None:
    """Return the importer that takes a file with this beginning; None where there is none."""
    # Ours first, because a plugin must not take files over that were imported before.
    return next((importer for _, importer in IMPORTERS.all() if importer.recognise(opening)), None)


def _of_no_form(path: str, opening: Opening, line: int) -> BadImport:
    known = ", ".join(importer.about for _, importer in IMPORTERS.all())
    named = foreign_form(opening.fields)
    if named is not None:
        return BadImport(path, f"{named}; this version doesn't import those, but: {known}", line=line)
    if opening.fields or opening.data.startswith(b"{"):
        keys = ", ".join(sorted(opening.fields)[: limits.CHOICES_NAMED]) or "none"
        return BadImport(path, f"of no known form: its first object has the keys {keys}; known are {known}", line=line)
    found = "it begins with neither [ nor {" if opening.data else "it is empty"
    return BadImport(path, f"of no known form: {found}; known are {known}")


def sized(path: str, unit: ImportUnit) -> ImportUnit:
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


def untimed(event: Event) -> Event:
    """Return an event without its time, which stays as written in `extra`."""
    kept = msgspec.json.decode(getattr(event, "extra", None) or "{}")
    written = {TIMESTAMP: recorded_time(event.occurred_at or "")} | kept
    return replace(event, occurred_at=None, extra=msgspec.json.encode(written, order="sorted").decode())


def events_of(units: Iterable[ImportUnit]) -> Sequence[Event]:
    """Return all events of the units, in order."""
    return [event for unit in units for event in unit.events]
