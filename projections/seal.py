"""The seal of a file of read models: how its last writer left it, so that a change by anything else is noticed.

SQLite keeps no checksums, so a flipped bit in a text would be served. To read a whole file before each search would
take longer than the search. The system notes for every file when it was last changed, and no program can set that
time. So after each commit a writer notes size, inode and times of the file beside it. If they differ later, the file
is rebuilt from the log: somebody edited it, a disk was restored, or a writer died between its commit and its seal.

Two changes within one tick of the file system's clock (at most 4 ms) can't be told apart.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from rbank_es import limits
from rbank_es.errors import LimitExceeded
from rbank_es.system.files import read_regular, write_replacing

_FORM = "rbank-seal-1"


def seal(path: Path) -> None:
    """Note how the file is now. For the holder of the lock, after its commit. Raises OSError."""
    write_replacing(_beside(path), [_marks(path)])


def is_sealed(path: Path) -> bool:
    """Return whether the file is as its last writer left it."""
    with suppress(OSError, LimitExceeded):
        return read_regular(_beside(path), limits.SEAL_BYTES) == _marks(path)
    return False


def wait_for_seal(path: Path) -> bool:
    """Return whether the file is sealed, or becomes so: a writer seals it soon after its commit."""
    end = time.monotonic() + limits.SEAL_WAIT_S
    while not (sealed := is_sealed(path)) and path.exists() and time.monotonic() < end:
        time.sleep(0.001)
    return sealed


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.seal")


def _marks(path: Path) -> bytes:
    status = os.lstat(path)
    numbers = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return f"{_FORM} {' '.join(map(str, numbers))}\n".encode()
