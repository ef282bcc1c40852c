"""A log and its disk: the system calls, file locks, records of syncs, and what a forked child must not share.

The system calls are in one class, because tests make each of them fail. The records are the receipts of syncs that
succeeded, and the marker `FAILED` of one that failed.

The last group of a log has no later line whose `dur` vouches for it. So each writer, after a sync, overwrites its own
slot in the file `receipts` of the derived directory. A receipt is written after the sync that it is about, and never
before: whatever a loss of power leaves of this file, it names only positions that the log must still have. A receipt
that the log doesn't reach proves damage, and is no reason to doubt an honest loss of power. The file is derived: it may
be deleted or be damaged at any time, and then vouches for less. No receipt is synced.

After one failed sync the marker stops every writer of a bank, until `verify` found the log sound. Where not even the
marker can be made, the writer that saw the failure stops by itself. It holds the bank's lock shared for as long as its
process lives: readers go on, and no other writer gets in.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from rbank_es import limits
from rbank_es.errors import LimitExceeded, LogBusy
from rbank_es.log import lines
from rbank_es.system.file_locks import lock_within
from rbank_es.system.files import BankCache, create_new, kind_of, open_regular, open_scratch, opened, read_regular
from rbank_es.system.forks import told_of_forks, undivided

LOCK, FAILED = "lock", "FAILED"
"""The file in a bank's directory on which a writer holds `flock`, never replaced; and the marker that stops writers."""


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
        fd, scratch = open_scratch(path, like)
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


# ---------------------------------------------------------------- locks


class _OpenLock:
    """An open lock file. A forked child closes its copy: with it, it would hold the lock of a parent that is killed."""

    def __init__(self, path: Path, flags: int) -> None:
        with undivided:  # a child that is forked in between would keep its copy
            self.fd = open_regular(path, flags)
            told_of_forks.add(self)

    def forget_parent(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:  # else it was closed before the fork, or in a child that forks again
            os.close(fd)

    def close(self) -> None:
        if self.fd >= 0:  # else in a child: the lock is its parent's
            release(self.fd)  # at once, and not when the last child has closed its copy
        self.forget_parent()


@contextmanager
def lock_file(path: Path, *, shared: bool = False) -> Iterator[int]:
    """Open a lock file until the end of a `with`, for this process alone; give its descriptor. Raises OSError.

    Each use opens the file again, because `flock` belongs to the open file: a descriptor that threads share would
    exclude none of them.
    """
    lock = _OpenLock(path, os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT)
    try:
        yield lock.fd
    finally:
        lock.close()


@contextmanager
def locked(path: Path, bank: str, *, shared: bool = False, wait_s: float | None = None) -> Iterator[None]:
    """Hold the lock file `path` until the end of a `with`. Raises `LogBusy` after `wait_s` seconds."""
    with lock_file(path, shared=shared) as fd:
        take(fd, bank, shared=shared, wait_s=wait_s)
        yield


def take(fd: int, bank: str, *, shared: bool = False, wait_s: float | None = None) -> None:
    """Take the lock of an open lock file. Raises `LogBusy` after `wait_s` seconds."""
    wait_s = limits.LOCK_WAIT_S if wait_s is None else wait_s
    try:
        lock_within(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, wait_s)
    except BlockingIOError:
        raise LogBusy(bank, wait_s) from None


def release(fd: int) -> None:
    """Release a lock taken with `take`."""
    fcntl.flock(fd, fcntl.LOCK_UN)


# ---------------------------------------------------------------- forks


class ProcessCache:
    """An object that keeps what it read or opened, for all threads of this process. Change it while `lock` is held.

    A forked child begins with a free lock and with nothing kept. At the fork a thread of the parent may have held the
    lock and been half done. An open file is the parent's, with its locks.
    """

    def __init__(self) -> None:
        """Begin to follow forks. Call it last, when there is something to forget."""
        self.lock = threading.RLock()
        told_of_forks.add(self)

    def forget(self) -> None:
        """Drop all that is kept: it is read or opened again when it is needed."""
        raise NotImplementedError

    def forget_parent(self) -> None:
        """Take a free lock in a forked child, and keep nothing."""
        self.lock = threading.RLock()
        self.forget()


# ---------------------------------------------------------------- receipts of syncs

RECEIPTS = "receipts"
"""The name of their file."""

_MAGIC = b"rbankrc1"
_FIELDS = struct.Struct(">8sQQQQ8s27s32s8s")
_CHECKSUM = struct.Struct(">I")
_SLOT_BYTES = 128
_SLOTS = 32
"""Writers that can keep receipts at once; a file of 32 slots fits into one page, which one call reads."""


class Receipt(NamedTuple):
    """The end of a group that was on disk: its position, its place, and what a writer needs to go on from there.

    `first` is the first position of the segment, `crc` the checksum of the line that ends at `offset`, `at` the time of
    the last event, `digest` the head digest there (zeros: not known), `boot` names the boot of the machine.
    """

    seq: int
    first: int
    inode: int
    offset: int
    crc: bytes
    at: str
    digest: bytes
    boot: bytes


def boot_id() -> str:
    """Return the id of this boot of the machine; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def boot_digest() -> bytes:
    """Return 8 bytes that name this boot of the machine; zeros where the system tells none."""
    boot = boot_id()
    return blake2b(boot.encode(), digest_size=8).digest() if boot else bytes(8)


class Receipts(ProcessCache):
    """The receipts of one bank, in one file, and witnesses that know positions from elsewhere. Safe for threads."""

    def __init__(self, cache: BankCache, bank_id: str) -> None:
        self._cache = cache
        self._seed = lines.seed_of(bank_id)
        self._witnesses: list[Callable[[], int]] = []
        self._found: Path | None = None
        self._fd, self._slot, self._last = -1, 0, -1
        super().__init__()

    @property
    def path(self) -> Path | None:
        """The file; None where this user's cache can't be used, and nothing is kept."""
        # Remembered, because to examine the cache costs ten times as much as to read the file.
        if self._found is None and (folder := self._cache.found()) is not None:
            self._found = folder / RECEIPTS
        return self._found

    def add_witness(self, witness: Callable[[], int]) -> None:
        """Ask `witness` too, before bytes are called an interrupted append; see `EventLog.add_witness`."""
        self._witnesses.append(witness)

    def all(self) -> list[Receipt]:
        """Return the sound receipts, the newest first; none where the file is missing, or no regular file."""
        return sorted(filter(None, self._slots()), reverse=True)

    def _slots(self) -> list[Receipt | None]:
        """Return the content of each slot that was used: None for damage. Empty without a file."""
        path = self.path
        if path is None:
            return []
        with suppress(OSError), opened(path) as fd:
            return [self._decoded(data) for data in self._in_slots(fd) if any(data)]
        return []

    def position(self) -> int:
        """Return the highest position that a receipt vouches for; 0 without receipts."""
        return max((receipt.seq for receipt in self.all()), default=0)

    def vouched(self, *, certain: bool) -> int:
        """Return the highest position that anything vouches for.

        Witnesses take milliseconds. They are asked if the answer must be `certain`, or if receipts are missing.
        """
        slots = self._slots()
        found = max((receipt.seq for receipt in slots if receipt is not None), default=0)
        if certain or not slots or None in slots:
            found = max([found, *(witness() for witness in self._witnesses)])
        return found

    @staticmethod
    def _in_slots(fd: int) -> list[bytes]:
        data = os.pread(fd, _SLOTS * _SLOT_BYTES, 0).ljust(_SLOTS * _SLOT_BYTES, b"\0")
        return [data[slot * _SLOT_BYTES :][:_SLOT_BYTES] for slot in range(_SLOTS)]

    def _decoded(self, data: bytes) -> Receipt | None:
        if not data.startswith(_MAGIC):
            return None
        body = data[: _FIELDS.size]
        if _CHECKSUM.unpack_from(data, _FIELDS.size)[0] != crc32(body, self._seed):
            return None
        _, seq, first, inode, offset, crc, at, digest, boot = _FIELDS.unpack(body)
        return Receipt(seq, first, inode, offset, crc, at.decode(errors="replace").rstrip("\0"), digest, boot)

    def write(self, receipt: Receipt) -> None:
        """Write a receipt over this writer's last one unless that is of a higher position. Raises OSError.

        The caller has synced the log up to that position.
        """
        seq, first, inode, offset, crc, at, digest, boot = receipt
        body = _FIELDS.pack(_MAGIC, seq, first, inode, offset, crc, at.encode(), digest, boot)
        data = body + _CHECKSUM.pack(crc32(body, self._seed))
        with self.lock:
            if self._fd < 0:
                self._open()
            if seq >= self._last:
                os.pwrite(self._fd, data, self._slot * _SLOT_BYTES)
                self._last = seq

    def _open(self) -> None:
        self._found = None  # examined again, because its folder may be gone
        path = self.path
        if path is None:
            raise OSError("the user's cache can't be used")
        self._fd = open_regular(path, os.O_RDWR | os.O_CREAT)
        slots = [self._decoded(data) for data in self._in_slots(self._fd)]
        # The slot of the lowest position, so that no writer overwrites the newest receipt of another.
        start = os.getpid()
        self._slot = min(range(_SLOTS), key=lambda slot: (_seq_of(slots[slot]), (slot - start) % _SLOTS))
        self._last = -1

    def _close(self) -> None:
        # Forgotten before it is closed: a child that is forked in between would close another file of that number.
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        """Close the file. The next receipt opens it again: another one, if it was removed meanwhile."""
        with self.lock:
            self._close()

    def __del__(self) -> None:
        # A log that nobody closes leaks no descriptor: a long process may open thousands.
        try:  # noqa: SIM105  at the interpreter's end `suppress` may be gone
            self._close()
        except Exception:
            pass

    def forget(self) -> None:
        """Take a slot of its own in a forked child, because the parent goes on to write to its slot."""
        self._close()
        self._slot, self._last = 0, -1


def _seq_of(receipt: Receipt | None) -> int:
    return receipt.seq if receipt is not None else -1


# ---------------------------------------------------------------- a sync that failed


class FailureMarker:
    """The marker of one bank, as one writer sees it."""

    def __init__(self, directory: Path, calls: System) -> None:
        self._directory, self._system = directory, calls
        self._path = str(directory / FAILED)
        self._unwritten = ""
        self._held: int | None = None

    @property
    def is_only_here(self) -> bool:
        """Whether a sync failed and the marker can't be made, so that this writer must hold the lock."""
        return bool(self._unwritten)

    @property
    def is_removable(self) -> bool:
        """Whether writers were stopped by a marker of ours, which may be removed once the log is found sound."""
        return self.is_only_here or kind_of(Path(self._path)) == "a file"

    def reason(self) -> str | None:
        """Return why nobody may write; None if writers are admitted."""
        if self._unwritten:
            return self._unwritten
        if not os.path.lexists(self._path):
            return None
        try:
            return read_regular(self._path, limits.REASON_BYTES).decode(errors="replace").strip() or "a sync failed"
        except (OSError, LimitExceeded):  # whatever is there stops writers: it may be a damaged marker
            return f"there is {kind_of(Path(self._path))} called {FAILED}, which can't be read"

    def put(self, reason: str) -> str:
        """Stop all writers, as far as the disk lets us; return the reason, with what could not be done."""
        try:
            # Not synced, because the disk refuses that; whatever stands there by this name stops writers.
            with os.fdopen(create_new(self._path), "wb") as file:
                file.write(f"{reason}\n".encode())
        except OSError as error:
            # A full disk mostly has room for a second name of a file that is there.
            with suppress(OSError):
                os.link(self._directory / LOCK, self._path)
            if not os.path.lexists(self._path):
                self._unwritten = (
                    f"{reason}; and the marker {FAILED} can't be made ({error.strerror or error}), so other writers "
                    "are kept out only as long as this process lives"
                )
        with suppress(OSError):
            self._system.sync_directory(self._directory)
        return self._unwritten or reason

    def hold(self, lock_fd: int) -> None:
        """Keep the bank's lock, which the caller holds, as a shared one until the marker is removed."""
        fcntl.flock(lock_fd, fcntl.LOCK_SH)
        if self._held is None:
            self._held = os.dup(lock_fd)  # the same lock, which outlives the writer's own descriptor

    def open_lock(self) -> int:
        """Return a descriptor of the bank's lock file: of the lock that `hold` keeps, if it does. Raises OSError."""
        if self._held is not None:
            return os.dup(self._held)
        return open_regular(self._directory / LOCK, os.O_RDWR | os.O_CREAT)

    def remove(self) -> None:
        """Admit writers again. The caller holds the bank's lock."""
        self._system.remove(Path(self._path))
        self._unwritten = ""
        if self._held is not None:
            os.close(self._held)
            self._held = None
