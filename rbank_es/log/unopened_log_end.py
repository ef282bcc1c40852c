"""The end of a log in a directory, read without opening the log: for a process that has no time to."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from rbank_es.limits import hook_limits
from rbank_es.log.file.segments import identity_of, list_segments, read_opened
from rbank_es.system.files import opened


class LogTail(Struct, frozen=True):
    """What lies behind a position: whole lines, and whether there is more than was read. `erased` are the erasures."""

    lines: tuple[bytes, ...]
    whole: bool
    erased: int


class AnotherLog(Exception):
    """The line at the position is not the one that was marked."""


def bank_id_in(directory: Path) -> str:
    """Return the id of the bank in a directory. Raises as the log does where there is none."""
    return identity_of(directory)[1]


def log_tail(directory: Path, position: int, mark: str) -> LogTail | None:
    """Return what lies behind a position whose line has this mark; None if that is before the last segment.

    At most `HOOK_TAIL_BYTES` are read. Raises `AnotherLog`, `OSError`, and as the log does for damage.
    """
    segment = list_segments(directory)[-1]
    if position < segment.first - 1:
        return None
    with opened(segment.path) as fd:
        first, offset = read_opened(segment, fd)
        if position >= segment.first:
            offset = _behind(fd, mark)
        *lines, rest = os.pread(fd, hook_limits.HOOK_TAIL_BYTES, offset).split(b"\n")
    return LogTail(tuple(lines), not rest, first.erased)


def _behind(fd: int, mark: str) -> int:
    place, _, digest = mark.partition(" ")
    line = os.pread(fd, hook_limits.HOOK_TAIL_BYTES, int(place)).partition(b"\n")[0]
    if sha256(line).hexdigest() != digest:
        raise AnotherLog
    return int(place) + len(line) + 1
