"""From events to the bytes of a group. Pure: what is random or depends on the clock comes in as an argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from rbank_es import limits
from rbank_es.errors import BadEvent, LimitExceeded
from rbank_es.events.codec import ByClass, decoder_of, encode_body, encode_json, facts_of, texts_of, version_of
from rbank_es.events.event import Erased, Event, Ref, type_of
from rbank_es.events.items import ItemText
from rbank_es.log.file import lines

_HEADS = ByClass(lambda cls: f'{{"type":"{type_of(cls)}","seq":')
_TAILS = ByClass(lambda cls: f'","v":{version_of(cls)}')


_PLAIN = frozenset({str, type(None)})


def _getter(names: Sequence[str]) -> attrgetter[tuple[Any, ...]] | None:
    return attrgetter(*names, names[0]) if names else None  # of one name alone it would give no tuple


_WORDS = ByClass(lambda cls: _getter(texts_of(cls)))


class Prepared(NamedTuple):
    """An event with its id and salt, encoded as far as that doesn't depend on its position.

    `event.id` is empty where the id was given by the writer. `long`: it may hold texts that are stored apart.
    `handles`: it holds handles to such texts.
    """

    event: Event
    id: str
    salt: str
    body: bytes
    long: bool
    handles: bool


class Circumstances(NamedTuple):
    """What the bytes of a group depend on, beside its events.

    `first` is the position of its first event, `at` its time, `durable` the highest position known to be on disk.
    `stored` says which texts the segment holds already (SHA-256 of the raw JSON to key).
    """

    first: int
    at: str
    durable: int
    seed: int
    stored: dict[bytes, str]
    salt: Callable[[], str]


class Group(NamedTuple):
    """The bytes of an append, the events as they will be read, and the texts that are stored with them."""

    data: bytes
    events: tuple[Event, ...]
    texts: dict[bytes, str]


def prepare(events: Sequence[Event], ids: Sequence[str], salts: Sequence[str]) -> list[Prepared]:
    """Encode events; those without an id take theirs from `ids`. Raises `BadEvent` if one can't be encoded."""
    prepared = []
    for event, event_id, salt in zip(events, ids, salts, strict=True):
        try:
            body = encode_body(event, salt)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise BadEvent(f"{type_of(event)} can't be encoded: {error}") from None
        marker = body.find(lines.SALT)
        if marker >= 0 and not body.startswith(salt.encode(), marker + len(lines.SALT) + 1):
            raise BadEvent(f"{type_of(event)}: no setting may be named 'salt'", path="$")
        if body.find(b":null", 0, marker if marker >= 0 else None) >= 0:
            _refuse_nothing(event)
        # To ask the texts what they are is quicker than to search what may be a long line for marks.
        words = _WORDS[type(event)]
        plain = words is None or _PLAIN.issuperset(map(type, words(event)))
        if not plain and lines.ERASED in body:
            _refuse_marks(event)
        long = len(body) > limits.INLINE_TEXT_BYTES
        prepared.append(Prepared(event, event.id or event_id, salt, body, long, not plain and lines.REF in body))
    return prepared


def _refuse_marks(event: Event) -> None:
    for name in texts_of(type(event)):
        value = getattr(event, name)
        if any(isinstance(part, Erased) for part in (value if isinstance(value, tuple) else (value,))):
            raise BadEvent("an erased mark can't be appended; leave the text out", path=f"$.{name}")


def _refuse_nothing(event: Event) -> None:
    """A number that JSON can't hold would be written as null, and read as not known."""
    for name in facts_of(type(event)):
        value = getattr(event, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise BadEvent(f"{value} is not a number that can be kept", path=f"$.{name}")


def compose(prepared: Sequence[Prepared], now: Circumstances) -> Group:
    """The bytes of a group: its long texts, then its events.

    Raises `BadEvent` if an event is not what its type says, `LimitExceeded` for a line or group that is too long.
    """
    texts: dict[bytes, str] = {}
    parts: list[bytes] = []
    rows: list[bytes] = []
    events: list[Event] = []
    seed, middle = now.seed, f',"at":"{now.at}","id":"'
    seq, more = now.first, len(prepared)
    for item in prepared:
        more -= 1
        event = item.event
        body = _store(item, now, texts, parts) if item.long else item.body
        head = f"{_HEADS[type(event)]}{seq}{middle}{item.id}{_TAILS[type(event)]}"
        if event.occurred_at:
            head += f',"occurred_at":"{event.occurred_at}"'
        bare = b'%b%b,"more":%d,"dur":%d' % (head.encode(), body, more, now.durable)
        line = b'%b,"crc":"%08x"}\n' % (bare, crc32(bare, seed))
        if len(line) > limits.LINE_BYTES:
            what = f"event {len(rows) + 1:,} of {len(prepared):,} ({type_of(event)}), its line in bytes"
            raise LimitExceeded(what, len(line), limits.LINE_BYTES, "split its facts")
        events.append(_checked(line, event))
        rows.append(line)
        seq += 1
    data = b"".join(parts + rows)
    if len(data) > limits.GROUP_BYTES:
        raise LimitExceeded("bytes of one append", len(data), limits.GROUP_BYTES, "split it (append --batch N)")
    return Group(data, tuple(events), texts)


def as_read(item: Prepared) -> Event:
    """The event as a reader would get it, all texts in place; its position and time are not set."""
    head = f'{_HEADS[type(item.event)]}0,"at":"","id":"{item.id}{_TAILS[type(item.event)]}'
    if item.event.occurred_at:
        head += f',"occurred_at":"{item.event.occurred_at}"'
    return _checked(head.encode() + item.body + b"}", item.event)


def _checked(line: bytes, event: Event) -> Event:
    try:
        return decoder_of(type(event)).decode(line)
    except msgspec.DecodeError as error:
        raise BadEvent(f"{type_of(event)}: {error}") from None


def _store(item: Prepared, now: Circumstances, texts: dict[bytes, str], parts: list[bytes]) -> bytes:
    """The body with handles in place of long texts, whose lines go to `parts`."""

    def keep(value: Any) -> Any:
        text, dtype = (encode_json(value).decode(), "item") if isinstance(value, ItemText) else (value, "text")
        if not isinstance(text, str) or len(text) * 4 <= limits.INLINE_TEXT_BYTES:
            return value
        if len(text.encode()) <= limits.INLINE_TEXT_BYTES:
            return value
        raw = encode_json(text)
        digest = sha256(raw).digest()
        key = now.stored.get(digest) or texts.get(digest)
        if key is None:
            key, line = lines.text_line(raw, now.salt(), now.seed)
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
