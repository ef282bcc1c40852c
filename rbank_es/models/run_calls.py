"""The record of a run's calls: each one an event in the bank before its answer goes on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import msgspec

from rbank_es.errors import LmFailed, RBankError
from rbank_es.events import LmCalled
from rbank_es.events.redaction import redact, secrets
from rbank_es.models.call_errors import FATAL, failed, for_dspy

if TYPE_CHECKING:
    from rbank_es.bank import Bank


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of a run add up to. Tries that failed count as calls; costs that aren't known count as none."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None


class Ledger:
    """Writes the calls of one run, adds them up, and knows after which failure nothing more may be asked."""

    def __init__(self, bank: Bank, run: str | None) -> None:
        self.run = run
        self.step: int | None = None
        self.prompt_chars = 0
        self.totals = Totals()
        self.broken: LmFailed | None = None
        self._bank = bank
        self._hidden = secrets()
        self._mutex = threading.Lock()

    def scrubbed(self, text: str) -> str:
        """A text without the keys of the environment."""
        return redact(text, self._hidden)

    def check(self) -> None:
        """Raise the failure after which nothing more may be asked, if there was one."""
        if self.broken is not None:
            raise for_dspy(self.broken)

    def record(self, event: LmCalled) -> None:
        """Write the event; on disk when this returns. Raises `LmFailed('not_recorded')`."""
        try:
            self._bank.append(event)
        except (RBankError, OSError) as error:
            failure = failed("not_recorded", f"the call of the {event.role} could not be recorded: {error}")
            failure.__cause__ = error
            self.broken = failure
            raise for_dspy(failure) from error
        with self._mutex:
            self.totals = _added(self.totals, event)
            if event.error_code in FATAL:
                self.broken = failed(event.error_code, str(event.error))


def _added(totals: Totals, event: LmCalled) -> Totals:
    known = [cost for cost in (totals.cost_usd, event.cost_usd) if cost is not None]
    return Totals(
        calls=totals.calls + 1,
        tokens_in=totals.tokens_in + (event.tokens_in or 0),
        tokens_out=totals.tokens_out + (event.tokens_out or 0),
        cost_usd=sum(known) if known else None,
    )
