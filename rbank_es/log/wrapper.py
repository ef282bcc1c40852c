"""A log that forwards to another one: the base of logs that watch, stop or fail."""

from __future__ import annotations

from typing import Any

from rbank_es.log.protocol import EventLog

_FORWARDED: Any = object
"""Of no known type, so that type checkers take a wrapper for the log that it forwards to."""


class LogWrapper(_FORWARDED):  # type: ignore[misc]
    """A log that forwards every call to another one, `self._log`; a subclass changes some of them."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
