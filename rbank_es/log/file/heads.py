"""Where the log ends: the tail of the last segment, its head digest, and the hint that saves looking for them."""

from __future__ import annotations

import os
from pathlib import Path

from rbank_es.log.file import hints, lines, system_calls, verification
from rbank_es.log.file.reader import Reader, Tail, opened
from rbank_es.log.file.segments import Segment, all_segments, last_line, read_opened, segment_of
from rbank_es.log.protocol import Head

CRC_CHARS = 8


class Heads:
    """What is known of the log's end. All of it is checked against the files before it is believed.

    `durable` is the highest position known to be on disk, `last_at` the time of the last event seen.
    """

    def __init__(self, directory: Path, bank_id: str, reader: Reader) -> None:
        self.directory = directory
        self.folder = directory / hints.FOLDER
        self._reader = reader
        self._seed = lines.seed_of(bank_id)
        self.tail: Tail | None = None
        self._seen: Tail | None = None
        self.durable = 0
        self.last_at = ""
        self._noted: tuple[str, int, verification.Digest] | None = None

    def look(self) -> Tail:
        """Where the whole groups end now; takes no lock and changes nothing, the writer's knowledge included."""
        segment = all_segments(self.directory)[-1]
        status = segment.path.stat()
        known = [
            tail for tail in (self._seen, self.tail) if tail and (tail.segment, tail.inode) == (segment, status.st_ino)
        ]
        start = max(known, key=lambda tail: tail.seq, default=None)
        if start is not None and start.offset == status.st_size:
            return start
        mark = (start.offset, start.seq) if start is not None else self.hinted(segment, status)
        self._seen = self._reader.tail(segment, mark)
        return self._seen

    def under_lock(self, segment: Segment) -> tuple[Tail, bool]:
        """Where the whole groups end, for a writer that holds the lock; and whether it is the segment known before."""
        known, status = self.tail, segment.path.stat()
        same = known is not None and (known.segment, known.inode) == (segment, status.st_ino)
        start = (known.offset, known.seq) if known is not None and same else self.hinted(segment, status)
        return self._reader.tail(segment, start), same

    def hinted(self, segment: Segment, status: os.stat_result) -> tuple[int, int] | None:
        """The mark that the last writer left for this segment, if it fits the file as it is."""
        hint = hints.read_hint(self.folder, system_calls.boot_id())
        if hint is None or (hint.segment, hint.inode) != (segment.name, status.st_ino):
            return None
        if hint.offset > status.st_size or self._crc_before(segment, hint.offset) != hint.crc:
            return None
        if hint.digest:
            self.note_digest((hint.offset, hint.seq, bytes.fromhex(hint.digest)), segment, status.st_ino)
        self.last_at = max(self.last_at, hint.at)
        self.durable = max(self.durable, hint.durable)
        return hint.offset, hint.seq

    def _crc_before(self, segment: Segment, offset: int) -> str:
        """Checksum of the line that ends at an offset; it tells whether the file is still the one that was meant."""
        with opened(segment.path) as fd:
            return last_line(fd, offset)[-CRC_CHARS - 2 : -2].decode(errors="replace")

    def note_digest(self, digest: verification.Digest, segment: Segment, inode: int) -> None:
        """Remember a head digest of the last segment, from which later ones are chained on."""
        self._noted = segment.name, inode, digest  # at once: threads share it

    def _noted_of(self, segment: Segment, inode: int) -> verification.Digest | None:
        noted = self._noted
        return noted[2] if noted is not None and noted[:2] == (segment.name, inode) else None

    def head(self, position: int) -> Head:
        """The head at a position. Raises `LogCorruption` if the log doesn't reach it soundly."""
        segments = all_segments(self.directory)
        segment = segments[segment_of(segments, position)] if position else segments[0]
        with opened(segment.path) as fd:
            first, offset = read_opened(segment, fd)
            start = (offset, segment.first - 1, bytes.fromhex(first.head))
            inode = os.fstat(fd).st_ino
            known = self._noted_of(segment, inode)
            if known is not None and known[1] <= position and self._reader.fits(fd, segment, known[:2]):
                start = known
            found = verification.digest_upto(fd, start, position, self._seed, segment)
        if segment == segments[-1]:
            self.note_digest(found, segment, inode)
        return Head(position, found[2].hex())

    def leave_hint(self) -> None:
        """Spare the next writer of this boot a check of the whole active segment."""
        tail = self.tail
        if tail is None or not tail.segment.path.exists():
            return
        known = self._noted_of(tail.segment, tail.inode)
        digest = known[2].hex() if known is not None and known[:2] == (tail.offset, tail.seq) else ""
        hints.write_hint(
            self.folder,
            hints.Hint(
                segment=tail.segment.name,
                inode=tail.inode,
                offset=tail.offset,
                seq=tail.seq,
                at=self.last_at,
                durable=self.durable,
                digest=digest,
                crc=self._crc_before(tail.segment, tail.offset),
                boot=system_calls.boot_id(),
            ),
        )
