"""The end of a run that somebody else records, because its own loop can't."""

from __future__ import annotations

from rbank_es import limits
from rbank_es.bank.bank_access import OpenBank
from rbank_es.events import RunFinished
from rbank_es.log.run_reader import read_run


def close_run(bank: OpenBank, run: str, code: str, message: str) -> bool:
    """Record that a run failed, unless it never began or has ended; return whether it was. Raises as `Bank.append`."""
    known = read_run(bank.log, run, types={"run_started", "step_taken", "run_finished"})
    if known.started is None or known.end is not None:
        return False
    error = message[: limits.ERROR_CHARS]
    bank.append(
        RunFinished(run=run, outcome="failed", iterations=known.iterations or None, error_code=code, error=error)
    )
    return True
