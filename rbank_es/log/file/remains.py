"""The remains of interrupted appends: the bytes that a writer cuts off, kept beside the log in files `torn-N`.

Nothing vouches for these bytes, but they may be all that is left of somebody's work. They are kept as they were, a
limited number of files of a limited size, readable by their owner alone. An erasure removes them all, because damaged
bytes can't be searched for words.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from rbank_es import limits
from rbank_es.log.disk import System
from rbank_es.system.files import create_new

_NAME = re.compile(r"torn-([1-9]\d{0,8})", re.ASCII)
_LAST = 999_999_999


def is_remains(name: str) -> bool:
    """Return whether a name is one of a file of remains."""
    return _NAME.fullmatch(name) is not None


def kept_remains(directory: Path) -> dict[str, int]:
    """Return the files of remains with their sizes, the oldest first."""
    status = {name: os.lstat(directory / name) for _, name in sorted(_numbered(directory))}
    return {name: entry.st_size for name, entry in status.items() if stat.S_ISREG(entry.st_mode)}


def next_name(directory: Path) -> str:
    """Return the name of the next file of remains, which nothing in the directory has."""
    taken = {number for number, _ in _numbered(directory)}
    newest = max(taken, default=0)
    # Somebody may have put the last number there: the first free one is then a name of remains, and the next is not.
    return f"torn-{newest + 1 if newest < _LAST else next(free for free in range(1, _LAST) if free not in taken)}"


def _numbered(directory: Path) -> Iterator[tuple[int, str]]:
    for entry in directory.iterdir():
        if found := _NAME.fullmatch(entry.name):
            yield int(found[1]), entry.name


def keep_remains(path: Path, fd: int, offset: int, calls: System) -> None:
    """Copy the bytes of `fd` behind `offset` to a new file, durably; remove the oldest file past their limit.

    Of more bytes than the limit the first ones are kept. Raises OSError; then no file is left.
    """
    target = create_new(path)
    try:
        left = limits.TORN_FILE_BYTES
        while left and (data := os.pread(fd, min(left, limits.READ_BLOCK_BYTES), offset)):
            calls.write(target, data)
            offset, left = offset + len(data), left - len(data)
        calls.sync_data(target)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(target)
    calls.sync_directory(path.parent)
    for name in list(kept_remains(path.parent))[: -limits.TORN_FILES]:
        calls.remove(path.parent / name)


def remove_remains(directory: Path, calls: System) -> dict[str, int]:
    """Remove all files of remains durably; return them with their sizes."""
    removed = kept_remains(directory)
    for name in removed:
        calls.remove(directory / name)
    return removed
