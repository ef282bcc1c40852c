"""Reading: events in order, whole groups only, everything checked that is returned.

A closed segment must be sound to the last byte. In the active one, damage that no later line vouches for (`dur`) is
an interrupted append: readers stop before its group, and the next writer cuts it off.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from rbank_es.errors import LogCorruption, UnknownEvent
from rbank_es.events.base import Event
from rbank_es.events.codec import TYPES, decode_event
from rbank_es.log import lines, system
from rbank_es.log.segments import (
    Segment,
    blocks,
    find_line,
    last_line,
    list_segments,
    read_opened,
    read_sealed,
    segment_of,
)


class Numbered(NamedTuple):
    """A numbered line, decoded, with its bytes and its place."""

    event: Event
    line: bytes
    segment: Segment
    offset: int


class Tail(NamedTuple):
    """Where the whole groups of the last segment end, and what its last event says.

    `at` is empty and `durable` 0 where no event was read.
    """

    segment: Segment
    inode: int
    offset: int
    seq: int
    at: str
    durable: int
    sealed: lines.Sealed | None


Mark = tuple[int, int]
"""An offset, and the position of the event before it."""


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor for reading, closed at the end of the `with`."""
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


class Reader:
    """Reads the segments of one bank. Holds no lock and no file between calls; remembers where it stopped."""

    def __init__(self, directory: Path, bank_id: str) -> None:
        self.directory = directory
        self.bank_id = bank_id
        self.seed = lines.seed_of(bank_id)
        self._marks: dict[tuple[str, int], Mark] = {}

    def numbered(
        self, after: int = 0, upto: int | None = None, types: Collection[str] | None = None
    ) -> Iterator[Numbered]:
        """Lines with `after` < seq <= `upto`, of `types`. Follows the log into segments that appear meanwhile."""
        unknown = set(types or ()) - TYPES.keys()
        if unknown:
            raise UnknownEvent(min(unknown), None, None)
        wanted = frozenset(name.encode() for name in types) if types is not None else None
        while True:
            segments = list_segments(self.directory)
            if not segments:
                return
            index = segment_of(segments, after + 1)
            segment, closed = segments[index], index + 1 < len(segments)
            if closed:
                yield from self._closed(segment, segments[index + 1], after, upto, wanted)
                after = max(after, segments[index + 1].first - 1)
            else:
                after = max(after, (yield from self._active(segment, after, upto, wanted)))
                if list_segments(self.directory)[-1].first <= segment.first:
                    return
            if upto is not None and after >= upto:
                return

    def _start(self, fd: int, segment: Segment, after: int) -> Mark:
        """Where to begin in a segment: behind the last event read, if that fits, else found by bisection."""
        first, offset = read_opened(segment, fd)
        if first.bank != self.bank_id:
            raise LogCorruption(segment.name, 1, 0, f"belongs to bank {first.bank}, not {self.bank_id}")
        known = self._marks.get((segment.name, os.fstat(fd).st_ino))
        if known is not None and known[1] <= after:
            offset = known[0]
            if known[1] == after:
                return known
        if after < segment.first:
            return offset, segment.first - 1
        offset = find_line(fd, offset, os.fstat(fd).st_size, after + 1, self.seed)
        return offset, -1

    def _closed(
        self, segment: Segment, following: Segment, after: int, upto: int | None, wanted: frozenset[bytes] | None
    ) -> Iterator[Numbered]:
        with opened(segment.path) as fd:
            offset, seq = self._start(fd, segment, after)
            number, sealed = 0, False
            for base, complete in blocks(fd, offset):
                at = base
                for line in complete:
                    number += 1
                    here, at = at, at + len(line) + 1
                    if line.startswith(lines.ANY_TEXT):
                        continue
                    if line.startswith(lines.SEGMENT):
                        sealed = self._check_seal(segment, following, line, number, here) or sealed
                        continue
                    if wanted is not None and _type_in(line) not in wanted:
                        self._check_type(segment, line, number, here)
                        seq = seq + 1 if seq >= 0 else -1
                        continue
                    found = self._decode(segment, line, number, here)
                    seq = self._check_order(segment, found.event.seq, seq, number, here)
                    if upto is not None and seq > upto:
                        return
                    if seq > after:
                        yield found
            if not sealed:
                raise LogCorruption(segment.name, number, offset, "the segment is followed by another but not closed")

    def _check_seal(self, segment: Segment, following: Segment, line: bytes, number: int, offset: int) -> bool:
        if line.startswith(lines.OPENED):
            return False
        sealed = read_sealed(line, self.seed)
        if sealed is None:
            raise LogCorruption(segment.name, number, offset, "the line that closes the segment is damaged")
        if sealed.last + 1 != following.first:
            reason = f"it closes at {sealed.last:,}, the next segment begins at {following.first:,}"
            raise LogCorruption(segment.name, number, offset, reason)
        return True

    def _check_type(self, segment: Segment, line: bytes, number: int, offset: int) -> None:
        if _type_in(line) not in _KNOWN:
            self._decode(segment, line, number, offset)

    def _check_order(self, segment: Segment, seq: int, before: int, number: int, offset: int) -> int:
        if before >= 0 and seq != before + 1:
            reason = f"position {seq:,} follows {before:,}"
            raise LogCorruption(segment.name, number, offset, reason)
        return seq

    def _decode(self, segment: Segment, line: bytes, number: int, offset: int) -> Numbered:
        if not lines.is_intact(line, self.seed):
            raise LogCorruption(segment.name, number, offset, "checksum is wrong: bytes were changed or lost")
        try:
            return Numbered(decode_event(line), line, segment, offset)
        except UnknownEvent:
            raise
        except (msgspec.DecodeError, RecursionError) as error:
            raise LogCorruption(segment.name, number, offset, f"not an event of this log: {error}") from None

    def _active(
        self, segment: Segment, after: int, upto: int | None, wanted: frozenset[bytes] | None
    ) -> Generator[Numbered, None, int]:
        with opened(segment.path) as fd:
            start, before = self._start(fd, segment, after)
            inode = os.fstat(fd).st_ino
            for group in self.groups(fd, segment, start, before):
                last = group[-1]
                self._marks[segment.name, inode] = (last.offset + len(last.line) + 1, last.event.seq)
                before = last.event.seq
                for found in group:
                    if upto is not None and found.event.seq > upto:
                        return before
                    if found.event.seq > after and (wanted is None or _type_in(found.line) in wanted):
                        yield found
            return before

    def groups(
        self, fd: int, segment: Segment, offset: int, before: int, *, locked: bool = False
    ) -> Iterator[list[Numbered]]:
        """Whole groups of an active segment from `offset` on; `before` is the position before it, or -1.

        Stops at the first that is torn or damaged. Raises `LogCorruption` if a later line vouches for the damaged one.
        `locked`: the caller holds the bank's lock, so nothing moves.
        """
        group: list[Numbered] = []
        seq, number, at = before, 0, offset
        for base, complete in blocks(fd, offset):
            at = base
            for line in complete:
                number += 1
                here, at = at, at + len(line) + 1
                if line.startswith((lines.ANY_TEXT, lines.SEGMENT)) and lines.is_intact(line, self.seed):
                    continue
                found = self._try(segment, line, number, here)
                if isinstance(found, LogCorruption) or not _follows(found.event, seq, group):
                    expected = seq + 1 if seq >= 0 else segment.first
                    self._settle(fd, segment, here, expected, found, number, locked)
                    return
                seq = found.event.seq
                group.append(found)
                if not found.event.more:
                    yield group
                    group = []

    def _try(self, segment: Segment, line: bytes, number: int, offset: int) -> Numbered | LogCorruption:
        try:
            return self._decode(segment, line, number, offset)
        except LogCorruption as error:
            return error

    def _settle(
        self,
        fd: int,
        segment: Segment,
        offset: int,
        seq: int,
        found: Numbered | LogCorruption,
        number: int,
        locked: bool,
    ) -> None:
        """Decide what damage in the active segment is: an interrupted append (return), or corruption (raise)."""
        with self._quiet(locked):
            again = self._line_at(fd, offset)
            if again is not None and self._is_sound(segment, again, seq):
                return
            if not self._vouched(fd, offset, seq):
                return
        if isinstance(found, LogCorruption):
            raise found
        raise LogCorruption(segment.name, number, offset, f"position {found.event.seq:,} where {seq:,} must follow")

    @contextmanager
    def _quiet(self, locked: bool) -> Iterator[None]:
        """No writer moves while this is held: what looked damaged may have been a tail that was just being healed."""
        path = self.directory / "lock"
        if locked or not path.exists():
            yield
            return
        with system.locked(path, str(self.directory), shared=True):
            yield

    def _line_at(self, fd: int, offset: int) -> bytes | None:
        for _, complete in blocks(fd, offset):
            return complete[0]
        return None

    def _is_sound(self, segment: Segment, line: bytes, seq: int) -> bool:
        found = self._try(segment, line, 0, 0)
        return isinstance(found, Numbered) and found.event.seq == seq

    def _vouched(self, fd: int, offset: int, seq: int) -> bool:
        """Whether an intact line behind `offset` says that position `seq` had reached the disk."""
        for _, complete in blocks(fd, offset):
            for line in complete:
                if line.startswith(lines.ANY_TEXT) or not lines.is_intact(line, self.seed):
                    continue
                if line.startswith(lines.SEALED):
                    return True
                if not line.startswith(lines.SEGMENT) and lines.counters_of(line)[1] >= seq:
                    return True
        return False

    def tail(self, segment: Segment, start: Mark | None = None, *, locked: bool = False) -> Tail:
        """Where the whole groups of the last segment end, reading on from `start`."""
        with opened(segment.path) as fd:
            status = os.fstat(fd)
            offset, before = start or (read_opened(segment, fd)[1], segment.first - 1)
            at, durable = "", 0
            for group in self.groups(fd, segment, offset, before, locked=locked):
                last = group[-1]
                offset, before = last.offset + len(last.line) + 1, last.event.seq
                at, durable = last.event.at, last.event.dur
            line = last_line(fd, status.st_size)
            seal = read_sealed(line, self.seed) if offset + len(line) + 1 == status.st_size else None
            return Tail(segment, status.st_ino, offset, before, at, durable, seal)

    def find_id(self, event_id: str, segment: Segment, start: int = 0) -> int | None:
        """Position of the event with this id in a segment, by searching its bytes."""
        with opened(segment.path) as fd:
            if not os.fstat(fd).st_size:
                return None
            with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as whole:
                at = whole.find(b',"id":"%b","v":' % event_id.encode(), start)
                if at < 0:
                    return None
                begin = whole.rfind(b"\n", 0, at) + 1
                end = whole.find(b"\n", at)
                line = whole[begin:end] if end >= 0 else b""
                return lines.seq_of(line) if lines.is_intact(line, self.seed) else None


_KNOWN = frozenset(name.encode() for name in TYPES)


def _type_in(line: bytes) -> bytes:
    return line[9 : line.find(b'"', 9)]


def _follows(event: Event, before: int, group: list[Numbered]) -> bool:
    in_order = before < 0 or event.seq == before + 1
    counts_down = not group or event.more == group[-1].event.more - 1
    return in_order and counts_down
