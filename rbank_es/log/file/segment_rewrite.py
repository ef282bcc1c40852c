"""Rewritten segments: the copy of a log up to a position, and segments without erased texts.

Erasing may be interrupted at any instant. A durable marker is written first; the next writer finds the marker and
repeats all steps, and every step may be done twice.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from rbank_es import limits
from rbank_es.errors import LimitExceeded, LogCorruption
from rbank_es.events import ContentErased
from rbank_es.events.event import Event, Ref
from rbank_es.log import lines
from rbank_es.log.erasure import Targets
from rbank_es.log.file import sync_records
from rbank_es.log.file.index import Texts
from rbank_es.log.file.reader import Reader
from rbank_es.log.file.remains import remove_remains
from rbank_es.log.file.segments import (
    Segment,
    SegmentCorruption,
    all_segments,
    blocks,
    read_opened,
    read_sealed,
    segment_of,
)
from rbank_es.log.system_calls import System
from rbank_es.system.files import NotRegular, create_new, opened, read_regular, sweep_scratch

MARKER = "ERASING"

# ---------------------------------------------------------------- erasing


class Job(msgspec.Struct, frozen=True):
    """The durable marker of an erasure under way: the events that record it. It holds commitments, no text."""

    records: tuple[msgspec.Raw, ...]

    @classmethod
    def of(cls, events: Iterable[Event]) -> Job:
        """Return the job that these events record."""
        return cls(tuple(msgspec.Raw(msgspec.json.encode(event)) for event in events))

    @classmethod
    def read(cls, path: Path) -> Job | None:
        """Return the job that a marker holds; None if the marker was removed, or is damaged and so not believed."""
        with suppress(FileNotFoundError, NotRegular, LimitExceeded, msgspec.MsgspecError, ValueError, RecursionError):
            job = msgspec.json.decode(read_regular(path, limits.MARKER_BYTES), type=cls)
            if job.events():
                return job
        return None

    def events(self) -> list[ContentErased]:
        """Return the events that record the erasure."""
        return [msgspec.json.decode(record, type=ContentErased) for record in self.records]


class SegmentLines:
    """The lines of all segments, up to the end of the last whole group, as erasure searches them."""

    def __init__(self, directory: Path, reader: Reader, texts: Texts) -> None:
        self.seed = reader.seed
        self._segments, self._reader, self._texts = all_segments(directory), reader, texts

    def parts(self) -> list[Segment]:
        """Return the segments."""
        return self._segments

    def line_at(self, seq: int) -> tuple[Segment, bytes] | None:
        """Return the line at a position and its segment; None where there is none."""
        found = self._reader.line_at(seq)
        return (found[0], found[2]) if found is not None else None

    def lines_with(self, part: Segment, needle: bytes) -> Iterator[bytes]:
        """Yield the lines of a segment that hold some bytes."""
        with self._mapped(part) as (whole, end):
            at = whole.find(needle, 0, end)
            while at >= 0:
                begin, newline = whole.rfind(b"\n", 0, at) + 1, whole.find(b"\n", at, end)
                if newline < 0:
                    return
                yield whole[begin:newline]
                at = whole.find(needle, newline, end)

    def blocks(self, part: Segment) -> Iterator[tuple[str, bytes]]:
        """Yield all lines of a segment, many at a time, each block with its place in words."""
        with self._mapped(part) as (whole, end):
            begin = 0
            while begin < end:
                stop = whole.rfind(b"\n", begin, min(begin + limits.SEARCH_BLOCK_BYTES, end))
                if stop < 0:  # a long line
                    stop = whole.find(b"\n", begin, end)
                if stop < 0:
                    return
                yield f"segment {part.name}, bytes {begin:,} to {stop:,}", whole[begin:stop]
                begin = stop + 1

    @contextmanager
    def _mapped(self, part: Segment) -> Iterator[tuple[mmap.mmap, int]]:
        """Map a segment, and return where its whole groups end."""
        with opened(part.path) as fd, mmap.mmap(fd, 0, prot=mmap.PROT_READ) as whole:
            yield whole, self._reader.tail(part).offset if part == self._segments[-1] else len(whole)

    def text(self, ref: Ref, part: Segment) -> str | None:
        """Return the text that a handle in a segment names; None if it was erased."""
        return self._texts.read(ref, part)


def rewrite(directory: Path, job: Job, bank_id: str, calls: System) -> None:
    """Rewrite every closed segment that holds texts to erase. Raises `LogCorruption` rather than change a head."""
    segments, targets = all_segments(directory), Targets.of(job.events())
    # A text line is in the segment of every handle to it, so the units name all segments that are concerned.
    for index in sorted({segment_of(segments, seq) for seq in targets.paths}):
        _rewrite_segment(segments[index], targets, lines.seed_of(bank_id), calls)


def _rewrite_segment(segment: Segment, targets: Targets, seed: int, calls: System) -> None:
    with calls.replacing(segment.path) as target, opened(segment.path) as fd:
        first, offset = read_opened(segment, fd)
        calls.write(target, os.pread(fd, offset, 0))
        digest = bytes.fromhex(first.head)
        for base, complete in blocks(fd, offset):
            rewritten = []
            for line in complete:
                digest, new = _rewrite_line(line, digest, targets, seed, f"segment {segment.name}, byte {base:,}")
                rewritten.append(new)
            calls.write(target, b"".join(rewritten))


def _rewrite_line(line: bytes, digest: bytes, targets: Targets, seed: int, where: str) -> tuple[bytes, bytes]:
    if line.startswith(lines.TORN):
        return digest, line + b"\n"
    if line.startswith(lines.SEGMENT):
        seal = read_sealed(line, seed)
        # The last check before the file is replaced: a wrong rewrite would break every head noted before.
        if seal is None or seal.head != digest.hex():
            raise LogCorruption(where, "erasing would change the head; the segment was left as it is")
        return digest, line + b"\n"
    new = targets.erased_line(line, seed)
    return (digest if line.startswith(lines.ANY_TEXT) else lines.chain(digest, new[:-1])), new


def clear(directory: Path, caches: Iterable[Path], calls: System) -> None:
    """Remove all that was derived, scratch files of dead processes and torn bytes: they may hold erased texts.

    Lock files stay: a lock on a removed file would exclude nobody. So do receipts, which hold no text and vouch for
    other copies of the bank too. The caller holds the locks of bank and caches.
    """
    sweep_scratch(directory)
    remove_remains(directory, calls)
    for folder in caches:
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.suffix != ".lock" and path.name != sync_records.NAME:
                path.unlink(missing_ok=True)
        calls.sync_directory(folder)


def stored_texts(segment: Segment, seed: int, after: int) -> dict[bytes, str]:
    """Return the texts that a segment holds behind an offset: SHA-256 of the raw JSON to key."""
    with opened(segment.path) as fd:
        return {
            sha256(lines.raw_text(line)).digest(): lines.key_of_text(line)
            for _, complete in blocks(fd, after)
            for line in complete
            if line.startswith(lines.TEXT) and lines.is_intact(line, seed)
        }


# ---------------------------------------------------------------- copying


def copy_segments(directory: Path, into: Path, upto: int, seed: int) -> None:
    """Copy the segments of `directory` as they were at position `upto` to `into`, an empty directory.

    The copied lines are not checked; readers of the copy do that. If the position is inside a group, the copy's last
    group ends there: `more` is not part of the chain of digests, so heads hold.
    Raises `LogCorruption` if the log doesn't reach the position, OSError.
    """
    segments = all_segments(directory)
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if segment.first > max(upto, 1):
            return
        place = into / segment.name
        if following is not None and following.first <= upto + 1:
            _copy_whole(segment.path, place)
        else:
            _copy_beginning(segment, place, upto, seed)


def _copy_whole(path: Path, place: Path) -> None:
    # A second name is a copy, because a closed segment is replaced as a whole and never changed in place.
    with opened(path) as fd:  # which refuses what is no file
        with suppress(OSError):
            os.link(path, place, follow_symlinks=False)
            return
        with os.fdopen(fd, "rb", closefd=False) as source, os.fdopen(create_new(place), "wb") as target:
            shutil.copyfileobj(source, target)


def _copy_beginning(segment: Segment, place: Path, upto: int, seed: int) -> None:
    with opened(segment.path) as fd:
        end, more = _end_of(fd, segment, upto)
        data = os.pread(fd, end, 0)
    with os.fdopen(create_new(place), "wb") as target:
        target.write(_shortened(data, more, seed) if more else data)


def _end_of(fd: int, segment: Segment, upto: int) -> tuple[int, int]:
    """Return the offset behind the event at a position, and how many events of its group come after it."""
    if upto < segment.first:
        return read_opened(segment, fd)[1], 0
    for base, complete in blocks(fd, 0):
        try:
            if (found := _found(base, complete, upto)) is not None:
                return found
        except ValueError:
            raise SegmentCorruption(segment.name, 0, base, "a line behind this byte is damaged") from None
    raise SegmentCorruption(segment.name, 0, 0, f"position {upto:,} is not in it")


def _found(base: int, complete: list[bytes], upto: int) -> tuple[int, int] | None:
    numbered = [index for index, line in enumerate(complete) if not line.startswith(lines.UNNUMBERED)]
    if not numbered or lines.seq_of(complete[numbered[-1]]) < upto:
        return None
    index = next(index for index in numbered if lines.seq_of(complete[index]) >= upto)
    end = base + sum(map(len, complete[: index + 1])) + index + 1
    return end, lines.counters_of(complete[index])[0]


def _shortened(data: bytes, more: int, seed: int) -> bytes:
    *kept, _ = data.split(b"\n")
    return b"\n".join([*lines.shorten_group(kept, more, seed), b""])
