"""The check of a log's files: of all lines, segment by segment, and of what else is in the directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rbank_es.log import lines
from rbank_es.log.file.bank_directory import ERASING, ErasureJob, foreign_files, kept_remains
from rbank_es.log.file.reader import Reader, Tail
from rbank_es.log.file.segments import (
    Segment,
    SegmentCorruption,
    all_segments,
    blocks,
    read_opened,
    read_sealed,
    read_torn,
)
from rbank_es.log.lines import Head
from rbank_es.log.protocol import Cut, TornTail, Verification
from rbank_es.log.verification import LogCheck
from rbank_es.system.files import opened


class SegmentCheck(LogCheck):
    """A check that is fed whole segments, in order; `cuts` collects the records of cuts."""

    in_place = True
    _where: tuple[Path, int, int]
    """Path of the segment, number and offset of the line that is being checked."""

    def __init__(self, lineage: str, noted: Sequence[Head]) -> None:
        self._lineage = lineage
        self._writers = [lineage]
        self.cuts: list[Cut] = []
        super().__init__(lines.seed_of(lineage), noted, lambda reason: SegmentCorruption(*self._where, reason))

    def segment(self, segment: Segment, size: int | None, following: str = "") -> None:
        """Check one segment; `size` is where the whole groups of the active one end, None for a closed one.

        `following` names the next one: where a closed one has no end, that may be a stranger's file.
        """
        with opened(segment.path) as fd:
            self._where = (segment.path, 1, 0)
            first, offset = read_opened(segment, fd)
            begun = (first.bank, first.first, first.head, first.erased)
            if begun != (self._lineage, self.seq + 1, self.digest.hex(), self.erased_at):
                raise self.damage("the first line doesn't continue the segment before")
            self.begin_part()
            if first.fork == first.bank:
                raise self.damage(f"bank {first.bank} is called its own fork")
            if first.writer != self._writers[-1]:
                if first.writer in self._writers:
                    raise self.damage(f"bank {first.writer} wrote it, and the segments before are of its fork")
                self._writers.append(first.writer)
                self.begin_fork(first.writer)
            sealed, number, end = False, 1, os.fstat(fd).st_size if size is None else size
            for base, complete in blocks(fd, offset, end):
                at = base
                for line in complete:
                    number += 1
                    self._where = (segment.path, number, at)
                    at += len(line) + 1
                    if sealed:
                        raise self.damage("there is a line behind the one that closes the segment")
                    if line.startswith(lines.TORN):
                        self._torn(line)
                    elif sealed := line.startswith(lines.SEGMENT):
                        self._seal(line)
                    else:
                        self.line(line)
                offset = at
            if self.more or (size is None and (not sealed or offset != end)):
                advice = f"Or remove {following}, if that is not of this bank." if following else ""
                raise SegmentCorruption(*self._where, "the segment ends in the middle", advice)

    def _torn(self, line: bytes) -> None:
        torn = read_torn(line, self._seed)
        if torn is None or torn.after != self.seq or self.more:
            raise self.damage("the record of a cut is damaged, or not where the cut was")
        self.cuts.append(Cut(torn.after, torn.at, torn.size, torn.kept))

    def _seal(self, line: bytes) -> None:
        seal = read_sealed(line, self._seed)
        if seal is None or (seal.last, seal.head) != (self.seq, self.digest.hex()):
            raise self.damage("the line that closes the segment doesn't fit the lines before it")


def verified(reader: Reader, noted: Sequence[Head]) -> Verification:
    """Check all files of a log. Raises `LogCorruption`, `CheckFailed`, as `EventLog.verify` does."""
    vouched = reader.receipts.vouched(certain=True)
    check = SegmentCheck(reader.lineage, noted)
    segments = all_segments(reader.directory)
    last = segments[-1]
    for segment in segments:
        with opened(segment.path):
            pass  # before any line is judged: what is no file is the cause, not the damage that it looks like
    for segment, following in pairwise(segments):
        check.segment(segment, None, following.name)
    tail = reader.tail(last)
    if tail.seq < vouched:
        raise reader.dropped(tail, vouched)
    check.segment(last, tail.offset if tail.sealed is None else None)
    erasing = ErasureJob.read(reader.directory / ERASING) is not None
    check.finish(erasing=erasing)
    return Verification(
        head=Head(check.seq, check.digest.hex()),
        parts={"segments": len(segments)},
        events=check.seq,
        texts=check.texts,
        erased=check.erased,
        noted=tuple(noted),
        torn=_torn(reader, last, tail),
        erasing=erasing,
        foreign=foreign_files(reader.directory),
        cuts=tuple(check.cuts),
        kept=kept_remains(reader.directory),
    )


def remains_of(reader: Reader) -> dict[str, int]:
    """Return the remains of interrupted appends, by place: files of cut-off bytes, and bytes still to be cut."""
    last = all_segments(reader.directory)[-1]
    torn = _torn(reader, last, reader.tail(last))
    return kept_remains(reader.directory) | ({torn.where: torn.size_bytes} if torn else {})


def _torn(reader: Reader, last: Segment, tail: Tail) -> TornTail | None:
    """Return the bytes behind the whole groups, unless they are an append under way."""
    if tail.sealed or last.path.lstat().st_size == tail.offset:
        return None
    with reader.quiet():
        size, tail = last.path.lstat().st_size, reader.tail(last, (tail.offset, tail.seq))
    if size <= tail.offset or tail.sealed:
        return None
    return TornTail(f"segment {last.name}, byte {tail.offset:,}", size - tail.offset)
