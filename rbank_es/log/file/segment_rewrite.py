"""Rewritten segments: those of a log, without erased texts; and the search for what is left of these.

Erasing may be interrupted at any instant. A durable marker is written first; the next writer finds the marker and
repeats all steps, and every step may be done twice.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rbank_es import limits
from rbank_es.errors import LogCorruption
from rbank_es.events.event_envelope import Ref
from rbank_es.log import disk, lines
from rbank_es.log.disk import System
from rbank_es.log.erasure import Targets
from rbank_es.log.erasure_residue import ResidueSearch, clear_derived
from rbank_es.log.escaped_words import SoughtWords
from rbank_es.log.file.bank_directory import ErasureJob, remove_remains
from rbank_es.log.file.reader import Reader
from rbank_es.log.file.segments import Segment, Texts, all_segments, blocks, read_opened, read_sealed, segment_of
from rbank_es.log.protocol import Residue
from rbank_es.system.files import opened, sweep_scratch


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


def rewrite(directory: Path, job: ErasureJob, seed: int, calls: System) -> None:
    """Rewrite every closed segment that holds texts to erase. Raises `LogCorruption` rather than change a head."""
    segments, targets = all_segments(directory), Targets.of(job.events())
    # A text line is in the segment of every handle to it, so the units name all segments that are concerned.
    for index in sorted({segment_of(segments, seq) for seq in targets.paths}):
        _rewrite_segment(segments[index], targets, seed, calls)


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

    Receipts stay, because they hold no text and vouch for other copies of the bank too. The caller holds the locks of
    bank and caches.
    """
    sweep_scratch(directory)
    remove_remains(directory, calls)
    for folder in caches:
        clear_derived(folder, but=[disk.RECEIPTS])
        with suppress(FileNotFoundError):  # the whole folder is gone
            calls.sync_directory(folder)


def residue_of(source: SegmentLines, directory: Path, caches: Iterable[Path], sought: SoughtWords) -> Residue:
    """Return the places where words remain: lines of a log, its directory, and the folders derived from it."""
    search = ResidueSearch(sought)
    for part in source.parts():
        search.look_through_lines(part.name, (block for _, block in source.blocks(part)))
    search.look_through_files(directory, but=[part.name for part in source.parts()])
    for folder in sorted(caches):
        search.look_through_files(folder)
    return search.residue()
