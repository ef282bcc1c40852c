"""Reading: events in order, whole groups only, everything checked that is returned.

A closed segment must be sound to the last byte. In the active one, damage that no later line vouches for (`dur`) is
an interrupted append: readers stop before its group, and the next writer cuts it off.

Lines are checked a block at a time, which is quick; only when a block doesn't pass are its lines looked at one by one,
to say what is wrong and where.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

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

Mark = tuple[int, int]
"""An offset, and the position of the event before it."""

_KNOWN = frozenset(name.encode() for name in TYPES)
_SEQ = attrgetter("seq")
_TAIL = lines.CRC_TAIL


class Batch(NamedTuple):
    """Events that follow each other in one segment, with their lines."""

    segment: Segment
    events: list[Event]
    lines: list[bytes]


class Whole(NamedTuple):
    """Whole groups of an active segment, and the offset behind them."""

    events: list[Event]
    lines: list[bytes]
    end: int


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

    def batches(self, after: int = 0, upto: int | None = None, types: Collection[str] | None = None) -> Iterator[Batch]:
        """Events with `after` < seq <= `upto`, of `types`. Follows the log into segments that appear meanwhile."""
        unknown = set(types or ()) - TYPES.keys()
        if unknown:
            raise UnknownEvent(min(unknown), None, None)
        wanted = frozenset(name.encode() for name in types) if types is not None else None
        while True:
            segments = list_segments(self.directory)
            if not segments or (upto is not None and after >= upto):
                return
            index = segment_of(segments, after + 1)
            if index + 1 < len(segments):
                yield from self._closed(segments[index], segments[index + 1], after, upto, wanted)
                after = max(after, segments[index + 1].first - 1)
            else:
                after = max(after, (yield from self._active(segments[index], after, upto, wanted)))
                if list_segments(self.directory)[-1].first <= segments[index].first:
                    return

    def line_at(self, seq: int) -> tuple[Segment, Event, bytes] | None:
        """The event at a position with its segment and line; None where there is none."""
        for batch in self.batches(seq - 1, seq):
            return batch.segment, batch.events[0], batch.lines[0]
        return None

    def _start(self, fd: int, segment: Segment, after: int, *, closed: bool) -> Mark:
        """Where to begin in a segment: behind the last event read, if that fits, else found by bisection.

        Only the active segment is never rewritten, so only there a remembered offset still means what it meant.
        """
        first, offset = read_opened(segment, fd)
        if first.bank != self.bank_id:
            raise LogCorruption(segment.name, 1, 0, f"belongs to bank {first.bank}, not {self.bank_id}")
        if after < segment.first:
            return offset, segment.first - 1
        status = os.fstat(fd)
        known = None if closed else self._marks.get((segment.name, status.st_ino))
        if known is not None and known[1] <= after and self.fits(fd, segment, known):
            offset = known[0]
            if known[1] == after:
                return known
        return find_line(fd, offset, status.st_size, after + 1, self.seed), -1

    def fits(self, fd: int, segment: Segment, mark: Mark) -> bool:
        """Whether a remembered offset is still right behind that position: the file may have been put back."""
        offset, seq = mark
        line = last_line(fd, offset)
        if not lines.is_intact(line, self.seed):
            return False
        if line.startswith(lines.SEGMENT):
            return seq == segment.first - 1
        return not line.startswith(lines.ANY_TEXT) and lines.seq_of(line) == seq

    # ---------------------------------------------------------------- closed segments

    def _closed(
        self, segment: Segment, following: Segment, after: int, upto: int | None, wanted: frozenset[bytes] | None
    ) -> Iterator[Batch]:
        with opened(segment.path) as fd:
            offset, seq = self._start(fd, segment, after, closed=True)
            sealed = False
            for base, complete in blocks(fd, offset):
                numbered, sealed = self._numbered(segment, following, base, complete, sealed)
                if wanted is not None:
                    numbered = self._of_types(segment, base, complete, numbered, wanted)
                events = self._decoded(numbered)
                if events is None or not self._in_order(events, seq, gaps=wanted is not None):
                    raise self._explained(segment, base, complete, numbered, seq if wanted is None else -1)
                if not events:
                    continue
                seq = events[-1].seq
                batch = _window(segment, events, numbered, after, upto)
                if batch.events:
                    yield batch
                if upto is not None and seq >= upto:
                    return
            if not sealed:
                raise LogCorruption(segment.name, 0, offset, "the segment is followed by another but not closed")

    def _numbered(
        self, segment: Segment, following: Segment, base: int, complete: list[bytes], sealed: bool
    ) -> tuple[list[bytes], bool]:
        """The numbered lines of a block, and whether the segment is closed by its end."""
        numbered = [line for line in complete if not line.startswith((lines.ANY_TEXT, lines.SEGMENT))]
        last = complete[-1]
        if not last.startswith(lines.SEALED):
            return numbered, sealed
        seal = read_sealed(last, self.seed)
        offset = base + sum(map(len, complete)) + len(complete) - len(last) - 1
        if seal is None:
            raise LogCorruption(segment.name, 0, offset, "the line that closes the segment is damaged")
        if seal.last + 1 != following.first:
            reason = f"it closes at {seal.last:,}, the next segment begins at {following.first:,}"
            raise LogCorruption(segment.name, 0, offset, reason)
        return numbered, True

    def _of_types(
        self, segment: Segment, base: int, complete: list[bytes], numbered: list[bytes], wanted: frozenset[bytes]
    ) -> list[bytes]:
        """The lines of the types wanted. A damaged type must not pass for one that nobody asked for."""
        types = [line[9 : line.find(b'"', 9)] for line in numbered]
        if not set(types) <= _KNOWN:
            strange = [line for line, type_ in zip(numbered, types, strict=True) if type_ not in _KNOWN]
            raise self._explained(segment, base, complete, strange, -1)
        return [line for line, type_ in zip(numbered, types, strict=True) if type_ in wanted]

    def _decoded(self, numbered: list[bytes]) -> list[Event] | None:
        """The events of lines, if every one is intact and an event of this release; else None."""
        seed = self.seed
        if any(line[-_TAIL:] != b',"crc":"%08x"}' % crc32(line[:-_TAIL], seed) for line in numbered):
            return None
        try:
            return [decode_event(line) for line in numbered]
        except (msgspec.DecodeError, RecursionError):
            return None

    def _in_order(self, events: list[Event], before: int, *, gaps: bool) -> bool:
        positions = list(map(_SEQ, events))
        if not positions:
            return True
        first = positions[0] if before < 0 else before + 1
        if gaps:
            return positions[0] >= first and sorted(set(positions)) == positions
        return positions == list(range(first, first + len(positions)))

    def _explained(
        self, segment: Segment, base: int, complete: list[bytes], suspects: list[bytes], before: int
    ) -> LogCorruption:
        """The first thing that is wrong with the lines of a block, in words."""
        offsets = list(accumulate((len(line) + 1 for line in complete), initial=base))
        place = {id(line): (number, offsets[number]) for number, line in enumerate(complete)}
        for line in suspects:
            number, offset = place[id(line)]
            found = self._try(segment, line, number + 1, offset)
            if isinstance(found, LogCorruption):
                return found
            if before >= 0 and found.seq != before + 1:
                return LogCorruption(segment.name, number + 1, offset, f"position {found.seq:,} follows {before:,}")
            before = found.seq
        return LogCorruption(segment.name, 0, base, "its events are not in order")

    def _try(self, segment: Segment, line: bytes, number: int, offset: int) -> Event | LogCorruption:
        """The event of a line, or what is wrong with it. Raises `UnknownEvent` for a log from the future."""
        if not lines.is_intact(line, self.seed):
            return LogCorruption(segment.name, number, offset, "checksum is wrong: bytes were changed or lost")
        try:
            return decode_event(line)
        except (msgspec.DecodeError, RecursionError) as error:
            return LogCorruption(segment.name, number, offset, f"not an event of this log: {error}")

    # ---------------------------------------------------------------- the active segment

    def _active(
        self, segment: Segment, after: int, upto: int | None, wanted: frozenset[bytes] | None
    ) -> Generator[Batch, None, int]:
        """Batches of the last segment; returns the position up to which it was read."""
        with opened(segment.path) as fd:
            start, before = self._start(fd, segment, after, closed=False)
            inode = os.fstat(fd).st_ino
            for whole in self.wholes(fd, segment, start, before):
                before = whole.events[-1].seq
                self._marks[segment.name, inode] = (whole.end, before)
                if before <= after:
                    continue
                batch = _chosen(_window(segment, whole.events, whole.lines, after, upto), wanted)
                if batch.events:
                    yield batch
                if upto is not None and before >= upto:
                    break
            return before

    def wholes(self, fd: int, segment: Segment, offset: int, before: int, *, locked: bool = False) -> Iterator[Whole]:
        """Whole groups of an active segment from `offset` on, many at a time; `before` is the position before, or -1.

        Stops at the first group that is torn or damaged. Raises `LogCorruption` if a later line vouches for the
        damaged one. `locked`: the caller holds the bank's lock, so nothing moves.
        """
        while True:
            base, complete = next(blocks(fd, offset), (offset, []))
            whole = self._quickly(base, complete, before)
            if whole is None:
                yield from self._carefully(fd, segment, offset, before, locked)
                return
            if not whole.events:
                return
            yield whole
            offset, before = whole.end, whole.events[-1].seq

    def _quickly(self, base: int, complete: list[bytes], before: int) -> Whole | None:
        """The whole groups at the beginning of a block, if nothing in it is wrong and it isn't cut in the middle."""
        numbered = [line for line in complete if not line.startswith((lines.ANY_TEXT, lines.SEGMENT))]
        events = self._decoded(numbered)
        if events is None or not self._in_order(events, before, gaps=False):
            return None
        if not events:
            return Whole([], [], base) if not complete else None
        if any(left.more and right.more != left.more - 1 for left, right in zip(events, events[1:], strict=False)):
            return None
        count = next((index + 1 for index in range(len(events) - 1, -1, -1) if not events[index].more), 0)
        if not count:
            return None
        end = next(i for i in range(len(complete) - 1, -1, -1) if complete[i] is numbered[count - 1]) + 1
        return Whole(events[:count], numbered[:count], base + sum(map(len, complete[:end])) + end)

    def _carefully(self, fd: int, segment: Segment, offset: int, before: int, locked: bool) -> Iterator[Whole]:
        """Groups one by one, deciding at the first line that is wrong what kind of wrong it is."""
        events: list[Event] = []
        group: list[bytes] = []
        seq, number = before, 0
        for base, complete in blocks(fd, offset):
            at = base
            for line in complete:
                number += 1
                here, at = at, at + len(line) + 1
                if line.startswith((lines.ANY_TEXT, lines.SEGMENT)) and lines.is_intact(line, self.seed):
                    continue
                found = self._try(segment, line, number, here)
                if isinstance(found, LogCorruption) or not _follows(found, seq, events):
                    expected = seq + 1 if seq >= 0 else segment.first
                    self._settle(fd, segment, here, expected, found, number, locked)
                    return
                seq = found.seq
                events.append(found)
                group.append(line)
                if not found.more:
                    yield Whole(events, group, at)
                    events, group = [], []

    def _settle(
        self,
        fd: int,
        segment: Segment,
        offset: int,
        seq: int,
        found: Event | LogCorruption,
        number: int,
        locked: bool,
    ) -> None:
        """Decide what damage in the active segment is: an interrupted append (return), or corruption (raise)."""
        with self._quiet(locked):
            again = next((complete[0] for _, complete in blocks(fd, offset)), b"")
            event = self._try(segment, again, number, offset)
            if not isinstance(event, LogCorruption) and event.seq == seq:
                return
            if not self._vouched(fd, offset, seq):
                return
        if isinstance(found, LogCorruption):
            raise found
        raise LogCorruption(segment.name, number, offset, f"position {found.seq:,} where {seq:,} must follow")

    @contextmanager
    def _quiet(self, locked: bool) -> Iterator[None]:
        """No writer moves while this is held: what looked damaged may have been a tail that was just being healed."""
        path = self.directory / "lock"
        if locked or not path.exists():
            yield
            return
        with system.locked(path, str(self.directory), shared=True):
            yield

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
            if start is None or not self.fits(fd, segment, start):
                start = (read_opened(segment, fd)[1], segment.first - 1)
            offset, before = start
            at, durable = "", 0
            for whole in self.wholes(fd, segment, offset, before, locked=locked):
                last = whole.events[-1]
                offset, before, at, durable = whole.end, last.seq, last.at, max(durable, last.dur)
            line = last_line(fd, status.st_size)
            seal = read_sealed(line, self.seed) if offset + len(line) + 1 == status.st_size else None
            return Tail(segment, status.st_ino, offset, before, at, durable, seal)

    def find_id(self, event_id: str, segment: Segment) -> int | None:
        """Position of the event with this id in a segment, by searching its bytes."""
        with opened(segment.path) as fd, mmap.mmap(fd, 0, prot=mmap.PROT_READ) as whole:
            at = whole.find(b',"id":"%b","v":' % event_id.encode())
            if at < 0:
                return None
            begin = whole.rfind(b"\n", 0, at) + 1
            end = whole.find(b"\n", at)
            line = whole[begin:end] if end >= 0 else b""
            return lines.seq_of(line) if lines.is_intact(line, self.seed) else None


def _window(segment: Segment, events: list[Event], numbered: list[bytes], after: int, upto: int | None) -> Batch:
    """Those of the events with `after` < seq <= `upto`."""
    low = bisect_right(events, after, key=_SEQ) if events[0].seq <= after else 0
    high = len(events) if upto is None or events[-1].seq <= upto else bisect_left(events, upto + 1, key=_SEQ)
    if low == 0 and high == len(events):
        return Batch(segment, events, numbered)
    return Batch(segment, events[low:high], numbered[low:high])


def _chosen(batch: Batch, wanted: frozenset[bytes] | None) -> Batch:
    """Those of the events whose type is wanted."""
    if wanted is None:
        return batch
    pairs = zip(batch.events, batch.lines, strict=True)
    chosen = [(event, line) for event, line in pairs if line[9 : line.find(b'"', 9)] in wanted]
    return Batch(batch.segment, [event for event, _ in chosen], [line for _, line in chosen])


def _follows(event: Event, before: int, group: list[Event]) -> bool:
    in_order = before < 0 or event.seq == before + 1
    counts_down = not group or event.more == group[-1].more - 1
    return in_order and counts_down
