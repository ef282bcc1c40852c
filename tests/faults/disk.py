"""System calls that fail, die, or are cut off by a loss of power.

A `Disk` stands in for the log's system calls (`calls=`). It does what is asked, and keeps account of what a loss of
power would leave: the bytes that were synced, and the directory entries that were. `die_at` makes the process die at
the n-th call; `fail` makes chosen calls raise an OSError, as a full or broken disk would.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rbank_es.log.disk import System


class Died(BaseException):
    """The process died here: nothing after this may touch the disk."""


def no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def broken() -> OSError:
    return OSError(errno.EIO, os.strerror(errno.EIO))


class Quick(System):
    """A system that doesn't wait for the disk, for tests where nothing is lost with the power."""

    def sync_data(self, fd: int) -> None:
        """Nothing."""

    def sync_directory(self, path: Path) -> None:
        """Nothing."""


class Disk(System):
    """A system that counts its calls, can die or fail at any of them, and knows what would survive a power cut."""

    def __init__(self, die_at: int | None = None) -> None:
        self.die_at = die_at
        self.calls: list[str] = []
        self.dead = False
        self.fail: Callable[[str, int], OSError | None] = lambda name, number: None
        self.part = 0.5
        self._synced: dict[int, bytes] = {}
        self._lost: dict[int, list[tuple[int, int]]] = {}
        self._entries: dict[Path, int] = {}

    def revive(self) -> Disk:
        """A new process on the same machine: it may call again, and what the dead one wrote is still in memory."""
        self.dead, self.die_at = False, None
        return self

    def _tick(self, name: str) -> None:
        if self.dead:
            raise Died
        self.calls.append(name)
        error = self.fail(name, len(self.calls))
        if error is not None:
            raise error
        if len(self.calls) == self.die_at:
            self.dead = True
            raise Died

    def write(self, fd: int, data: bytes) -> None:
        try:
            self._tick("write")
        except BaseException:
            if not self.calls or self.calls[-1] == "write":
                os.write(fd, data[: int(len(data) * self.part)])
            raise
        super().write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        self._tick("truncate")
        super().truncate(fd, size)

    def sync_data(self, fd: int) -> None:
        inode, content = os.fstat(fd).st_ino, _content(fd)
        try:
            self._tick("sync_data")
        except OSError:
            # As Linux has it: the pages count as clean now, a later sync says nothing of them.
            self._lost.setdefault(inode, []).append((len(self._synced.get(inode, b"")), len(content)))
            raise
        for start, end in self._lost.get(inode, ()):
            content = content[:start] + bytes(len(content[start:end])) + content[end:]
        self._synced[inode] = content

    def sync_directory(self, path: Path) -> None:
        self._tick("sync_directory")
        self._entries = {known: inode for known, inode in self._entries.items() if known.parent != path}
        self._entries |= {entry: entry.stat().st_ino for entry in path.iterdir() if entry.is_file()}

    def replace(self, source: Path, target: Path) -> None:
        self._tick("replace")
        super().replace(source, target)

    def remove(self, path: Path) -> None:
        self._tick("remove")
        super().remove(path)

    # ---------------------------------------------------------------- after a loss of power

    def survivors(self, directory: Path, target: Path) -> None:
        """Write to `target` what a loss of power leaves of `directory`: names and bytes that were synced."""
        target.mkdir()
        for entry, inode in self._entries.items():
            if entry.parent == directory:
                (target / entry.name).write_bytes(self._synced.get(inode, b""))


def _content(fd: int) -> bytes:
    return Path(f"/proc/self/fd/{fd}").read_bytes()


@contextmanager
def dying() -> Iterator[None]:
    """The body may die."""
    try:
        yield
    except Died:
        return


def calls_of(work: Callable[[Disk], None]) -> int:
    """How many system calls a piece of work makes when nothing goes wrong."""
    disk = Disk()
    work(disk)
    return len(disk.calls)
