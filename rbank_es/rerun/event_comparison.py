"""The comparison of a recorded run with its rerun, event by event, and hints at possible causes of differences.

Positions, times, ids, salts, checksums and durations are not compared, because they record when and where a run was
made, not its actions. Nor are the release and the commit, because a rerun tests whether another release still does the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any

import msgspec

from rbank_es.context.layer_sections import LAYER_TABLE
from rbank_es.events import (
    ContextBuilt,
    Event,
    LmCalled,
    MemoriesRead,
    MemoriesRetrieved,
    RunStarted,
    StepTaken,
    type_of,
)
from rbank_es.events.codec import ENVELOPE
from rbank_es.events.run_events import ToolCalled
from rbank_es.models.recorded_model import Departure, departure

LEFT_OUT = ENVELOPE | {
    "salt", "duration_s", "release", "commit", "judgment", "extraction", "calls", "recall_sent", "recall_unsent",
}  # fmt: skip
"""Fields that are not compared: `judgment`, `extraction` and `calls` are ids of events; `recall_sent` and
`recall_unsent` follow from contexts and requests, which are."""

JSON_FIELDS = frozenset({"arguments", "request", "response", "evidence", "note", "extra", "result"})
"""Texts that hold JSON, so that a difference has a path."""

SAYS_MOST = ("tool", "role", "arguments", "request", "code", "reasoning", "texts", "outcome", "error_code", "error")
"""Fields compared before the others of their event, because a changed request explains a changed response."""


class EventDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference of a rerun from the record.

    `number` counts the events of the run from 1; `position` is that of the recorded event, 0 if it is missing. `field`
    may be a path: `request.messages[1].parts[0].text, character 20`. `recorded` and `now` are truncated around that
    place. `hint` names what may have changed.
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


def first_difference(recorded: Sequence[Event], now: Sequence[Event], passed: int = 0) -> EventDifference | None:
    """Return the first difference between two lists of events, texts resolved; None if there is none.

    `passed` is the number of the run's events compared before these.
    """
    pairs = zip_longest(_in_order(recorded), _in_order(now))
    for number, (before, after) in enumerate(pairs, passed + 1):
        found = _parted(before, after)
        if found is not None:
            event = before if before is not None else after
            return EventDifference(
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
    """Yield the events, each row of sub-calls sorted, because they may have been made side by side."""
    for _, group in groupby(events, lambda event: isinstance(event, LmCalled) and event.role == "sub"):
        yield from sorted(group, key=_rank)


def _rank(event: Event) -> tuple[Any, ...]:
    """Return the sort key of a sub-call; of any other event a constant, so that it keeps its place."""
    if not isinstance(event, LmCalled) or event.role != "sub":
        return ()
    # Because one prompt may be sent twice at once, of which only one call failed at first.
    return event.step or 0, str(event.request_key), event.attempt or 0, str(event.error_code), str(event.response)


def _parted(before: Event | None, after: Event | None) -> Departure | None:
    if before is None or after is None or type(before) is not type(after):
        return Departure("type", _named(before), _named(after))
    for name in _fields_of(type(before)):
        was, is_ = _compared(before, name), _compared(after, name)
        if was != is_:
            return _within(name, was, is_)
    return None


def _compared(event: Event, name: str) -> Any:
    value = getattr(event, name)
    # Judgments are ids of events, also within what an extraction relied on.
    return tuple(msgspec.structs.replace(each, judgment=None) for each in value) if name == "relied" else value


def _named(event: Event | None) -> str:
    return "no further event" if event is None else type_of(event)


def _fields_of(cls: type[Event]) -> list[str]:
    own = [name for name in cls.__struct_fields__ if name not in LEFT_OUT]
    return sorted(own, key=lambda name: SAYS_MOST.index(name) if name in SAYS_MOST else len(SAYS_MOST))


def _within(name: str, was: Any, is_: Any) -> Departure | None:
    # Decoded, so that a difference names the value in the JSON and not a character of it.
    if name in JSON_FIELDS and isinstance(was, str) and isinstance(is_, str):
        try:
            before, after = msgspec.json.decode(was), msgspec.json.decode(is_)
        except msgspec.DecodeError:
            # No JSON after all: compare it as text, below.
            pass
        else:
            found = departure(before, after, name)
            if found is not None:
                return found
    # Also reached by JSON that is equal once decoded: its texts then differ in spacing or in the order of keys.
    return departure(_plain(was), _plain(is_), name)


def _plain(value: Any) -> Any:
    # `departure` looks into lists and objects alone, and not into tuples and structs.
    return msgspec.json.decode(msgspec.json.encode(value))


_ORDER = "the run took another turn: see the event before it; the code of the executor may have changed"
_REQUEST = "the prompt changed: by the code, the tools' manuals, or another version of dspy"
_TOOL = "the tool answered otherwise: its code, the ontology, or the bank that it read may have changed"


def hint_for(event: Event, field: str) -> str:
    """Return the thing that may have changed if a field of this recorded event differs."""
    if field == "type":
        return _ORDER
    if isinstance(event, ContextBuilt):
        return _context_hint(event, field)
    if isinstance(event, LmCalled):
        return _REQUEST if field.startswith(("request", "parameters")) else _ORDER
    if isinstance(event, ToolCalled):
        return _ORDER if field.startswith(("tool", "arguments", "step", "call")) else _TOOL
    if isinstance(event, (MemoriesRetrieved, MemoriesRead)):
        return "the retrieval policy, the code of the index, or the bank before the run may have changed"
    if isinstance(event, RunStarted):
        return "the run was started with other settings: they, or the code that records them, changed"
    if isinstance(event, StepTaken):
        return "the executor shows or measures the step otherwise: its code may have changed"
    return "the code may have changed"


def live_hint(type_: str) -> str:
    """Return the likely cause if an event of this type differs after the agent's code ran again; else empty."""
    if type_ not in ("step_taken", "lm_called", "tool_called", "run_finished"):
        return ""
    return (
        "the agent's code ran again, and may give something else each time (the time, chance, an order); or " + _ORDER
    )


def _context_hint(event: ContextBuilt, field: str) -> str:
    """Return the hint for the layer that the field names, as in `texts[1], character 20`."""
    inside = field.partition("[")[2].partition("]")[0]
    at = int(inside) if inside.isdecimal() else len(event.layers)
    layer = event.layers[at].layer if at < len(event.layers) else ""
    if layer in LAYER_TABLE:
        return LAYER_TABLE[layer].differs_because
    return "the layers, their budgets, or the code that packs them may have changed"
