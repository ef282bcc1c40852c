"""Events as `export --format events` writes them: lines of a log, envelope included, with texts in place of handles.

Facts, texts, ids and groups stay; position, salt and checksum belong to the log that holds the event and are made
again. `occurred_at` stays; where there is none, the time of recording takes its place, because the time of the import
would hide it. An erased text can't be appended, so it comes in empty. `content_erased` is left out, because it names
positions of the bank that it came from.

An event is known by its id. Where the log of another bank holds events of this one, what says something of that bank
only is left out too: its birth, its policies, its decisions about candidates that were decided here. An event that says
that another bank recorded it first may be a copy that lost something on its way: under a known id it is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank.absorbed_events import fresh, stays
from rbank_es.errors import BadEvent, DuplicateEvent, UnknownEvent
from rbank_es.events import (
    BankCreated,
    BankForked,
    ContentErased,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    Ref,
    type_of,
)
from rbank_es.events.codec import check_identity, decode_event, encode_json, event_types, texts_of
from rbank_es.exchange.importer import Importer, ImportUnit, News, Parsed, RecordChange, events_of
from rbank_es.exchange.item_lists import EXTRACTOR
from rbank_es.exchange.json_records import JsonRecord, json_records
from rbank_es.exchange.unsupported_files import foreign_form
from rbank_es.law.decisions import same_but_held
from rbank_es.log import EventLog


def parse_exported(path: str, data: bytes) -> Parsed:
    """Parse an export into its events, in the groups of their appends. Raises `BadImport` naming the line."""
    known: dict[str, JsonRecord] = {}
    groups: list[list[Event]] = [[]]
    left_out = seq = 0
    for line in json_records(path, data):
        event = _event(path, line)
        if known.setdefault(event.id, line) is not line:
            raise line.bad(path, f"id {event.id} is that of {known[event.id].name} already")
        last, seq = seq, line.fields["seq"]
        # Decisions follow their extractions only in the order of the log.
        if not isinstance(seq, int) or seq <= last:
            raise line.bad(path, f"position {seq} follows {last:,}: the lines are not in the order of the log")
        if isinstance(event, ContentErased):
            left_out += 1
        else:
            groups[-1].append(fresh(event))
        if not event.more:
            groups.append([])
    units = tuple(ImportUnit(tuple(group)) for group in groups if group)
    return Parsed(path=path, form="events", units=units, exported=True, left_out=left_out)


def _event(path: str, line: JsonRecord) -> Event:
    _check_kind(path, line)
    try:
        event = decode_event(line.raw or encode_json(line.fields))
        check_identity(event)
        # `at` becomes `occurred_at`, so it must be a time as well.
        check_identity(replace(event, occurred_at=event.at))
    except UnknownEvent as error:
        raise line.bad(path, str(error)) from None
    except (msgspec.DecodeError, BadEvent) as error:
        raise line.bad(path, f"not an event as an export has it: {error}") from None
    if not event.id:
        raise line.bad(path, "the event has no id")
    if any(isinstance(text, Ref) for text in _texts(event)):
        raise line.bad(path, "a handle to a text that is not in the file")
    return event


def _check_kind(path: str, line: JsonRecord) -> None:
    type_ = line.fields.get("type")
    if isinstance(type_, str) and type_.startswith(("segment_", "text")):
        raise line.bad(path, "a segment of a bank's log, not an export; use: rbank-es export BANK --format events")
    if "seq" not in line.fields or "at" not in line.fields:
        if type_ in event_types():
            raise line.bad(path, "an event without 'seq' and 'at' is a new one; use: rbank-es append")
        raise line.bad(path, f"{str(type_)[: limits.GIVEN_CHARS]!r} is no type of event; an export has 'seq' and 'at'")


def news_of_export(log: EventLog, parsed: Parsed, position: int) -> News:
    """Return what of an export is new at a position of a log; it may end anywhere, also in the middle of a group.

    Raises `DuplicateEvent` if an event is known with other content.
    """
    given = {event.id for event in events_of(parsed.units)}
    stored: dict[str, Event] = {}
    decided: set[str | None] = set()
    met: set[str] = set()
    for event in log.read(upto=position, resolve=event_types().keys()):
        if event.id in given:
            stored[event.id] = event
        if isinstance(event, MemoriesConsolidated) and not event.again:
            decided.add(event.extraction)
        if isinstance(event, MemoriesExtracted):
            met |= {head.id for head in event.heads}
    comparison = _Export(stored, decided, met)
    rest = (replace(unit, events=tuple(filter(comparison.is_new, unit.events))) for unit in parsed.units)
    units = [unit for unit in rest if unit.events]
    changed = tuple(comparison.changes)
    return News(units, changed, known=len(parsed.units) - len(units), left_out=comparison.left_out + len(changed))


class _Export:
    """The events of an export, in order, against those that a log has under their ids."""

    def __init__(self, stored: dict[str, Event], decided: set[str | None], met: set[str]) -> None:
        self._stored, self._decided, self._met = stored, decided, met
        # The log of another bank, from its birth or from its fork on, that holds events of this one.
        self._elsewhere = False
        self.changes: list[RecordChange] = []
        self.left_out = 0

    def is_new(self, event: Event) -> bool:
        """Return whether an event is to be imported."""
        stored = self._stored.get(event.id)
        if stored is None:
            born = isinstance(event, BankCreated | BankForked)
            self._elsewhere |= born and bool(self._stored)
            left_out = self._elsewhere and (born or self._stays(event) or self._lists_known_items(event))
            self.left_out += left_out
            return not left_out
        # Where there is no other time, that of recording stands in, and each bank has its own.
        if not same_but_held(replace(stored, occurred_at=stored.occurred_at or event.occurred_at), event):
            if not (event.origin or stored.origin or (self._elsewhere and stays(event))):
                raise DuplicateEvent(stored.id, stored.seq, "with other content")
            self.changes.append(_changed(event))
        return False

    def _stays(self, event: Event) -> bool:
        if isinstance(event, MemoriesConsolidated) and not event.again:
            return event.extraction in self._decided
        return stays(event)

    def _lists_known_items(self, event: Event) -> bool:
        """Return whether an event is a list of items that are all here: a list brings no witnesses by this way either.

        Its decisions stay there too.
        """
        listed = isinstance(event, MemoriesExtracted) and event.extractor == EXTRACTOR and not event.runs
        if not listed or not all(head.id in self._met for head in event.heads):  # type: ignore[attr-defined]
            return False
        self._decided.add(event.id)
        return True


def _changed(event: Event) -> RecordChange:
    return RecordChange(record=event.id, run=getattr(event, "run", None) or "", differing=(type_of(event),))


def _texts(event: Event) -> Iterator[Any]:
    for name in texts_of(type(event)):
        value = getattr(event, name)
        yield from value if isinstance(value, tuple) else (value,)


IMPORTER = Importer(
    form="events",
    about="exported events (type, seq)",
    recognise=lambda opening: "type" in opening.fields and foreign_form(opening.fields) is None,
    parse=parse_exported,
)
