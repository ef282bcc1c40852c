"""The form of a recorded trajectory: the key of a line for each field of an event, in both directions.

A line is `{"timestamp", "event_type", "data"}`. Keys that recorders are known to write are in the tables below; a key
that is named as a field of the event is taken as that field; all others are kept in `extra`, as are values that their
field would not give back unchanged (a null, a default, 5 for 5.0). So `data_of` returns the data that `fields_of` got.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import cache
from typing import Any, NamedTuple, get_type_hints

import msgspec

from rbank_es.events import Event, Ref, RunFinished, RunStarted, StepTaken, ToolCalled
from rbank_es.events.codec import ENVELOPE, texts_of
from rbank_es.events.event_envelope import Erased
from rbank_es.exchange.importer import TIMESTAMP

ORDERS: Mapping[str, tuple[str, ...]] = {
    "run_start": ("task", "endpoint", "context_size", "max_iters"),
    "tool_call": ("tool", "args_type", "kwargs_keys"),
    "tool_result": ("tool", "result_type", "result_size", "result_preview", "error"),
    "iteration": ("iteration", "total", "reasoning", "code", "output"),
    "run_complete": ("converged", "answer_length", "answer_preview", "has_sparql", "sparql", "iterations", "lm_usage"),
    "run_error": ("error", "type"),
    "lm_usage": (
        "total_calls",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "cache_read_tokens",
        "cache_creation_tokens",
        "total_cost",
    ),
}
"""The keys that recorders write, in their order."""

RECORDED = frozenset(key for order in ORDERS.values() for key in order)
"""Keys whose meaning is fixed: a value of a wrong type under one of them is an error, not an unknown key."""

PREVIEW = "_preview"
"""Ending of a key whose text is only the beginning."""

PREVIEW_CHARS: Mapping[str, int] = {"reasoning": 500, "code": 1000, "output": 500}
"""Characters at which recorders truncate the texts of a step; a text of just that length counts as truncated."""

CALL, CALL_TIMESTAMP, ONLY = "@call", "@call_timestamp", "@only"
RESERVED = frozenset({TIMESTAMP, CALL, CALL_TIMESTAMP, ONLY})
"""Keys of `extra` for facts about the line itself; a line's own data may not have them."""

_NOT_OWN = ENVELOPE | {"run", "salt", "extra", "previews"}


class BadField(ValueError):
    """A known key has a value that its field can't take; `key` names it."""

    def __init__(self, key: str, reason: str) -> None:
        self.key = key
        super().__init__(f"{key!r}: {reason}")


class Part(NamedTuple):
    """A JSON object with some fields of an event, under the keys that recorders write."""

    cls: type[Event]
    names: Mapping[str, str]
    fields: frozenset[str]


@cache
def _typed(cls: type[Event]) -> dict[str, tuple[Any, Any]]:
    """Return the fields of an event that a line may have, with their types and defaults. A text is a string here."""
    hints, texts = get_type_hints(cls, include_extras=True), texts_of(cls)
    fields = (field for field in msgspec.structs.fields(cls) if field.name not in _NOT_OWN)
    return {field.name: (str if field.name in texts else hints[field.name], _default(field)) for field in fields}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    factory: Any = field.default_factory
    return field.default if factory is msgspec.NODEFAULT else factory()


def _part(
    cls: type[Event], names: Mapping[str, str], *, only: Set[str] = frozenset(), but: Set[str] = frozenset()
) -> Part:
    return Part(cls, names, frozenset((only or _typed(cls).keys()) - but))


_OF_CALLS = frozenset({"tool", "call", "step", "arguments"})
_TOTALS = frozenset({"lm_calls", "tokens_in", "tokens_out", "cost_usd"})

STARTED = _part(RunStarted, {"task": "task", "endpoint": "endpoint", "max_iters": "iterations_max"})
CALLED = _part(ToolCalled, {}, only=_OF_CALLS)
ANSWERED = _part(
    ToolCalled, {"result_size": "chars", "result_preview": "result"}, but=(_OF_CALLS - {"tool"}) | {"duration_s"}
)
STEPPED = _part(StepTaken, {"iteration": "index", "reasoning": "reasoning", "code": "code", "output": "output"})
COMPLETED = _part(RunFinished, {"answer_length": "answer_chars", "answer_preview": "answer"}, but=_TOTALS | {"outcome"})
LM_USAGE = _part(
    RunFinished,
    {
        "total_calls": "lm_calls",
        "prompt_tokens": "tokens_in",
        "completion_tokens": "tokens_out",
        "total_cost": "cost_usd",
    },
    only=_TOTALS,
)
BROKEN = _part(RunFinished, {"type": "error_code"}, but=frozenset({"outcome"}))


def fields_of(part: Part, data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields that `data` has, and its other values. Raises `BadField` for a key that recorders write."""
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    # Recorders' keys first: a key that is called like the field must not take its place.
    known = [key for key in part.names if key in data]
    for key in (*known, *(key for key in data if key not in part.names)):
        field, value = part.names.get(key, key), data[key]
        if field not in part.fields or field in fields or value is None or _has_other_name(part, key):
            extra[key] = value
            continue
        hint, default = _typed(part.cls)[field]
        try:
            fields[field] = msgspec.convert(value, type=hint)
        except msgspec.ValidationError as error:
            # A key of no recorder may mean anything, so its value is kept as it is.
            if key in RECORDED:
                raise BadField(key, str(error)) from None
        if field not in fields or fields[field] == default or not _same_json(fields[field], value):
            extra[key] = value
    return fields, {key: extra[key] for key in data if key in extra}


def _has_other_name(part: Part, key: str) -> bool:
    """Return whether `key` is a field that recorders always write under another key (a preview's key doesn't count)."""
    return any(field == key != name and not name.endswith(PREVIEW) for name, field in part.names.items())


def _same_json(converted: Any, value: Any) -> bool:
    return msgspec.json.encode(converted) == msgspec.json.encode(value)


def previews_of(part: Part, fields: Mapping[str, Any], data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields that hold only the beginning of their text, as far as the line shows."""
    marked = [field for key, field in part.names.items() if key.endswith(PREVIEW) and data.get(key) is not None]
    preview_chars = PREVIEW_CHARS if part is STEPPED else {}
    return tuple(marked + [field for field, chars in preview_chars.items() if len(fields.get(field, "")) == chars])


def data_of(part: Part, event: Event) -> dict[str, Any]:
    """Return a line's data for an event, under the recorded keys; absent and erased values are left out."""
    keys = {field: key for key, field in part.names.items()}
    previews: tuple[str, ...] = getattr(event, "previews", ())
    data: dict[str, Any] = {}
    # Sorted, because a set has another order in each process, and exports must be equal byte for byte.
    for field in sorted(part.fields):
        value = getattr(event, field)
        if value is None or value == _typed(part.cls)[field][1] or isinstance(value, Ref | Erased):
            continue
        key = keys.get(field, field)
        data[field if key.endswith(PREVIEW) and field not in previews else key] = msgspec.to_builtins(value)
    return data


def in_order(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys in the order in which recorders write them; keys unknown to them come last."""
    known = [key for key in ORDERS[kind] if key in data]
    return {key: data[key] for key in (*known, *(key for key in data if key not in ORDERS[kind]))}
