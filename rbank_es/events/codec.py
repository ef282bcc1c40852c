"""From events to bytes and back, for the whole vocabulary.

One tagged union decodes a whole line in one pass. A line that it refuses takes the slow path, which finds out why:
an older version is upcast, a newer one or an unknown type raises `UnknownEvent`, anything else is not an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Union

import msgspec

from rbank_es.errors import UnknownEvent
from rbank_es.events import bank_events, memory_events, run_events
from rbank_es.events import run_events as judgment
from rbank_es.events.event import Event, type_of

CLASSES: tuple[type[Event], ...] = (
    bank_events.BankCreated,
    bank_events.PolicySet,
    bank_events.BankForked,
    bank_events.OntologyRegistered,
    run_events.RunStarted,
    run_events.ContextBuilt,
    run_events.MemoriesRetrieved,
    run_events.MemoriesRead,
    run_events.ToolCalled,
    run_events.StepTaken,
    run_events.LmCalled,
    run_events.RunFinished,
    run_events.NoteLogged,
    judgment.RunJudged,
    judgment.JudgmentOverruled,
    memory_events.MemoriesExtracted,
    memory_events.MemoriesConsolidated,
    memory_events.MemoryProposed,
    memory_events.ItemsLinked,
    memory_events.MemoriesForgotten,
    memory_events.MemoriesRetracted,
    memory_events.MemoriesRestored,
    memory_events.DecisionUndone,
    memory_events.ArtifactMaterialised,
    memory_events.ExperimentStarted,
    memory_events.ExperimentFinished,
    bank_events.ContentErased,
)

TYPES: dict[str, type[Event]] = {type_of(cls): cls for cls in CLASSES}
"""Every event type of this release, by its name in the log."""

ENVELOPE: frozenset[str] = frozenset(Event.__struct_fields__)
"""Names of the fields that every event has."""

_ENCODER = msgspec.json.Encoder()
_force = msgspec.structs.force_setattr


def version_of(cls: type[Event]) -> int:
    """The current version of a type's schema: the one that a new event has."""
    defaults = zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False)
    return int(dict(defaults)["v"])


@cache
def chains() -> Chains:
    """The upcasters, checked against the vocabulary. Raises ValueError if they don't fit."""
    return Chains(UPCASTERS, {name: version_of(cls) for name, cls in TYPES.items()})


@cache
def texts_of(cls: type[Event]) -> tuple[str, ...]:
    """Names of the text fields of a type: what stands below the salt."""
    own = [name for name in cls.__struct_fields__ if name not in ENVELOPE]
    return tuple(own[own.index("salt") + 1 :]) if "salt" in own else ()


@cache
def facts_of(cls: type[Event]) -> tuple[str, ...]:
    """Names of the fact fields of a type: what stands above the salt and always stays."""
    own = [name for name in cls.__struct_fields__ if name not in ENVELOPE]
    return tuple(own[: own.index("salt")] if "salt" in own else own)


_EMPTY = dict(zip(Event.__struct_fields__, Event.__struct_defaults__, strict=True))
_PLANS = {cls: (len(f'{{"type":"{name}"'), bool(texts_of(cls))) for name, cls in TYPES.items()}


def encode_body(event: Event, salt: str) -> bytes:
    """The event's own fields as they stand in a line: `,"run":…` up to the last text, no envelope, no brace."""
    prefix, salted = _PLANS[type(event)]
    bare: Event = event.__copy__()  # type: ignore[attr-defined]
    if event.id or event.occurred_at or event.seq:
        for name in ENVELOPE:
            _force(bare, name, _EMPTY[name])
    if salted:
        _force(bare, "salt", salt)
    return _ENCODER.encode(bare)[prefix:-1]


@cache
def _decoder() -> msgspec.json.Decoder[Event]:
    # Made on first use: it takes a third of the time in which an append of one event, which reads none, is done.
    return msgspec.json.Decoder(Union[CLASSES])  # noqa: UP007


def encode_json(value: Any) -> bytes:
    """Any value as compact JSON, the way the log writes it."""
    return _ENCODER.encode(value)


@cache
def decoder_of(cls: type[Event]) -> msgspec.json.Decoder[Event]:
    """A decoder of today's lines of one type, for those who know it: quickly made, where one of all types is not."""
    return msgspec.json.Decoder(cls)


def decode_event(line: bytes | bytearray | memoryview) -> Event:
    """The event of a numbered line, upcast to today's schema.

    Raises `UnknownEvent` for a type or version from the future, and `msgspec.DecodeError` (of which
    `msgspec.ValidationError` is one) for anything that is not an event.
    """
    try:
        return _decoder().decode(line)
    except msgspec.ValidationError:
        return _decode_slowly(line)


def decode_events(numbered: Sequence[bytes]) -> list[Event]:
    """The events of many lines; the same as `decode_event` on each, and quicker. Raises as that does."""
    if not numbered:
        return []  # and no decoder is made: a writer that finds nothing new asks for this at its start
    decode = _decoder().decode
    try:
        return [decode(line) for line in numbered]
    except msgspec.ValidationError:
        return [decode_event(line) for line in numbered]


def _decode_slowly(line: bytes | bytearray | memoryview) -> Event:
    fields: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
    type_, version, seq = str(fields.get("type")), fields.get("v", 1), fields.get("seq")
    position = seq if isinstance(seq, int) else None
    if type_ not in TYPES:
        raise UnknownEvent(type_, version if isinstance(version, int) else None, None, position)
    current = version_of(TYPES[type_])
    if not isinstance(version, int) or version < 1:
        raise msgspec.ValidationError(f"version {version!r} of {type_} can't be one")
    if version > current:
        raise UnknownEvent(type_, version, current, position)
    if version < current:
        fields = chains().upcast(type_, version, current, fields)
    return msgspec.convert(fields, type=TYPES[type_])


def schema_of(type_: str | None = None) -> dict[str, Any]:
    """The JSON Schema of one event type, or of all (a `oneOf` under `$defs`).

    Raises `UnknownEvent` for a type that doesn't exist.
    """
    if type_ is not None and type_ not in TYPES:
        raise UnknownEvent(type_, None, None)
    wanted: Any = TYPES[type_] if type_ else Union[CLASSES]  # noqa: UP007
    return msgspec.json.schema(wanted)


Fields = dict[str, Any]


class Upcaster(NamedTuple):
    """Turns the fields of one version of a type into those of the next. `apply` must be pure and total."""

    type: str
    version: int
    apply: Callable[[Fields], Fields]


class Chains:
    """All upcasters, checked. Raises ValueError on a duplicate, a gap, or a step that leads nowhere."""

    def __init__(self, upcasters: Iterable[Upcaster], current: Mapping[str, int]) -> None:
        self._steps: dict[tuple[str, int], Upcaster] = {}
        for upcaster in upcasters:
            self._add(upcaster, current)
        for type_, version in current.items():
            self._check_gap_free(type_, version)

    def _add(self, upcaster: Upcaster, current: Mapping[str, int]) -> None:
        step = (upcaster.type, upcaster.version)
        if upcaster.type not in current:
            raise ValueError(f"upcaster of {upcaster.type}: no such event type")
        if not 1 <= upcaster.version < current[upcaster.type]:
            raise ValueError(f"upcaster of {step} leads past version {current[upcaster.type]}: a cycle or a leftover")
        if step in self._steps:
            raise ValueError(f"two upcasters of {step}")
        self._steps[step] = upcaster

    def _check_gap_free(self, type_: str, version: int) -> None:
        missing = [old for old in range(1, version) if (type_, old) not in self._steps]
        if missing:
            raise ValueError(f"{type_}: no upcaster from version {missing[0]}")

    def upcast(self, type_: str, version: int, current: int, fields: Fields) -> Fields:
        """The fields as of version `current`, step by step from `version`; `v` follows."""
        for step in range(version, current):
            fields = self._steps[type_, step].apply(fields) | {"v": step + 1}
        return fields


UPCASTERS: tuple[Upcaster, ...] = ()
"""Every upcaster of this release. All types are at version 1, so there is none yet."""
