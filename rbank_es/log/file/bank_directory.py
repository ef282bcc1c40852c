"""The directory of a bank: how it is made, and the files in it that are no part of the log.

Whatever somebody put there is named, never followed.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path

from rbank_es.errors import BankExists, LogUnavailable
from rbank_es.log.file.remains import is_remains
from rbank_es.log.file.segment_rewrite import MARKER, Job
from rbank_es.log.file.segments import FAILED, LOCK, is_segment
from rbank_es.log.protocol import ForeignFile
from rbank_es.log.system_calls import System
from rbank_es.system.files import is_scratch, kind_of

_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
_LOCKS = re.compile(r"[A-Za-z0-9-]+\.lock")


def make_directory(directory: Path) -> None:
    """Make the directory of a bank for its owner alone; one that is there keeps its permissions."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)


def put_in_place(draft: Path, directory: Path, calls: System) -> None:
    """Give a complete directory its name, durably. Raises `BankExists`, `LogUnavailable`."""
    try:
        draft.rename(directory)
    except OSError as error:
        if error.errno in _TAKEN:
            raise BankExists(str(directory)) from None
        raise LogUnavailable(str(directory), "make a bank in", error) from error
    calls.sync_directory(directory.parent)


def foreign_files(directory: Path) -> tuple[ForeignFile, ...]:
    """Return what is in a bank's directory and no sound part of the bank, in order of name. Raises OSError."""
    entries = ((path, kind_of(path)) for path in sorted(directory.iterdir()))
    found = (_foreign(path, kind) for path, kind in entries if kind is not None)
    return tuple(each for each in found if each is not None)


def _foreign(path: Path, kind: str) -> ForeignFile | None:
    name, is_file = path.name, kind == "a file"
    if is_segment(name) or name in (LOCK, FAILED, MARKER) or _LOCKS.fullmatch(name):
        if not is_file:
            return ForeignFile(name, kind, True, "only a regular file can have that name in a bank; remove it")
        if name == MARKER and Job.read(path) is None:
            return ForeignFile(name, kind, True, "damaged: an erasure may not be complete; erase again what it was of")
        return None
    if is_remains(name) and is_file:
        return None
    if name.lower().endswith(".jsonl"):
        return ForeignFile(name, kind, True, "not a segment by its name, so nothing in it is read: remove or rename it")
    if is_scratch(name) and is_file:
        return ForeignFile(name, kind, False, "unfinished: a writer is at work, or died; the next one removes it")
    return ForeignFile(name, kind, False, "ignored")
