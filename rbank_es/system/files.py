"""Files that may come from anybody, files that only this user may see, and the folders for them.

A bank's directory, an export's or a page's place can be prepared by somebody else. So a file there is opened only if it
is a regular file: no link is followed, no pipe or device is waited for. A new file has a name that can't be predicted,
is made exclusively, readable by its owner alone, and renamed into place when it is whole.

Whatever is derived from a log is in the user's own cache: `RBANK_CACHE`, else `rbank-es` under `XDG_CACHE_HOME` or
`~/.cache`. A cache that can't be trusted or written is replaced by a folder that ends with the process, with a notice.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import re
import stat
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from rbank_es import limits
from rbank_es.errors import CannotWrite, LimitExceeded, Notice
from rbank_es.system.redacted_locator import is_url, shown_locator

# Banks whose cached folders are looked at when a new one is made, to remove those of banks that are gone.
_SWEPT_BANKS = 50

# ---------------------------------------------------------------- opening

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFREG: "a file",
}
_SAFELY = os.O_NONBLOCK | os.O_CLOEXEC


class NotRegular(OSError):
    """Something other than a regular file is in the place of one; `strerror` says what."""

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        self.kind = kind
        super().__init__(errno.EINVAL, f"it is {kind}, where a regular file must be", os.fspath(path))


def kind_of(path: Path) -> str | None:
    """Return the kind of thing at a path, in words such as `a file` or `a symbolic link`; None where nothing is."""
    try:
        return _KINDS.get(stat.S_IFMT(os.lstat(path).st_mode), "an unknown thing")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _check_name(path: str | os.PathLike[str]) -> None:
    """Raise OSError for a name that no file can have, for which the system's functions raise a ValueError."""
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise OSError(errno.EINVAL, "no file can have a name with U+0000 or half a character", os.fspath(path))


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Return a descriptor of a regular file; never wait for what is at the other end of a pipe.

    `flags` may hold O_CREAT; the file is then made with mode 0600. `follow`: a link in the last part of the path is the
    user's own, and is followed. Raises OSError, `NotRegular`.
    """
    _check_name(path)
    try:
        fd = os.open(path, flags | _SAFELY | (0 if follow else os.O_NOFOLLOW), 0o600)
    except OSError as error:
        kind = kind_of(Path(path))
        if kind in (None, "a file") or (follow and kind == "a symbolic link"):
            raise
        raise NotRegular(path, str(kind)) from error
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise NotRegular(path, _KINDS.get(stat.S_IFMT(mode), "an unknown thing"))
    return fd


@contextmanager
def opened(path: str | os.PathLike[str], *, follow: bool = False) -> Iterator[int]:
    """Open a regular file for reading; close the descriptor at the end of the `with`. Raises as `open_regular`."""
    fd = open_regular(path, follow=follow)
    try:
        yield fd
    finally:
        os.close(fd)


def create_new(path: str | os.PathLike[str]) -> int:
    """Make a file that only this user can read; return a descriptor for writing. Raises OSError if it exists."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def read_regular(path: str | os.PathLike[str], most_bytes: int, *, follow: bool = False) -> bytes:
    """Return the bytes of a regular file. Raises `LimitExceeded` for more than `most_bytes`, OSError, `NotRegular`."""
    with opened(path, follow=follow) as fd, os.fdopen(fd, "rb", closefd=False) as file:
        data = file.read(most_bytes + 1)
        if len(data) > most_bytes:
            size = os.fstat(fd).st_size
            raise LimitExceeded(f"{os.fspath(path)} in bytes", size, most_bytes, "give a smaller file")
    return data


# ---------------------------------------------------------------- scratch files

_SCRATCH = re.compile(r"\.(.+)\.[0-9a-f]{32}\.tmp", re.DOTALL)


def is_scratch(name: str) -> bool:
    """Return whether a name is one that `open_scratch` gives."""
    return _SCRATCH.fullmatch(name) is not None


def open_scratch(path: Path, like: Path | None = None) -> tuple[int, Path]:
    """Make a new file beside `path`, to be renamed over it; return a descriptor for writing, and its place.

    The file is locked while the descriptor is open, so that `sweep_scratch` can tell those that nobody finishes.
    It has the permissions of the file at `path`, else of the one at `like`, else 0600. Raises OSError.
    """
    mode = next((mode for place in (path, like) if place and (mode := _permissions(place)) is not None), 0o600)
    while True:
        scratch = path.with_name(f".{_kept(path.name)}.{os.urandom(16).hex()}.tmp")
        fd = create_new(scratch)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.fchmod(fd, mode)
            if os.fstat(fd).st_nlink:  # a sweep may have come before the lock
                return fd, scratch
        except BaseException:
            os.close(fd)
            scratch.unlink(missing_ok=True)
            raise
        os.close(fd)


def _permissions(path: Path) -> int | None:
    """Return the permissions of a regular file to read and write it; None where there is none."""
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode):
            return stat.S_IMODE(mode) & 0o666
    return None


def sweep_scratch(directory: Path, name: str | None = None) -> None:
    """Remove the scratch files that dead processes left in a directory; those for `name` only, where given."""
    kept = name and _kept(name)
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            found = _SCRATCH.fullmatch(entry.name)
            if found and kept in (None, found[1]) and entry.is_file(follow_symlinks=False):
                _remove_abandoned(Path(entry.path))


def _kept(name: str) -> str:
    """Return the beginning of a file's name that its scratch file has."""
    return os.fsencode(name)[: limits.SCRATCH_NAME_BYTES].decode(errors="ignore")


def _remove_abandoned(scratch: Path) -> None:
    with suppress(OSError), opened(scratch) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        scratch.unlink()


def replaceable(path: str | os.PathLike[str]) -> Path:
    """Return the place to write a file that was asked for by name: behind a link of the user's own, its target.

    Raises `CannotWrite` for a link that another user made, for a directory, a pipe or a device in the place.
    """
    place = Path(path)
    try:
        _check_name(place)
    except OSError as error:
        raise CannotWrite(str(path), error) from None
    with suppress(FileNotFoundError, NotADirectoryError):
        status = os.lstat(place)
        # In a folder that others can write to, such as /tmp, a link by somebody else would name the file to lose.
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (os.geteuid(), 0):
            raise CannotWrite(str(path), OSError(errno.ELOOP, "it is a symbolic link that another user made"))
        # A link in a circle leads to itself here, which is no file.
        place = Path(os.path.realpath(place)) if stat.S_ISLNK(status.st_mode) else place
    kind = kind_of(place)
    if kind not in (None, "a file"):
        raise CannotWrite(str(path), NotRegular(place, str(kind)))
    return place


def write_replacing(path: str | os.PathLike[str], pieces: Iterable[bytes], *, follow: bool = False) -> tuple[Path, int]:
    """Write a file whole, or leave the one that is there. Return its place and size.

    A new file is readable by its owner alone; one that is there keeps its permissions. A link in its place is replaced,
    or with `follow`, for a file that was asked for by name, treated as `replaceable` has it.
    Raises `CannotWrite` as that does, OSError where the system refuses, and what `pieces` raises.
    """
    place = replaceable(path) if follow else Path(path)
    sweep_scratch(place.parent, place.name)
    fd, scratch = open_scratch(place)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.writelines(pieces)
            stream.flush()
            size = os.fstat(fd).st_size
            scratch.replace(place)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    return place, size


# ---------------------------------------------------------------- temporary folders

_HELD = "held"
_TEMPORARY = re.compile(r"rbank-es-[a-z]+-[a-z0-9_]{8}")
_LOCKS: dict[Path, int] = {}


def temporary_folder(purpose: str) -> Path:
    """Make a folder of this user for as long as the process lives; the first one removes those that killed processes
    left.

    `purpose` is a word of small letters. The caller removes the folder when it needs it no longer.
    """
    import tempfile  # with what it imports, 6 ms of a start, and few processes need such a folder

    _sweep_temporary(tempfile.gettempdir())
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"rbank-es-{purpose}-"))
        fd = create_new(folder / _HELD)
        with suppress(BlockingIOError):  # a sweep was quicker: it removes the folder
            # The descriptor stays open: the lock shows that the process, or a fork of it, still lives.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (folder / _HELD).exists():  # else a sweep has removed it already
                _LOCKS[folder] = fd
                return folder
        os.close(fd)


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as possible."""
    import shutil  # its compressors take 4 ms of a start, and few processes remove anything

    shutil.rmtree(folder, ignore_errors=True)


def remove_temporary(folder: Path) -> None:
    """Remove a folder that `temporary_folder` made in this process."""
    remove_tree(folder)
    fd = _LOCKS.pop(folder, None)
    if fd is not None:
        os.close(fd)


@cache
def _sweep_temporary(place: str) -> None:
    """Sweep a place, once in a process: a program may hold many such folders, and a look at each takes its time."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                _remove_if_left(Path(entry.path))


def _remove_if_left(folder: Path) -> None:
    """Remove a temporary folder of ours that no process holds."""
    with suppress(OSError):
        status = os.lstat(folder)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != 0o700:
            return
        with opened(folder / _HELD) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(folder)


def is_temporary(path: Path) -> bool:
    """Return whether a path is in a folder that `temporary_folder` made in this process, and ends with it."""
    return any(path.is_relative_to(folder) for folder in _LOCKS)


@contextmanager
def temporary(purpose: str) -> Iterator[Path]:
    """Give a temporary folder that is removed after the `with`; see `temporary_folder`."""
    folder = temporary_folder(purpose)
    try:
        yield folder
    finally:
        remove_temporary(folder)


def process_folder() -> Path:
    """Return a temporary folder that is removed when the process ends; a fork gets one of its own."""
    return _folder_of(os.getpid())


@cache
def _folder_of(process: int) -> Path:
    folder = temporary_folder("process")

    def remove() -> None:
        if os.getpid() == process:
            remove_temporary(folder)

    atexit.register(remove)
    return folder


# ---------------------------------------------------------------- the user's cache

_BANKS, _PLACE = "banks", "place"
_WHERE = ("RBANK_CACHE", "XDG_CACHE_HOME", "HOME")


def make_private(folder: Path) -> Path:
    """Make a folder, and those above it that are missing, for this user alone. Raises OSError."""
    if not folder.is_dir():
        if folder.parent != folder:
            make_private(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(0o700)
    return folder


def cache_folder(*names: str) -> Path | None:
    """Return a folder in the user's cache, made if it is missing; None where it can't be trusted or made."""
    folder, fault = _examined(names)
    return None if fault else folder


def cache_or_temporary(*names: str) -> Path:
    """Return a folder in the user's cache; where that can't be used, one that ends with the process, after a notice.

    Raises OSError where not even that can be made.
    """
    folder, fault = _examined(names)
    if not fault:
        return folder
    _give_notice(f"{fault}; so nothing derived is kept beyond this process. Repair that, or set RBANK_CACHE")
    return make_private(process_folder().joinpath(*names))


@cache
def _give_notice(text: str) -> None:
    warnings.warn(text, Notice, stacklevel=4)


def _examined(names: tuple[str, ...]) -> tuple[Path, str]:
    """Return a folder of the user's cache, and the reason why it can't be used; empty if it can."""
    named, home = os.environ.get("RBANK_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if named:
        folder = Path(named).absolute()
    elif home and Path(home).is_absolute():  # as the standard says: another value is ignored
        folder = Path(home, "rbank-es")
    else:
        try:
            folder = Path.home() / ".cache" / "rbank-es"
        except RuntimeError:
            return Path(), "the user has no home, and so no cache"
    for name in (None, *names):
        folder = folder / name if name else folder
        try:
            fault = _fault_of(make_private(folder))
        except OSError as error:
            fault = error.strerror or str(error)
        if fault:
            return folder, f"the cache {folder} can't be used: {fault}"
    return folder, ""


def _fault_of(folder: Path) -> str:
    """Return why a folder can't hold what only this user may write; empty if it can."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        return f"it is {_KINDS.get(stat.S_IFMT(status.st_mode), 'an unknown thing')}, not a directory"
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    if status.st_mode & 0o022:
        return "other users can write to it"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "it can't be written"
    return ""


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class BankCache:
    """The folder of what this user derived from one bank at one place; a copy at another place has its own.

    The names of folders are digests, because the id of a bank is whatever its maker wrote.
    """

    def __init__(self, bank_id: str, place: Path | str) -> None:
        given = os.fspath(place)  # a URL is no path: that would make one slash of two
        # The cache is of no use to whoever wants the password of a database.
        self._place = shown_locator(given) if is_url(given) else os.path.realpath(given)
        self._names = (_BANKS, _digest(bank_id), _digest(self._place))
        self._known: tuple[tuple[str | None, ...], Path] | None = None

    def found(self) -> Path | None:
        """Return the folder in the user's cache, made if it is missing; None where that can't be used."""
        where = tuple(map(os.environ.get, _WHERE))
        # Known from the last call, because every append and search asks: to examine each part again takes 40 µs.
        if self._known and self._known[0] == where and self._known[1].is_dir():
            return self._known[1]
        folder = self._marked(cache_folder(*self._names))
        self._known = (where, folder) if folder else None
        return folder

    def folder(self) -> Path:
        """Return the folder, made if it is missing: in the user's cache, or where `cache_or_temporary` has it."""
        return self.found() or self._marked(cache_or_temporary(*self._names)) or Path()

    def _marked(self, folder: Path | None) -> Path | None:
        if folder is not None and not os.path.lexists(folder / _PLACE):
            with suppress(OSError):
                _sweep_caches(folder.parent.parent, os.getpid())
                with os.fdopen(create_new(folder / _PLACE), "wb") as file:
                    file.write(os.fsencode(self._place))
        return folder

    def read(self, name: str, most_bytes: int) -> bytes | None:
        """Return a file of the folder; None where there is none that can be read, or a larger one."""
        folder = self.found()
        with suppress(OSError, LimitExceeded):
            return read_regular(folder / name, most_bytes) if folder else None
        return None

    def save(self, name: str, data: bytes) -> None:
        """Write a file of the folder whole, if possible: without it, the bank is only slower. It is not synced."""
        if folder := self.found():
            with suppress(OSError):
                write_replacing(folder / name, [data])

    def drop(self, name: str) -> None:
        """Remove a file of the folder, if it is there."""
        if folder := self.found():
            with suppress(OSError):
                (folder / name).unlink()

    def move(self, place: Path) -> None:
        """Keep the folder of a bank whose directory was just renamed."""
        folder = self.found()
        moved = folder.with_name(_digest(os.path.realpath(place))) if folder else None
        with suppress(OSError):
            if folder and moved and not moved.exists():
                write_replacing(folder / _PLACE, [os.fsencode(os.path.realpath(place))])
                folder.rename(moved)

    def remove(self) -> None:
        """Remove the folder, because the bank is gone."""
        if folder := self.found():
            remove_tree(folder)


def caches_of(bank_id: str) -> list[Path]:
    """Return this user's folders of what was derived from a bank, one for each place of it, in a fixed order."""
    parent = cache_folder(_BANKS, _digest(bank_id))
    if parent is None:
        return []
    with os.scandir(parent) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))


@cache
def _sweep_caches(banks: Path, _process: int) -> None:
    """Remove the folders of banks that are no longer where they were; once in a process."""
    places = sorted(banks.iterdir())
    first = int.from_bytes(os.urandom(8), "big") % max(1, len(places))  # anywhere, so that each is looked at in time
    for bank in (places[first:] + places[:first])[:_SWEPT_BANKS]:
        for folder in list(bank.iterdir()):
            with suppress(OSError):
                place = os.fsdecode(read_regular(folder / _PLACE, limits.CACHE_PLACE_BYTES))
                if not is_url(place) and not os.path.lexists(place):
                    remove_tree(folder)
        with suppress(OSError):  # other places of that bank are still there
            bank.rmdir()
