"""`log`: the events of a bank, as a table for people, as stored lines for programs."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from contextlib import nullcontext, suppress
from typing import TypeVar

import click

from rbank_es import limits
from rbank_es.answers.events import EventRow, check_types, event_row
from rbank_es.bank import Bank
from rbank_es.bank.id_lookup import recorded_run
from rbank_es.cli.shared.arguments import open_at, split_names
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import (
    echo,
    flush,
    format_time,
    on_terminal,
    pad,
    styled,
    terminal_columns,
    truncate,
    warn,
    width,
    write_json,
)
from rbank_es.events.codec import event_types
from rbank_es.events.readable_text import safe_line

Entry = TypeVar("Entry")
# Columns below which times lose their year, and below which runs are left out; the summary keeps at least the last.
NARROW_COLUMNS = 110
SLIM_COLUMNS = 80
SUMMARY_COLUMNS = 12


def _types(context: click.Context, parameter: click.Parameter, value: str | None) -> frozenset[str] | None:
    if value is None:
        return None
    names = split_names(value)
    check_types(names)
    return frozenset(names)


@command(
    "log",
    "rbank-es log notes --type run_started,run_finished --tail 20",
    "rbank-es log notes@HEAD~100 --since 2026-01-31 --json | jq .run",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--type", "types", metavar="T,...", callback=_types, help="Only events of these types.")
@click.option("--run", metavar="ID", help="Only events of this run.")
@click.option("--since", metavar="POINT", help="Only events after this point.")
@click.option("--tail", metavar="N", type=click.IntRange(1, limits.LOG_TAIL), help="Only the last N of these.")
@click.option("--follow", is_flag=True, help="Follow the log as any process appends, until Ctrl-C.")
def log(
    bank: str,
    types: frozenset[str] | None,
    run: str | None,
    since: str | None,
    tail: int | None,
    follow: bool,
    as_json: bool,
) -> None:
    """List the events of a bank, oldest first.

    On a terminal each event is one line: position, time (UTC) at which it happened, type, run, and a summary. With
    --json, or when the output goes to a file or a program, events are printed as JSON Lines, as they are stored
    (characters that a terminal would obey or hide are escaped). A run may be named by any beginning of its id that no
    other has.
    """
    opened, point = open_at(bank)
    if follow and point is not None:
        raise click.UsageError("--follow prints events to come; leave out the point in time.")
    with opened, suppress(KeyboardInterrupt) if follow else nullcontext():
        upto = opened.resolve(point)
        after = opened.resolve(since) if since is not None else 0
        # A run that is followed may be about to begin.
        run = recorded_run(opened, run, upto) if run is not None and not follow else run
        reader = _Reader(opened, types, run, people=on_terminal() and not as_json)
        reader.print(after, upto, tail)
        if not reader.printed and not follow:
            warn(_why_empty(types, run, after, upto))
        if follow:
            reader.follow(upto)


def _why_empty(types: Collection[str] | None, run: str | None, after: int, upto: int) -> str:
    """Return the filters in words, where no event matched."""
    kinds = f" of type {' or '.join(sorted(types))}" if types else ""
    of = f" of the run {run}" if run is not None else ""
    return (
        f"no event{kinds}{of} from position {after + 1:,} to {upto:,}"
        if upto > after
        else "no events: the end is reached"
    )


class _Reader:
    """Printer of the events that match, as a table for people or as stored lines."""

    def __init__(self, bank: Bank, types: Collection[str] | None, run: str | None, *, people: bool) -> None:
        self.bank, self.types, self.run, self.people = bank, types, run, people
        self._layout: Layout | None = None
        self.printed = 0

    def print(self, after: int, upto: int, tail: int | None) -> None:
        # Where nothing filters, skip straight to the tail: decoding a million events takes seconds.
        if tail is not None and self.types is None and self.run is None:
            after = max(after, upto - tail)
        if self.people:
            for event in _last(self.bank.events(point=upto, after=after, types=self.types, run=self.run), tail):
                self._say(event_row(event))
        else:
            lines = self.bank.log.lines(after=after, upto=upto, types=self.types, run=self.run)
            for stored in _last(lines, tail):
                write_json(stored)
                self.printed += 1

    def follow(self, after: int) -> None:
        flush()
        for event in self.bank.follow(after=after, types=self.types):
            if self.run is None or getattr(event, "run", None) == self.run:
                # Read the event again, because programs get the line as it is stored.
                self.print(event.seq - 1, event.seq, None)
                flush()

    def _say(self, row: EventRow) -> None:
        if self._layout is None:
            self._layout = Layout(self.bank.position)
            echo(self._layout.header())
        echo(self._layout.row(row))
        self.printed += 1


def _last(entries: Iterable[Entry], tail: int | None) -> Iterable[Entry]:
    return entries if tail is None else deque(entries, maxlen=tail)


class Layout:
    """Columns of the table, fitted to the bank's positions and to the terminal's width."""

    def __init__(self, position: int) -> None:
        self.room = terminal_columns()
        wide = self.room >= NARROW_COLUMNS
        self.position = max(3, len(f"{position:,}"))
        # Without year and seconds where columns are few.
        self.time = slice(0, 19) if wide else slice(5, 16)
        self.type = max(map(len, event_types()))
        # 12 characters tell most runs apart; below 80 columns the summary needs them more.
        self.run = 20 if wide else 12 if self.room >= SLIM_COLUMNS else 0

    def header(self) -> str:
        """Return the titles of the columns."""
        return styled(self._joined("seq", "time (UTC)", "type", "run", "summary"), "bold")

    def row(self, row: EventRow) -> str:
        """Return the line of an event, truncated to the terminal's width."""
        at = format_time(row.occurred_at)[self.time]
        came = "absorbed" if row.origin else "imported"
        imported = f"{came} on {format_time(row.recorded_at)[:10]}: " if row.occurred_at != row.recorded_at else ""
        return self._joined(f"{row.seq:,}", at, row.type, safe_line(row.run or ""), imported + (row.summary or ""))

    def _joined(self, position: str, time: str, type_: str, run: str, facts: str) -> str:
        time_width = self.time.stop - self.time.start
        cells = [pad(position, self.position, right=True), pad(time, time_width), pad(type_, self.type)]
        cells += [pad(truncate(run, self.run), self.run)] if self.run else []
        before = "  ".join(cells)
        return f"{before}  {truncate(facts, max(SUMMARY_COLUMNS, self.room - width(before) - 2))}".rstrip()
