"""The spool of a bank: what hooks saw, as JSON Lines in the user's own data directory, until a command takes it in.

Hooks only append: one write a line, at the end of one file, under a shared lock. A file that has grown to its limit is
closed by a number in its name; of closed files the oldest are given up first. Whoever takes the spool in closes the
open file under the exclusive lock, so that no hook still writes to it, and removes closed files when their lines are in
the bank. A line that is no whole object, as after a kill, is counted and left out. What others than this user can have
put there is neither written to nor read.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from rbank_es.limits import hook_limits as limits
from rbank_es.system.file_locks import lock_within

_OPEN, _PLACE, _LAST = "spool.jsonl", "place", "last.json"
_SAFELY = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CLOSED = re.compile(r"spool-[0-9]{9,}\.jsonl")
_TRIES = 5


class SpoolLines(NamedTuple):
    """The lines of closed spool files in order, how many were unreadable, and the files that they are from."""

    lines: list[dict[str, Any]]
    unreadable: int
    files: tuple[Path, ...]


def spool_of(place: str) -> Spool:
    """Return the spool of the bank at a place (a directory, or a URL); nothing is made."""
    from rbank_es.agents.trusted_banks import data_folder

    real = place if "://" in place else os.path.realpath(place)
    name = sha256(real.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return Spool(data_folder() / "spool" / name, real)


class Spool:
    """The spool in a folder. Safe for any number of processes."""

    def __init__(self, folder: Path, place: str) -> None:
        self.folder, self.place = folder, place

    def append(self, line: Mapping[str, Any]) -> str:
        """Append one object, with an id and the time; return the id. Raises OSError where it can't be written."""
        made = os.urandom(8).hex()
        data = json.dumps({"v": 1, "id": made, "at": _now(), **line}).encode()
        if len(data) >= limits.SPOOL_LINE_BYTES:
            cut = {key: value for key, value in line.items() if not isinstance(value, str) or len(value) < 1_000}
            data = json.dumps({"v": 1, "id": made, "at": _now(), **cut, "cut": True}).encode()
        with self._locked(fcntl.LOCK_SH) as fd:
            # The newline in front ends what a killed hook left of its line.
            os.write(fd, b"\n" + data + b"\n")
            grown = os.fstat(fd).st_size > limits.SPOOL_FILE_BYTES
        if grown:
            self.close()
        return made

    def first_of(self, key: str, made: str) -> bool:
        """Return whether the line with the id `made` is the first of late with that key: two hooks may say the same."""
        with suppress(OSError):
            fd = os.open(self.folder / _OPEN, os.O_RDONLY | _SAFELY)
            try:
                size = os.fstat(fd).st_size
                tail = os.pread(fd, limits.SPOOL_TAIL_BYTES, max(0, size - limits.SPOOL_TAIL_BYTES))
            finally:
                os.close(fd)
            wanted = json.dumps(key).encode()
            for line in _objects(part for part in tail.split(b"\n") if wanted in part):
                if line.get("key") == key and _is_late(line):
                    return line.get("id") == made
        return True

    def close(self) -> None:
        """Close the open file, if it has lines, under the next number; give up the oldest beyond the limit."""
        # What is no file in the place of the open one, no hook writes to either.
        with suppress(OSError), self._locked(fcntl.LOCK_EX, make=False):
            closed, taken = self.closed(), self._numbered()
            number = int(taken[-1].stem.rpartition("-")[2]) + 1 if taken else 1
            (self.folder / _OPEN).rename(self.folder / f"spool-{number:09d}.jsonl")
            for old in closed[: max(0, len(closed) + 1 - limits.SPOOL_FILES)]:
                old.unlink(missing_ok=True)

    def closed(self) -> list[Path]:
        """Return the closed files, oldest first."""
        return [path for path in self._numbered() if _is_own(path)]

    def _numbered(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("spool-*.jsonl") if _CLOSED.fullmatch(path.name))

    def obstacle(self) -> str | None:
        """Return the path at which no hook can write, because it isn't, or may not be, this user's; None for none."""
        return next((str(path) for path in (self.folder, self.folder / _OPEN) if _is_foreign(path)), None)

    def waiting(self) -> SpoolLines:
        """Close the open file and return the lines of all; they stay until `replace`."""
        self.close()
        lines, unreadable, files = [], 0, self.closed()
        for path in files:
            given, bad = _read(path)
            lines += given
            unreadable += bad
        return SpoolLines(lines, unreadable, tuple(files))

    def look(self) -> list[dict[str, Any]]:
        """Return all lines, closed and open, without changing anything."""
        return [line for path in (*self.closed(), self.folder / _OPEN) for line in _read(path)[0]]

    def last(self) -> dict[str, float]:
        """Return when a hook last `ran`, and a lesson was last `delivered`, as the lines taken in had it; 0: never."""
        from rbank_es.errors import LimitExceeded
        from rbank_es.system.files import read_regular

        with suppress(OSError, ValueError, RecursionError, LimitExceeded):
            found = json.loads(read_regular(self.folder / _LAST, limits.SPOOL_LINE_BYTES))
            return {key: float(found[key]) for key in ("ran", "delivered") if isinstance(found.get(key), int | float)}
        return {}

    def replace(self, taken: SpoolLines, kept: list[dict[str, Any]], delivered: float = 0.0) -> None:
        """Remove the files that were taken in, after keeping some of their lines in the last of them.

        `delivered` is when the last lesson was given that a transcript has.
        """
        from rbank_es.system.files import write_replacing

        if not taken.files:
            return
        known = self.last()
        ran = max([known.get("ran", 0.0), *map(seconds_of, taken.lines)])
        last_times = {"ran": ran, "delivered": max(known.get("delivered", 0.0), delivered)}
        write_replacing(self.folder / _LAST, [json.dumps(last_times).encode()])
        *whole, last = taken.files
        if kept:
            scratch = last.with_name(f".{last.name}.{os.urandom(8).hex()}.tmp")
            data = b"".join(json.dumps(line).encode() + b"\n" for line in kept)
            fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            scratch.rename(last)
        for path in whole if kept else taken.files:
            path.unlink(missing_ok=True)

    @contextmanager
    def _locked(self, how: int, *, make: bool = True) -> Iterator[int]:
        """Give the open file under a lock; it is then surely the one that later hooks write to."""
        path, flags = self.folder / _OPEN, os.O_WRONLY | os.O_APPEND | _SAFELY | (os.O_CREAT if make else 0)
        for _ in range(_TRIES):
            if (foreign := self.obstacle()) is not None:
                raise OSError(f"{foreign} may be another user's; nothing was written there")
            fd = self._opened(path, flags, make=make)
            try:
                lock_within(fd, how, limits.SPOOL_LOCK_S)
                if _is_at(fd, path):
                    yield fd
                    return
            finally:
                os.close(fd)
        raise OSError(f"{path} is renamed again and again")

    def _opened(self, path: Path, flags: int, *, make: bool) -> int:
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            if not make:
                raise
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        note = os.open(self.folder / _PLACE, os.O_WRONLY | os.O_CREAT | _SAFELY, 0o600)
        os.write(note, os.fsencode(self.place))
        os.close(note)
        return os.open(path, flags, 0o600)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def _is_own(path: Path) -> bool:
    return path.exists() and not _is_foreign(path)


def _is_foreign(path: Path) -> bool:
    """Return whether something at a path isn't this user's alone: a link, another user's, of another kind."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    kind = stat.S_ISREG if path.suffix else stat.S_ISDIR
    return not kind(status.st_mode) or status.st_uid != os.geteuid() or bool(status.st_mode & 0o022)


def _read(path: Path) -> tuple[list[dict[str, Any]], int]:
    from rbank_es.system.files import opened

    try:
        with opened(path) as fd, os.fdopen(fd, "rb", closefd=False) as file:
            # One more line than the limit may end a file. What is behind is no hook's, and counts as one line.
            parts = [part for part in file.read(2 * limits.SPOOL_FILE_BYTES).split(b"\n") if part.strip()]
            parts += [b"{"] if file.read(1) else []
    except OSError:
        return [], 0
    lines = list(_objects(parts))
    return lines, len(parts) - len(lines)


def _objects(parts: Any) -> Iterator[dict[str, Any]]:
    for part in parts:
        with suppress(ValueError, RecursionError):
            line = json.loads(part)
            if isinstance(line, dict) and line.get("v") == 1 and isinstance(line.get("id"), str):
                yield {name: _whole(value) for name, value in line.items()}


def _whole(value: Any) -> Any:
    """Return a text with half a character replaced, which JSON can hold and no log; another value as it is."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _is_late(line: Mapping[str, Any]) -> bool:
    age_s = time.time() - seconds_of(line)
    return -limits.HOOK_TWICE_S <= age_s <= limits.HOOK_TWICE_S


def seconds_of(line: Mapping[str, Any]) -> float:
    """Return the time of a line, in seconds since 1970; 0 where it has none."""
    at = line.get("at")
    return float(at) if isinstance(at, int | float) and 0 <= at < 1e11 else 0.0


def _now() -> float:
    return round(time.time(), 6)
