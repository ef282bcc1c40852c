"""Taking traces in: what a server spooled for a bank becomes its runs, or joins them.

Events are appended first, then the spool forgets them. A process that ends between the two has them taken in again,
which adds nothing, because ids follow from the spans.
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from rbank_es.agents.traces.trace_events import TraceEvents, start_id
from rbank_es.agents.traces.trace_run import FORM, traces_of
from rbank_es.agents.traces.trace_spool import TraceSpool, Which, trace_spool
from rbank_es.agents.transcripts.transcript_events import EventWriter
from rbank_es.events.redaction import secrets
from rbank_es.exchange.file_import import import_parsed
from rbank_es.exchange.importer import sized
from rbank_es.system.utc_times import utc_text

if TYPE_CHECKING:
    from rbank_es.bank import Bank


class TraceIntake(NamedTuple):
    """What was taken in: runs that are new, events appended, traces that wait for their roots or for silence, and facts
    that were unreadable."""

    runs: int = 0
    appended: int = 0
    waiting: int = 0
    unreadable: int = 0


def take_traces_in(bank: Bank, which: Which = "due") -> TraceIntake:
    """Take in what servers spooled for a bank. Raises as `Bank.append`, sqlite3.Error; then the spool is as it was."""
    spool = trace_spool(bank.log.place)
    if spool is None:
        return TraceIntake()
    try:
        taken = take_from(spool, bank, which)
        if which == "all":
            spool.empty_journal()
        return taken
    finally:
        spool.close()


def take_from(spool: TraceSpool, bank: Bank, which: Which = "due", *, most_s: float = math.inf) -> TraceIntake:
    """Take in the traces of an open spool, until `most_s` seconds have passed. `which`: see `TraceSpool.due`.

    Raises as `take_traces_in`.
    """
    runs = appended = unreadable = 0
    end = time.monotonic() + most_s
    while True:
        found = spool.due(time.time(), lambda trace: bank.log.seq_of_id(start_id(trace)) is not None, which)
        if not found.rows or time.monotonic() > end:
            return TraceIntake(runs, appended, found.waiting, unreadable)
        unreadable += found.unreadable
        events = TraceEvents(EventWriter(secrets(), utc_text(datetime.now(UTC))))
        told = [trace for trace in traces_of(found.facts) if trace.tells]
        units = [sized(FORM, unit) for trace in told for unit in events.units(trace)]
        report = import_parsed(bank, events.parsed(FORM, units))
        spool.forget(found.rows)
        runs, appended = runs + report.runs, appended + report.appended
