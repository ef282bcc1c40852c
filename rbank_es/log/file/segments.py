"""Segment files: their names, their lines block by block, and the search for a position or a long text in them."""

from __future__ import annotations

import mmap
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

import msgspec
from msgspec import Struct

from rbank_es import limits
from rbank_es.errors import BankNotFound, LogCorruption, UnknownEvent
from rbank_es.events.codec import resolved
from rbank_es.events.event_envelope import Event, Ref
from rbank_es.log import lines
from rbank_es.log.disk import ProcessCache
from rbank_es.log.protocol import Ancestor
from rbank_es.system.files import kind_of, opened

_NAME = re.compile(r"[0-9]{20}\.jsonl")

FORMAT = 1
"""The format of segments that this release writes and reads."""


class _Format(msgspec.Struct, frozen=True, tag_field="type", tag="segment_opened"):
    format: int
    bank: str


_FORMAT: msgspec.json.Decoder[_Format] = msgspec.json.Decoder(_Format)
_OPENED: msgspec.json.Decoder[lines.Opened] = msgspec.json.Decoder(lines.Opened)
_TORN: msgspec.json.Decoder[lines.Torn] = msgspec.json.Decoder(lines.Torn)
_SEALED: msgspec.json.Decoder[lines.Sealed] = msgspec.json.Decoder(lines.Sealed)


class SegmentCorruption(LogCorruption):
    """Bytes of a segment are damaged. `line` counts from 1; line 0 means that only the segment is known."""

    def __init__(self, path: Path, line: int, byte_offset: int, reason: str, advice: str = "") -> None:
        self.segment, self.line, self.byte_offset = path.name, line, byte_offset
        restore = "Restore that file from a backup; rbank-es log BANK@POSITION reads the log before it."
        # With the directory, because a command may read two banks.
        place = f"{path.parent}: segment {path.name}, line {line:,}, byte {byte_offset:,}"
        super().__init__(place, reason, f"{restore} {advice}".rstrip())


class Segment(Struct, frozen=True):
    """One file of the log: its path and the position of its first event."""

    path: Path
    first: int

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return self.path.name


def segment_path(directory: Path, first: int) -> Path:
    """Return the path of the segment that begins at position `first`."""
    return directory / f"{first:020d}.jsonl"


_NAMES_KEPT = 1_024
"""Segments whose paths are kept, because a loop lists them a hundred times for each task."""


def is_segment(name: str) -> bool:
    """Return whether a name is one of a segment."""
    return _NAME.fullmatch(name) is not None


def list_segments(directory: Path) -> list[Segment]:
    """Return the segments of a bank, in order; empty where there is no bank."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if is_segment(entry.name))
        return [_segment(directory, name) for name in names]
    return []


@lru_cache(_NAMES_KEPT)
def _segment(directory: Path, name: str) -> Segment:
    return Segment(directory / name, int(name[:20]))


def all_segments(directory: Path) -> list[Segment]:
    """Return the segments of a bank, in order. Raises `BankNotFound` where there is none."""
    segments = list_segments(directory)
    if segments:
        return segments
    if kind_of(directory) == "a file":
        advice = "A bank is a directory, and that is a file; one that `--into` wrote is for SQLite tools"
        raise BankNotFound(str(directory), advice)
    raise BankNotFound(str(directory))


def segment_of(segments: list[Segment], seq: int) -> int:
    """Return the index of the segment that holds position `seq`, or that would if the position existed."""
    return max(0, bisect_right(segments, seq, key=lambda segment: segment.first) - 1)


def blocks(
    fd: int, offset: int, size: int | None = None, block_bytes: int = limits.READ_BLOCK_BYTES
) -> Iterator[tuple[int, list[bytes]]]:
    """Yield complete lines (without newline) from `offset` on, in blocks, each with the offset of its first line.

    Stops at the last newline before `size`: an incomplete line is not returned, nor one longer than any line can be.
    """
    kept = b""
    while (size is None or offset + len(kept) < size) and len(kept) <= limits.TEXT_LINE_BYTES:
        room = max(block_bytes, len(kept))
        block = os.pread(fd, room if size is None else min(room, size - offset - len(kept)), offset + len(kept))
        if not block:
            return
        data = kept + block if kept else block
        complete = data.split(b"\n")
        kept = complete.pop()  # the beginning of a line that the next block completes
        if complete:
            yield offset, complete
            offset += len(data) - len(kept)


def read_opened(segment: Segment, fd: int) -> tuple[lines.Opened, int]:
    """Return the first line of a segment and the offset behind it. Raises `LogCorruption`, `UnknownEvent`."""
    line = os.pread(fd, 4096, 0).partition(b"\n")[0]
    try:
        said = _FORMAT.decode(line)
        # A flipped bit must not pass for a log from the future: every format keeps the bank's id and the checksum.
        if said.format > FORMAT and lines.is_intact(line, lines.seed_of(said.bank)):
            raise UnknownEvent("segment_opened", said.format, FORMAT)
        opened = _OPENED.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SegmentCorruption(segment.path, 1, 0, f"not the first line of a segment ({error})") from None
    if not lines.is_intact(line, lines.seed_of(opened.bank)):
        raise SegmentCorruption(segment.path, 1, 0, "checksum of the first line is wrong")
    if opened.first != segment.first or opened.format != FORMAT:
        reason = f"the first line says format {opened.format} from {opened.first}, the file's name says {segment.first}"
        raise SegmentCorruption(segment.path, 1, 0, reason)
    return opened, len(line) + 1


def identity_of(directory: Path) -> tuple[str, str]:
    """Return the id of a bank's lineage, and its own: that of the writer of its last segment with a sound first line.

    Raises `BankNotFound`; `LogCorruption` where the first line of the log is damaged.
    """
    segments = all_segments(directory)
    with opened(segments[0].path) as fd:
        first, _ = read_opened(segments[0], fd)
    for segment in reversed(segments):
        # A damaged or foreign one is reported to who reads so far; what is before it can be read.
        with suppress(LogCorruption, UnknownEvent, OSError), opened(segment.path) as fd:
            last, _ = read_opened(segment, fd)
            if last.bank == first.bank:
                return first.bank, last.writer
    return first.bank, first.writer


def ancestors_of(directory: Path) -> tuple[Ancestor, ...]:
    """Return the banks that a bank was forked from, the first of the lineage first. Raises `LogCorruption`."""
    found, writer = list[Ancestor](), ""
    for segment in all_segments(directory):
        with opened(segment.path) as fd:
            first, _ = read_opened(segment, fd)
        writer = writer or first.bank
        if first.writer != writer:
            found.append(Ancestor(writer, first.first - 1))
            writer = first.writer
    return tuple(found)


def read_sealed(line: bytes, seed: int) -> lines.Sealed | None:
    """Return the decoded line if it is an intact seal."""
    if not line.startswith(lines.SEALED) or not lines.is_intact(line, seed):
        return None
    with suppress(msgspec.DecodeError):
        return _SEALED.decode(line)
    return None


def read_torn(line: bytes, seed: int) -> lines.Torn | None:
    """Return the decoded line if it is an intact record of a cut."""
    if not line.startswith(lines.TORN) or not lines.is_intact(line, seed):
        return None
    with suppress(msgspec.DecodeError):
        return _TORN.decode(line)
    return None


def last_line(fd: int, size: int) -> bytes:
    """Return the last complete line before `size`, without newline; empty if there is none."""
    length = 4096
    while True:
        start = max(0, size - length)
        data = os.pread(fd, size - start, start)
        end = data.rfind(b"\n")
        begin = data.rfind(b"\n", 0, max(end, 0))
        if end >= 0 and (begin >= 0 or start == 0):
            return data[begin + 1 : end]
        if start == 0 or length > limits.TEXT_LINE_BYTES:
            return b""
        length *= 16  # a line may be up to 16 MiB


def find_line(fd: int, start: tuple[int, int], high: int, seq: int, seed: int) -> tuple[int, int]:
    """Return an offset from which a reader meets position `seq`, and the position before that offset.

    A bisection over bytes between `start` and `high`. A line that it lands on is used only if it is intact; otherwise
    the search ends early, which costs only time.
    """
    while high - start[0] > limits.READ_BLOCK_BYTES // 16:
        middle = (start[0] + high) // 2
        found = _numbered_from(fd, middle, high, seed)
        if found is None or found[1] > seq:
            high = middle
        else:
            start = found[0], found[1] - 1
    return start


def _numbered_from(fd: int, offset: int, high: int, seed: int) -> tuple[int, int] | None:
    skipped = False
    # Little at a time: a bisection looks at one line in each of some twenty places.
    for base, complete in blocks(fd, offset, high, block_bytes=limits.READ_BLOCK_BYTES // 32):
        at = base
        for line in complete:
            if skipped and line.startswith(b'{"type":"') and not line.startswith(lines.UNNUMBERED):
                return (at, lines.seq_of(line)) if lines.is_intact(line, seed) else None
            skipped = True  # the offset is anywhere, so the first line is cut
            at += len(line) + 1
    return None


# ---------------------------------------------------------------- long texts

_SEGMENTS_KEPT = 4
"""Segments whose text offsets are remembered: readers of old runs go back and forth between few."""


class _Offsets(Struct, frozen=True):
    scanned: int
    by_key: dict[str, int]


class _Mapped(Struct, frozen=True):
    """A segment's file in memory, as it was when it was opened."""

    segment: Segment
    fd: int
    inode: int
    data: mmap.mmap


@contextmanager
def _mapped(segment: Segment) -> Iterator[_Mapped]:
    with opened(segment.path) as fd, mmap.mmap(fd, 0, prot=mmap.PROT_READ) as data:
        yield _Mapped(segment, fd, os.fstat(fd).st_ino, data)


class Texts(ProcessCache):
    """Long texts by key. It remembers their offsets in the segments searched last."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._directory = directory
        self._seed = seed
        self._indexes: dict[tuple[str, int], _Offsets] = {}
        super().__init__()

    def forget(self) -> None:
        """Drop all offsets."""
        self._indexes = {}

    def line(self, key: str, segment: Segment) -> bytes | None:
        """Return the line of a text in a segment, erased or not, without newline; None if it is not there."""
        with _mapped(segment) as mapped:
            return self._line(key, mapped)

    def _line(self, key: str, mapped: _Mapped) -> bytes | None:
        for _ in range(2):  # twice, because the file may have been rewritten under the same inode
            offset = self._index(mapped).by_key.get(key)
            line = b"" if offset is None else mapped.data[offset : mapped.data.find(b"\n", offset)]
            if line.startswith(lines.ANY_TEXT) and lines.key_of_text(line) == key:
                return line
            with self.lock:
                self._indexes.pop((mapped.segment.name, mapped.inode), None)
        return None

    def _index(self, mapped: _Mapped) -> _Offsets:
        with self.lock:
            return self._indexed(mapped)

    def _indexed(self, mapped: _Mapped) -> _Offsets:
        name = mapped.segment.name, mapped.inode
        known = self._indexes.pop(name, _Offsets(0, {}))
        if known.scanned < len(mapped.data):
            known = _Offsets(_scan(mapped.data, known.scanned, known.by_key), known.by_key)
        self._indexes[name] = known
        while len(self._indexes) > _SEGMENTS_KEPT:
            self._indexes.pop(next(iter(self._indexes)))
        return known

    def holds(self, ref: Ref) -> bool:
        """Return whether a handle names a text of this bank, erased or not."""
        return any(self.line(ref.key, segment) is not None for segment in all_segments(self._directory))

    def read(self, ref: Ref, segment: Segment | None = None) -> str | None:
        """Return the text that a handle names; None if it was erased.

        Raises `LogCorruption` if it is missing or damaged.
        """
        for place in [segment] if segment else all_segments(self._directory)[::-1]:
            if (line := self.line(ref.key, place)) is not None:
                return self._words(line, ref, place)
        raise _missing(ref, segment.path if segment else self._directory / "(any)")

    def _words(self, line: bytes, ref: Ref, segment: Segment) -> str | None:
        try:
            return lines.read_text(line, self._seed)
        except ValueError as error:
            raise SegmentCorruption(segment.path, 0, 0, f"the text {ref.key[:12]}…: {error}") from None

    def resolved(self, event: Event, segment: Segment | None = None) -> Event:
        """Return the event with texts in place of its handles; an erased text becomes an erased mark."""
        return resolved(event, lambda ref: self.read(ref, segment))

    @contextmanager
    def resolving(self, segment: Segment) -> Iterator[Callable[[Event], Event]]:
        """Provide `resolved` for events of a segment, whose file is opened once for all of them, where it is needed."""
        with ExitStack() as stack:
            kept: list[_Mapped] = []

            def read(ref: Ref) -> str | None:
                if not kept:
                    kept.append(stack.enter_context(_mapped(segment)))
                line = self._line(ref.key, kept[0])
                if line is None:
                    raise _missing(ref, segment.path)
                return self._words(line, ref, segment)

            yield lambda event: resolved(event, read)


def _missing(ref: Ref, place: Path) -> SegmentCorruption:
    return SegmentCorruption(place, 0, 0, f"the text {ref.key[:12]}… that an event names is missing")


def _scan(whole: mmap.mmap, start: int, offsets: dict[str, int]) -> int:
    """Add the offset of every text line from `start` on; return the end of the last whole line."""
    end = whole.rfind(b"\n") + 1
    at = whole.find(b"\n" + lines.ANY_TEXT, max(0, start - 1), end)
    while at >= 0:
        begin = at + 1
        head = whole[begin : begin + len(lines.TEXT_ERASED) + 64]
        offsets[lines.key_of_text(head)] = begin
        at = whole.find(b"\n" + lines.ANY_TEXT, begin, end)
    return end


def stored_texts(segment: Segment, seed: int, after: int, upto: int) -> dict[bytes, str]:
    """Return the texts that a segment holds between two offsets: SHA-256 of the raw JSON to key."""
    found: dict[bytes, str] = {}
    with opened(segment.path) as fd:
        for base, complete in blocks(fd, after):
            begins = accumulate((len(line) + 1 for line in complete), initial=base)
            for begin, line in zip(begins, complete, strict=False):
                if begin >= upto:
                    return found
                if line.startswith(lines.TEXT) and lines.is_intact(line, seed):
                    found[sha256(lines.raw_text(line)).digest()] = lines.key_of_text(line)
    return found
