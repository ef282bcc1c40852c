"""A watch on the position of a bank, for many who wait: the log is looked at once for all of them."""

from __future__ import annotations

from contextlib import suppress
from threading import Condition, Thread
from threading import Event as Signal

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import RBankError


class PositionWatch:
    """The newest known position of a bank. It is looked at while somebody waits."""

    def __init__(self, bank: Bank) -> None:
        self._bank, self._stop = bank, Signal()
        self._changed = Condition()
        self._position = 0
        self._thread: Thread | None = None

    def beyond(self, seen: int, timeout_s: float) -> int | None:
        """Return the position once it is another one than `seen`; None where it is not within the time.

        It may be a lower one: a bank may be replaced by an older copy.
        """
        with self._changed:
            if self._thread is None:
                self._thread = Thread(target=self._look, daemon=True)
                self._thread.start()
            changed = self._changed.wait_for(lambda: self._position not in (0, seen), timeout_s)
            return self._position if changed else None

    def close(self) -> None:
        """Look no longer."""
        self._stop.set()

    def _look(self) -> None:
        while not self._stop.is_set():
            # A bank that is gone or damaged keeps its last position: whoever asks it is told why.
            with suppress(RBankError, OSError):
                position = self._bank.position
                with self._changed:
                    if position != self._position:
                        self._position = position
                        self._changed.notify_all()
            self._stop.wait(limits.POLL_S)
