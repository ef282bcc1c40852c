"""The question `events`: the events of the log in order, as `rbank-es log` lists them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankQuestion, Page, QuestionKind
from rbank_es.bank.id_lookup import recorded_run
from rbank_es.errors import BadInput
from rbank_es.events import Event, type_of
from rbank_es.events.codec import event_types, unknown_types
from rbank_es.events.event_sentences import summary
from rbank_es.limits import answer_limits
from rbank_es.system.nearest_name import hint
from rbank_es.system.text_cuts import cut_words


class EventRow(Struct, frozen=True, kw_only=True):
    """An event in a list. `rbank-es schema --answers events` has the unit and the meaning of each field."""

    seq: int
    type: str
    run: str | None
    occurred_at: str
    recorded_at: str
    origin: str | None
    summary: str | None


class EventPage(Page[EventRow], frozen=True, kw_only=True):
    """A page of events, in JSON under `events`."""

    rows: Annotated[tuple[EventRow, ...], Meta(description="JSON list: the events of this page")] = msgspec.field(
        name="events"
    )


class EventsQuestion(BankQuestion, frozen=True, kw_only=True):
    """Which events, behind which position."""

    type: Annotated[str | None, Meta(description="Only events of these types, separated by commas.")] = None
    run: Annotated[
        str | None, Meta(description="Only events of this run: its id, or a beginning that no other run has.")
    ] = None
    after: Annotated[int, Meta(ge=0, description="The position behind which the page begins.")] = 0
    limit: Annotated[int, Meta(ge=1, le=answer_limits.ANSWER_ROWS_MOST, description="Events of one page at most.")] = (
        answer_limits.ANSWER_ROWS
    )


def find_events(reader: BankReader, question: EventsQuestion) -> EventPage:
    """Return a page of the events, oldest first.

    Raises `BadInput` for an unknown type, `NotInBank` and `AmbiguousId` for a run, and as `EventLog.read`.
    """
    log, limit = reader.bank.log, reader.limit(question.limit)
    run = None if question.run is None else recorded_run(reader.bank, question.run, reader.position)
    wanted: dict[str, Any] = {"upto": reader.position, "types": _types(question.type), "run": run}
    found = list(islice(log.read(after=question.after, **wanted), limit + 1))
    total = reader.position
    if wanted["types"] is not None or run is not None:
        total = sum(1 for _ in log.lines(**wanted))
    following = str(found[limit - 1].seq) if len(found) > limit else None
    rows = tuple(map(event_row, found[:limit]))
    return EventPage(bank=reader.name, position=reader.position, total=total, next=following, rows=rows)


def event_row(event: Event) -> EventRow:
    """Return an event as a row of a list."""
    return EventRow(**row_facts(event))


def row_facts(event: Event, *, sentence: bool = True) -> dict[str, Any]:
    """Return the fields of an event's row, with or without the sentence about it."""
    return {
        "seq": event.seq,
        "type": type_of(event),
        "run": getattr(event, "run", None),
        "occurred_at": event.occurred_at or event.at,
        "recorded_at": event.at,
        "origin": event.origin,
        "summary": cut_words(summary(event), answer_limits.SUMMARY_CHARS) if sentence else None,
    }


def check_types(names: Sequence[str]) -> None:
    """Raise `BadInput`, with the nearest name, unless there are event types of these names."""
    for name in unknown_types(names):
        raise BadInput(f"unknown event type {name!r}{hint(name, event_types())}")


def _types(given: str | None) -> frozenset[str] | None:
    names = [name.strip() for name in (given or "").split(",") if name.strip()]
    check_types(names)
    return frozenset(names) or None


QUESTION = QuestionKind(
    about="The events of the log, oldest first, each with a sentence about it.",
    question=EventsQuestion,
    answer=EventPage,
    find=find_events,
    rows="rows",
)
