# ruff: noqa: D102  the methods without a docstring are documented in `LogEngine`
"""The engine `file:`, which finds each log by the path of its directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rbank_es.errors import BankExists, BankNotFound, PositionConflict
from rbank_es.events.event import Event
from rbank_es.log.file.bank_directory import directory_of, drafted
from rbank_es.log.file.file_log import FileLog
from rbank_es.log.file.segments import LOCK
from rbank_es.log.protocol import EMPTY, EventLog
from rbank_es.log.system_calls import System
from rbank_es.system.files import is_scratch


class FileEngine:
    """The engine that keeps each log in a directory."""

    outlives_process = True

    def name_of(self, locator: str) -> str:
        return directory_of(locator).name

    def open(self, locator: str, **options: Any) -> FileLog:
        return FileLog.open(directory_of(locator), **options)

    def create(
        self,
        locator: str,
        events: Sequence[Event] = (),
        *,
        fill: Callable[[EventLog], object] | None = None,
        **options: Any,
    ) -> FileLog:
        """See `LogEngine.create`. A directory that holds files other than a log's remains raises `BankExists`."""
        directory = directory_of(locator)
        if fill is not None:
            return self._filled(directory, events, fill, options)
        with suppress(BankNotFound):
            log = FileLog.open(directory, **options)
            try:
                log.append(events, expected=EMPTY)
            except PositionConflict:
                raise BankExists(str(directory)) from None
            return log
        if directory.exists() and not directory.is_dir():
            raise BankExists(str(directory), "it is a file")
        if directory.is_dir() and any(
            path.suffix != ".lock" and path.name != LOCK and not is_scratch(path.name) for path in directory.iterdir()
        ):
            raise BankExists(str(directory), "the directory holds other files")
        return FileLog.create(directory, events, **options)

    def _filled(
        self, directory: Path, events: Sequence[Event], fill: Callable[[EventLog], object], options: dict[str, Any]
    ) -> FileLog:
        """Make the log in a draft directory, and give this its place when the log is complete."""
        calls = options.get("calls") or System()
        with drafted(directory, calls) as draft, FileLog.create(draft, events, **options) as log:
            fill(log)
        log.moved_to(directory)
        return FileLog.open(directory, **options)


ENGINE = FileEngine()
