"""Marks of living writers: a locked file for each run that a process of this machine records.

The lock ends with the process, however that ends, so a mark without one is that of a run whose writer is gone. Marks
are in the bank's derived files: without them, or on another machine, nobody closes a run but its writer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rbank_es.bank.run_end import close_run
from rbank_es.errors import LogBusy, LogUnavailable
from rbank_es.limits import recorder_limits
from rbank_es.log.disk import lock_file, locked, take

if TYPE_CHECKING:
    from rbank_es.bank.bank_access import OpenBank

FOLDER = "recorded-runs"
"""The folder of the marks, in the log's derived directory."""

PROCESS_ENDED = "process_ended"
"""The error code of a run whose writer is gone."""

_MARK = re.compile(r"run-[0-9a-f]{16}")

_held: dict[Path, int] = {}
"""The marks with the ids of the processes that hold them: a forked child knows those of its parent, and holds none."""


class WriterMark:
    """The mark that this process records a run; a forked child doesn't hold it."""

    def __init__(self, bank: OpenBank, run: str) -> None:
        self._stack = ExitStack()
        self._path: Path | None = None
        # Without a mark, a run whose writer is killed stays unfinished, and nothing else is lost.
        with suppress(OSError, LogUnavailable, LogBusy):
            folder = _folder(bank)
            folder.mkdir(mode=0o700, exist_ok=True)
            self._path = self._made(folder / run, bank.place)

    def _made(self, path: Path, place: str) -> Path:
        while True:
            fd = self._stack.enter_context(lock_file(path))
            take(fd, place, wait_s=recorder_limits.MARK_WAIT_S)
            # Somebody who looks for ended writers may have removed it before the lock.
            if os.fstat(fd).st_nlink:
                os.write(fd, _machine())
                _held[path] = os.getpid()
                return path
            self._stack.close()

    def release(self) -> None:
        """Remove the mark, because the run has ended."""
        path, self._path = self._path, None
        if path is not None:
            _held.pop(path, None)
            with suppress(OSError):
                path.unlink(missing_ok=True)
        self._stack.close()


def close_left_runs(bank: OpenBank) -> tuple[str, ...]:
    """Record `failed: process ended` for the runs whose writers, processes of this machine, are gone; return their ids.

    Raises as `Bank.append`.
    """
    # A server has many runs open, and to try a lock takes a tenth of a millisecond.
    others = (path for path in _marks(bank) if _held.get(path) != os.getpid())
    return tuple(run for path in others for run in _closed(bank, path))


def _closed(bank: OpenBank, path: Path) -> Iterator[str]:
    with suppress(OSError, LogBusy), locked(path, bank.place, wait_s=0):
        machine = path.read_bytes()[: recorder_limits.MACHINE_BYTES]
        if machine not in (_machine(), b""):
            return
        # A mark that nothing was written to is of a process that was killed before its run began.
        if machine and close_run(bank, path.name, PROCESS_ENDED, "the process that recorded it ended before it did"):
            yield path.name
        path.unlink(missing_ok=True)


def _marks(bank: OpenBank) -> list[Path]:
    with suppress(OSError, LogUnavailable), os.scandir(_folder(bank)) as entries:
        files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
        return [Path(entry.path) for entry in files if _MARK.fullmatch(entry.name)]
    return []


def _folder(bank: OpenBank) -> Path:
    return bank.log.derived_directory / FOLDER


def _machine() -> bytes:
    return os.uname().nodename.encode("utf-8", "replace")[: recorder_limits.MACHINE_BYTES]
