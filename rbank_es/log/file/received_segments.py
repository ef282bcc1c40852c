"""Segments made of the lines that another log stored: a bank that comes from another engine or machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rbank_es import limits
from rbank_es.errors import LogCorruption
from rbank_es.log import lines
from rbank_es.log.disk import System
from rbank_es.log.file.bank_directory import drafted
from rbank_es.log.file.segments import segment_path
from rbank_es.log.line_transfer import LineGroup, checked_groups, fork_beginnings, named_texts
from rbank_es.log.protocol import Ancestor


class _Stored(NamedTuple):
    """The place of a text's line: its segment, offset, and size without the newline."""

    path: Path
    offset: int
    size: int


def received(
    directory: Path, bank_id: str, ancestors: Sequence[Ancestor], stored: Iterable[bytes], options: Mapping[str, Any]
) -> None:
    """Make the directory of a log of lines, each group checked, whole or not at all; `options` are those of `FileLog`.

    Raises `BankExists`, `LogCorruption`, `LogUnavailable`, OSError.
    """
    calls: System = options.get("calls") or System()
    with drafted(directory, calls) as draft:
        made = _Segments(draft, bank_id, ancestors, calls, options.get("unsafe_no_sync", False))
        try:
            for group in checked_groups(bank_id, ancestors, stored, made.has):
                made.add(group)
            made.finish()
        finally:
            made.close()


class _Segments:
    """The segments so far; the last one is open."""

    def __init__(
        self, directory: Path, bank_id: str, ancestors: Sequence[Ancestor], calls: System, unsafe_no_sync: bool
    ) -> None:
        self._directory, self._calls, self._unsafe_no_sync = directory, calls, unsafe_no_sync
        self._lineage = next((each.bank for each in ancestors), bank_id)
        self._seed = lines.seed_of(self._lineage)
        self._forks = fork_beginnings(bank_id, ancestors)
        # Of each text where it is: 200 bytes a text, because a later segment that names it stores it again.
        self._texts: dict[str, _Stored] = {}
        self._here: set[str] = set()
        self._fd, self._size, self._writer = -1, 0, self._lineage
        self._last, self._digest, self._erased = 0, lines.GENESIS, 0
        self._first, self._is_closed = 1, False

    def has(self, key: str) -> bool:
        """Return whether a text is in any segment."""
        return key in self._texts

    def add(self, group: LineGroup) -> None:
        """Write a group, into a new segment where one must begin."""
        size = sum(len(line) + 1 for line in (*group.texts, *group.events))
        writer = self._forks.get(self._last + 1, self._writer)
        full = self._size + size > limits.SEGMENT_BYTES
        if self._last < self._first:
            self._open(writer)  # the first one: a fork of nothing begins the log
        elif self._is_closed or writer != self._writer or full:
            self._roll(writer)
        for line in (*self._repeated(group), *group.texts):
            key = lines.key_of_text(line)
            self._texts.setdefault(key, _Stored(self._path, self._size, len(line)))
            self._here.add(key)
            self._write(line + b"\n")
        self._write(b"\n".join([*group.events, b""]))
        self._last, self._digest = group.last, group.digests[-1]
        if group.erases:
            # The first line of the last segment shows the last erasure, so that always ends a segment.
            self._erased, self._is_closed = self._last, True

    def _repeated(self, group: LineGroup) -> Iterator[bytes]:
        """Yield the texts of earlier segments that a group names: a handle is valid in its own segment only."""
        own = self._here | {lines.key_of_text(line) for line in group.texts}
        for key in dict.fromkeys(key for line in group.events if lines.REF in line for key in named_texts(line)):
            if key not in own:
                at = self._texts[key]
                fd = os.open(at.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    yield os.pread(fd, at.size, at.offset)
                finally:
                    os.close(fd)

    def _roll(self, writer: str) -> None:
        self._write(lines.sealed_line(self._last, self._digest.hex(), self._seed))
        self.close()
        self._open(writer)

    def _open(self, writer: str) -> None:
        self._writer = writer
        self._first, self._is_closed, self._here = self._last + 1, False, set()
        self._path = segment_path(self._directory, self._first)
        self._fd, self._size = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), 0
        self._write(lines.opened_line(self._lineage, self._writer, self._first, self._digest.hex(), self._erased))

    def _write(self, data: bytes) -> None:
        self._calls.write(self._fd, data)
        self._size += len(data)

    def finish(self) -> None:
        """End the last segment as a writer would. Raises `LogCorruption` where the record of a fork is missing."""
        if self._fd < 0:
            self._open(self._writer)
        if self._is_closed:
            self._roll(self._writer)
        if (begun := max(self._forks, default=0)) > self._last:
            raise LogCorruption(f"position {begun:,}", "the record of the fork that begins here is missing")
        self.close()
        if not self._unsafe_no_sync:
            self._calls.sync_directory(self._directory)

    def close(self) -> None:
        """Close the last segment, durably unless it is scratch."""
        if self._fd >= 0:
            try:
                if not self._unsafe_no_sync:
                    self._calls.sync_data(self._fd)
            finally:
                os.close(self._fd)
                self._fd = -1
