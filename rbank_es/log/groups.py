"""Groups: new events as the bytes of one append, and the rules that every engine checks before it writes them.

Pure: random bytes and the time are arguments.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct

from rbank_es import limits
from rbank_es.errors import BadEvent, DuplicateEvent, LimitExceeded, PositionConflict
from rbank_es.events import ContentErased
from rbank_es.events.codec import (
    ByClass,
    check_identity,
    decoder_of,
    encode_body,
    encode_json,
    facts_of,
    has_plain_texts,
    refs_of,
    resolved,
    texts_of,
    type_of,
    version_of,
    with_texts,
)
from rbank_es.events.event_envelope import Erased, Event, Ref
from rbank_es.events.items import ItemText
from rbank_es.events.text_checks import UNWRITABLE, refuse_non_finite, unwritable
from rbank_es.log import lines
from rbank_es.log.protocol import ANY, EMPTY, Appended, Expected

Clock = Callable[[], int]
"""Returns UTC microseconds since 1970."""

Entropy = Callable[[int], bytes]
"""Returns that many random bytes."""

_HEADS = ByClass(lambda cls: f'{{"type":"{type_of(cls)}","seq":')
_TAILS = ByClass(lambda cls: f'","v":{version_of(cls)}')
_ZERO = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""U+0000 in JSON: no backslash before it escapes its own."""
_SALT_BYTES, _UUID_BYTES = 18, 10
"""Random bytes of a salt, and of a UUIDv7 (of which 74 bits are used)."""


class Prepared(Struct, frozen=True):
    """An event with its id and salt, encoded as far as that does not depend on its position.

    `event.id` is empty where the writer gave the id. `long`: some of its texts may be stored apart.
    `handles`: it holds handles to such texts.
    """

    event: Event
    id: str
    salt: str
    body: bytes
    long: bool
    handles: bool


class Circumstances(Struct, frozen=True):
    """The values, beside its events, that the bytes of a group depend on.

    `first` is the position of its first event, `at` its time, `durable` the highest position known to be on disk.
    `stored` maps SHA-256 of the raw JSON of each text that the segment already holds to its key.
    """

    first: int
    at: str
    durable: int
    seed: int
    stored: dict[bytes, str]
    salt: Callable[[], str]


class ComposedGroup(Struct, frozen=True):
    """The bytes of an append, its events as readers get them, and the texts that are stored with them."""

    data: bytes
    events: tuple[Event, ...]
    texts: dict[bytes, str]


# ---------------------------------------------------------------- preparing


def prepare_new(
    events: Sequence[Event],
    clock: Clock,
    entropy: Entropy,
    holds: Callable[[Ref], bool],
    read: Callable[[Ref], str | None],
) -> list[Prepared]:
    """Check and encode the events of one append; those without an id are given a UUIDv7.

    `holds` says whether the log has the text of a handle, which `read` returns (None if it was erased).
    Raises `BadEvent`, `LimitExceeded`.
    """
    if not events:
        raise BadEvent("there is nothing to append")
    count = len(events)
    if count > limits.GROUP_EVENTS:
        raise LimitExceeded("events of one append", count, limits.GROUP_EVENTS, "split it (append --batch N)")
    now = clock()
    latest = utc_text(now)
    for number, event in enumerate(events, 1):
        if event.id or event.occurred_at or event.origin:
            check_identity(event, number)
            _refuse_future(event, latest, number)
    # One draw for the whole group saves a tenth of the time of encoding it.
    noise = entropy((_SALT_BYTES + _UUID_BYTES) * count)
    # In ascending order, because of judgments of one group, which have one time, the one with the higher id counts.
    ids = sorted(uuid7s(now, noise[_SALT_BYTES * count :]))
    prepared = prepare(events, ids, salts(noise[: _SALT_BYTES * count]))
    return [_without_handles(item, holds, read) if item.handles else item for item in prepared]


def _refuse_future(event: Event, now: str, number: int) -> None:
    if event.occurred_at and event.occurred_at > now:
        reason = f"{event.occurred_at} is in the future: here it is {now}, in UTC; correct the time or the clock"
        raise BadEvent(reason, line=number, path="$.occurred_at")


def prepare(events: Sequence[Event], ids: Sequence[str], salts: Sequence[str]) -> list[Prepared]:
    """Encode events; those without an id take theirs from `ids`. Raises `BadEvent` if one can't be encoded."""
    prepared = []
    for event, event_id, salt in zip(events, ids, salts, strict=True):
        try:
            body = encode_body(event, salt)
        except UNWRITABLE as error:
            refused = unwritable(event, "$", error)
            raise BadEvent(f"{type_of(event)}: {refused.reason}", path=refused.path) from None
        marker = body.find(lines.SALT)
        if marker >= 0 and not body.startswith(salt.encode(), marker + len(lines.SALT) + 1):
            raise BadEvent(f"{type_of(event)}: no setting may be named 'salt'", path="$")
        facts_end = marker if marker >= 0 else len(body)
        if body.find(b":null", 0, facts_end) >= 0:
            _refuse_non_finite(event)
        if body.find(b"\\u0000", 0, facts_end) >= 0:
            _refuse_zero(event)
        # Asking the texts for their type is quicker than searching what may be a long line for marks.
        plain = has_plain_texts(event)
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


def _refuse_non_finite(event: Event) -> None:
    for name in facts_of(type(event)):
        refuse_non_finite(getattr(event, name), f"$.{name}")


def _refuse_zero(event: Event) -> None:
    # Because SQLite's JSON ends a text at it, so two names would be one there.
    for name in facts_of(type(event)):
        if _ZERO.search(encode_json(getattr(event, name))):
            raise BadEvent("a name can't have the character U+0000; leave it out", path=f"$.{name}")


def _without_handles(item: Prepared, holds: Callable[[Ref], bool], read: Callable[[Ref], str | None]) -> Prepared:
    """Return the event encoded with texts in place of its handles, because a handle is valid only in its segment."""
    for ref in refs_of(item.event):
        if not holds(ref):
            raise BadEvent(f"{type_of(item.event)}: the handle {ref.key[:12]}… names no text of this bank")
    return prepare([resolved(item.event, read)], [item.id], [item.salt])[0]


# ---------------------------------------------------------------- composing


def compose(prepared: Sequence[Prepared], now: Circumstances) -> ComposedGroup:
    """Return the bytes of a group: its long texts, then its events.

    Raises `BadEvent` if an event does not fit its type, `LimitExceeded` for a line or group that is too long.
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
        if event.occurred_at or event.origin:
            head += _marks(event)
        bare = b'%b%b,"more":%d,"dur":%d' % (head.encode(), body, more, now.durable)
        line = b'%b,"crc":"%08x"}\n' % (bare, crc32(bare, seed))
        if len(line) > limits.LINE_BYTES:
            what = f"event {len(rows) + 1:,} of {len(prepared):,} ({type_of(event)}), its line in bytes"
            raise LimitExceeded(what, len(line), limits.LINE_BYTES, "split its facts")
        events.append(_checked(line, event))  # decoded as readers will decode it, so nothing unreadable is written
        rows.append(line)
        seq += 1
    data = b"".join(parts + rows)
    if len(data) > limits.GROUP_BYTES:
        raise LimitExceeded("bytes of one append", len(data), limits.GROUP_BYTES, "split it (append --batch N)")
    return ComposedGroup(data, tuple(events), texts)


def as_read(item: Prepared) -> Event:
    """Return the event as a reader would get it, all texts in place; its position and time are not set."""
    head = f'{_HEADS[type(item.event)]}0,"at":"","id":"{item.id}{_TAILS[type(item.event)]}'
    head += _marks(item.event)
    return _checked(head.encode() + item.body + b"}", item.event)


def _marks(event: Event) -> str:
    """Return the fields of the envelope that few events have, as a line has them."""
    when = f',"occurred_at":"{event.occurred_at}"' if event.occurred_at else ""
    return f'{when},"origin":"{event.origin}"' if event.origin else when


def _checked(line: bytes, event: Event) -> Event:
    try:
        return decoder_of(type(event)).decode(line)
    except msgspec.DecodeError as error:
        raise BadEvent(f"{type_of(event)}: {error}") from None


def _store(item: Prepared, now: Circumstances, texts: dict[bytes, str], parts: list[bytes]) -> bytes:
    """Return the body with handles in place of long texts, and add the lines of those texts to `parts`."""

    def keep(value: Any) -> Any:
        found = _long_text(value)
        if found is None:
            return value
        text, dtype = found
        raw = encode_json(text)
        digest = sha256(raw).digest()  # of many events with the same prompt, one stores it
        key = now.stored.get(digest) or texts.get(digest)
        if key is None:
            key, line = lines.text_line(raw, now.salt(), now.seed)
            if len(line) > limits.TEXT_LINE_BYTES:
                raise LimitExceeded("bytes of one text", len(line), limits.TEXT_LINE_BYTES, "split the text")
            texts[digest] = key
            parts.append(line)
        return Ref(key, dtype, len(text), text[: limits.REF_PREVIEW_CHARS])

    changed = with_texts(item.event, keep)
    return item.body if changed is item.event else encode_body(changed, item.salt)


def _long_text(value: Any) -> tuple[str, str] | None:
    """Return a text that is stored apart, and its kind; None for any other value."""
    text, dtype = (encode_json(value).decode(), "item") if isinstance(value, ItemText) else (value, "text")
    # A character has at most 4 bytes in UTF-8; most texts are short enough not to be encoded to be measured.
    if not isinstance(text, str) or len(text) * 4 <= limits.INLINE_TEXT_BYTES:
        return None
    return (text, dtype) if len(text.encode()) > limits.INLINE_TEXT_BYTES else None


def text_digests(prepared: Sequence[Prepared]) -> set[bytes]:
    """Return SHA-256 of the raw JSON of each text of a group that is stored apart, so that its key can be asked for."""
    digests = set[bytes]()

    def note(value: Any) -> Any:
        if (found := _long_text(value)) is not None:
            digests.add(sha256(encode_json(found[0])).digest())
        return value

    for item in prepared:
        if item.long:
            with_texts(item.event, note)
    return digests


# ---------------------------------------------------------------- retries and expectations


def check_expected(place: str, expected: int | Expected, actual: int) -> None:
    """Raise `PositionConflict` unless the log is where its writer expects it."""
    wanted = 0 if expected is EMPTY else expected
    if expected is not ANY and wanted != actual:
        raise PositionConflict(place, int(str(wanted)), actual)


def refuse_erasure_records(prepared: Sequence[Prepared]) -> None:
    """Raise `BadEvent` for an event that only an engine may write, during an erasure."""
    if any(isinstance(item.event, ContentErased) for item in prepared):
        raise BadEvent("only an erasure writes content_erased; leave the event out", path="$.type")


def refuse_repeated_ids(given: Sequence[str]) -> None:
    """Raise `BadEvent` for an id that the writer of a group gave to two of its events."""
    if len(set(given)) < len(given):
        twice = next(event_id for event_id in given if given.count(event_id) > 1)
        raise BadEvent(f"id {twice} is given twice in one append", path="$.id")


def known_group(
    prepared: Sequence[Prepared],
    find: Callable[[Sequence[str]], dict[str, int]],
    stored: Callable[[int], tuple[Event, Event]],
) -> Appended | None:
    """Return the place of a group that the log holds already; None if the group is new.

    `find` returns the positions of those of some ids that are known; `stored` returns the event at a position, as it
    was read and with its texts. Raises `DuplicateEvent` if only a part of the group is known, or its content differs.
    """
    given = [item.id for item in prepared if item.event.id]
    if not given:
        return None
    refuse_repeated_ids(given)
    found = find(given)
    if not found:
        return None
    first = min(found, key=lambda event_id: found[event_id])
    if len(found) < len(prepared):
        raise DuplicateEvent(first, found[first], f"with only {len(found)} of {len(prepared)} events of this append")
    events = []
    for item in prepared:
        seq = found[item.id]
        event, with_texts = stored(seq)
        if not same_content(with_texts, as_read(item)):
            raise DuplicateEvent(item.id, seq, "with other content")
        events.append(event)
    return Appended(min(found.values()), max(found.values()), tuple(events), duplicate=True)


def same_content(stored: Event, given: Event) -> bool:
    """Return whether a stored event (handles resolved) has the content of a given one; erased texts equal anything.

    Its origin is no content: the same event may come from several banks.
    """
    if type(stored) is not type(given) or stored.occurred_at != given.occurred_at:
        return False
    facts = facts_of(type(given))
    if any(getattr(stored, name) != getattr(given, name) for name in facts):
        return False
    return all(_same_text(getattr(stored, name), getattr(given, name)) for name in texts_of(type(given)))


def _same_text(stored: Any, given: Any) -> bool:
    if isinstance(stored, Erased):  # "other content" would confirm a guess of the erased text
        return True
    if isinstance(stored, tuple) and isinstance(given, tuple):
        return len(stored) == len(given) and all(map(_same_text, stored, given))
    return bool(stored == given)


# ---------------------------------------------------------------- times, ids, salts

_second = (-1, "")


def utc_text(at_us: int) -> str:
    """Return UTC microseconds since 1970 as `2026-01-31T12:00:00.000000Z`."""
    # The text of a second is kept, because many events are recorded within one: that saves 1 µs of 4 each.
    global _second
    second, us = divmod(at_us, 1_000_000)
    known, text = _second
    if known != second:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        _second = (second, text)
    return f"{text}.{us:06d}Z"


def time_after(now_us: int, last: str) -> str:
    """Return the time of a group that is recorded now behind another one: a microsecond later at least.

    Clocks go backwards and differ between machines; `at` must not, because points in time are found by bisection. Nor
    may it stand still, because of judgments of equal authority the later one counts.
    """
    now = utc_text(now_us)
    if now > last:
        return now
    try:
        return f"{(datetime.fromisoformat(last) + timedelta(microseconds=1)).strftime('%Y-%m-%dT%H:%M:%S.%f')}Z"
    except (ValueError, OverflowError):  # no time, or the last one there is: a log may come from anybody
        return last


def system_clock() -> int:
    """Return the machine's time, in UTC microseconds since 1970."""
    return time.time_ns() // 1000


def uuid7s(at_us: int, noise: bytes) -> list[str]:
    """Return a UUIDv7 (RFC 9562, 5.7) of that millisecond for every 10 random bytes."""
    stamp = f"{at_us // 1000:012x}"
    head, bits = f"{stamp[:8]}-{stamp[8:12]}-7", noise.hex()
    return [
        f"{head}{bits[i : i + 3]}-{'89ab'[noise[i // 2 + 9] & 3]}{bits[i + 3 : i + 6]}-{bits[i + 6 : i + 18]}"
        for i in range(0, len(bits), 20)
    ]


def salts(noise: bytes) -> list[str]:
    """Return a salt of 24 base64url characters for every 18 random bytes."""
    text = base64.urlsafe_b64encode(noise).decode()
    return [text[start : start + lines.SALT_CHARS] for start in range(0, len(text), lines.SALT_CHARS)]


def new_salt(entropy: Entropy) -> str:
    """Return one fresh salt."""
    return salts(entropy(_SALT_BYTES))[0]


def new_id(clock: Clock, entropy: Entropy) -> str:
    """Return one fresh UUIDv7."""
    return uuid7s(clock(), entropy(_UUID_BYTES))[0]
