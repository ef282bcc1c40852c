"""The spool of hooks, taken in by commands that write to a bank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from rbank_es.cli.shared.arguments import open_whole
from rbank_es.cli.shared.output import warn
from rbank_es.errors import CannotWrite
from rbank_es.events.readable_text import count

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.bank.bank_access import OpenBank


@contextmanager
def opened_to_correct(bank: str, *, dry_run: bool) -> Iterator[Bank]:
    """Open a bank for a person's act, with what hooks spooled for it taken in before; a dry run only tells of that.

    The read models are current when the command has ended, also if it recorded nothing: hooks go by them.
    """
    with open_whole(bank, current=not dry_run) as opened:
        (tell_of_spool if dry_run else take_spool_in)(opened)
        yield opened


def take_spool_in(bank: Bank) -> None:
    """Take in what hooks and agents spooled for a bank; say on standard error what came, and what could not."""
    from rbank_es.agents import spool_intake

    taken = spool_intake.take_spool_in(bank)
    if taken.turns:
        proved = f"{taken.with_transcript:,} with a transcript"
        warn(f"took in {count(taken.turns, 'turn')} that hooks saw ({proved}): {count(taken.appended, 'event')}")
    if taken.unreadable:
        warn(f"{count(taken.unreadable, 'line')} of the hooks' spool could not be read, and were left out")
    if taken.dropped:
        warn(f"{count(taken.dropped, 'recall')} searched another log than this one, and were left out")
    _take_traces_in(bank)


def _take_traces_in(bank: Bank) -> None:
    import sqlite3

    from rbank_es.agents.traces.trace_intake import take_traces_in

    try:
        taken = take_traces_in(bank)
    # A command has other work than the spool.
    except (sqlite3.Error, CannotWrite, OSError) as error:
        warn(f"the spool of traces can't be read, and was left as it is: {error}")
        return
    if taken.appended:
        warn(f"took in {count(taken.runs, 'new run')} of traces: {count(taken.appended, 'event')}")
    if taken.waiting:
        warn(f"{count(taken.waiting, 'trace')} wait in their spool for a root, or for their last spans")
    if taken.unreadable:
        warn(f"{count(taken.unreadable, 'span')} of the spool of traces could not be read, and were left out")


def tell_of_waiting(bank: OpenBank) -> None:
    """Say on standard error what is spooled for a bank that a command which only looks knows nothing of."""
    if waiting := _waiting(bank):
        warn(f"{waiting} wait: import or learn takes them in, and more may follow")


def tell_of_spool(bank: Bank) -> None:
    """Say on standard error what is spooled for a bank that a dry run leaves where it is."""
    if waiting := _waiting(bank):
        warn(f"{waiting} would be taken in before, and more may be due then")


def _waiting(bank: OpenBank) -> str:
    import sqlite3

    from rbank_es.agents.spool import spool_of
    from rbank_es.agents.traces.trace_spool import trace_spool

    lines = spool_of(bank.log.place).look()
    said = [f"{count(len(lines), 'line')} that hooks spooled"] if lines else []
    with suppress(sqlite3.Error, CannotWrite, OSError):
        spool = trace_spool(bank.log.place)
        if spool is not None:
            with closing(spool):
                traces = spool.size()[0]
            said += [f"{count(traces, 'trace')} that agents sent"] if traces else []
    return " and ".join(said)
