"""The index of a log's files by run, type and position: the offset of each event in its segment.

An index is derived, one file a segment, and may be deleted at any time. A reader builds it when it first needs it, and
extends it by what was appended since; an append costs nothing. It is believed only as far as it is checked. Its file
carries a checksum and names the line it ends with. Each line that it leads to must be intact, and name its own
position, type and run. Where anything differs, the index is built again; where that fails too, the log is read without
it, which reports the damage.
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import LogCorruption, UnknownEvent
from rbank_es.events.codec import decode_events, type_of, unknown_types
from rbank_es.events.event_envelope import Event
from rbank_es.log import lines
from rbank_es.log.disk import ProcessCache
from rbank_es.log.file.position_index import Heads
from rbank_es.log.file.reader import LineBatch, Reader
from rbank_es.log.file.segments import Segment, SegmentCorruption, all_segments, blocks, last_line, segment_of
from rbank_es.system.files import BankCache, opened

_SEGMENTS_KEPT = 64
"""Segments whose index a reader keeps: about 1 MB each."""

SAVED_BYTES = 1 * limits.MIB
"""Bytes of a segment that may be added to its index before this is written again: a process reads them in 10 ms."""

SPARSE_EVENTS = 1_000
SPARSE_SHARE = 16
"""Windows of fewer events are read whole, and so are those of which one event in 16 is wanted: that is quicker."""

_CRC_BYTES = 4
_WINDOW_BYTES = 64 * limits.KIB
_FORM = f"rbank-runs-1-{sys.byteorder}"
"""The form of an index file. Arrays are stored as this machine has them, because the file never leaves it."""


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """The content of an index file; `inode` is the segment's, `crc` the checksum of the last line that it covers."""

    form: str
    inode: int
    offset: int
    seq: int
    crc: bytes
    offsets: bytes
    runs: dict[str, bytes]
    types: dict[str, bytes]


class Wanted(Struct, frozen=True):
    """The events to read: `after` < seq <= `upto`, of one run, of some types, where given."""

    after: int
    upto: int
    types: frozenset[str] | None = None
    run: str | None = None

    def fits(self, event: Event) -> bool:
        """Return whether an event is one of them, leaving its position aside."""
        if self.run is not None and getattr(event, "run", None) != self.run:
            return False
        return self.types is None or type_of(event) in self.types


class SegmentRuns:
    """The offsets of one segment's events by position, and their numbers in the segment by run and by type.

    Covers the whole groups up to `offset`, which is behind position `seq`. 16 bytes an event in memory.
    """

    def __init__(self, segment: Segment, inode: int, offset: int) -> None:
        self.inode, self.first = inode, segment.first
        self.offset, self.seq = offset, segment.first - 1
        self.saved_offset = offset
        self.offsets = array("Q")
        self.runs: dict[str, array[int]] = {}
        self.types: dict[str, array[int]] = {}

    def extend(self, fd: int, segment: Segment, end: int, seed: int) -> None:
        """Add the events up to offset `end`. Raises `LogCorruption` at a line that can't be trusted."""
        for base, complete in blocks(fd, self.offset, end):
            at = base
            for line in complete:
                if not lines.is_intact(line, seed):
                    raise SegmentCorruption(segment.path, 0, at, "a line is damaged, so its run is not known")
                if not line.startswith(lines.UNNUMBERED):
                    self._add(at, lines.key_of(line), segment)
                at += len(line) + 1
            self.offset = at

    def _add(self, offset: int, key: lines.LineKey, segment: Segment) -> None:
        if key.seq != self.seq + 1:
            raise SegmentCorruption(segment.path, 0, offset, f"position {key.seq:,} is where {self.seq + 1:,} must be")
        number, self.seq = len(self.offsets), key.seq
        self.offsets.append(offset)
        self.types.setdefault(key.type, array("I")).append(number)
        if isinstance(key.run, str):
            self.runs.setdefault(key.run, array("I")).append(number)

    def places(self, wanted: Wanted) -> list[tuple[int, int]]:
        """Return position and offset of each wanted event, in order."""
        numbers = self._numbers(wanted)
        return [(self.first + number, self.offsets[number]) for number in numbers]

    def count(self, wanted: Wanted) -> int:
        """Return the number of wanted events."""
        return len(self._numbers(wanted))

    def _numbers(self, wanted: Wanted) -> Sequence[int]:
        low, high = max(0, wanted.after + 1 - self.first), max(0, wanted.upto + 1 - self.first)
        named = None if wanted.types is None else wanted.types | unknown_types(self.types)
        if wanted.run is not None:
            of_run = _between(self.runs.get(wanted.run), low, high)
            if named is None or not of_run:
                return of_run
            # The run's share of each type only: a type may have a hundred thousand others.
            of_type = (_between(self.types.get(name), of_run[0], of_run[-1] + 1) for name in named)
            return sorted(set(of_run).intersection(*[{number for each in of_type for number in each}]))
        if named is None:
            return range(low, min(high, len(self.offsets)))
        return sorted(number for name in named for number in _between(self.types.get(name), low, high))

    # ---------------------------------------------------------------- as a file

    def encoded(self, crc: bytes) -> bytes:
        """Return the content of an index file, given the checksum of the last line covered."""
        stored = _Stored(
            _FORM,
            self.inode,
            self.offset,
            self.seq,
            crc,
            self.offsets.tobytes(),
            {run: numbers.tobytes() for run, numbers in self.runs.items()},
            {name: numbers.tobytes() for name, numbers in self.types.items()},
        )
        body = msgspec.msgpack.encode(stored)
        return body + crc32(body).to_bytes(_CRC_BYTES, "big")

    @classmethod
    def decoded(cls, data: bytes, segment: Segment, inode: int) -> tuple[SegmentRuns, bytes] | None:
        """Return the content of a file, and the checksum of the last line covered; None unless it is sound and of that
        segment."""
        body = data[:-_CRC_BYTES]
        if crc32(body).to_bytes(_CRC_BYTES, "big") != data[-_CRC_BYTES:]:
            return None
        stored = msgspec.msgpack.decode(body, type=_Stored)
        if (stored.form, stored.inode) != (_FORM, inode):
            return None
        made = cls(segment, inode, stored.offset)
        made.seq = stored.seq
        made.offsets.frombytes(stored.offsets)
        made.runs, made.types = _arrays(stored.runs), _arrays(stored.types)
        return (made, stored.crc) if made._is_whole() else None

    def _is_whole(self) -> bool:
        """Return whether every event up to the last is listed under one type, and no other event anywhere."""
        count = self.seq + 1 - self.first
        lists = (*self.runs.values(), *self.types.values())
        return sum(map(len, self.types.values())) == len(self.offsets) == count and all(
            numbers and numbers[-1] < count for numbers in lists
        )


def _between(numbers: array[int] | None, low: int, high: int) -> Sequence[int]:
    if not numbers:
        return ()
    return numbers[bisect_left(numbers, low) : bisect_left(numbers, high)]


def _arrays(stored: dict[str, bytes]) -> dict[str, array[int]]:
    return {name: array("I", content) for name, content in stored.items()}


class RunIndex(ProcessCache):
    """The indexes of all segments of a log, loaded or built when they are needed. Threads may share it."""

    def __init__(self, reader: Reader, heads: Heads, cache: BankCache) -> None:
        self._reader, self._heads, self._cache = reader, heads, cache
        self._segments: dict[str, SegmentRuns] = {}
        super().__init__()

    def forget(self) -> None:
        """Drop the indexes that were loaded or built."""
        self._segments = {}

    def batches(
        self, after: int, upto: int | None, types: Collection[str] | None, run: str | None
    ) -> Iterator[LineBatch]:
        """Yield the batches of `Reader.batches`, of one run where given, up to the position at the first step."""
        if unknown := unknown_types(types or ()):
            raise UnknownEvent(min(unknown), None, None)
        end = self._heads.look().seq
        wanted = Wanted(
            after, end if upto is None else min(upto, end), None if types is None else frozenset(types), run
        )
        for segment, part in self._parts(wanted):
            batch = self._indexed(segment, part)
            if batch is not None:
                yield from [batch] if batch.events else []
            else:
                yield from self._searched(part)

    def is_sparse(self, wanted: Wanted) -> bool:
        """Return whether the index is there already, and says that few of the events between are wanted."""
        found = 0
        for segment, part in self._parts(wanted):
            with opened(segment.path) as fd, self.lock:
                runs = self._current(fd, segment, part.upto, build=False)
            if runs is None:
                return False
            found += runs.count(part)
        return found * SPARSE_SHARE < wanted.upto - wanted.after

    def _parts(self, wanted: Wanted) -> Iterator[tuple[Segment, Wanted]]:
        """Yield the segments that may hold wanted events, each with the part of the window that it covers."""
        segments = all_segments(self._reader.directory)
        if segments[0].first != 1:
            raise SegmentCorruption(segments[0].path, 1, 0, "the segments before it are missing")
        for index in range(segment_of(segments, wanted.after + 1), len(segments)):
            last = segments[index + 1].first - 1 if index + 1 < len(segments) else wanted.upto
            part = replace(wanted, after=max(wanted.after, segments[index].first - 1), upto=min(wanted.upto, last))
            if part.after < part.upto:
                yield segments[index], part

    def _searched(self, part: Wanted) -> Iterator[LineBatch]:
        for batch in self._reader.batches(part.after, part.upto, part.types):
            pairs = [pair for pair in zip(batch.events, batch.lines, strict=True) if part.fits(pair[0])]
            if pairs:
                yield LineBatch(batch.segment, [event for event, _ in pairs], [line for _, line in pairs])

    def _indexed(self, segment: Segment, part: Wanted) -> LineBatch | None:
        """Return the wanted events of a segment; None if the index can't be made or leads to other lines."""
        with opened(segment.path) as fd:
            for _ in range(2):  # twice, because the segment may have been rewritten under the same inode
                with self.lock:
                    runs = self._current(fd, segment, part.upto)
                    places = runs.places(part) if runs is not None else None
                if places is None:
                    return None
                batch = self._read(fd, segment, places, part)
                if batch is not None:
                    return batch
                self._segments.pop(segment.name, None)
                self._cache.drop(_name_of(segment))
        return None

    def _read(self, fd: int, segment: Segment, places: list[tuple[int, int]], part: Wanted) -> LineBatch | None:
        """Return the events at their places; None unless each line is intact, and the event that it must be."""
        stored = list(_lines_at(fd, [offset for _, offset in places]))
        if not all(lines.is_intact(line, self._reader.seed) for line in stored):
            return None
        try:
            events = decode_events(stored)
        except (msgspec.DecodeError, RecursionError, UnknownEvent):
            return None
        fits = [event.seq for event in events] == [seq for seq, _ in places] and all(map(part.fits, events))
        return LineBatch(segment, events, stored) if fits else None

    # ---------------------------------------------------------------- the indexes

    def _current(self, fd: int, segment: Segment, upto: int, *, build: bool = True) -> SegmentRuns | None:
        """Return a segment's index that covers position `upto`; None if it can't be made. For the holder of the lock.

        Without `build`, an index that is not there yet is not made from the beginning of the segment.
        """
        status = os.fstat(fd)
        runs = self._segments.pop(segment.name, None)
        if runs is None or runs.inode != status.st_ino:
            runs = self._loaded(fd, segment, status.st_ino)
        if runs is None and not build:
            return None
        with suppress(LogCorruption, UnknownEvent, msgspec.DecodeError):
            if runs is None:
                runs = SegmentRuns(segment, status.st_ino, self._reader.beginning(fd, segment)[0])
            if runs.seq < upto:
                tail = self._heads.look()
                active = (tail.segment, tail.inode) == (segment, status.st_ino) and tail.sealed is None
                runs.extend(fd, segment, tail.offset if active else status.st_size, self._reader.seed)
                if not active or runs.offset - runs.saved_offset >= SAVED_BYTES:
                    self._save(fd, segment, runs)
            self._segments[segment.name] = runs
            while len(self._segments) > _SEGMENTS_KEPT:
                self._segments.pop(next(iter(self._segments)))
            return runs if runs.seq >= upto else None
        return None

    def _loaded(self, fd: int, segment: Segment, inode: int) -> SegmentRuns | None:
        with suppress(OSError, ValueError, msgspec.DecodeError):
            data = self._cache.read(_name_of(segment), limits.SEGMENT_BYTES)
            found = SegmentRuns.decoded(data, segment, inode) if data else None
            if found is None or not 0 < found[0].offset <= os.fstat(fd).st_size:
                return None
            # The last line covered, because a power cut may have taken lines back before others were appended.
            if last_line(fd, found[0].offset)[-lines.CRC_TAIL :] == found[1]:
                found[0].saved_offset = found[0].offset
                return found[0]
        return None

    def _save(self, fd: int, segment: Segment, runs: SegmentRuns) -> None:
        self._cache.save(_name_of(segment), runs.encoded(last_line(fd, runs.offset)[-lines.CRC_TAIL :]))
        runs.saved_offset = runs.offset


def _name_of(segment: Segment) -> str:
    return f"{segment.first:020d}.runs"


def _lines_at(fd: int, offsets: Iterable[int]) -> Iterator[bytes]:
    """Yield the lines, without newline, that begin at offsets in ascending order."""
    base, block = 0, b""
    for offset in offsets:
        end = block.find(b"\n", offset - base) if base <= offset < base + len(block) else -1
        for size in (_WINDOW_BYTES, limits.LINE_BYTES + 1):  # events of a run are often side by side
            if end >= 0:
                break
            base, block = offset, os.pread(fd, size, offset)
            end = block.find(b"\n")
        yield block[offset - base : end] if end >= 0 else b""
