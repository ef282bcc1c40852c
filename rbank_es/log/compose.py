"""From events to the bytes of a group. Pure: what is random or depends on the clock comes in as an argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import BadEvent, LimitExceeded
from rbank_es.events.base import Erased, Event, Ref, type_of
from rbank_es.events.codec import TYPES, decode_event, encode_body, encode_json, facts_of, texts_of, version_of
from rbank_es.items import ItemText
from rbank_es.log import lines

_VERSIONS = {name: version_of(cls) for name, cls in TYPES.items()}


class Prepared(NamedTuple):
    """An event with its id and salt, encoded as far as that doesn't depend on its position."""

    event: Event
    given_id: bool
    salt: str
    body: bytes
    long: bool


class Group(NamedTuple):
    """The bytes of an append, the events as they will be read, and the texts that are stored with them."""

    data: bytes
    events: tuple[Event, ...]
    texts: dict[bytes, str]


def prepare(event: Event, event_id: str, salt: str) -> Prepared:
    """Give an event its id and encode it. Raises `BadEvent` if it can't be."""
    given = bool(event.id)
    if event.id != event_id:
        event = msgspec.structs.replace(event, id=event_id)
    try:
        body = encode_body(event, salt if texts_of(type(event)) else "")
    except (TypeError, ValueError, RecursionError) as error:
        raise BadEvent(f"{type_of(event)} can't be encoded: {error}") from None
    marker = body.find(lines.SALT)
    if marker >= 0 and body[marker : marker + len(lines.SALT) + 26] != lines.SALT + b'"%b"' % salt.encode():
        raise BadEvent(f"{type_of(event)}: no setting may be named 'salt'", path="$")
    if lines.ERASED in body:
        _refuse_marks(event)
    return Prepared(event, given, salt, body, len(body) > limits.INLINE_TEXT_BYTES)


def _refuse_marks(event: Event) -> None:
    for name in texts_of(type(event)):
        value = getattr(event, name)
        if any(isinstance(part, Erased) for part in (value if isinstance(value, tuple) else (value,))):
            raise BadEvent("an erased mark can't be appended; leave the text out", path=f"$.{name}")


def compose(
    prepared: Sequence[Prepared],
    *,
    first: int,
    at: str,
    durable: int,
    seed: int,
    stored: dict[bytes, str],
    salt: Callable[[], str],
) -> Group:
    """The bytes of a group that begins at position `first`: its long texts, then its events.

    `stored` says which texts the segment holds already (SHA-256 of the raw JSON to key).
    Raises `BadEvent` if an event is not what its type says, `LimitExceeded` for a line or group that is too long.
    """
    texts: dict[bytes, str] = {}
    parts: list[bytes] = []
    rows: list[bytes] = []
    events: list[Event] = []
    more = len(prepared)
    for seq, item in enumerate(prepared, first):
        more -= 1
        body = _store(item, stored, texts, parts, seed, salt) if item.long else item.body
        event, type_ = item.event, type_of(item.event)
        head = lines.head_of(type_, seq, at, event.id, _VERSIONS[type_], event.occurred_at)
        line = lines.close_line(b'%b%b,"more":%d,"dur":%d' % (head, body, more, durable), seed)
        if len(line) > limits.LINE_BYTES:
            raise LimitExceeded(f"{type_} in bytes of a line", len(line), limits.LINE_BYTES, "split its facts")
        events.append(_checked(line, type_))
        rows.append(line)
    data = b"".join(parts + rows)
    if len(data) > limits.GROUP_BYTES:
        raise LimitExceeded("bytes of one append", len(data), limits.GROUP_BYTES, "split it (append --batch N)")
    return Group(data, tuple(events), texts)


def _checked(line: bytes, type_: str) -> Event:
    try:
        return decode_event(line)
    except msgspec.DecodeError as error:
        raise BadEvent(f"{type_}: {error}") from None


def _store(
    item: Prepared,
    stored: dict[bytes, str],
    texts: dict[bytes, str],
    parts: list[bytes],
    seed: int,
    salt: Callable[[], str],
) -> bytes:
    """The body with handles in place of long texts, whose lines go to `parts`."""

    def keep(value: Any) -> Any:
        text, dtype = (encode_json(value).decode(), "item") if isinstance(value, ItemText) else (value, "text")
        if not isinstance(text, str) or len(text) * 4 <= limits.INLINE_TEXT_BYTES:
            return value
        if len(text.encode()) <= limits.INLINE_TEXT_BYTES:
            return value
        raw = encode_json(text)
        digest = sha256(raw).digest()
        key = stored.get(digest) or texts.get(digest)
        if key is None:
            key, line = lines.text_line(raw, salt(), seed)
            if len(line) > limits.TEXT_LINE_BYTES:
                raise LimitExceeded("bytes of one text", len(line), limits.TEXT_LINE_BYTES, "split the text")
            texts[digest] = key
            parts.append(line)
        return Ref(key, dtype, len(text), text[: limits.REF_PREVIEW_CHARS])

    changes = {}
    for name in texts_of(type(item.event)):
        value = getattr(item.event, name)
        kept = tuple(keep(part) for part in value) if isinstance(value, tuple) else keep(value)
        if kept != value:
            changes[name] = kept
    return encode_body(msgspec.structs.replace(item.event, **changes), item.salt) if changes else item.body


def same_content(stored: Event, given: Event) -> bool:
    """Whether a stored event (handles resolved) says what a given one does; erased texts equal anything."""
    if type(stored) is not type(given) or stored.occurred_at != given.occurred_at:
        return False
    facts = facts_of(type(given))
    if any(getattr(stored, name) != getattr(given, name) for name in facts):
        return False
    return all(_same_text(getattr(stored, name), getattr(given, name)) for name in texts_of(type(given)))


def _same_text(stored: Any, given: Any) -> bool:
    if isinstance(stored, Erased):
        return True
    if isinstance(stored, tuple) and isinstance(given, tuple):
        return len(stored) == len(given) and all(map(_same_text, stored, given))
    return bool(stored == given)
