"""The question `event`: one event with its facts and its texts."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rbank_es.answers.events import EventRow, row_facts
from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.event_texts import EventText, event_texts
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.id_lookup import not_in_bank
from rbank_es.events.codec import facts_of, resolved
from rbank_es.events.event_envelope import EVENT_ID_CHARS, Event
from rbank_es.system.whole_number import whole_number


class WholeEvent(EventRow, frozen=True, kw_only=True):
    """An event with the facts of its type that are known, under their names in the log, and its texts."""

    facts: dict[str, Any]
    texts: tuple[EventText, ...]


class EventAnswer(BankAnswer, frozen=True, kw_only=True):
    """An event and its id."""

    id: str
    event: WholeEvent


class EventQuestion(BankQuestion, frozen=True, kw_only=True):
    """Which event."""

    event: Annotated[str, Meta(min_length=1, description="The event's id, or its position.")]


def find_event(reader: BankReader, question: EventQuestion) -> EventAnswer:
    """Return an event by its id or its position. Raises `NotInBank`."""
    seq = position_of(reader, question.event)
    if seq is None:
        raise not_in_bank(reader.view, question.event, ["event"])
    event = reader.bank.event_at(seq)
    whole = whole_event(reader, event, reader.text_chars(question.chars))
    return EventAnswer(bank=reader.name, position=reader.position, id=event.id, event=whole)


def position_of(reader: BankReader, event: str) -> int | None:
    """Return the position of the event with this id or at this position, None where it is not there yet."""
    seq = whole_number(event)
    # Of the length of an id only, because a log searches all of its latest events for one.
    if seq is None and len(event) == EVENT_ID_CHARS:
        seq = reader.bank.log.seq_of_id(event.lower())
    return seq if seq is not None and 1 <= seq <= reader.position else None


def whole_event(reader: BankReader, event: Event, chars: int | None, *, sentence: bool = True) -> WholeEvent:
    """Return an event with its facts and texts, each text in at most so many characters."""
    known = {name: getattr(event, name) for name in facts_of(type(event)) if name != "run"}
    said = {name: value for name, value in known.items() if value not in (None, "", (), {})}
    facts = rounded_fractions(msgspec.to_builtins(said), reader.bounds.digits)
    texts = event_texts(resolved(event, reader.bank.log.text), chars=chars, prompts=reader.bounds.prompts)
    return WholeEvent(**row_facts(event, sentence=sentence), facts=facts, texts=texts)


def rounded_fractions(value: Any, digits: int | None) -> Any:
    """Return a value of JSON with each fraction in at most so many significant digits; None: as it is."""
    if digits is None:
        return value
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {name: rounded_fractions(each, digits) for name, each in value.items()}
    return [rounded_fractions(each, digits) for each in value] if isinstance(value, list | tuple) else value


QUESTION = QuestionKind(
    about="One event, with its facts and its texts.",
    question=EventQuestion,
    answer=EventAnswer,
    find=find_event,
    is_single=True,
)
