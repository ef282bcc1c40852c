"""A copy of a log up to a position: the same bytes, and so the same ids, times, texts and head digests."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from rbank_es.errors import LogCorruption
from rbank_es.log.file import lines
from rbank_es.log.file.reader import opened
from rbank_es.log.file.segments import Segment, all_segments, blocks, read_opened

_UNNUMBERED = (lines.ANY_TEXT, lines.SEGMENT)


def copy_segments(directory: Path, into: Path, upto: int, seed: int) -> None:
    """Copy the segments of `directory` to `into`, which exists and is empty, as they were at position `upto`.

    What is copied is not checked; whoever reads the copy does that. Where the position is amid a group, the copy's
    last group is what of it was appended up to there: `more` is not part of the chain of digests, so heads hold.
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
    """A closed segment is only ever replaced, never changed in place: a second name for the same file is a copy."""
    with suppress(OSError):
        os.link(path, place)
        return
    shutil.copyfile(path, place)


def _copy_beginning(segment: Segment, place: Path, upto: int, seed: int) -> None:
    with opened(segment.path) as fd:
        end, more = _end_of(fd, segment, upto)
        data = os.pread(fd, end, 0)
    place.write_bytes(_ended(data, more, seed) if more else data)


def _end_of(fd: int, segment: Segment, upto: int) -> tuple[int, int]:
    """The offset behind the event at a position, and how many events of its group come after it."""
    if upto < segment.first:
        return read_opened(segment, fd)[1], 0
    for base, complete in blocks(fd, 0):
        try:
            if (found := _found(base, complete, upto)) is not None:
                return found
        except ValueError:
            raise LogCorruption(segment.name, 0, base, "a line behind this byte is damaged") from None
    raise LogCorruption(segment.name, 0, 0, f"position {upto:,} is not in it")


def _found(base: int, complete: list[bytes], upto: int) -> tuple[int, int] | None:
    numbered = [index for index, line in enumerate(complete) if not line.startswith(_UNNUMBERED)]
    if not numbered or lines.seq_of(complete[numbered[-1]]) < upto:
        return None
    index = next(index for index in numbered if lines.seq_of(complete[index]) >= upto)
    end = base + sum(map(len, complete[: index + 1])) + index + 1
    return end, lines.counters_of(complete[index])[0]


def _ended(data: bytes, more: int, seed: int) -> bytes:
    """The lines, of which the last group ends here: each of its events counts those that still come anew."""
    *kept, _ = data.split(b"\n")
    for index in range(len(kept) - 1, -1, -1):
        line = kept[index]
        if line.startswith(_UNNUMBERED) or lines.counters_of(line)[0] < more:
            break
        left, durable = lines.counters_of(line)
        body = line[: line.rindex(lines.MORE)] + b'%b%d,"dur":%d' % (lines.MORE, left - more, durable)
        kept[index] = lines.close_line(body, seed)[:-1]
    return b"\n".join([*kept, b""])
