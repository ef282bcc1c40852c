"""The highest head that was acknowledged to this user: a log without it was put back from a backup, or replaced."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from rbank_es.errors import BadInput
from rbank_es.log import lines
from rbank_es.log.lines import Head
from rbank_es.log.writer_errors import LogBehind
from rbank_es.system.files import BankCache, open_regular, opened

_NAME = "acknowledged"
_BYTES = 128  # of a head as text, padded


class AcknowledgedHead:
    """The record, in the user's cache of a bank: of the highest head that any of this user's processes was told of."""

    def __init__(self, cache: BankCache, place: str) -> None:
        self._cache, self._place = cache, place
        self._head = Head(0, lines.GENESIS.hex())
        self._is_read = False

    @property
    def seq(self) -> int:
        """The position of the head; 0 for none."""
        if not self._is_read:
            self._is_read = True
            found = self._recorded()
            self._head = max(self._head, found, key=lambda head: head.seq)
        return self._head.seq

    def require(self, digest_at: Callable[[int], bytes | None]) -> None:
        """Raise `LogBehind` unless the log has the head."""
        head = self._head if self.seq else None  # once: another thread may note a later one meanwhile
        if head is not None and digest_at(head.seq) != bytes.fromhex(head.digest):
            raise LogBehind(self._place, head.seq, self._cache.folder())

    def note(self, head: Head) -> None:
        """Record a head that was acknowledged. Without a usable cache, only this process knows it."""
        self._head, self._is_read = head, True
        folder = self._cache.found()
        if folder is None:
            return
        with suppress(OSError):
            fd = open_regular(folder / _NAME, os.O_RDWR | os.O_CREAT)
            try:
                # Not synced: a loss of power here leaves an older head, which vouches for less.
                if (found := _parsed(os.pread(fd, _BYTES, 0))) is None or found.seq < head.seq:
                    os.pwrite(fd, f"{head}\n".ljust(_BYTES).encode(), 0)
            finally:
                os.close(fd)

    def _recorded(self) -> Head:
        folder = self._cache.found()
        if folder is not None:
            with suppress(OSError), opened(folder / _NAME) as fd:
                return _parsed(os.pread(fd, _BYTES, 0)) or self._head
        return self._head


def _parsed(data: bytes) -> Head | None:
    with suppress(BadInput, UnicodeDecodeError):
        return Head.parse(data.decode().strip()) if data else None
    return None
