"""The files in a bank's directory that are no part of its log: whatever somebody put there is named, never followed."""

from __future__ import annotations

import re
from pathlib import Path

from rbank_es.log.file.remains import is_remains
from rbank_es.log.file.segment_rewrite import MARKER, Job
from rbank_es.log.file.segments import FAILED, LOCK, is_segment
from rbank_es.log.protocol import ForeignFile
from rbank_es.system.files import is_scratch, kind_of

_LOCKS = re.compile(r"[A-Za-z0-9-]+\.lock")


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
