"""Two runs compared event by event: the same, or where they part.

Positions, times, ids, salts, checksums and durations say when and where a run was made, not what it did, and are left
out. So are the release and the commit of the code: a rerun is asked whether another release still does the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any

import msgspec

from rbank_es.events import Event, LmCalled, type_of
from rbank_es.events.codec import ENVELOPE
from rbank_es.models.recorded_model import Departure, departure
from rbank_es.rerun.hints import hint_for

LEFT_OUT = ENVELOPE | {"salt", "duration_s", "release", "commit", "judgment", "extraction"}
"""Fields that are not compared; `judgment` and `extraction` are ids of events."""

JSON_FIELDS = frozenset({"arguments", "request", "response", "evidence", "note", "extra", "result"})
"""Texts that hold JSON, in which a difference has a path."""

SAYS_MOST = ("tool", "role", "arguments", "request", "code", "reasoning", "texts", "outcome", "error_code", "error")
"""Fields that are compared before the others of their event: what was asked says more than what came of it."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rerun first differs from what was recorded.

    `number` counts the events of the run from 1; `position` is where the recorded one stands in the bank, 0 where it is
    missing there. `field` may go on into the field: `request.messages[1].parts[0].text, character 20`. `recorded` and
    `now` are shortened around that place. `hint` says what may have changed.
    """

    number: int
    position: int
    type: str
    field: str
    recorded: str
    now: str
    hint: str

    def __str__(self) -> str:
        at = f" (position {self.position:,})" if self.position else ""
        return f"event {self.number}{at}, {self.type}, {self.field}: recorded {self.recorded}, now {self.now}"


def first_difference(recorded: Sequence[Event], now: Sequence[Event], passed: int = 0) -> Difference | None:
    """Where the events of two runs first differ, texts in place; None if they are the same.

    `passed` is how many events of the run were compared before these.
    """
    pairs = zip_longest(_in_order(recorded), _in_order(now))
    for number, (before, after) in enumerate(pairs, passed + 1):
        found = _parted(before, after)
        if found is not None:
            event = before if before is not None else after
            return Difference(
                number=number,
                position=before.seq if before is not None else 0,
                type=type_of(event),
                field=found.path,
                recorded=found.recorded,
                now=found.now,
                hint=hint_for(event, found.path),
            )
    return None


def _in_order(events: Sequence[Event]) -> Iterator[Event]:
    """The events, with calls of sub-models that may have been made side by side in an order of their own."""
    for _, group in groupby(events, lambda event: isinstance(event, LmCalled) and event.role == "sub"):
        yield from sorted(group, key=_rank)


def _rank(event: Event) -> tuple[Any, ...]:
    """Of sub-calls what tells them apart; of all others the same, so that they stay as they are."""
    if not isinstance(event, LmCalled) or event.role != "sub":
        return ()
    # The same prompt may have been put twice at once, and only one of the calls have failed at first.
    return event.step or 0, str(event.request_key), event.attempt or 0, str(event.error_code), str(event.response)


def _parted(before: Event | None, after: Event | None) -> Departure | None:
    if before is None or after is None or type(before) is not type(after):
        return Departure("type", _named(before), _named(after))
    for name in _fields_of(type(before)):
        was, is_ = getattr(before, name), getattr(after, name)
        if was != is_:
            return _within(name, was, is_)
    return None


def _named(event: Event | None) -> str:
    return "no further event" if event is None else type_of(event)


def _fields_of(cls: type[Event]) -> list[str]:
    own = [name for name in cls.__struct_fields__ if name not in LEFT_OUT]
    return sorted(own, key=lambda name: SAYS_MOST.index(name) if name in SAYS_MOST else len(SAYS_MOST))


def _within(name: str, was: Any, is_: Any) -> Departure | None:
    if name in JSON_FIELDS and isinstance(was, str) and isinstance(is_, str):
        try:
            before, after = msgspec.json.decode(was), msgspec.json.decode(is_)
        except msgspec.DecodeError:
            pass
        else:
            found = departure(before, after, name)
            if found is not None:
                return found
    return departure(_plain(was), _plain(is_), name)


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
