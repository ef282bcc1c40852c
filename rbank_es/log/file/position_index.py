"""The index of a log's files: its end, the head at a position, the position of an event id.

Each entry is in memory or in the user's cache. It names the file that it was made for, and is checked against that file
before it is used. All entries may be deleted at any time.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import uuid
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from rbank_es.events.derived_ids import decisions_id, forgetting_id
from rbank_es.log import lines
from rbank_es.log.disk import ProcessCache, Receipt, boot_digest
from rbank_es.log.file.reader import Reader, Tail
from rbank_es.log.file.segments import (
    Segment,
    SegmentCorruption,
    all_segments,
    blocks,
    last_line,
    read_opened,
    segment_of,
)
from rbank_es.log.lines import Head
from rbank_es.system.files import BankCache, opened

# Ids that are searched for in the active segment's bytes before a dictionary of all of them is made.
_SEARCHED_IDS = 32
# Ids made here whose making is remembered: a run makes two when it begins, and appends one of them at its end.
_MADE_IDS = 1024

_CRC_CHARS = 8
_NO_DIGEST = bytes(32)
_HEADER = struct.Struct("<8sQQQI")
_MAGIC = b"rbankid1"
# The 16 bytes of an id, then the 8 of a position.
_RECORD = 24

Digest = tuple[int, int, bytes]
"""An offset in a segment, the position of the event before it, and the head digest there."""

# ---------------------------------------------------------------- the end of the log


class Heads:
    """The known end of the log, and head digests.

    `durable` is the highest position known to be on disk, `last_at` the time of the last event seen.
    """

    def __init__(self, directory: Path, reader: Reader) -> None:
        self.directory = directory
        self._reader = reader
        self._receipts = reader.receipts
        self._seed = reader.seed
        self.tail: Tail | None = None
        self._seen: Tail | None = None
        self.durable = 0
        self.last_at = ""
        self._noted: tuple[str, int, Digest] | None = None
        self._boot_digest: bytes | None = None

    def look(self) -> Tail:
        """Return where the whole groups end now. Takes no lock, and changes no cached state of the writer."""
        segment = all_segments(self.directory)[-1]
        status = segment.path.lstat()
        known = [
            tail for tail in (self._seen, self.tail) if tail and (tail.segment, tail.inode) == (segment, status.st_ino)
        ]
        start = max(known, key=lambda tail: tail.seq, default=None)
        if start is not None and start.offset == status.st_size:
            return start
        # Read before the log: what is acknowledged meanwhile may be missing from what is read.
        vouched = self._receipts.position()
        mark = (start.offset, start.seq) if start is not None else self.receipted(segment, status)
        seen = self._reader.tail(segment, mark)
        self._seen = seen if seen.seq >= vouched else self._reader.tail_with(vouched, seen)
        return self._seen

    def under_lock(self, segment: Segment) -> tuple[Tail, bool]:
        """Return where the whole groups end, for the holder of the lock, and whether the segment was known before.

        Raises `LogCorruption` if anything vouches for events behind that end.
        """
        known, status = self.tail, segment.path.lstat()
        same = known is not None and (known.segment, known.inode) == (segment, status.st_ino)
        start = (known.offset, known.seq) if known is not None and same else self.receipted(segment, status)
        tail = self._reader.tail(segment, start)
        # All of them only where bytes are about to be cut off, or a segment to follow: they take milliseconds.
        ended = tail.sealed is not None or tail.offset < status.st_size
        vouched = self._receipts.vouched(certain=ended)
        if tail.seq < max(vouched, self.durable):
            raise self._reader.dropped(tail, max(vouched, self.durable))
        return tail, same

    def receipted(self, segment: Segment, status: os.stat_result) -> tuple[int, int] | None:
        """Return the mark of the newest receipt of this boot that fits the segment: what is before was checked."""
        boot = boot_digest()
        for receipt in self._receipts.all():
            self.durable = max(self.durable, receipt.seq)
            # Of this boot only: what the machine held in memory, it may have lost since.
            if not any(boot) or receipt.boot != boot:
                continue
            if (receipt.first, receipt.inode) != (segment.first, status.st_ino) or receipt.offset > status.st_size:
                continue
            if self._crc_before(segment, receipt.offset) != receipt.crc:
                continue
            if any(receipt.digest):
                self.note_digest((receipt.offset, receipt.seq, receipt.digest), segment, status.st_ino)
            self.last_at = max(self.last_at, receipt.at)
            return receipt.offset, receipt.seq
        return None

    def leave_receipt(self, tail: Tail, crc: str = "") -> None:
        """Record that the log was synced up to the end of `tail`. `crc`: the checksum of the line there, if known."""
        segment, inode, offset, seq, at, _, _ = tail
        self.durable = max(self.durable, seq)
        known = self._noted_of(segment, inode)
        digest = known[2] if known is not None and known[:2] == (offset, seq) else _NO_DIGEST
        try:  # without receipts, in a read-only place or on a full disk, only the log itself vouches
            checked = crc.encode() or self._crc_before(segment, offset)
            self._receipts.write(
                Receipt(seq, segment.first, inode, offset, checked, at or self.last_at, digest, self._boot())
            )
        except OSError:
            return

    def _boot(self) -> bytes:
        # Once a process: reading it costs as much as an eighth of an append.
        if self._boot_digest is None:
            self._boot_digest = boot_digest()
        return self._boot_digest

    def _crc_before(self, segment: Segment, offset: int) -> bytes:
        # The checksum of the line that ends there shows whether the file is still the same one.
        with opened(segment.path) as fd:
            return last_line(fd, offset)[-_CRC_CHARS - 2 : -2]

    def note_digest(self, digest: Digest, segment: Segment, inode: int) -> None:
        """Remember a head digest of the last segment, from which later ones are chained."""
        self._noted = segment.name, inode, digest  # one assignment, because threads share it

    def _noted_of(self, segment: Segment, inode: int) -> Digest | None:
        noted = self._noted
        return noted[2] if noted is not None and noted[:2] == (segment.name, inode) else None

    def head(self, position: int) -> Head:
        """Return the head at a position. Raises `LogCorruption` if a line up to there is damaged or missing."""
        segments = all_segments(self.directory)
        segment = segments[segment_of(segments, position)] if position else segments[0]
        with opened(segment.path) as fd:
            first, offset = read_opened(segment, fd)
            start = (offset, segment.first - 1, bytes.fromhex(first.head))
            inode = os.fstat(fd).st_ino
            known = self._noted_of(segment, inode)
            if known is not None and known[1] <= position and self._reader.fits(fd, segment, known[:2]):
                start = known
            found = digest_upto(fd, start, position, self._seed, segment)
        if segment == segments[-1]:
            self.note_digest(found, segment, inode)
        return Head(position, found[2].hex())


def digest_upto(fd: int, start: Digest, position: int, seed: int, segment: Segment) -> Digest:
    """Return the head digest at a position of this segment, chained from `start`. Raises `LogCorruption`."""
    offset, seq, digest = start
    if seq >= position:
        return start
    for base, complete in blocks(fd, offset):
        offset = base
        for line in complete:
            offset += len(line) + 1
            if line.startswith(lines.UNNUMBERED):
                continue
            if not lines.is_intact(line, seed):
                raise SegmentCorruption(segment.path, 0, offset, "checksum is wrong: bytes were changed or lost")
            digest, seq = lines.chain(digest, line), lines.seq_of(line)
            if seq >= position:
                return offset, seq, digest
    raise SegmentCorruption(segment.path, 0, offset, f"position {position:,} is missing")


# ---------------------------------------------------------------- ids of events


class Ids(ProcessCache):
    """Positions by event id: closed segments by their index file, the active one by search, then by dictionary."""

    def __init__(self, directory: Path, reader: Reader, cache: BankCache) -> None:
        self._directory = directory
        self._reader = reader
        self._cache = cache
        self._active: dict[str, int] = {}
        self._end = (0, 0, 0)  # of what the dictionary has: the segment's first position, its inode, the offset
        self._searched = 0
        self._made: dict[str, Tail] = {}
        self._indexes: dict[str, IdIndex] = {}
        super().__init__()

    def forget(self) -> None:
        """Drop all cached ids. For the holder of `lock`, because a search adds to ids that it takes to be all there."""
        self._active, self._end = {}, (0, 0, 0)
        self._indexes = {}

    def noted(self, event_id: str, tail: Tail | None) -> str:
        """Return an id that was just made at random, and remember that no event before that end of the log has it."""
        with suppress(KeyError):  # another thread may remove the same
            if len(self._made) >= _MADE_IDS:
                del self._made[next(iter(self._made))]
        if tail is not None:
            self._made[event_id] = tail
        return event_id

    def find(self, event_ids: Sequence[str], tail: Tail) -> dict[str, int]:
        """Return the positions, up to a tail of the log, of those of the ids that are known. Takes no lock of the log.

        What an interrupted append left behind the tail may still be in the file, and is known to nobody.
        """
        # Most banks have one segment, and listing their directory would take a fifth of the time of an append.
        segments = all_segments(self._directory) if tail.segment.first > 1 else []
        closed = [segment for segment in segments if segment.first < tail.segment.first]
        since = {event_id: self._made_at(event_id, tail) for event_id in event_ids}
        for event_id, offset in [*since.items()] if len(since) > 1 else ():
            # What is derived from an id that was made here is as new as that.
            if offset:
                since |= dict.fromkeys(since.keys() & {decisions_id(event_id), forgetting_id(event_id)}, offset)
        self._searched += sum(not offset for offset in since.values())
        # In a segment of 64 MiB a search takes 28 ms and the dictionary 1.2 s: it pays from about 40 ids on.
        active = self._dictionary(tail) if self._searched > _SEARCHED_IDS else None
        found = {}
        for event_id, offset in since.items():
            seq = find_id(event_id, tail.segment, self._reader.seed, offset) if active is None else active.get(event_id)
            seq = seq if seq is not None or offset else self._in_closed(event_id, closed)
            if seq and seq <= tail.seq:  # 0 is that of lines without an id
                found[event_id] = seq
        return found

    def _made_at(self, event_id: str, tail: Tail) -> int:
        """Return the offset in the active segment where the log ended when an id was made; 0 where that is unknown."""
        made = self._made.get(event_id)
        same = made is not None and (made.segment.first, made.inode) == (tail.segment.first, tail.inode)
        return made.offset if made is not None and same else 0

    def _dictionary(self, tail: Tail) -> dict[str, int] | None:
        """Return the positions of the ids in the active segment, up to a tail at least.

        None if the segment was replaced meanwhile, or a line is damaged: a search passes by such a line.
        """
        with self.lock, suppress(ValueError):
            first, inode, offset = self._end
            if (first, inode) != (tail.segment.first, tail.inode):
                self._active, offset = {}, 0
            if offset < tail.offset:
                # Only what was written since the last call: whole groups of an active segment never change.
                with opened(tail.segment.path) as fd:
                    if os.fstat(fd).st_ino != tail.inode:
                        return None
                    for _, complete in blocks(fd, offset, tail.offset):
                        self._active.update(map(id_and_seq, complete))
                self._end = (tail.segment.first, tail.inode, tail.offset)
            return self._active
        return None

    def indexed(self) -> int:
        """Return the highest position in any sound index, of a segment that is there or not; 0 without indexes."""
        folder, found = self._cache.found(), 0
        with suppress(OSError):
            for path in folder.glob("*.ids") if folder else ():
                if (index := _read_index(path, None, self._reader.seed)) is not None:
                    found = max(found, index.last())
        return found

    def _in_closed(self, event_id: str, closed: list[Segment]) -> int | None:
        try:
            key = bytes.fromhex(event_id.replace("-", ""))
        except ValueError:
            return None
        for segment in reversed(closed):  # the newest first, because retries are of recent events
            index = self._indexes.get(segment.name)
            if index is None:
                index = self._indexes[segment.name] = id_index(self._cache, segment, self._reader.seed)
            seq = index.find(key)
            if seq is not None:
                return seq
        return None


def find_id(event_id: str, segment: Segment, seed: int, start: int = 0) -> int | None:
    """Search a segment's bytes, from one on where a line begins, for the event with this id; return its position."""
    needle = b',"id":"%b","v":' % event_id.encode()
    with opened(segment.path) as fd, mmap.mmap(fd, 0, prot=mmap.PROT_READ) as whole:
        at = whole.find(needle, start)
        while at >= 0:
            begin = whole.rfind(b"\n", 0, at) + 1
            line = whole[begin : whole.find(b"\n", at)]
            # The same characters may be in the facts of another event; the own id of a line comes first.
            if line.find(b',"id":"') == at - begin and lines.is_intact(line, seed):
                return lines.seq_of(line)
            at = whole.find(needle, at + 1)
        return None


class IdIndex:
    """The positions of the events of one closed segment by id: sorted records, searched in place."""

    def __init__(self, data: bytes | mmap.mmap, count: int) -> None:
        self._data, self._count = data, count
        # Not by `cached_property`: Python 3.11 holds a lock over it, which a child forked meanwhile would wait for.
        self._beginnings: array[int] | None = None

    def _record(self, index: int) -> bytes:
        start = _HEADER.size + index * _RECORD
        return self._data[start : start + _RECORD]

    def _numbers(self) -> array[int]:
        """Return the first 8 bytes of every id as numbers, which are searched in a tenth of the time of the records."""
        if not self._count:
            return array("Q")
        with memoryview(self._data) as data, data[_HEADER.size :].cast("Q") as words:
            found = array("Q", words[:: _RECORD // 8].tobytes())
        if sys.byteorder == "little":
            found.byteswap()
        return found

    def last(self) -> int:
        """Return the highest position in the index."""
        starts = range(_HEADER.size + 16, _HEADER.size + self._count * _RECORD, _RECORD)
        return max((int.from_bytes(self._data[start : start + 8], "big") for start in starts), default=0)

    def find(self, key: bytes) -> int | None:
        """Return the position of the event whose id has these 16 bytes, if it is in the segment."""
        beginning = int.from_bytes(key[:8], "big")
        beginnings = self._beginnings
        if beginnings is None:
            beginnings = self._beginnings = self._numbers()
        index = bisect_left(beginnings, beginning)
        while index < self._count and beginnings[index] == beginning:
            record = self._record(index)
            if record[:16] == key:
                return int.from_bytes(record[16:], "big")
            index += 1
        return None


def id_index(cache: BankCache, segment: Segment, seed: int) -> IdIndex:
    """Return the id index of a closed segment: a sound file if there is one, else a new one, saved if possible.

    Raises `LogCorruption` if it must be built and a line is damaged.
    """
    name = f"{segment.first:020d}.ids"
    status = segment.path.lstat()
    if (folder := cache.found()) and (found := _read_index(folder / name, status, seed)) is not None:
        return found
    records = b"".join(sorted(_records(segment, seed)))
    header = _HEADER.pack(_MAGIC, status.st_ino, status.st_size, len(records) // _RECORD, crc32(records, seed))
    cache.save(name, header + records)
    return IdIndex(header + records, len(records) // _RECORD)


def _read_index(path: Path, status: os.stat_result | None, seed: int) -> IdIndex | None:
    """Return the id index in a file if it is sound, of this bank, and, with `status`, of the segment that has it."""
    with suppress(OSError, ValueError, struct.error), opened(path) as fd:
        data = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        magic, inode, size, count, checksum = _HEADER.unpack_from(data)
        sound = len(data) == _HEADER.size + count * _RECORD and crc32(data[_HEADER.size :], seed) == checksum
        of_segment = status is None or (inode, size) == (status.st_ino, status.st_size)
        if sound and of_segment and magic == _MAGIC:
            return IdIndex(data, count)
    return None


def _records(segment: Segment, seed: int) -> Iterator[bytes]:
    with opened(segment.path) as fd:
        for base, complete in blocks(fd, 0):
            if not all(lines.is_intact(line, seed) for line in complete[1 if base == 0 else 0 :]):
                raise SegmentCorruption(
                    segment.path, 0, base, "a line behind this byte is damaged, so its id is not known"
                )
            for event_id, seq in map(id_and_seq, complete):
                if event_id:
                    yield uuid.UUID(event_id).bytes + seq.to_bytes(8, "big")


def id_and_seq(line: bytes) -> tuple[str, int]:
    """Return id and position of a numbered line; an empty id for any other line."""
    return ("", 0) if line.startswith(lines.UNNUMBERED) else (lines.id_of(line), lines.seq_of(line))
