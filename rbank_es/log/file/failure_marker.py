"""The marker `FAILED`: after one failed sync it stops every writer of a bank, until `verify` found the log sound.

Where not even the marker can be made, the writer that saw the failure stops by itself, and holds the bank's lock shared
for as long as its process lives: readers go on, and no other writer gets in.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from rbank_es import limits
from rbank_es.errors import LimitExceeded
from rbank_es.log.file.segments import FAILED, LOCK
from rbank_es.log.system_calls import System
from rbank_es.system.files import create_new, kind_of, open_regular, read_regular


class FailureMarker:
    """The marker of one bank, as one writer sees it."""

    def __init__(self, directory: Path, calls: System) -> None:
        self._directory, self._system = directory, calls
        self._path = str(directory / FAILED)
        self._unwritten = ""
        self._held = -1

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
        if self._held < 0:
            self._held = os.dup(lock_fd)  # the same lock, which outlives the writer's own descriptor

    def open_lock(self) -> int:
        """Return a descriptor of the bank's lock file: of the lock that `hold` keeps, if it does. Raises OSError."""
        if self._held >= 0:
            return os.dup(self._held)
        return open_regular(self._directory / LOCK, os.O_RDWR | os.O_CREAT)

    def remove(self) -> None:
        """Admit writers again. The caller holds the bank's lock."""
        self._system.remove(Path(self._path))
        self._unwritten = ""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1
