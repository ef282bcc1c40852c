"""What the real system calls of a process leave after a loss of power.

`traced` wraps the calls of the module `os` that change files, makes each of them for real, and notes what the disk then
must have: the bytes of a file at its last `fsync` or `fdatasync`, the entries of a directory at its last `fsync`. From
this, `states` makes every kind of directory that a loss of power right after any call may leave.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

CHANGING = (
    "open",
    "write",
    "pwrite",
    "ftruncate",
    "truncate",
    "fsync",
    "fdatasync",
    "replace",
    "rename",
    "link",
    "unlink",
)
Files = dict[str, tuple[int, bytes]]
"""By path: a number for the file, which no other file ever has, and its bytes."""


class Moment(NamedTuple):
    """What memory and disk hold right after a call, and what was acknowledged until then."""

    call: str
    memory: Files
    synced: dict[int, bytes]
    entries: Files
    acknowledged: dict[str, int]


class Trace:
    """The moments of a process that works in some directories."""

    def __init__(self, roots: list[Path]) -> None:
        self.roots = roots
        self.moments: list[Moment] = []
        self.acknowledged: dict[str, int] = {}
        self._numbers: dict[int, int] = {}
        self._last = 0
        self._synced: dict[int, bytes] = {}
        self._entries: dict[str, dict[str, int]] = {}

    def _memory(self) -> Files:
        """Read all files; an inode that was gone meanwhile is a new file."""
        found: dict[str, tuple[int, bytes]] = {}
        for root in self.roots:
            for folder, _, names in os.walk(root):
                for name in names:
                    path = Path(folder, name)
                    found[str(path)] = (path.lstat().st_ino, path.read_bytes())
        numbers = {}
        for inode in {inode for inode, _ in found.values()}:
            if (number := self._numbers.get(inode)) is None:
                self._last = number = self._last + 1
            numbers[inode] = number
        self._numbers = numbers
        return {path: (numbers[inode], data) for path, (inode, data) in found.items()}

    def note(self, call: str, fd: int | None) -> None:
        """Note the moment after a call; `fd` is what it synced."""
        memory = self._memory()
        if fd is not None and call in ("fsync", "fdatasync"):
            place = Path(f"/proc/self/fd/{fd}").readlink()
            if place.is_dir():
                self._entries[str(place)] = {path: n for path, (n, _) in memory.items() if Path(path).parent == place}
            elif (number := self._numbers.get(os.fstat(fd).st_ino)) is not None:
                self._synced[number] = next(data for n, data in memory.values() if n == number)
        kept = {path: n for names in self._entries.values() for path, n in names.items()}
        entries = {path: (n, self._synced.get(n, b"")) for path, n in kept.items()}
        self.moments.append(Moment(call, memory, dict(self._synced), entries, dict(self.acknowledged)))


@contextmanager
def traced(trace: Trace, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trace the calls of the `with`."""

    def wrapped(name: str, real: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            result = real(*given, **more)
            if not busy and (name != "open" or given[1] & os.O_CREAT):
                busy.append(True)
                try:
                    trace.note(name, given[0] if isinstance(given[0], int) else None)
                finally:
                    busy.clear()
            return result

        return call

    busy: list[bool] = []
    with patch.context() as patched:
        for name in CHANGING:
            patched.setattr(os, name, wrapped(name, getattr(os, name)))
        yield


def states(moment: Moment, root: Path, seeds: int) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield what a loss of power may leave of the files directly in `root`, by name: at least, at most, and between."""

    def inside(files: Files) -> dict[str, tuple[int, bytes]]:
        return {Path(path).name: file for path, file in files.items() if Path(path).parent == root}

    disk, memory = inside(moment.entries), inside(moment.memory)
    yield "at least", {name: data for name, (_, data) in disk.items()}
    yield "at most", {name: data for name, (_, data) in memory.items()}
    now = dict(memory.values())
    # Each change of a name is there or not; of the bytes that were not synced, some, perhaps with a hole.
    for seed in range(seeds):
        chance = random.Random(seed * 1_000_003 + len(moment.memory))
        names = {
            name: disk.get(name) if chance.random() < 0.5 else memory.get(name) for name in disk.keys() | memory.keys()
        }
        kept = {name: (n, moment.synced.get(n, b""), now.get(n)) for name, (n, _) in _there(names)}
        yield f"chance {seed}", {name: _between(synced, late, chance) for name, (_, synced, late) in kept.items()}


def _there(names: dict[str, tuple[int, bytes] | None]) -> Iterator[tuple[str, tuple[int, bytes]]]:
    return ((name, file) for name, file in sorted(names.items()) if file is not None)


def _between(synced: bytes, now: bytes | None, chance: random.Random) -> bytes:
    if now is None or not now.startswith(synced):
        return synced
    left = now[: chance.randint(len(synced), len(now))]
    hole = chance.randint(len(synced), len(left)), chance.randint(len(synced), len(left))
    start, end = min(hole), max(hole)
    return left if chance.random() < 0.5 else left[:start] + bytes(end - start) + left[end:]
