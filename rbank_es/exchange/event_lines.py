"""Events as `export --format events` writes them: lines of a log, envelope included, with texts in place of handles.

Facts, texts, ids and groups stay; position, salt and checksum belong to the log that holds the event and are made
again. `occurred_at` stays; where there is none, the time of recording takes its place, because the time of the import
would hide it. An erased text can't be appended, so it comes in empty. `content_erased` is left out, because it names
positions of the bank that it came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from rbank_es.bank.foreign_events import fresh
from rbank_es.errors import BadEvent, BadImport, UnknownEvent
from rbank_es.events import ContentErased, Event, Ref
from rbank_es.events.codec import check_identity, decode_event, texts_of
from rbank_es.exchange.importer import Importer, ImportUnit, JsonLine, Parsed, json_lines


def parse_exported(path: str, data: bytes) -> Parsed:
    """Parse an export into its events, in the groups of their appends. Raises `BadImport` naming the line."""
    known: dict[str, int] = {}
    groups: list[list[Event]] = [[]]
    left_out = seq = 0
    for line in json_lines(path, data):
        event = _event(path, line)
        if known.setdefault(event.id, line.number) != line.number:
            raise BadImport(path, f"id {event.id} is that of line {known[event.id]} already", line=line.number)
        last, seq = seq, line.fields["seq"]
        # Decisions follow their extractions only in the order of the log.
        if not isinstance(seq, int) or seq <= last:
            reason = f"position {seq} follows {last:,}: the lines are not in the order of the log"
            raise BadImport(path, reason, line=line.number)
        if isinstance(event, ContentErased):
            left_out += 1
        else:
            groups[-1].append(fresh(event))
        if not event.more:
            groups.append([])
    units = tuple(ImportUnit(tuple(group)) for group in groups if group)
    return Parsed(path=path, form="events", units=units, exported=True, left_out=left_out)


def _event(path: str, line: JsonLine) -> Event:
    _check_kind(path, line)
    try:
        event = decode_event(line.raw)
        check_identity(event)
        # `at` becomes `occurred_at`, so it must be a time as well.
        check_identity(replace(event, occurred_at=event.at))
    except UnknownEvent as error:
        raise BadImport(path, str(error), line=line.number) from None
    except (msgspec.DecodeError, BadEvent) as error:
        raise BadImport(path, f"not an event as an export has it: {error}", line=line.number) from None
    if not event.id:
        raise BadImport(path, "the event has no id", line=line.number)
    if any(isinstance(text, Ref) for text in _texts(event)):
        raise BadImport(path, "a handle to a text that is not in the file", line=line.number)
    return event


def _check_kind(path: str, line: JsonLine) -> None:
    type_ = line.fields.get("type")
    if isinstance(type_, str) and type_.startswith(("segment_", "text")):
        reason = "a segment of a bank's log, not an export; use: rbank-es export BANK --format events"
        raise BadImport(path, reason, line=line.number)
    if "seq" not in line.fields or "at" not in line.fields:
        raise BadImport(path, "an event without 'seq' and 'at' is a new one; use: rbank-es append", line=line.number)


def _texts(event: Event) -> Iterator[Any]:
    for name in texts_of(type(event)):
        value = getattr(event, name)
        yield from value if isinstance(value, tuple) else (value,)


IMPORTER = Importer(
    form="events",
    about="exported events (type, seq)",
    recognise=lambda opening: "type" in opening.fields,
    parse=parse_exported,
)
