"""A folder that may hold anybody's files: only regular ones are read, written and removed, and no link is followed.

Every folder on the way is opened behind the one above it, so a link that is exchanged meanwhile leads nowhere.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rbank_es.errors import BadInput, CannotWrite, LimitExceeded
from rbank_es.limits import skill_limits
from rbank_es.system.file_locks import lock_within

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def checked_place(given: Path) -> Path:
    """Return the whole path of a folder that was named. Raises `BadInput` where a link on the way leads elsewhere.

    Links above the working directory, or above the last part of an absolute path, are the user's own.
    """
    base = given.parent if given.is_absolute() else Path.cwd()
    whole = Path(os.path.normpath(Path(os.path.realpath(base), given.name if given.is_absolute() else given)))
    if Path(os.path.realpath(whole)) != whole:
        raise BadInput(f"{given} leads through a link to {os.path.realpath(whole)}; name that folder itself")
    return whole


class SkillFolder:
    """One open folder; paths are relative, with `/`. It is locked against other writers while it is open to write."""

    def __init__(self, place: Path, fd: int | None) -> None:
        self.place = place
        self._fd = fd

    @classmethod
    @contextmanager
    def opened(cls, place: Path, *, write: bool) -> Iterator[SkillFolder]:
        """Open a folder; to write, it is made if it is missing, else it is read as an empty one.

        Raises `BadInput` for a link or a file in its place, or if another writer holds it too long.
        """
        if write:
            try:
                place.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise CannotWrite(str(place), error) from error
        try:
            fd = os.open(place, _FOLDER)
        except FileNotFoundError:
            yield cls(place, None)
            return
        except OSError as error:
            raise _refused(place, error) from None
        try:
            if write:
                _lock(fd, place)
            yield cls(place, fd)
        finally:
            os.close(fd)

    def names(self) -> list[str]:
        """Return the names of what is in the folder, in order."""
        if self._fd is None:
            return []
        with os.scandir(self._fd) as entries:
            return sorted(entry.name for entry in entries)

    def read(self, path: str, most_bytes: int = skill_limits.SKILL_FILE_BYTES) -> bytes | None:
        """Return the bytes of a file; None if there is none. Raises `BadInput` for no regular file, `LimitExceeded`."""
        with self._above(path, make=False) as (above, name):
            if above is None:
                return None
            try:
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=above)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise _refused(self.place / path, error) from None
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                os.close(fd)
                raise _refused(self.place / path, OSError(errno.EINVAL, "it is no regular file"))
            with os.fdopen(fd, "rb") as file:
                data = file.read(most_bytes + 1)
            if len(data) > most_bytes:
                raise LimitExceeded(f"{self.place / path} in bytes", status.st_size, most_bytes, "shorten it")
            return data

    def write(self, path: str, data: bytes) -> None:
        """Write a file whole, or leave the one that is there; a new one is readable by its owner alone."""
        with self._above(path, make=True) as (above, name):
            assert above is not None
            scratch = f".{name}.{secrets.token_hex(16)}.tmp"
            try:
                mode = stat.S_IMODE(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode) & 0o777
            except FileNotFoundError:
                mode = 0o600
            try:
                fd = os.open(
                    scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=above
                )
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fchmod(fd, mode)
                os.rename(scratch, name, src_dir_fd=above, dst_dir_fd=above)
            except OSError as error:
                with suppress(OSError):
                    os.unlink(scratch, dir_fd=above)
                raise CannotWrite(str(self.place / path), error) from error

    def remove(self, path: str) -> None:
        """Remove a file, and the folders above it that are empty then."""
        with self._above(path, make=False) as (above, name):
            if above is not None:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=above)
        parts = path.split("/")[:-1]
        while parts:
            with self._above("/".join(parts), make=False) as (above, name):
                if above is not None:
                    # A folder with a file of somebody else stays.
                    with suppress(OSError):
                        os.rmdir(name, dir_fd=above)
            parts.pop()

    @contextmanager
    def _above(self, path: str, *, make: bool) -> Iterator[tuple[int | None, str]]:
        """Give the folder in which a path ends, open, and its name there; None where a folder is missing."""
        *folders, name = path.split("/")
        assert name and not {"", ".", ".."} & {*folders, name}
        held: list[int] = []
        fd = self._fd
        try:
            for number, folder in enumerate(folders):
                if fd is None:
                    break
                fd = self._below(fd, folder, "/".join(folders[: number + 1]), make=make)
                if fd is not None:
                    held.append(fd)
            yield fd, name
        finally:
            for each in held:
                os.close(each)

    def _below(self, fd: int, name: str, path: str, *, make: bool) -> int | None:
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=fd)
            return os.open(name, _FOLDER, dir_fd=fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _refused(self.place / path, error) from None


def _refused(path: Path, error: OSError) -> BadInput:
    why = (
        "it is a link, or no folder or file of its kind"
        if error.errno in (errno.ELOOP, errno.ENOTDIR)
        else error.strerror
    )
    return BadInput(f"{path} is left alone: {why}; nothing was written through it. Remove it, or name another folder")


def _lock(fd: int, place: Path) -> None:
    try:
        lock_within(fd, fcntl.LOCK_EX, skill_limits.SKILL_LOCK_S)
    except BlockingIOError:
        raise BadInput(f"another program is writing skills into {place}; try again when it is done") from None
