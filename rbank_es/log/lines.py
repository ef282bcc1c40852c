"""The bytes of a line: pure functions that compose, check, split, chain and erase lines.

    {"type":T,"seq":N,"at":…,"id":…,"v":1, FACTS ,"salt":S, TEXTS ,"more":k,"dur":d,"crc":"8 hex"}

`docs/format.md` specifies every byte. The digest chain is computed from the lines and not stored in them. It commits to
each text through a salted digest, because then a text can be erased while every head noted before still verifies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import sha256
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, UnknownEvent
from rbank_es.events.codec import TYPES, decode_event, encode_json, version_of
from rbank_es.events.event_envelope import Erased, Event
from rbank_es.system.whole_number import whole_number

GENESIS = bytes(32)
"""The digest of an empty log."""

CRC_TAIL = len(b',"crc":"00000000"}')
TEXT = b'{"type":"text","id":"'
TEXT_ERASED = b'{"type":"text_erased","id":"'
ANY_TEXT = b'{"type":"text'
SEALED = b'{"type":"segment_sealed",'
TORN = b'{"type":"segment_torn",'
SEGMENT = b'{"type":"segment_'
UNNUMBERED = (ANY_TEXT, SEGMENT)
"""The beginnings of lines that are no events; every other line has a position."""

ERASED = b'{"is":"erased",'
REF = b'{"is":"ref",'
SALT = b',"salt":'
MORE = b',"more":'
# 18 random bytes in base64: no text can be guessed by its commitment alone.
SALT_CHARS = 24

_RAWS: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_ERASED: msgspec.json.Decoder[Erased] = msgspec.json.Decoder(Erased)


class Head(msgspec.Struct, frozen=True):
    """A position and the digest of everything up to it. Noted in a safe place, it proves the log unchanged."""

    seq: int
    digest: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.digest}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Parse a head written as `12:ab…`. Raises `BadInput` for anything else."""
        seq, _, digest = text.strip().partition(":")
        position = whole_number(seq)
        if position is None or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise BadInput(
                f"{text[: limits.GIVEN_CHARS]!r} is not a head: expected POSITION:64 hex digits, as `verify` prints it"
            )
        return cls(position, digest)


class TextUnit(NamedTuple):
    """One erasable text of a line: its path (`task`, `candidates.1`) and its raw JSON."""

    path: str
    raw: bytes


class Opened(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type", tag="segment_opened"
):
    """The first line of a segment. `head` is the digest before it, `erased` the last erasure before it (0 for none).

    `bank` is the id of the lineage: that of the bank from which all of its forks descend. `fork` is the id of the fork
    that wrote the segment, empty where the first bank did.
    """

    format: int
    bank: str
    first: int
    head: str
    erased: int
    fork: str = ""
    crc: str = ""

    @property
    def writer(self) -> str:
        """The id of the bank that wrote the segment."""
        return self.fork or self.bank


class Sealed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="segment_sealed"):
    """The last line of a closed segment: its last position, and the head digest there."""

    last: int
    head: str
    crc: str = ""


class Torn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="segment_torn"):
    """The record of a cut: behind position `after`, `size` bytes of an interrupted append were cut off at time `at`.

    `kept` is the file that held them then.
    """

    after: int
    at: str
    size: int
    kept: str
    crc: str = ""


class TextLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="text"):
    """The line of a long text, stored once per segment, before the group that names it."""

    id: str
    salt: str
    text: msgspec.Raw
    crc: str


class LineKey(msgspec.Struct, frozen=True, gc=False):
    """The facts by which a numbered line is looked up. `run` is a string, or what another type of event has there."""

    type: str
    seq: int
    run: Any = None


_KEY: msgspec.json.Decoder[LineKey] = msgspec.json.Decoder(LineKey)
_TEXT: msgspec.json.Decoder[TextLine] = msgspec.json.Decoder(TextLine)


def seed_of(lineage: str) -> int:
    """Return the initial CRC of a lineage, from which CRC-32 continues as if the lineage's id preceded the line."""
    return crc32(lineage.encode())


def close_line(body: bytes, seed: int) -> bytes:
    """Return a whole line, given all bytes before its checksum."""
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body, seed))


def is_intact(line: bytes, seed: int) -> bool:
    """Return whether the line (without newline) carries the checksum of its bytes, in lower case."""
    # Compared as bytes: a parser of numbers accepts `A` for `a`, and one flipped bit would pass.
    return line[-CRC_TAIL:] == b',"crc":"%08x"}' % crc32(line[:-CRC_TAIL], seed) if len(line) > CRC_TAIL else False


def opened_line(lineage: str, bank_id: str, first: int, head: str, erased: int) -> bytes:
    """Return the first line of a segment that a bank of a lineage writes."""
    fork = "" if bank_id == lineage else bank_id
    return close_line(encode_json(Opened(1, lineage, first, head, erased, fork))[:-1], seed_of(lineage))


def sealed_line(last: int, head: str, seed: int) -> bytes:
    """Return the last line of a closed segment."""
    return close_line(encode_json(Sealed(last, head))[: -len(b',"crc":""}')], seed)


def torn_line(torn: Torn, seed: int) -> bytes:
    """Return the line that records a cut."""
    return close_line(encode_json(torn)[: -len(b',"crc":""}')], seed)


def text_line(raw: bytes, salt: str, seed: int) -> tuple[str, bytes]:
    """Return key and line of a text, given as the raw JSON of its string."""
    key = text_key(salt, raw)
    return key, close_line(b'%b%b","salt":"%b","text":%b' % (TEXT, key.encode(), salt.encode(), raw), seed)


def text_key(salt: str, raw: bytes) -> str:
    """Return the key of a text: SHA-256 of its salt and its raw JSON."""
    return sha256(salt.encode() + raw).hexdigest()


def text_erased_line(key: str, seed: int) -> bytes:
    """Return the line that replaces that of an erased text."""
    return close_line(TEXT_ERASED + key.encode() + b'"', seed)


def read_text(line: bytes, seed: int) -> str | None:
    """Return the text of a text line; None if it was erased. Raises `ValueError` if it is damaged."""
    if not is_intact(line, seed):
        raise ValueError("its checksum is wrong")
    if line.startswith(TEXT_ERASED):
        return None
    try:
        text = _TEXT.decode(line)
        words = msgspec.json.decode(text.text, type=str)
    except RecursionError:
        raise ValueError("it is nested too deeply for the line of a text") from None
    if text_key(text.salt, bytes(text.text)) != text.id:
        raise ValueError("it does not match its key")
    return words


def raw_text(line: bytes) -> bytes:
    """Return the raw JSON of the string in a text line that was not erased."""
    return bytes(_TEXT.decode(line).text)


def key_of_text(line: bytes) -> str:
    """Return the key of a text line, erased or not."""
    start = len(TEXT) if line.startswith(TEXT) else len(TEXT_ERASED)
    return line[start : start + 64].decode(errors="replace")


def seq_of(line: bytes) -> int:
    """Return the position of a numbered line. Raises ValueError where there is none."""
    start = line.index(b'"seq":') + 6
    return int(line[start : line.index(b",", start)])


def id_of(line: bytes) -> str:
    """Return the id of a numbered line."""
    # The first one: only type, position and time stand before it, and none of them can hold it.
    start = line.find(b'"id":"') + 6
    return line[start : start + 36].decode()


def key_of(line: bytes) -> LineKey:
    """Return type, position and run of a numbered line. Raises `msgspec.DecodeError` where they are missing."""
    return _KEY.decode(line)


def type_of_line(line: bytes) -> bytes:
    """Return the type that a line begins with."""
    return line[9 : line.find(b'"', 9)]


def counters_of(line: bytes) -> tuple[int, int]:
    """Return `more` and `dur` of a numbered line. Raises ValueError where there are none."""
    more, _, dur = line[line.rindex(MORE) + len(MORE) : -CRC_TAIL].partition(b',"dur":')
    return int(more), int(dur)


def event_of(line: bytes) -> Event:
    """Return the event of a numbered line whose checksum is right.

    Raises `UnknownEvent` for a type, a version or fields that this release doesn't know: another one wrote them,
    because an interrupted append leaves no right checksum. Raises `msgspec.DecodeError` for what is no JSON object.
    """
    try:
        return decode_event(line)
    except msgspec.ValidationError as error:
        key = key_of(line)
        version = version_of(TYPES[key.type])
        raise UnknownEvent(key.type, version, version, key.seq, misfit=str(error)) from None


def shorten_group(complete: list[bytes], more: int, seed: int) -> list[bytes]:
    """Return lines of which the last group lacks its last `more` events, with that group's counters lowered."""
    kept = list(complete)
    for index in range(len(kept) - 1, -1, -1):
        line = kept[index]
        if line.startswith(UNNUMBERED) or counters_of(line)[0] < more:
            break
        left, durable = counters_of(line)
        body = line[: line.rindex(MORE)] + b'%b%d,"dur":%d' % (MORE, left - more, durable)
        kept[index] = close_line(body, seed)[:-1]
    return kept


def split(line: bytes) -> tuple[bytes, str | dict[str, str], list[TextUnit]]:
    """Return facts (all bytes before the salt), salt, and units of a numbered line."""
    # No parser is needed: a quote inside a string is escaped, so neither marker can be part of a value.
    end = line.rindex(MORE)
    start = line.find(SALT, 0, end)
    if start < 0:
        return line[:end], "", []
    fields = _RAWS.decode(b"{%b}" % line[start + 1 : end])
    salt = _salt(bytes(fields.pop("salt")))
    units = list[TextUnit]()
    for name, raw in fields.items():
        value = bytes(raw)
        if value.startswith(b"["):
            units += [TextUnit(f"{name}.{index}", bytes(part)) for index, part in enumerate(_LIST.decode(value))]
        else:
            units.append(TextUnit(name, value))
    return line[:start], salt, units


def _salt(raw: bytes) -> str | dict[str, str]:
    # Without a parser where nothing is escaped: digests of long logs are made of as many salts as there are events.
    if raw.startswith(b'"') and b"\\" not in raw:
        return raw[1:-1].decode()
    return msgspec.json.decode(raw, type=str | dict[str, str])


def _unit_salt(salt: str | dict[str, str], path: str) -> bytes:
    if isinstance(salt, dict):
        return bytes.fromhex(salt[path])
    return sha256(f"{salt}\0{path}".encode()).digest()


def commitment(salt: str | dict[str, str], unit: TextUnit) -> str:
    """Return the salted digest of a unit: the chain contains it, and it remains after erasure."""
    path, raw = unit
    if raw.startswith(ERASED):
        return _ERASED.decode(raw).digest
    return sha256(_unit_salt(salt, path) + raw).hexdigest()


def chain(digest: bytes, line: bytes) -> bytes:
    """Return the head digest after a numbered line, given the digest before it."""
    facts, salt, units = split(line)
    committed = [f"\n{unit.path} {commitment(salt, unit)}" for unit in units]
    return sha256(digest + facts + "".join(committed).encode()).digest()


def erase_units(line: bytes, paths: Collection[str], seed: int) -> bytes:
    """Return the line with the units at `paths` erased: same facts, same chain, new salt field and checksum."""
    facts, salt, units = split(line)
    if not any(unit.path in paths and not unit.raw.startswith(ERASED) for unit in units):
        return line + b"\n"
    commitments = {unit.path: commitment(salt, unit) for unit in units}
    # The line's salt would confirm a guess of an erased text, so each remaining unit keeps only its own derived salt.
    kept = {
        unit.path: _unit_salt(salt, unit.path).hex()
        for unit in units
        if unit.path not in paths and not unit.raw.startswith(ERASED)
    }
    marks = [
        TextUnit(unit.path, encode_json(Erased(commitments[unit.path])) if unit.path in paths else unit.raw)
        for unit in units
    ]
    tail = line[line.rindex(MORE) : -CRC_TAIL]
    return close_line(b"".join([facts, SALT, encode_json(kept), *_join(marks), tail]), seed)


def _join(units: list[TextUnit]) -> Iterator[bytes]:
    fields: dict[str, list[bytes]] = {}
    lists: set[str] = set()
    for unit in units:
        name, dot, _ = unit.path.partition(".")
        fields.setdefault(name, []).append(unit.raw)
        if dot:
            lists.add(name)
    for name, raws in fields.items():
        value = b"[" + b",".join(raws) + b"]" if name in lists else raws[0]
        yield b',"%b":%b' % (name.encode(), value)
