# ruff: noqa: D102  the methods are documented in `LogEngine`
"""The engine of logs in rows: all but how a log is found and made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from rbank_es.events.event_envelope import Event
from rbank_es.log.file.file_log import ENGINE as FILES
from rbank_es.log.protocol import EMPTY, Ancestor, EventLog
from rbank_es.log.rows.row_log import RowLog

Log = TypeVar("Log", bound=RowLog)


class RowEngine(Generic[Log]):
    """An engine that keeps logs in rows; see `LogEngine` for its promises."""

    outlives_process = True

    def _make(
        self, locator: str, bank_id: str, ancestors: Sequence[Ancestor], fill: Callable[[Log], object], **options: Any
    ) -> Log:
        """Make an empty log, and let it be found at its place when `fill` has returned; else leave nothing behind."""
        raise NotImplementedError

    def create(
        self,
        locator: str,
        events: Sequence[Event] = (),
        *,
        fill: Callable[[EventLog], object] | None = None,
        **options: Any,
    ) -> Log:
        def begin(made: Log) -> None:
            if events:
                made.append(events, expected=EMPTY)
            if fill is not None:
                fill(made)

        bank_id = options.get("entropy", os.urandom)(16).hex()
        return self._make(locator, bank_id, (), begin, **options)

    def receive(
        self, locator: str | None, bank_id: str, ancestors: Sequence[Ancestor], stored: Iterable[bytes], **options: Any
    ) -> EventLog:
        if locator is None:  # on this machine, so that whoever may only read can have one
            return FILES.receive(None, bank_id, ancestors, stored, **options)
        return self._make(locator, bank_id, ancestors, lambda made: made.take(stored), **options)
