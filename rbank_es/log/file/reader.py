"""The reader of a log's files: events in order, from whole groups with checked lines only.

A closed segment must be sound to the last byte. In the active one, damage is an interrupted append unless a later line
proves by its `dur` that the damaged line was on disk. Readers stop before an interrupted append, and the next writer
truncates the file there.

Lines are checked a block at a time, because this is faster. Only if a block fails are its lines checked one by one, to
report the fault and its place.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec
from msgspec import Struct

from rbank_es import limits
from rbank_es.errors import LogCorruption, UnknownEvent
from rbank_es.events.codec import TYPES, decode_events, unknown_types
from rbank_es.events.event_envelope import Event
from rbank_es.log import disk, lines
from rbank_es.log.disk import LOCK, Receipts
from rbank_es.log.file.segments import (
    Segment,
    SegmentCorruption,
    all_segments,
    blocks,
    find_line,
    last_line,
    read_opened,
    read_sealed,
    segment_of,
)
from rbank_es.log.protocol import older_copy_advice
from rbank_es.system.files import kind_of, opened

Mark = tuple[int, int]
"""An offset, and the position of the event before it."""

_KNOWN = frozenset(name.encode() for name in TYPES)
_SEQ = attrgetter("seq")
_TAIL = lines.CRC_TAIL


class LineBatch(Struct, frozen=True):
    """Events that follow each other in one segment, with their lines."""

    segment: Segment
    events: list[Event]
    lines: list[bytes]


class WholeGroups(Struct, frozen=True):
    """Whole groups of an active segment, and the offset behind them."""

    events: list[Event]
    lines: list[bytes]
    end: int


class WrongLine(Struct, frozen=True):
    """The first wrong line of an active segment, where position `seq` must be."""

    error: LogCorruption | UnknownEvent
    offset: int
    seq: int


class Tail(NamedTuple):
    """The end of the whole groups of the last segment, with time and durable position of the last event.

    `at` is empty and `durable` 0 where no event was read.
    """

    segment: Segment
    inode: int
    offset: int
    seq: int
    at: str
    durable: int
    sealed: lines.Sealed | None


_MARKS_KEPT = 32
"""The last places that are remembered: a loop asks for positions some groups back, which took 20 reads each."""


class Reader:
    """The reading half of a `FileLog`. It holds no lock and no file between calls, and remembers where it stopped."""

    def __init__(self, directory: Path, lineage: str, receipts: Receipts) -> None:
        self.directory = directory
        self.lineage = lineage
        self.receipts = receipts
        self.seed = lines.seed_of(lineage)
        self._marks: dict[tuple[str, int], tuple[Mark, ...]] = {}
        self.holder: int | None = None
        """The thread of this process that holds the bank's lock, because it would wait for itself."""

    def batches(
        self, after: int = 0, upto: int | None = None, types: Collection[str] | None = None
    ) -> Iterator[LineBatch]:
        """Yield events with `after` < seq <= `upto`, of `types`, from segments that appear meanwhile too."""
        unknown = unknown_types(types or ())
        if unknown:
            raise UnknownEvent(min(unknown), None, None)
        wanted = frozenset(name.encode() for name in types) if types is not None else None
        while True:
            segments = all_segments(self.directory)
            if upto is not None and after >= upto:
                return
            if segments[0].first != 1:
                raise SegmentCorruption(segments[0].path, 1, 0, "the segments before it are missing")
            index = segment_of(segments, after + 1)
            if index + 1 < len(segments):
                yield from self._closed(segments[index], segments[index + 1], after, upto, wanted)
                after = max(after, segments[index + 1].first - 1)
            else:
                after = max(after, (yield from self._active(segments[index], after, upto, wanted)))
                # A writer may have closed that segment meanwhile: then go on with the next one.
                if all_segments(self.directory)[-1].first <= segments[index].first:
                    return

    def line_at(self, seq: int) -> tuple[Segment, Event, bytes] | None:
        """Return the event at a position with its segment and line; None where there is none."""
        for batch in self.batches(seq - 1, seq):
            return batch.segment, batch.events[0], batch.lines[0]
        return None

    def mark(self, seq: int) -> str | None:
        """Return the offset of the line at a position and its digest; None where there is none. Reads no event."""
        segments = all_segments(self.directory)
        index = segment_of(segments, seq)
        with opened(segments[index].path) as fd:
            offset, before = self._start(fd, segments[index], seq - 1, closed=index + 1 < len(segments))
            for base, complete in blocks(fd, offset):
                for line in complete:
                    before += not line.startswith(lines.UNNUMBERED)
                    if before == seq:
                        # A strong digest, because who sends the next version of a bank can give a line any CRC-32.
                        return f"{base} {sha256(line).hexdigest()}"
                    base += len(line) + 1
        return None

    def beginning(self, fd: int, segment: Segment) -> Mark:
        """Return the mark of a segment's first event. Raises `LogCorruption` if the segment belongs to another bank."""
        first, offset = read_opened(segment, fd)
        if first.bank != self.lineage:
            raise SegmentCorruption(segment.path, 1, 0, f"it belongs to bank {first.bank}, not {self.lineage}")
        return offset, segment.first - 1

    def _start(self, fd: int, segment: Segment, after: int, *, closed: bool) -> Mark:
        """Return where to begin in a segment: behind the last event read if that fits, else by bisection."""
        start = self.beginning(fd, segment)
        # Only the active segment is never rewritten, so only there a remembered offset is still the same place.
        if after < segment.first:
            return start
        status = os.fstat(fd)
        marks = () if closed else self._marks.get((segment.name, status.st_ino), ())
        known = bisect_right(marks, after, key=lambda mark: mark[1])
        if known and self.fits(fd, segment, marks[known - 1]):
            start = marks[known - 1]
            if start[1] == after:
                return start
        # A wrong end costs only time.
        end = marks[known][0] if known < len(marks) else status.st_size
        return find_line(fd, start, end, after + 1, self.seed)

    def _note(self, segment: Segment, inode: int, mark: Mark) -> None:
        """Remember a place in the active segment, in order of the places."""
        known = self._marks.get((segment.name, inode), ())
        if mark not in known:
            self._marks[segment.name, inode] = tuple(sorted((*known, mark)))[-_MARKS_KEPT:]

    def fits(self, fd: int, segment: Segment, mark: Mark) -> bool:
        """Return whether a remembered offset is still right behind that position: the file may have been replaced."""
        offset, seq = mark
        line = last_line(fd, offset)
        if os.pread(fd, 1, offset - 1) != b"\n" or not lines.is_intact(line, self.seed):
            return False
        if line.startswith(lines.SEGMENT):
            return seq == segment.first - 1
        return not line.startswith(lines.ANY_TEXT) and lines.seq_of(line) == seq

    # ---------------------------------------------------------------- closed segments

    def _closed(
        self, segment: Segment, following: Segment, after: int, upto: int | None, wanted: frozenset[bytes] | None
    ) -> Iterator[LineBatch]:
        with opened(segment.path) as fd:
            offset, seq = self._start(fd, segment, after, closed=True)
            for base, complete in blocks(fd, offset):
                numbered = [line for line in complete if not line.startswith(lines.UNNUMBERED)]
                chosen, expected = _of_types(numbered, range(seq + 1, seq + 1 + len(numbered)), wanted)
                # All lines of a block at once, because most blocks are sound and that is quicker.
                events, error = self._decoded(chosen), None
                if events is None or list(map(_SEQ, events)) != list(expected):
                    events, error = self._sound(fd, segment, base, complete, chosen, expected)
                if events:
                    # Only the lines of the events: those from the wrong line on are not to be trusted.
                    batch = _window(segment, events, chosen[: len(events)], after, upto)
                    if batch.events:
                        yield batch
                    if upto is not None and events[-1].seq >= upto:
                        return
                if error is not None:  # after the sound events before it: whoever stops there never meets the damage
                    raise error
                offset, seq = base + sum(map(len, complete)) + len(complete), seq + len(numbered)
            self._check_closing(fd, segment, following, offset, seq)

    def _decoded(self, numbered: list[bytes]) -> list[Event] | None:
        """Return the events of lines if all are intact and known to this release; else None."""
        seed = self.seed
        if [1 for line in numbered if line[-_TAIL:] != b',"crc":"%08x"}' % crc32(line[:-_TAIL], seed)]:
            return None
        try:
            return decode_events(numbered)
        except (msgspec.DecodeError, RecursionError, UnknownEvent):
            return None

    def _sound(
        self, fd: int, segment: Segment, base: int, complete: list[bytes], chosen: list[bytes], positions: Sequence[int]
    ) -> tuple[list[Event], LogCorruption | UnknownEvent | None]:
        """Return the events before the first wrong line of a block, and the error of that line."""
        offsets = accumulate((len(line) + 1 for line in complete), initial=base)
        place = dict(zip(map(id, complete), offsets, strict=False))
        events: list[Event] = []
        for line, position in zip(chosen, positions, strict=True):
            found = self._try(fd, segment, line, place[id(line)], position)
            if not isinstance(found, Event):
                return events, found
            events.append(found)
        return events, None

    def _try(
        self, fd: int, segment: Segment, line: bytes, offset: int, position: int
    ) -> Event | LogCorruption | UnknownEvent:
        """Return the event of a line that must be at a position, or the error of that line."""
        if not lines.is_intact(line, self.seed):
            return self.damage(fd, segment, offset, "checksum is wrong: bytes were changed or lost")
        try:
            event = lines.event_of(line)
        except UnknownEvent as error:  # a newer release wrote it, nothing is damaged
            return error
        except (msgspec.DecodeError, RecursionError) as error:
            return self.damage(fd, segment, offset, f"not an event of this log: {error}")
        if event.seq != position:
            return self.damage(fd, segment, offset, f"position {event.seq:,} is where {position:,} must be")
        return event

    def damage(self, fd: int, segment: Segment, offset: int, reason: str) -> LogCorruption:
        """Return the error for the line that begins at an offset."""
        number = 1 + sum(data.count(b"\n") for data in _pieces(fd, offset))
        return SegmentCorruption(segment.path, number, offset, reason)

    def _check_closing(self, fd: int, segment: Segment, following: Segment, end: int, seq: int) -> None:
        """Raise `LogCorruption` unless the segment ends, at `end`, with a line that closes it at position `seq`."""
        last = last_line(fd, end)
        offset = end - len(last) - 1
        seal = read_sealed(last, self.seed)
        if seal is None or end != os.fstat(fd).st_size:
            raise self.damage(fd, segment, offset, "the line that closes the segment is damaged or missing")
        if (seal.last, seal.last + 1) != (seq, following.first):
            reason = f"it closes at {seal.last:,} after {seq:,}, the next segment begins at {following.first:,}"
            raise self.damage(fd, segment, offset, reason)

    # ---------------------------------------------------------------- the active segment

    def _active(
        self, segment: Segment, after: int, upto: int | None, wanted: frozenset[bytes] | None
    ) -> Generator[LineBatch, None, int]:
        """Yield batches of the last segment; return the position up to which it was read."""
        # Read before the log: what is acknowledged meanwhile may be missing from what is read.
        vouched = self.receipts.position() if upto is None else 0
        with opened(segment.path) as fd:
            start, before = self._start(fd, segment, after, closed=False)
            inode = os.fstat(fd).st_ino
            for whole in self.whole_groups(fd, segment, start, before):
                before = whole.events[-1].seq
                self._note(segment, inode, (whole.end, before))
                if before <= after:
                    continue
                batch = _chosen(_window(segment, whole.events, whole.lines, after, upto), wanted)
                if batch.events:
                    yield batch
                if upto is not None and before >= upto:
                    break
            if upto is not None and before < upto:
                # Asked only here, because nearly every reader of a part finds its end. `tail_with` reads again.
                vouched = min(upto, self.receipts.position())
            if before < vouched:
                self.tail_with(vouched, self.tail(segment))
            return before

    def whole_groups(self, fd: int, segment: Segment, offset: int, before: int) -> Iterator[WholeGroups]:
        """Yield whole groups of an active segment from `offset` on, many at a time; `before` is the position before it.

        Stops at the first group that is torn or damaged. Raises `LogCorruption` if a later line proves that the
        damaged one was on disk, `UnknownEvent` for a line of a later release.
        """
        block_bytes = limits.READ_BLOCK_BYTES
        while True:
            base, complete = next(blocks(fd, offset, block_bytes=block_bytes), (offset, []))
            whole = self._check_block(base, complete, before)
            if whole is None:
                yield from self._check_groups(fd, segment, offset, before)
                return
            if whole.events:
                yield whole
                offset, before, block_bytes = whole.end, whole.events[-1].seq, limits.READ_BLOCK_BYTES
            elif offset + block_bytes < os.fstat(fd).st_size and block_bytes <= limits.GROUP_BYTES:
                block_bytes *= 4  # a group larger than the block
            else:
                return

    def groups_in(self, data: bytes, offset: int, before: int) -> WholeGroups | None:
        """Return the whole groups in `data`, read at `offset` behind position `before`; None if there is more."""
        *complete, rest = data.split(b"\n")
        whole = self._check_block(offset, complete, before)
        return whole if whole is not None and whole.events and not rest else None

    def _check_block(self, base: int, complete: list[bytes], before: int) -> WholeGroups | None:
        """Return the whole groups at the beginning of a block, perhaps none; None if a line in it is wrong."""
        numbered = [line for line in complete if not line.startswith(lines.UNNUMBERED)]
        others = [line for line in complete if line.startswith(lines.UNNUMBERED)]
        if not all(lines.is_intact(line, self.seed) for line in others):
            return None
        events = self._decoded(numbered)
        if events is None or list(map(_SEQ, events)) != list(range(before + 1, before + 1 + len(events))):
            return None
        if any(left.more and right.more != left.more - 1 for left, right in zip(events, events[1:], strict=False)):
            return None
        count = next((index + 1 for index in range(len(events) - 1, -1, -1) if not events[index].more), 0)
        if not count:
            return WholeGroups([], [], base)
        end = next(i for i in range(len(complete) - 1, -1, -1) if complete[i] is numbered[count - 1]) + 1
        return WholeGroups(events[:count], numbered[:count], base + sum(map(len, complete[:end])) + end)

    def _check_groups(self, fd: int, segment: Segment, offset: int, before: int) -> Iterator[WholeGroups]:
        """Yield groups one by one; at the first wrong line, distinguish damage from an interrupted append."""
        # Apparent damage may be a tail that a writer is healing: read again while no writer moves.
        for found in self._groups(fd, segment, offset, before):
            if isinstance(found, WholeGroups):
                yield found
                offset, before = found.end, found.events[-1].seq
                continue
            with self.quiet():
                again = next(self._groups(fd, segment, offset, before), None)
                if isinstance(again, WrongLine) and self._vouched(fd, again):
                    raise again.error
            if isinstance(again, WholeGroups):  # a writer had been healing that place
                yield from self._check_groups(fd, segment, offset, before)
            return

    def _groups(self, fd: int, segment: Segment, offset: int, before: int) -> Iterator[WholeGroups | WrongLine]:
        """Yield groups one by one, and then the first wrong line, if there is one."""
        events: list[Event] = []
        group: list[bytes] = []
        seq = before
        for base, complete in blocks(fd, offset):
            at = base
            for line in complete:
                here, at = at, at + len(line) + 1
                if line.startswith(lines.UNNUMBERED) and lines.is_intact(line, self.seed):
                    continue
                found = self._try(fd, segment, line, here, seq + 1)
                if isinstance(found, Event) and events and found.more != events[-1].more - 1:
                    found = self.damage(fd, segment, here, "a group of events is not whole")
                if not isinstance(found, Event):
                    yield WrongLine(found, here, seq + 1)
                    return
                seq = found.seq
                events.append(found)
                group.append(line)
                if not found.more:
                    yield WholeGroups(events, group, at)
                    events, group = [], []

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Exclude writers until the end of the `with`."""
        path = self.directory / LOCK
        # A bank on a read-only disk may have no lock file, and then no writer either; nor if the lock is no file.
        if self.holder == threading.get_ident() or kind_of(path) != "a file":
            yield
            return
        with disk.locked(path, str(self.directory), shared=True):
            yield

    def _vouched(self, fd: int, wrong: WrongLine) -> bool:
        """Return whether that line had reached the disk, as its own `dur` or that of an intact line behind it
        proves."""
        if isinstance(wrong.error, UnknownEvent):
            return True
        for _, complete in blocks(fd, wrong.offset):
            for line in complete:
                if line.startswith(lines.ANY_TEXT) or not lines.is_intact(line, self.seed):
                    continue
                if line.startswith(lines.SEALED):
                    return True
                if not line.startswith(lines.SEGMENT) and lines.counters_of(line)[1] >= wrong.seq:
                    return True
        return False

    def tail(self, segment: Segment, start: Mark | None = None) -> Tail:
        """Return where the whole groups of the last segment end, reading on from `start`."""
        with opened(segment.path) as fd:
            status = os.fstat(fd)
            if start is None or not self.fits(fd, segment, start):
                start = self.beginning(fd, segment)
            offset, before = start
            at, durable = "", 0
            for whole in self.whole_groups(fd, segment, offset, before):
                last = whole.events[-1]
                offset, before, at, durable = whole.end, last.seq, last.at, max(durable, last.dur)
            line = last_line(fd, status.st_size)
            seal = read_sealed(line, self.seed) if offset + len(line) + 1 == status.st_size else None
            return Tail(segment, status.st_ino, offset, before, at, durable, seal)

    def tail_with(self, vouched: int, seen: Tail) -> Tail:
        """Return the log's tail, read again while no writer moves. Raises `LogCorruption` if it ends before `vouched`.

        A receipt names that position, and the tail `seen` ended before it: damage, unless the segment was closed since.
        """
        with self.quiet():
            last = all_segments(self.directory)[-1]
            tail = self.tail(last, (seen.offset, seen.seq) if last == seen.segment else None)
            if tail.seq < vouched:
                raise self.dropped(tail, vouched)
            return tail

    def dropped(self, tail: Tail, vouched: int) -> LogCorruption:
        """Return the error for a log that ends at `tail` although events up to `vouched` were acknowledged."""
        with opened(tail.segment.path) as fd:
            number = 1 + sum(data.count(b"\n") for data in _pieces(fd, tail.offset))
        reason = (
            f"position {tail.seq + 1:,} can't be read, but events up to {vouched:,} were on disk and acknowledged: "
            "bytes were changed or lost since"
        )
        advice = older_copy_advice(self.receipts.path.parent) if self.receipts.path else ""
        return SegmentCorruption(tail.segment.path, number, tail.offset, reason, advice)


def _pieces(fd: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a file up to an offset, a block at a time."""
    for offset in range(0, end, limits.READ_BLOCK_BYTES):
        yield os.pread(fd, min(limits.READ_BLOCK_BYTES, end - offset), offset)


def _of_types(
    numbered: list[bytes], positions: range, wanted: frozenset[bytes] | None
) -> tuple[list[bytes], Sequence[int]]:
    """Return the lines of the wanted types, with the positions they must have."""
    # Lines of unknown types are included, because they must raise, not be skipped like types that were not requested.
    if wanted is None:
        return numbered, positions
    types = [lines.type_of_line(line) for line in numbered]
    strange = {name for name in set(types) - _KNOWN if unknown_types([name.decode(errors="replace")])}
    taken = wanted | strange if strange else wanted
    chosen = [index for index, type_ in enumerate(types) if type_ in taken]
    return [numbered[index] for index in chosen], [positions[index] for index in chosen]


def _window(segment: Segment, events: list[Event], numbered: list[bytes], after: int, upto: int | None) -> LineBatch:
    """Return those of the events with `after` < seq <= `upto`."""
    low = bisect_right(events, after, key=_SEQ) if events[0].seq <= after else 0
    high = len(events) if upto is None or events[-1].seq <= upto else bisect_left(events, upto + 1, key=_SEQ)
    if low == 0 and high == len(events):
        return LineBatch(segment, events, numbered)
    return LineBatch(segment, events[low:high], numbered[low:high])


def _chosen(batch: LineBatch, wanted: frozenset[bytes] | None) -> LineBatch:
    """Return those of the events whose type is wanted."""
    if wanted is None:
        return batch
    pairs = zip(batch.events, batch.lines, strict=True)
    chosen = [(event, line) for event, line in pairs if lines.type_of_line(line) in wanted]
    return LineBatch(batch.segment, [event for event, _ in chosen], [line for _, line in chosen])
