"""JSON from people and programs: read with limits, decoded strictly, and parsed into new events.

New events have no envelope and are checked field by field. Short forms are accepted, and expanded before anything is
stored. Free JSON (`note`, `arguments`, `extra`, …) may be JSON instead of a string of JSON. A candidate may be one
whole item without `heads`. An item's id and polarity may be left out where they follow from the rest. `occurred_at` may
be any ISO time, with an offset and with any number of digits; one without a zone is read as UTC, as imports read it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.errors import BadEvent, BadInput, LimitExceeded
from rbank_es.events.codec import TYPES, check_identity, event_types, json_as_text, unknown_types
from rbank_es.events.event_envelope import Event
from rbank_es.events.items import Item, polarity_of
from rbank_es.events.text_checks import UNWRITABLE, unwritable
from rbank_es.system.input_file import read_given, without_mark
from rbank_es.system.utc_times import utc_time
from rbank_es.system.validation_messages import reason_and_path

WRITERS_FIELDS = ("seq", "at", "origin", "more", "dur", "crc", "salt")
TEXT_OF_ITEM = ("title", "desc", "content", "tags")


def parse_events(text: bytes) -> list[Event]:
    """Parse one JSON object, or JSON Lines, into events. Blank lines and a byte order mark are skipped.

    Raises `BadEvent` naming the line (from 1) and the path to the field, or `LimitExceeded`; then nothing is returned.
    """
    text = without_mark(text)
    stripped = text.strip()
    # One object may be pretty-printed over several lines, which JSON Lines may not.
    whole = _as_object(stripped) if b"\n" in stripped else None
    if whole is not None:
        return [new_event(whole, line=1)]
    return [parse_event(line, number) for number, line in enumerate(text.split(b"\n"), 1) if line.strip()]


def _as_object(text: bytes) -> dict[str, Any] | None:
    try:
        value = decode_strict(text)
    except RepeatedKey as error:
        raise BadEvent(str(error), line=1) from None
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_event(text: bytes, line: int | None = None) -> Event:
    """Parse one JSON object into an event. Raises `BadEvent` or `LimitExceeded`."""
    if len(text) > limits.TEXT_LINE_BYTES:
        raise LimitExceeded(f"line {line or 1} in bytes", len(text), limits.TEXT_LINE_BYTES, "split its texts")
    try:
        fields = decode_strict(text)
    except RepeatedKey as error:
        raise BadEvent(str(error), line=line) from None
    except msgspec.DecodeError as error:
        raise BadEvent(f"not JSON: {error}", line=line) from None
    except RecursionError:
        raise BadEvent("not usable: nested too deeply", line=line) from None
    if not isinstance(fields, dict):
        raise BadEvent(f"not an event: expected a JSON object, got {type(fields).__name__}", line=line)
    return new_event(fields, line=line)


def new_event(fields: dict[str, Any], line: int | None = None) -> Event:
    """Return the event that `fields` describe, ready to be appended.

    Raises `BadEvent`, with the path to the field, for an unknown type, a field that is missing, extra or of a wrong
    type, and for fields that only the log's writer sets.
    """
    cls = _class_of(fields, line)
    # Refused rather than ignored, because a sender of a position expects it to count.
    for name in WRITERS_FIELDS:
        if name in fields:
            raise BadEvent(f"{name!r} is set by the log's writer; leave it out", line=line, path=f"$.{name}")
    try:
        event = msgspec.convert(_unfold(fields), type=cls)
    except msgspec.ValidationError as error:
        reason, path = reason_and_path(error, cls)
        raise BadEvent(reason, line=line, path=path) from None
    except BadEvent as error:
        raise BadEvent(error.reason, line=line, path=error.path) from None
    except UNWRITABLE as error:
        raise unwritable(fields, "$", error) from None
    check_identity(event, line)
    return event


def _class_of(fields: dict[str, Any], line: int | None) -> type[Event]:
    type_ = fields.get("type")
    if type_ is None:
        raise BadEvent("'type' is missing", line=line, path="$.type")
    if not isinstance(type_, str) or unknown_types([type_]):
        import difflib  # imported here, because only those who mistype need it

        near = difflib.get_close_matches(str(type_), event_types(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "see: rbank-es schema"
        raise BadEvent(f"unknown event type {str(type_)[: limits.GIVEN_CHARS]!r}; {hint}", line=line, path="$.type")
    return TYPES[type_]


def _unfold(fields: dict[str, Any]) -> dict[str, Any]:
    unfolded = {name: json_as_text(name, value) for name, value in fields.items()}
    if isinstance(unfolded.get("occurred_at"), str):
        unfolded["occurred_at"] = _utc(unfolded["occurred_at"])
    if unfolded.get("type") == "memories_extracted" and "heads" not in unfolded:
        _split_candidates(unfolded)
    if unfolded.get("type") == "memory_proposed" and "head" not in unfolded:
        _split_candidate(unfolded)
    return unfolded


def _utc(written: str) -> str:
    try:
        return utc_time(written)
    except ValueError as error:
        raise BadEvent(str(error), path="$.occurred_at") from None


def _split_candidates(fields: dict[str, Any]) -> None:
    given = fields.get("candidates")
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        return
    fields["heads"] = [_head(item, str(fields.get("kind"))) for item in given]
    fields["candidates"] = [_words(item) for item in given]


def _split_candidate(fields: dict[str, Any]) -> None:
    item = fields.get("candidate")
    if isinstance(item, dict):
        fields["head"], fields["candidate"] = _head(item, "success"), _words(item)


def _head(item: dict[str, Any], kind: str) -> dict[str, Any]:
    src = item.get("src", kind if kind in ("success", "failure", "contrastive", "pattern", "seed") else "seed")
    head = {name: value for name, value in item.items() if name not in (*TEXT_OF_ITEM, "is")}
    # The same rule as `Item.make`, because an id that is left out must be the one that would be given.
    derived = {"id": Item.make_id(str(item.get("title", "")), str(item.get("content", ""))), "src": src}
    return derived | {"polarity": polarity_of(str(src))} | head


def _words(item: dict[str, Any]) -> dict[str, Any]:
    return {"is": "item"} | {name: item[name] for name in TEXT_OF_ITEM if name in item}


class RepeatedKey(msgspec.DecodeError):
    """An object holds the same key twice; `key` names it."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the key {key[: limits.GIVEN_CHARS]!r} is there twice in one object; leave one of them out")


def decode_strict(text: bytes) -> Any:
    """Return the value of a JSON document, in which no object may hold a key twice.

    Readers of JSON keep the last of two values under one key and drop the other in silence, so information is lost. The
    log itself is read without this check, which takes longer than all else: no writer of ours repeats a key, and a
    changed line fails its checksum.

    Raises `RepeatedKey` or another `msgspec.DecodeError` if it is none, and RecursionError for more than
    `limits.JSON_DEPTH` levels.
    """
    try:
        value = msgspec.json.decode(text)
    except UnicodeDecodeError as error:
        # One kind of error for whatever is no JSON, because callers forgot this one.
        raise msgspec.DecodeError(str(error)) from None
    if isinstance(value, dict | list):
        _check_depth(value)
        # Numbers as text: only keys matter here, and int() refuses more than 4,300 digits.
        json.loads(text, object_pairs_hook=_once_each, parse_int=str, parse_float=str)
    return value


def _check_depth(value: dict[str, Any] | list[Any]) -> None:
    level: list[Any] = [value]
    for _ in range(limits.JSON_DEPTH):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for children in inner for child in children if isinstance(child, dict | list)]
        if not level:
            return
    raise RecursionError


def _once_each(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) != len(dict(pairs)):
        counts = Counter(key for key, _ in pairs)
        raise RepeatedKey(next(key for key, times in counts.items() if times > 1))


def read_at_most(place: Path, most_bytes: int, what: str) -> bytes:
    """Return the bytes of a regular file. `what` is the noun for its content in messages, such as `tasks`.

    Raises `BadInput` if it can't be read, or is larger than `most_bytes`. A pipe is refused too: nobody may ever write
    to one that a definition from elsewhere names.
    """
    try:
        return read_given(place, most_bytes)
    except LimitExceeded:
        raise BadInput(f"{place}: a file of {what} has at most {most_bytes:,} bytes; split it") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{place}: the {what} can't be read: {getattr(error, 'strerror', None) or error}") from None
