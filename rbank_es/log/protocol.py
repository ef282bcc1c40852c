"""What a log promises, whichever engine keeps it.

`append` is atomic, durable before it returns, idempotent by event id, and checked against an expected position.
Reading is in order of position, gap-free, validated. `rbank_es.testing` holds the suite that every engine passes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from typing import Final, Protocol

import msgspec

from rbank_es.errors import BadInput
from rbank_es.events.event import Event, Ref


class Expected(Enum):
    """What a writer expects of the log, where it isn't a position."""

    ANY = "any"
    EMPTY = "empty"


ANY: Final = Expected.ANY
EMPTY: Final = Expected.EMPTY


class Head(msgspec.Struct, frozen=True):
    """A position and the digest of everything up to it; noted somewhere safe, it proves the log unchanged."""

    seq: int
    digest: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.digest}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """The head written as `12:ab…`. Raises `BadInput` for anything else."""
        seq, _, digest = text.strip().partition(":")
        if not seq.isdecimal() or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise BadInput(f"{text!r} is not a head: expected POSITION:64 hex digits, as `verify` prints it")
        return cls(int(seq), digest)


class Appended(msgspec.Struct, frozen=True):
    """Where a group stands in the log. `duplicate`: it stood there already, and nothing was written."""

    first: int
    last: int
    events: tuple[Event, ...]
    duplicate: bool = False


class TornTail(msgspec.Struct, frozen=True):
    """The remains of an interrupted append: no reader sees them, and the next writer cuts them off."""

    segment: str
    byte_offset: int
    size_bytes: int


class Verification(msgspec.Struct, frozen=True):
    """What `verify` saw, when it found nothing wrong. `erasing`: an erasure has begun, and the next writer ends it."""

    head: Head
    segments: int
    events: int
    texts: int
    erased: int
    noted: tuple[Head, ...] = ()
    torn: TornTail | None = None
    cleared: bool = False
    erasing: bool = False


class Place(msgspec.Struct, frozen=True):
    """Where a text stands: an event's position and a path in it. `run` is the run that the event belongs to."""

    seq: int
    path: str
    type: str
    named: bool
    run: str | None = None


class Erasure(msgspec.Struct, frozen=True):
    """What was erased, or with `dry_run` would be.

    `places` are texts inside events; `texts` keys of texts stored apart; `facts` positions of events whose facts
    (ids, names), which are never erased, hold the same characters. `shared` is how many texts of a run that was named
    stay elsewhere, for other runs have them too.
    """

    places: tuple[Place, ...]
    texts: tuple[str, ...]
    facts: tuple[int, ...]
    short: int
    dry_run: bool
    appended: Appended | None = None
    shared: int = 0


class Erasing(msgspec.Struct, frozen=True, kw_only=True):
    """What to erase: whole events by position, single texts by position and path, and any text by its words.

    `run` is the run that the events are of, where it is one. A text that another run has as well, as the whole of a
    text of its own, is then not looked for: it goes from the events that were named, and stays elsewhere.
    """

    events: frozenset[int] = frozenset()
    paths: tuple[tuple[int, str], ...] = ()
    words: tuple[str, ...] = ()
    run: str | None = None


class EventLog(Protocol):
    """An append-only log of one bank."""

    @property
    def bank_id(self) -> str:
        """The bank's id, made with the log and never changed."""
        ...

    @property
    def place(self) -> str:
        """Where the log is, for messages."""
        ...

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        """Append a group: whole or not at all, on disk before this returns.

        Events without an id are given a UUIDv7. If all ids are known with the same content, the first positions are
        returned (after a sync) and nothing is written; this is checked before `expected`.
        Raises `PositionConflict`, `DuplicateEvent`, `BadEvent`, `LimitExceeded`, `LogUnavailable`, `LogBusy`,
        `LogFailed`, `LogCorruption`; the log is then as it was, save after `LogFailed`, where the outcome is unknown.
        """
        ...

    def read(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Collection[str] | None = None,
        resolve: Collection[str] = (),
    ) -> Iterator[Event]:
        """Events with `after` < seq <= `upto`, in order; only of `types`, where given.

        Events of the types in `resolve` come with their texts in place of `Ref`s.
        Raises `LogCorruption` or `UnknownEvent` when it gets there; never a guess, never a skip.
        """
        ...

    def lines(
        self, *, after: int = 0, upto: int | None = None, types: Collection[str] | None = None
    ) -> Iterator[bytes]:
        """The same as `read`, as the bytes in the log, without newline."""
        ...

    def new_id(self) -> str:
        """A fresh UUIDv7 for an event, for a writer that must name it before it is appended."""
        ...

    def position(self) -> int:
        """Position of the last event; 0 for an empty log."""
        ...

    def head(self, at: int | None = None) -> Head:
        """The head at a position, or now."""
        ...

    def crc_at(self, seq: int) -> str | None:
        """Checksum of the line at a position; None where there is none. Erasure may change it."""
        ...

    def seq_of_id(self, event_id: str) -> int | None:
        """Position of the event with this id, if any."""
        ...

    def text(self, ref: Ref) -> str | None:
        """The text that a handle names; None if it was erased. Raises `LogCorruption` if it should be there."""
        ...

    def erasures(self) -> int:
        """The erasure epoch: it grows with each erasure. What was derived under a lower one must be rebuilt."""
        ...

    def erase(self, what: Erasing, *, reason: str = "", by: str | None = None, dry_run: bool = False) -> Erasure:
        """Remove texts, and every text that holds them verbatim, from all files of the bank; heads still verify.

        Raises as `append` does. Interrupted at any instant, the next writer completes it.
        """
        ...

    def sync(self) -> None:
        """Returns when everything that a reader could have seen so far is on disk."""
        ...

    def verify(self, noted: Sequence[Head] = ()) -> Verification:
        """Check every byte. Raises `LogCorruption` for damage, `CheckFailed` if a noted head doesn't hold."""
        ...

    def close(self) -> None:
        """Let go of files and locks. A closed log opens again by itself when used."""
        ...
