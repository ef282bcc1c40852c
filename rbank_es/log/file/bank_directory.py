"""The directory of a bank: how it is made, and the files in it that are no segments.

The remains of interrupted appends are the bytes that a writer cuts off, kept in files `torn-N`. Nothing vouches for
these bytes, but they may be all that is left of somebody's work. They are kept as they were, a limited number of files
of a limited size, readable by their owner alone. An erasure removes them all, because damaged bytes can't be searched
for words.

An erasure under way has a durable marker, from which the next writer completes one that was interrupted.

Whatever somebody else put there is named, never followed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from rbank_es import limits
from rbank_es.errors import BadBankName, BankExists, LimitExceeded, LogUnavailable
from rbank_es.events import ContentErased
from rbank_es.events.event_envelope import Event
from rbank_es.log.disk import FAILED, LOCK, System
from rbank_es.log.file.segments import is_segment
from rbank_es.log.protocol import ForeignFile
from rbank_es.system.files import NotRegular, create_new, is_scratch, kind_of, read_regular, remove_tree

_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
_DRAFT = re.compile(r"[0-9a-f]{32}\.part")
_LOCKS = re.compile(r"[A-Za-z0-9-]+\.lock")


def directory_of(locator: str) -> Path:
    """Return the directory that a path or a `file:` URL means. Raises `BadBankName`; does not access any file."""
    if locator.startswith(("./", "../", "/")):
        return Path(locator)
    if not locator.startswith("file:"):
        raise BadBankName(locator, "the path is not a directory")
    parts = urlsplit(locator)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise BadBankName(locator, "a file URL looks like file:///absolute/path")
    return Path(unquote(parts.path))


def make_directory(directory: Path) -> None:
    """Make the directory of a bank for its owner alone; one that is there keeps its permissions."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)


def put_in_place(draft: Path, directory: Path, calls: System, made: Sequence[Path] = ()) -> None:
    """Give a complete directory its name, durably, as the folders above it that were `made` for it.

    Raises `BankExists`, `LogUnavailable`.
    """
    try:
        draft.rename(directory)
        for folder in (directory, *made):  # a directory survives a power cut when its parent was synced
            calls.sync_directory(folder.parent)
    except OSError as error:
        if error.errno in _TAKEN:
            raise BankExists(str(directory)) from None
        raise LogUnavailable(str(directory), "make a bank in", error) from error


@contextmanager
def drafted(directory: Path, calls: System) -> Iterator[Path]:
    """Give a place beside that of a new bank, to make its directory in; then give it its name, durably.

    If the body raises, nothing is left. What a killed process left of a draft, the next one for this place removes.
    Raises `BankExists`, `LogUnavailable`.
    """
    if os.path.lexists(directory):
        raise BankExists(str(directory), _occupant(directory))
    missing = [folder for folder in directory.parents if not folder.exists()]
    # Beside its place, because a rename is atomic within one file system only.
    draft = directory.with_name(f".{directory.name}.{os.urandom(16).hex()}.part")
    held = -1
    try:
        try:
            held = _begin_draft(draft)
        except OSError as error:
            raise LogUnavailable(str(directory), "make a bank in", error) from error
        yield draft
        put_in_place(draft, directory, calls, missing)
    finally:
        remove_tree(draft)
        if held >= 0:
            os.close(held)
        for folder in missing:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _occupant(directory: Path) -> str:
    """Return the kind of thing at the place of a new bank, in words; a link is not followed."""
    if directory.is_symlink():
        return "there is a link already"
    if not directory.is_dir():
        return "it is a file"
    # What may not be listed may hold a bank.
    with suppress(PermissionError):
        if not any(is_segment(path.name) for path in directory.iterdir()):
            return "there is a directory already"
    return "there is a bank already"


def _begin_draft(draft: Path) -> int:
    """Make a draft directory; return a descriptor that keeps it from being swept."""
    draft.parent.mkdir(parents=True, exist_ok=True)
    _sweep_drafts(draft)
    while True:
        draft.mkdir(mode=0o700)
        try:
            fd = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # before it was locked, it looked like what a killed process left, and another sweep removed it
        with suppress(OSError):  # NFS locks no directories: then nobody sweeps there, either
            fcntl.flock(fd, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), os.lstat(draft)):
                return fd
        os.close(fd)


def _sweep_drafts(draft: Path) -> None:
    """Remove the drafts of the same bank that this user's killed processes left beside one."""
    begin = draft.name[: -len(".part") - 32]
    for place in draft.parent.glob("*.part"):
        if place == draft or not place.name.startswith(begin) or not _DRAFT.fullmatch(place.name[len(begin) :]):
            continue
        with suppress(OSError):
            fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if os.fstat(fd).st_uid == os.geteuid():
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_tree(place)
            finally:
                os.close(fd)


# ---------------------------------------------------------------- remains of interrupted appends

_REMAINS = re.compile(r"torn-([1-9]\d{0,8})", re.ASCII)
# The greatest number of nine digits, as many as a name of remains may have.
_LAST = 999_999_999


def is_remains(name: str) -> bool:
    """Return whether a name is one of a file of remains."""
    return _REMAINS.fullmatch(name) is not None


def kept_remains(directory: Path) -> dict[str, int]:
    """Return the files of remains with their sizes, the oldest first."""
    status = {name: os.lstat(directory / name) for _, name in sorted(_numbered_remains(directory))}
    return {name: entry.st_size for name, entry in status.items() if stat.S_ISREG(entry.st_mode)}


def next_remains(directory: Path) -> str:
    """Return the name of the next file of remains, which nothing in the directory has."""
    taken = {number for number, _ in _numbered_remains(directory)}
    newest = max(taken, default=0)
    # Somebody may have put the last number there: the first free one is then a name of remains, and the next is not.
    return f"torn-{newest + 1 if newest < _LAST else next(free for free in range(1, _LAST) if free not in taken)}"


def _numbered_remains(directory: Path) -> Iterator[tuple[int, str]]:
    for entry in directory.iterdir():
        if found := _REMAINS.fullmatch(entry.name):
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


# ---------------------------------------------------------------- an erasure under way

ERASING = "ERASING"
"""The file that is the marker."""


class ErasureJob(msgspec.Struct, frozen=True):
    """The durable marker of an erasure under way: the events that record it. It holds commitments, no text."""

    records: tuple[msgspec.Raw, ...]

    @classmethod
    def of(cls, events: Iterable[Event]) -> ErasureJob:
        """Return the job that these events record."""
        return cls(tuple(msgspec.Raw(msgspec.json.encode(event)) for event in events))

    @classmethod
    def read(cls, path: Path) -> ErasureJob | None:
        """Return the job that a marker holds; None if the marker was removed, or is damaged and so not believed."""
        with suppress(FileNotFoundError, NotRegular, LimitExceeded, msgspec.MsgspecError, ValueError, RecursionError):
            job = msgspec.json.decode(read_regular(path, limits.MARKER_BYTES), type=cls)
            if job.events():
                return job
        return None

    def events(self) -> list[ContentErased]:
        """Return the events that record the erasure."""
        return [msgspec.json.decode(record, type=ContentErased) for record in self.records]


# ---------------------------------------------------------------- foreign files


def foreign_files(directory: Path) -> tuple[ForeignFile, ...]:
    """Return the entries of a bank's directory that are no sound part of the bank, in order of name. Raises OSError."""
    entries = ((path, kind_of(path)) for path in sorted(directory.iterdir()))
    found = (_foreign(path, kind) for path, kind in entries if kind is not None)
    return tuple(each for each in found if each is not None)


def _foreign(path: Path, kind: str) -> ForeignFile | None:
    name, is_file = path.name, kind == "a file"
    if is_segment(name) or name in (LOCK, FAILED, ERASING) or _LOCKS.fullmatch(name):
        if not is_file:
            return ForeignFile(name, kind, True, "only a regular file can have that name in a bank; remove it")
        if name == ERASING and ErasureJob.read(path) is None:
            return ForeignFile(name, kind, True, "damaged: an erasure may not be complete; erase again what it was of")
        return None
    if is_remains(name) and is_file:
        return None
    if name.lower().endswith(".jsonl"):
        return ForeignFile(name, kind, True, "not a segment by its name, so nothing in it is read: remove or rename it")
    if is_scratch(name) and is_file:
        return ForeignFile(name, kind, False, "unfinished: a writer is at work, or died; the next one removes it")
    return ForeignFile(name, kind, False, "ignored")
