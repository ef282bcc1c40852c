"""A bank that tells somebody of each group of events as it is recorded: what progress is shown by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rbank_es.bank import Bank
from rbank_es.events import Event
from rbank_es.log import ANY, Appended, EventLog, Expected, LogWrapper

OnEvents = Callable[[Sequence[Event]], None]
"""Called with each group that was appended, from any thread."""


class WatchedLog(LogWrapper):
    """Log that reports every group appended through it."""

    def __init__(self, log: EventLog, on_events: OnEvents) -> None:
        super().__init__(log)
        self._on_events = on_events

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        """Append as the log does, then report the group, unless it was a duplicate."""
        done = super().append(events, expected=expected)
        if not done.duplicate:
            self._on_events(done.events)
        return done


def watched(bank: Bank, on_events: OnEvents) -> Bank:
    """Return a bank on the same log that reports every group appended through it."""
    return Bank(WatchedLog(bank.log, on_events), bank.name)
