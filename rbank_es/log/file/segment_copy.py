"""Copies of segments: those of a log up to a position, for a copy of it, or for a fork that goes on by itself.

A closed segment is replaced as a whole and never changed in place. So a second name (a hard link) serves as its copy,
where the file system allows one and the file belongs to this user: whoever owns a file may write to it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.events import ContentErased
from rbank_es.events.event_envelope import Event
from rbank_es.log import groups, lines
from rbank_es.log.disk import System
from rbank_es.log.file.bank_directory import ERASING, ErasureJob
from rbank_es.log.file.position_index import Heads
from rbank_es.log.file.reader import Reader
from rbank_es.log.file.segments import (
    Segment,
    SegmentCorruption,
    all_segments,
    blocks,
    last_line,
    list_segments,
    read_opened,
    read_sealed,
    segment_of,
    segment_path,
)
from rbank_es.log.groups import Clock, Entropy
from rbank_es.system.files import create_new, opened

_ERASED_TEXT = b"\n" + lines.TEXT_ERASED

# ---------------------------------------------------------------- copies


def stored_lines(reader: Reader) -> Iterator[bytes]:
    """Yield the lines of events and texts of all segments. Raises `LogCorruption` for a damaged one, OSError."""
    for segment in all_segments(reader.directory):
        with opened(segment.path) as fd:
            _, offset = read_opened(segment, fd)
            for base, complete in blocks(fd, offset):
                for line in complete:
                    if not lines.is_intact(line, reader.seed):
                        raise SegmentCorruption(segment.path, 0, base, "a line behind this byte is damaged")
                    if not line.startswith(lines.SEGMENT):
                        yield line


def copy_segments(directory: Path, into: Path, upto: int, seed: int, calls: System) -> None:
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
            _share(segment.path, place, calls)
        else:
            _copy_beginning(segment, place, upto, seed, calls)


def _share(path: Path, place: Path, calls: System) -> None:
    """Give a closed segment a second name, else copy it."""
    with opened(path) as fd:  # which refuses what is no file
        if _linked(fd, path, place, calls):
            return
        target = create_new(place)
        try:
            offset = 0
            while data := os.pread(fd, limits.SEARCH_BLOCK_BYTES, offset):
                calls.write(target, data)
                offset += len(data)
        finally:
            os.close(target)


def _linked(fd: int, path: Path, place: Path, calls: System) -> bool:
    status = os.fstat(fd)
    if status.st_uid != os.geteuid():
        return False
    try:
        calls.link(path, place)
    except OSError:  # another disk, a file system without links, or one link too many
        return False
    if os.path.samestat(status, os.lstat(place)):
        return True
    place.unlink()  # somebody put another file there since it was opened
    return False


def _copy_beginning(segment: Segment, place: Path, upto: int, seed: int, calls: System) -> None:
    with opened(segment.path) as fd:
        end, more = _end_of(fd, segment, upto)
        data = os.pread(fd, end, 0)
    target = create_new(place)
    try:
        calls.write(target, _shortened(data, more, seed) if more else data)
    finally:
        os.close(target)


def _end_of(fd: int, segment: Segment, upto: int) -> tuple[int, int]:
    """Return the offset behind the event at a position, and how many events of its group come after it."""
    if upto < segment.first:
        return read_opened(segment, fd)[1], 0
    for base, complete in blocks(fd, 0):
        try:
            if (found := _found(base, complete, upto)) is not None:
                return found
        except ValueError:
            raise SegmentCorruption(segment.path, 0, base, "a line behind this byte is damaged") from None
    raise SegmentCorruption(segment.path, 0, 0, f"position {upto:,} is not in it")


def _found(base: int, complete: list[bytes], upto: int) -> tuple[int, int] | None:
    numbered = [index for index, line in enumerate(complete) if not line.startswith(lines.UNNUMBERED)]
    if not numbered or lines.seq_of(complete[numbered[-1]]) < upto:
        return None
    index = next(index for index in numbered if lines.seq_of(complete[index]) >= upto)
    end = base + sum(map(len, complete[: index + 1])) + index + 1
    return end, lines.counters_of(complete[index])[0]


def _shortened(data: bytes, more: int, seed: int) -> bytes:
    *kept, _ = data.split(b"\n")
    return b"\n".join([*_without_unnamed(lines.shorten_group(kept, more, seed)), b""])


def _without_unnamed(kept: list[bytes]) -> list[bytes]:
    """Return lines without those texts of the last group that only events named that were cut off."""
    start = len(kept)
    while start and not kept[start - 1].startswith(lines.UNNUMBERED):
        start -= 1
    texts = start
    while texts and kept[texts - 1].startswith(lines.ANY_TEXT):
        texts -= 1
    group = b"\n".join(kept[start:])
    return [*kept[:texts], *(line for line in kept[texts:start] if _names(group, line)), *kept[start:]]


def _names(group: bytes, text: bytes) -> bool:
    return b'"key":"%b"' % lines.key_of_text(text).encode() in group


# ---------------------------------------------------------------- forks


class ForkBasis(NamedTuple):
    """The beginning of a fork: position and head digest, the last erasure up to there, the time of the last event.

    `erased_texts` are the keys of the erased texts in its segments, if any text was erased behind the position.
    """

    upto: int
    digest: str
    erased: int
    at: str
    erased_texts: frozenset[str]


def take_over(directory: Path, into: Path, upto: int, reader: Reader, heads: Heads, calls: System) -> ForkBasis:
    """Share or copy the segments of a bank up to a position into an empty directory, durably; all are closed then.

    `heads` are those of the bank, which may know a digest near the position. The caller keeps writers out.
    Raises `BadInput` while an erasure is incomplete, `LogCorruption` where first and last lines of segments don't fit
    or a copied line is damaged, OSError.
    """
    if ErasureJob.read(directory / ERASING) is not None:
        raise BadInput(f"an erasure in {directory} is incomplete; complete it first, by any append or erase there")
    segments = all_segments(directory)
    for segment, following in pairwise(segments):
        if following.first <= upto + 1:
            _check_ends(segment, following, reader)
    holding = segments[segment_of(segments, upto)]
    with opened(holding.path) as fd:
        first, _ = read_opened(holding, fd)
    with opened(segments[-1].path) as fd:
        erased_later = read_opened(segments[-1], fd)[0].erased > upto
    found = reader.line_at(upto) if upto else None
    if found is None:
        return ForkBasis(0, lines.GENESIS.hex(), 0, "", frozenset())
    erased = upto if isinstance(found[1], ContentErased) else first.erased
    copy_segments(directory, into, upto, reader.seed, calls)
    digest = _close(list_segments(into)[-1], upto, reader.seed, heads, calls)
    for segment in list_segments(into):
        with opened(segment.path) as fd:
            if os.fstat(fd).st_nlink == 1:
                calls.sync_data(fd)
    texts = frozenset(_erased_texts(list_segments(into))) if erased_later else frozenset[str]()
    return ForkBasis(upto, digest, erased, found[1].at, texts)


def _check_ends(segment: Segment, following: Segment, reader: Reader) -> None:
    """Raise `LogCorruption` unless a closed segment and the next one begin and end as the log has it."""
    with opened(segment.path) as fd, opened(following.path) as next_fd:
        reader.beginning(fd, segment)
        reader.beginning(next_fd, following)
        seal = read_sealed(last_line(fd, os.fstat(fd).st_size), reader.seed)
        after, _ = read_opened(following, next_fd)
    if seal is None or (seal.last + 1, seal.head) != (following.first, after.head):
        raise SegmentCorruption(segment.path, 0, 0, "its last line is damaged, or the next segment doesn't continue it")


def _close(segment: Segment, upto: int, seed: int, heads: Heads, calls: System) -> str:
    """Close the last segment of a fork's basis, unless it is shared and so closed; return the head digest there."""
    with opened(segment.path) as fd:
        size = os.fstat(fd).st_size
        if (seal := read_sealed(last_line(fd, size), seed)) is not None:
            return seal.head
        for base, complete in blocks(fd, 0):
            if not all(lines.is_intact(line, seed) for line in complete):
                raise SegmentCorruption(segment.path, 0, base, "a line behind this byte is damaged")
    digest = heads.head(upto).digest
    target = os.open(segment.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        calls.write(target, lines.sealed_line(upto, digest, seed))
    finally:
        os.close(target)
    return digest


def _erased_texts(segments: Sequence[Segment]) -> Iterator[str]:
    for segment in segments:
        with opened(segment.path) as fd, mmap.mmap(fd, 0, prot=mmap.PROT_READ) as whole:
            at = whole.find(_ERASED_TEXT)
            while at >= 0:
                yield lines.key_of_text(whole[at + 1 : whole.find(b"\n", at + 1)])
                at = whole.find(_ERASED_TEXT, at + 1)


def begin_fork(
    into: Path,
    basis: ForkBasis,
    events: Sequence[Event],
    bank_id: str,
    lineage: str,
    *,
    clock: Clock,
    entropy: Entropy,
    calls: System,
) -> None:
    """Write the first segment of a fork behind its basis: its first events, and its id. Raises OSError."""
    seed, first = lines.seed_of(lineage), basis.upto + 1
    prepared = groups.prepare_new(events, clock, entropy, lambda _: False, lambda _: None)
    at = groups.time_after(clock(), basis.at)
    now = groups.Circumstances(first, at, basis.upto, seed, {}, partial(groups.new_salt, entropy))
    group = groups.compose(prepared, now).data
    opening = lines.opened_line(lineage, bank_id, first, basis.digest, basis.erased)
    if len(events) == 1:
        calls.write_whole(segment_path(into, first), opening + group)
        return
    # The others record erasures, and such an event is always the last of its segment.
    digest, last = bytes.fromhex(basis.digest), basis.upto + len(events)
    for line in group.split(b"\n")[:-1]:
        digest = digest if line.startswith(lines.UNNUMBERED) else lines.chain(digest, line)
    calls.write_whole(segment_path(into, first), opening + group + lines.sealed_line(last, digest.hex(), seed))
    following = lines.opened_line(lineage, bank_id, last + 1, digest.hex(), last)
    calls.write_whole(segment_path(into, last + 1), following)
