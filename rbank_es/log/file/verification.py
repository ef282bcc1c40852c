"""Checking a whole log, and computing the head digest at a position."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rbank_es.errors import CheckFailed, LogCorruption
from rbank_es.events import ContentErased
from rbank_es.events.codec import decode_event
from rbank_es.events.event import Ref
from rbank_es.log.file import erasure, lines
from rbank_es.log.file.reader import Reader, Tail, opened
from rbank_es.log.file.segments import Segment, all_segments, blocks, read_opened, read_sealed
from rbank_es.log.protocol import Head, TornTail, Verification

Digest = tuple[int, int, bytes]
"""An offset in a segment, the position of the event before it, and the head digest there."""

_TEXT: msgspec.json.Decoder[lines.TextLine] = msgspec.json.Decoder(lines.TextLine)
_REF: msgspec.json.Decoder[Ref] = msgspec.json.Decoder(Ref)


def numbered_lines(fd: int, offset: int, size: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Numbered lines from `offset` on, with the offset behind each."""
    for base, complete in blocks(fd, offset, size):
        at = base
        for line in complete:
            at += len(line) + 1
            if not line.startswith((lines.ANY_TEXT, lines.SEGMENT)):
                yield at, line


def digest_upto(fd: int, start: Digest, position: int, seed: int, segment: Segment) -> Digest:
    """The head digest at a position of this segment, chained on from `start`. Raises `LogCorruption`."""
    offset, seq, digest = start
    if seq >= position:
        return start
    for end, line in numbered_lines(fd, offset):
        if not lines.is_intact(line, seed):
            raise LogCorruption(segment.name, 0, offset, "checksum is wrong: bytes were changed or lost")
        digest = lines.chain(digest, line)
        offset, seq = end, lines.seq_of(line)
        if seq >= position:
            return offset, seq, digest
    raise LogCorruption(segment.name, 0, offset, f"position {position:,} is missing")


def verify(directory: Path, bank_id: str, reader: Reader, noted: Sequence[Head] = ()) -> Verification:
    """Check every byte of a log. Raises `LogCorruption` for damage, `CheckFailed` if a noted head doesn't hold.

    Takes no lock where all is well. What looks wrong may be an erasure that was under way: then once more, while no
    writer moves.
    """
    try:
        return _verify(directory, bank_id, reader, noted)
    except LogCorruption:
        with reader.quiet():
            return _verify(directory, bank_id, reader, noted)


def _verify(directory: Path, bank_id: str, reader: Reader, noted: Sequence[Head]) -> Verification:
    segments = all_segments(directory)
    check = _Check(bank_id, noted)
    for segment in segments[:-1]:
        check.segment(segment, None)
    last = segments[-1]
    tail = reader.tail(last)
    check.segment(last, tail.offset if tail.sealed is None else None)
    under_way = (directory / erasure.MARKER).exists()
    check.finish(under_way=under_way)
    return Verification(
        head=Head(check.seq, check.digest.hex()),
        segments=len(segments),
        events=check.seq,
        texts=check.texts,
        erased=len(check.marks) + len(check.erased_texts),
        noted=tuple(noted),
        torn=_torn(reader, last, tail) if tail.sealed is None else None,
        erasing=under_way,
    )


def _torn(reader: Reader, last: Segment, tail: Tail) -> TornTail | None:
    """What stands behind the whole groups, if it isn't an append under way."""
    if last.path.stat().st_size == tail.offset:
        return None
    with reader.quiet():
        size, tail = last.path.stat().st_size, reader.tail(last, (tail.offset, tail.seq))
    return TornTail(last.name, tail.offset, size - tail.offset) if size > tail.offset and not tail.sealed else None


class _Check:
    """One pass over all lines, in order."""

    def __init__(self, bank_id: str, noted: Sequence[Head]) -> None:
        self.bank_id, self.seed = bank_id, lines.seed_of(bank_id)
        self.noted: dict[int, set[str]] = {}
        for head in noted:
            self.noted.setdefault(head.seq, set()).add(head.digest)
        self.seq, self.digest, self.more, self.texts, self.erased_at = 0, lines.GENESIS, 0, 0, 0
        self.at = ""
        self.marks: set[tuple[int, str, str]] = set()
        self.erased_texts: set[str] = set()
        self.listed: set[tuple[int, str, str]] = set()
        self.listed_texts: set[str] = set()
        self.keys: set[str] = set()
        self.where: tuple[str, int, int] = ("", 0, 0)
        self._compare(0)

    def bad(self, reason: str) -> LogCorruption:
        """The error for the line that is being looked at."""
        name, number, offset = self.where
        return LogCorruption(name, number, offset, reason)

    def segment(self, segment: Segment, size: int | None) -> None:
        """Check one segment; `size` is where the whole groups of the active one end, None for a closed one."""
        with opened(segment.path) as fd:
            self.where = (segment.name, 1, 0)
            first, offset = read_opened(segment, fd)
            said = (first.bank, first.first, first.head, first.erased)
            if said != (self.bank_id, self.seq + 1, self.digest.hex(), self.erased_at):
                raise self.bad("the first line doesn't continue the segment before")
            self.keys, sealed, number = set(), False, 1
            end = os.fstat(fd).st_size if size is None else size
            for base, complete in blocks(fd, offset, end):
                at = base
                for line in complete:
                    number += 1
                    self.where = (segment.name, number, at)
                    at += len(line) + 1
                    if sealed:
                        raise self.bad("there is a line behind the one that closes the segment")
                    sealed = self.line(line)
                offset = at
            if self.more or (size is None and (not sealed or offset != end)):
                raise self.bad("the segment ends in the middle")

    def line(self, line: bytes) -> bool:
        """Check one line; whether it closes the segment."""
        if not lines.is_intact(line, self.seed):
            raise self.bad("checksum is wrong: bytes were changed or lost")
        if line.startswith(lines.ANY_TEXT):
            self._text(line)
        elif line.startswith(lines.SEGMENT):
            return self._seal(line)
        else:
            self._event(line)
        return False

    def _text(self, line: bytes) -> None:
        key = lines.key_of_text(line)
        self.keys.add(key)
        if line.startswith(lines.TEXT_ERASED):
            self.erased_texts.add(key)
            return
        self.texts += 1
        text = _TEXT.decode(line)
        if lines.text_key(text.salt, bytes(text.text)) != key:
            raise self.bad(f"the text {key[:12]}… is not what its key says")

    def _seal(self, line: bytes) -> bool:
        seal = read_sealed(line, self.seed)
        if seal is None or seal.last != self.seq or seal.head != self.digest.hex():
            raise self.bad("the line that closes the segment doesn't fit what stands before it")
        return True

    def _event(self, line: bytes) -> None:
        try:
            event = decode_event(line)
        except msgspec.DecodeError as error:
            raise self.bad(f"not an event of this log: {error}") from None
        if event.seq != self.seq + 1:
            raise self.bad(f"position {event.seq:,} follows {self.seq:,}")
        if self.more and event.more != self.more - 1:
            raise self.bad("a group of events is not whole")
        if event.at < self.at:
            raise self.bad(f"its time {event.at} is before {self.at}, that of the event before")
        self.at = event.at
        self.seq, self.more = event.seq, event.more
        self.digest = lines.chain(self.digest, line)
        if lines.ERASED in line or lines.REF in line:
            self._units(line)
        if isinstance(event, ContentErased):
            self.listed |= {(unit.seq, unit.path, unit.digest) for unit in event.units}
            self.listed_texts |= set(event.texts)
            self.erased_at = event.seq
        self._compare(self.seq)

    def _units(self, line: bytes) -> None:
        _, salt, units = lines.split(line)
        for unit in units:
            if unit.raw.startswith(lines.ERASED):
                self.marks.add((self.seq, unit.path, lines.commitment(salt, unit)))
            elif unit.raw.startswith(lines.REF) and _REF.decode(unit.raw).key not in self.keys:
                raise self.bad(f"the text that {unit.path} names is missing")

    def _compare(self, seq: int) -> None:
        for digest in self.noted.pop(seq, ()):
            if digest != self.digest.hex():
                raise CheckFailed(
                    f"the head noted at {seq:,} was {digest}, it is {self.digest.hex()}: "
                    "something up to that position was changed"
                )

    def finish(self, *, under_way: bool) -> None:
        """What can be said only at the end: noted heads beyond it, and erasures that don't fit what events say.

        `under_way`: an erasure was interrupted, so what it lists may still be there until the next writer completes it.
        """
        for seq in sorted(self.noted):
            raise CheckFailed(f"a head was noted at {seq:,}, the log ends at {self.seq:,}: events were cut off")
        unlisted = self.marks - self.listed
        if unlisted or self.erased_texts - self.listed_texts:
            seq = min((mark[0] for mark in unlisted), default=0)
            raise LogCorruption("(any)", 0, 0, f"a text at position {seq:,} is erased, but no event says so")
        back = self.listed - self.marks
        if (back or self.listed_texts - self.erased_texts) and not under_way:
            seq = min((mark[0] for mark in back), default=0)
            reason = f"a text at position {seq:,} that was erased is back: an old copy of a file was put in its place"
            raise LogCorruption("(any)", 0, 0, reason)
