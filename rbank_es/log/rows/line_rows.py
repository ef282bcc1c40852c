"""The rows of a log, and the statements that an engine has for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol

from rbank_es.errors import UnknownEvent
from rbank_es.events.codec import TYPES, type_of, version_of
from rbank_es.events.event_envelope import Event
from rbank_es.log import lines
from rbank_es.log.groups import ComposedGroup
from rbank_es.log.line_transfer import LineGroup
from rbank_es.log.protocol import Appended

Access = Literal["read", "snapshot", "write"]
"""The kinds of transactions: one statement, several that see the same, and one that excludes other writers."""

_BATCH_ROWS, _BATCH_BYTES = 500, 8 * 2**20


class LineRow(NamedTuple):
    """The row of an event; `digest` is that of the head behind it."""

    seq: int
    id: str
    type: str
    run: str | None
    digest: bytes
    line: bytes


class TextRow(NamedTuple):
    """The row of a text: `digest` is SHA-256 of its raw JSON, None if it was erased; `seq` where its group begins."""

    key: str
    seq: int
    number: int
    digest: bytes | None
    line: bytes


class End(NamedTuple):
    """The end of a log: position, time, digest and line of its last event, and the kinds of all its events."""

    seq: int
    at: str
    digest: bytes
    line: bytes | None
    kinds: Collection[str]


class Rows(Protocol):
    """The rows of one log in a transaction. Positions are from 1; a page holds the first `most` rows behind `after`."""

    def position(self) -> int:
        """Return the position of the last event."""
        ...

    def end(self) -> End:
        """Return the end of the log."""
        ...

    def lines(
        self, after: int, upto: int, types: Collection[str] | None, run: str | None, most: int
    ) -> Sequence[tuple[int, bytes]]:
        """Return position and line of events, in order."""
        ...

    def page(self, after: int, most: int) -> Sequence[LineRow]:
        """Return rows of events, in order."""
        ...

    def texts(self, after: int, upto: int) -> Iterable[tuple[int, bytes]]:
        """Return the lines of texts whose groups begin there, with the position of the group, in order."""
        ...

    def digest(self, seq: int) -> bytes | None:
        """Return the digest of the head at a position; None where there is no event."""
        ...

    def positions(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the positions of those of some ids that are known."""
        ...

    def text(self, key: str) -> bytes | None:
        """Return the line of a text; None if there is none."""
        ...

    def keys(self, digests: Collection[bytes]) -> dict[bytes, str]:
        """Return the keys of those of some texts that are stored, by their digests."""
        ...

    def erasures(self) -> int:
        """Return the position of the last record of an erasure; 0 for none."""
        ...

    def add(self, events: Sequence[LineRow], texts: Sequence[TextRow], kinds: Collection[str]) -> None:
        """Store rows behind the end, and note the kinds of the events."""
        ...

    def rewrite(self, events: Sequence[tuple[int, bytes]], texts: Sequence[tuple[str, bytes]]) -> None:
        """Replace lines of events by position, and of texts by key, whose digests go."""
        ...


class ComposedRows(NamedTuple):
    """A group as it is returned to its writer, and as it is stored."""

    appended: Appended
    events: Sequence[LineRow]
    texts: Sequence[TextRow]


# ---------------------------------------------------------------- kinds


@cache
def kind_of(cls: type[Event]) -> str:
    """Return type, version, and number of fields of an event: a version only ever gains fields."""
    return f"{type_of(cls)}/{version_of(cls)}/{len(cls.__struct_fields__)}"


def kinds_of(events: Iterable[Event]) -> frozenset[str]:
    """Return the kinds of some events."""
    return frozenset(kind_of(type(event)) for event in events)


def refuse_unknown(end: End) -> None:
    """Raise `UnknownEvent` where another release wrote what this one doesn't know: nothing may be appended to it."""
    for kind in end.kinds:
        name, version, fields = kind.split("/")
        known = TYPES.get(name)
        if known is None:
            raise UnknownEvent(name, int(version), None, end.seq)
        newest = version_of(known)
        if int(version) > newest:
            raise UnknownEvent(name, int(version), newest, end.seq)
        if int(version) == newest and int(fields) > len(known.__struct_fields__):
            raise UnknownEvent(name, newest, newest, end.seq, misfit=f"{fields} fields, where this release has fewer")
    if end.line is not None:
        lines.event_of(end.line)


# ---------------------------------------------------------------- rows


def group_rows(composed: ComposedGroup, end: End) -> tuple[list[LineRow], list[TextRow]]:
    """Return the rows of a group that comes behind an end."""
    digest_of = {key: digest for digest, key in composed.texts.items()}
    stored = composed.data.split(b"\n")[:-1]
    texts = [line for line in stored if line.startswith(lines.ANY_TEXT)]
    keys = map(lines.key_of_text, texts)
    text_rows = [
        TextRow(key, end.seq + 1, number, digest_of[key], line)
        for number, (key, line) in enumerate(zip(keys, texts, strict=True))
    ]
    rows, digest = list[LineRow](), end.digest
    for event, line in zip(composed.events, stored[len(texts) :], strict=True):
        digest = lines.chain(digest, line)
        run = getattr(event, "run", None)
        rows.append(LineRow(event.seq, event.id, type_of(event), run if isinstance(run, str) else None, digest, line))
    return rows, text_rows


def _event_row(line: bytes, digest: bytes) -> LineRow:
    found = lines.key_of(line)
    run = found.run if isinstance(found.run, str) else None
    return LineRow(found.seq, lines.id_of(line), found.type, run, digest, line)


class RowBatch:
    """Rows of received groups, stored some hundred at a time."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._begin()

    def _begin(self) -> None:
        self._events, self._texts, self._bytes = list[LineRow](), list[TextRow](), 0
        self._keys, self._kinds = set[str](), set[str]()

    def has(self, key: str) -> bool:
        """Return whether a text was added."""
        return key in self._keys or self._rows.text(key) is not None

    def add(self, group: LineGroup) -> None:
        """Add a checked group."""
        for number, line in enumerate(group.texts):
            key, erased = lines.key_of_text(line), line.startswith(lines.TEXT_ERASED)
            digest = None if erased else sha256(lines.raw_text(line)).digest()
            self._texts.append(TextRow(key, group.first, number, digest, line))
            self._keys.add(key)
        for line, digest in zip(group.events, group.digests, strict=True):
            row = _event_row(line, digest)
            self._events.append(row)
            self._kinds.add(kind_of(TYPES[row.type]))
        self._bytes += sum(map(len, (*group.texts, *group.events)))
        if len(self._events) >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES:
            self.store()

    def store(self) -> None:
        """Store what was added since the last time."""
        if self._events:
            self._rows.add(self._events, self._texts, self._kinds)
        self._begin()
