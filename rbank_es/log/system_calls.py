"""The system calls of the log, in one class because tests make each of them fail; file locks; and what a fork drops."""

from __future__ import annotations

import fcntl
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rbank_es import limits
from rbank_es.errors import LogBusy
from rbank_es.system import files


class System:
    """Writing, syncing and renaming, as POSIX has them."""

    def write(self, fd: int, data: bytes) -> None:
        """Write all of `data` at the file's end, however many calls that takes."""
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def truncate(self, fd: int, size: int) -> None:
        """Truncate the file to `size` bytes."""
        os.ftruncate(fd, size)

    def sync_data(self, fd: int) -> None:
        """Wait until the file's bytes are on disk."""
        os.fdatasync(fd)

    def sync_directory(self, path: Path) -> None:
        """Wait until the directory's entries are on disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def replace(self, source: Path, target: Path) -> None:
        """Put `source` in the place of `target`, atomically and durably."""
        source.replace(target)
        self.sync_directory(target.parent)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; a link in its place is not followed."""
        os.link(source, target, follow_symlinks=False)

    def remove(self, path: Path) -> None:
        """Remove a file durably, if it is there."""
        path.unlink(missing_ok=True)
        self.sync_directory(path.parent)

    def write_whole(self, path: Path, data: bytes, *, like: Path | None = None) -> None:
        """Make or replace a small file, atomically and durably; `like` is the file whose permissions a new one has."""
        with self.replacing(path, like=like) as fd:
            self.write(fd, data)

    @contextmanager
    def replacing(self, path: Path, *, like: Path | None = None) -> Iterator[int]:
        """Give a descriptor to write the new content of `path` to; put it in place durably after the `with`."""
        fd, scratch = files.open_scratch(path, like)
        try:
            yield fd
            self.sync_data(fd)
            self.replace(scratch, path)
        except Exception:
            # A full disk, most likely: what was written would only take its place.
            with suppress(OSError):
                scratch.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)


@contextmanager
def locked(path: Path, bank: str, *, shared: bool = False, wait_s: float | None = None) -> Iterator[None]:
    """Hold the lock file `path` until the end of a `with`. Raises `LogBusy` after `wait_s` seconds.

    Each use opens the file again, because `flock` belongs to the open file: a descriptor that threads or forked
    children share would exclude nobody.
    """
    fd = files.open_regular(path, os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT)
    try:
        take(fd, bank, shared=shared, wait_s=wait_s)
        yield
    finally:
        os.close(fd)


def take(fd: int, bank: str, *, shared: bool = False, wait_s: float | None = None) -> None:
    """Take the lock of an open lock file. Raises `LogBusy` after `wait_s` seconds."""
    wait_s = limits.LOCK_WAIT_S if wait_s is None else wait_s
    mode = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    began = 0.0
    while True:
        try:
            fcntl.flock(fd, mode)
        except BlockingIOError:
            now = time.monotonic()
            began = began or now
            if now - began >= wait_s:
                raise LogBusy(bank, wait_s) from None
            # An append holds the lock for some 30 µs, so it is worth looking again soon; an erasure holds it longer.
            time.sleep(50e-6 if now - began < 0.05 else 0.005)
        else:
            return


def release(fd: int) -> None:
    """Release a lock taken with `take`."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def boot_id() -> str:
    """Return the id of this boot of the machine; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class ProcessCache:
    """An object that keeps what it read, for all threads of this process. Change it while `lock` is held.

    A forked child begins with a free lock and with nothing kept, because at the fork a thread of the parent may have
    held the lock and been half done.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        _CACHES.add(self)

    def forget(self) -> None:
        """Drop all that is kept: it is read again when it is needed."""
        raise NotImplementedError


_CACHES: weakref.WeakSet[ProcessCache] = weakref.WeakSet()


def _forked() -> None:
    for cache in list(_CACHES):
        cache.lock = threading.RLock()
        cache.forget()


os.register_at_fork(after_in_child=_forked)
