"""The codec of events: encoding, decoding, and the checks before; types, their upcasts, and handles in place of texts.

One tagged union decodes a whole line in one pass. A line that it refuses takes the slow path, which finds the reason:
an older version is upcast, a newer one or an unknown type raises `UnknownEvent`, anything else is not an event.

The log is never rewritten for a new schema. A type whose schema changes gets the next version (`v`), and an upcaster
from the version before. Every chain of upcasters is checked at start-up, because a fault in one would otherwise surface
years later, on an old bank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, Generic, TypeVar, Union

import msgspec
from msgspec import Struct

from rbank_es.errors import BadEvent, BadInput, LogCorruption, UnknownEvent
from rbank_es.events import bank_events, memory_events, run_events
from rbank_es.events.event_envelope import Erased, Event, Ref
from rbank_es.events.items import ItemText
from rbank_es.events.text_checks import UNWRITABLE, refuse_non_finite, unwritable
from rbank_es.system.forks import undivided
from rbank_es.system.registry import load_plugins

CLASSES: tuple[type[Event], ...] = (
    bank_events.BankCreated,
    bank_events.PolicySet,
    bank_events.BankForked,
    bank_events.BankAbsorbed,
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
    run_events.RunJudged,
    run_events.JudgmentOverruled,
    memory_events.MemoriesExtracted,
    memory_events.MemoriesConsolidated,
    memory_events.MemoryProposed,
    memory_events.ItemsLinked,
    memory_events.MemoriesForgotten,
    memory_events.MemoriesRetracted,
    memory_events.MemoriesRestored,
    memory_events.MemoriesAdmitted,
    memory_events.ConsolidationProposed,
    memory_events.DecisionUndone,
    memory_events.CorrectionCompleted,
    memory_events.WordsEmbedded,
    memory_events.ArtifactMaterialised,
    memory_events.ExperimentStarted,
    memory_events.ExperimentFinished,
    bank_events.ContentErased,
)
"""The event types of this release."""


def type_of(event: Event | type[Event]) -> str:
    """Return the event's type as the log has it, such as `run_started`."""
    return str(event.__struct_config__.tag)


TYPES: dict[str, type[Event]] = {type_of(cls): cls for cls in CLASSES}
"""Every known event type by its name in the log; `event_types` includes those of plugins that were not loaded yet."""

ENVELOPE: frozenset[str] = frozenset(Event.__struct_fields__)
"""Names of the fields that every event has."""

JSON_FIELDS = frozenset({"note", "arguments", "extra", "evidence", "request", "response", "config", "result"})
"""Names of the text fields that hold JSON."""

Fields = dict[str, Any]
Made = TypeVar("Made")

_ENCODER = msgspec.json.Encoder()
_EMPTY = dict(zip(Event.__struct_fields__, Event.__struct_defaults__, strict=True))
# Lines that begin so belong to the log itself, which knows them from events by their first bytes.
_NAME = re.compile(r"(?!segment_|text)[a-z][a-z0-9_]*", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_BANK_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_force = msgspec.structs.force_setattr


class Upcaster(Struct, frozen=True):
    """One step from a version of a type to the next: `apply` maps the fields, and must be pure and total."""

    type: str
    version: int
    apply: Callable[[Fields], Fields]


UPCASTERS: list[Upcaster] = []
"""Every upcaster. All types of this release are at version 1, so it has none yet."""


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
        """Return the fields as of version `current`, step by step from `version`; `v` follows."""
        for step in range(version, current):
            fields = self._steps[type_, step].apply(fields) | {"v": step + 1}
        return fields


class ByClass(dict[type[Event], Made], Generic[Made]):
    """The results of a function for event classes, computed on first use: plugins add classes at any time."""

    def __init__(self, make: Callable[[type[Event]], Made]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, cls: type[Event]) -> Made:
        return self.setdefault(cls, self._make(cls))


def register(cls: type[Event], upcasters: Iterable[Upcaster] = ()) -> None:
    """Add an event type, with the upcasters from its older versions.

    From then on its events are validated, stored, decoded and shown as all others are. A release without the plugin
    refuses to read such a log (`UnknownEvent`). Raises `BadInput` for a name that is taken or can't be one.
    """
    name = type_of(cls)
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} can't name an event type: give snake_case, and neither text… nor segment_…")
    if TYPES.setdefault(name, cls) is not cls:
        raise BadInput(f"there is event type {name!r} already; choose another name")
    # The cached decoder is a union of the types known before.
    UPCASTERS.extend(upcasters)
    for cached in (_decoder, _decoder_of_few, chains):
        cached.cache_clear()


def event_types() -> Mapping[str, type[Event]]:
    """Return every event type by its name in the log, those of plugins too. Raises `BadPlugin`."""
    load_plugins()
    return TYPES


def unknown_types(names: Iterable[str]) -> set[str]:
    """Return the names that no event type has; plugins are loaded only to look for a name that this release lacks."""
    # Without plugins first: appending known types must not pay for the search for plugins.
    unknown = set(names) - TYPES.keys()
    return unknown - event_types().keys() if unknown else unknown


def version_of(cls: type[Event]) -> int:
    """Return the current version of a type's schema, which a new event gets."""
    defaults = zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False)
    return int(dict(defaults)["v"])


@cache
def chains() -> Chains:
    """Return the upcasters, checked against the vocabulary. Raises ValueError if they don't fit."""
    return Chains(UPCASTERS, {name: version_of(cls) for name, cls in TYPES.items()})


@cache
def texts_of(cls: type[Event]) -> tuple[str, ...]:
    """Return the names of a type's text fields: those below the salt."""
    own = [name for name in cls.__struct_fields__ if name not in ENVELOPE]
    return tuple(own[own.index("salt") + 1 :]) if "salt" in own else ()


@cache
def facts_of(cls: type[Event]) -> tuple[str, ...]:
    """Return the names of a type's fact fields: those above the salt, which are never erased."""
    own = [name for name in cls.__struct_fields__ if name not in ENVELOPE]
    return tuple(own[: own.index("salt")] if "salt" in own else own)


def _plan(cls: type[Event]) -> tuple[int, bool]:
    name = type_of(cls)
    if unknown_types([name]) or TYPES[name] is not cls:
        raise ValueError("it is no registered event type; add it with rbank_es.events.codec.register")
    return len(f'{{"type":"{name}"'), bool(texts_of(cls))


_PLANS = ByClass(_plan)


def encode_body(event: Event, salt: str) -> bytes:
    """Return the event's own fields as a line has them: `,"run":…` up to the last text, no envelope, no brace.

    Raises ValueError for an event of a class that was not registered.
    """
    prefix, salted = _PLANS[type(event)]
    # On a copy, because the caller keeps the event; forced, because events are frozen.
    bare: Event = event.__copy__()  # type: ignore[attr-defined]
    # Most events to append have an empty envelope already.
    if event.id or event.occurred_at or event.origin or event.seq:
        for name in ENVELOPE:
            _force(bare, name, _EMPTY[name])
    if salted:
        _force(bare, "salt", salt)
    return _ENCODER.encode(bare)[prefix:-1]


def encodable(text: str) -> str:
    """Return the text with lone surrogates, which no UTF-8 can hold, replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_JSON_NAMES = ByClass(lambda cls: tuple(sorted(JSON_FIELDS.intersection(cls.__struct_fields__))))


def with_json_texts(event: Event) -> Event:
    """Return the event with JSON that was given as a value (`note={…}`) in the form in which it is stored, as text."""
    given = {name: value for name in _JSON_NAMES[type(event)] if isinstance(value := getattr(event, name), dict | list)}
    if not given:
        return event
    return msgspec.structs.replace(event, **{name: json_as_text(name, value) for name, value in given.items()})


def json_as_text(name: str, value: Any) -> Any:
    """Return the value of a field as it is stored: JSON in a field that holds JSON becomes a text.

    Raises `BadEvent` for a value that JSON can't hold.
    """
    if name in JSON_FIELDS and value is not None and not isinstance(value, str):
        try:
            text = encode_json(value).decode()
            if "null" in text:
                refuse_non_finite(value, f"$.{name}")
            return text
        except UNWRITABLE as error:
            raise unwritable(value, f"$.{name}", error) from None
    return value


def encoded_bytes(event: Event) -> int:
    """Return the length of an event in JSON, in bytes. Raises `BadEvent` if it can't be encoded."""
    try:
        return len(encode_json(event))
    except UNWRITABLE as error:
        raise unwritable(event, "$", error) from None


def check_identity(event: Event, line: int | None = None) -> None:
    """Raise `BadEvent` unless `id` is empty or a UUID in canonical form, `occurred_at` empty or UTC, and `origin` empty
    or the id of a bank."""
    if event.id and not _UUID.fullmatch(event.id):
        raise BadEvent(f"{event.id!r} is not a UUID in lower-case form", line=line, path="$.id")
    if event.occurred_at is not None and not _is_time(event.occurred_at):
        raise BadEvent(
            f"{event.occurred_at!r} is not a UTC time such as 2026-01-31T12:00:00.000000Z",
            line=line,
            path="$.occurred_at",
        )
    if event.origin is not None and not _BANK_ID.fullmatch(event.origin):
        raise BadEvent(f"{event.origin!r} is not the id of a bank: 32 hex digits", line=line, path="$.origin")


def _is_time(text: str) -> bool:
    try:
        return _TIME.fullmatch(text) is not None and datetime.fromisoformat(text) is not None
    except ValueError:
        return False


_TYPE = len('{"type":"')
_FEW_TYPES = 8
"""Types for which a decoder of their own is made in a third of the time that one of all types takes."""
_FEW_MADE = 2
"""Such decoders that a process makes: who reads more soon meets all types."""


# Decoders are made under a lock: msgspec notes types half described, and a thread that decodes by these crashes.


@cache
def _decoder() -> msgspec.json.Decoder[Event]:
    # On first use: making it takes a third of the time of an append of one event, which reads none.
    with undivided:
        return msgspec.json.Decoder(Union[tuple(TYPES.values())])  # noqa: UP007


@cache
def _decoder_of_few(classes: frozenset[type[Event]]) -> msgspec.json.Decoder[Event]:
    with undivided:
        return msgspec.json.Decoder(Union[tuple(classes)])  # noqa: UP007


def _decoder_for(numbered: Sequence[bytes]) -> msgspec.json.Decoder[Event]:
    """Return a decoder of all types; as long as none is made, of those of the lines where they are few.

    A process that looks at one place of the log starts in 25 ms less.
    """
    if not _decoder.cache_info().currsize and _decoder_of_few.cache_info().currsize < _FEW_MADE:
        names = {line[_TYPE : line.find(b'"', _TYPE)].decode(errors="replace") for line in numbered}
        if len(names) <= _FEW_TYPES and names <= TYPES.keys():
            return _decoder_of_few(frozenset(map(TYPES.__getitem__, names)))
    return _decoder()


def encode_json(value: Any) -> bytes:
    """Return any value as compact JSON, the way the log writes it."""
    return _ENCODER.encode(value)


@cache
def decoder_of(cls: type[Event]) -> msgspec.json.Decoder[Event]:
    """Return a decoder of today's lines of one type; it is made quickly, where one of all types is not."""
    with undivided:
        return msgspec.json.Decoder(cls)


def decode_event(line: bytes | bytearray | memoryview) -> Event:
    """Decode a numbered line into its event, upcast to today's schema.

    Raises `UnknownEvent` for a type or version from the future, and `msgspec.DecodeError` (of which
    `msgspec.ValidationError` is one) for anything that is not an event.
    """
    try:
        return _decoder().decode(line)
    except msgspec.ValidationError:
        return _decode_slowly(line)


def decode_events(numbered: Sequence[bytes]) -> list[Event]:
    """Decode many lines, as `decode_event` does each, and quicker. Raises as that does."""
    if not numbered:
        return []  # without making a decoder: a writer that finds nothing new asks for this at its start
    decode = _decoder_for(numbered).decode
    try:
        return [decode(line) for line in numbered]
    except msgspec.ValidationError:
        # One by one, because the exception doesn't say which line it is about.
        return [decode_event(line) for line in numbered]


def _decode_slowly(line: bytes | bytearray | memoryview) -> Event:
    fields: Fields = msgspec.json.decode(line, type=dict[str, Any])
    type_, version, seq = str(fields.get("type")), fields.get("v", 1), fields.get("seq")
    position = seq if isinstance(seq, int) else None
    # A plugin may bring the type: it is loaded here at the latest.
    if unknown_types([type_]):
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
    """Return the JSON Schema of one event type, or of all (an `anyOf` beside `$defs`).

    Raises `UnknownEvent` for a type that doesn't exist.
    """
    types = event_types()
    if type_ is not None and type_ not in types:
        raise UnknownEvent(type_, None, None)
    wanted: Any = types[type_] if type_ else Union[tuple(types.values())]  # noqa: UP007
    return msgspec.json.schema(wanted)


# ---------------------------------------------------------------- the texts of an event

_PLAIN = frozenset({str, type(None)})


def _getter(names: Sequence[str]) -> attrgetter[tuple[Any, ...]] | None:
    return attrgetter(*names, names[0]) if names else None  # one name alone would give no tuple


_WORDS = ByClass(lambda cls: _getter(texts_of(cls)))


def has_plain_texts(event: Event) -> bool:
    """Return whether each text of an event is in its place, as a string or None: False for rows of candidates, too."""
    words = _WORDS[type(event)]
    return words is None or _PLAIN.issuperset(map(type, words(event)))


def with_texts(event: Event, new: Callable[[Any], Any]) -> Event:
    """Return the event with what `new` makes of each of its texts; the same object if nothing changed."""
    changes = {}
    for name in texts_of(type(event)):
        value = getattr(event, name)
        made = tuple(map(new, value)) if isinstance(value, tuple) else new(value)
        if made != value:
            changes[name] = made
    return msgspec.structs.replace(event, **changes) if changes else event


def resolved(event: Event, read: Callable[[Ref], str | None]) -> Event:
    """Return the event with its handles resolved. `read` returns None for an erased text, which becomes a mark.

    Raises `LogCorruption` for a text that is not what its handle says.
    """
    if has_plain_texts(event):  # most events are
        return event

    def value_of(value: Any) -> Any:
        if not isinstance(value, Ref):
            return value
        text = read(value)
        if text is None:
            return Erased("0" * 64)
        if value.dtype != "item":
            return text
        try:
            return msgspec.json.decode(text, type=ItemText)
        except (msgspec.DecodeError, RecursionError) as error:
            raise LogCorruption(f"position {event.seq:,}", f"the text {value.key[:12]}… is no item: {error}") from None

    return with_texts(event, value_of)


def refs_of(event: Event) -> Iterator[Ref]:
    """Yield the handles that an event holds."""
    for name in texts_of(type(event)):
        value = getattr(event, name)
        yield from (part for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, Ref))
