"""`append`: append events to a bank, all or none."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from rbank_es import limits
from rbank_es.cli.shared.arguments import lasting, open_or_create, open_to_fill, read_bounded, whole_bank
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import echo, echo_json, format_positions, say, warn
from rbank_es.errors import BadEvent, BadInput, BankExists, RBankError
from rbank_es.events import JudgmentOverruled, RunJudged
from rbank_es.events.readable_text import count, format_names
from rbank_es.log import ANY, EMPTY, Expected
from rbank_es.system.whole_number import whole_number

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.events import Event


class AppendedGroup(msgspec.Struct, frozen=True):
    """Positions of one atomic group."""

    first: int
    last: int
    events: int
    duplicate: bool


def _expectation(context: click.Context, parameter: click.Parameter, value: str) -> int | Expected:
    if value in ("any", "empty"):
        return ANY if value == "any" else EMPTY
    position = whole_number(value)
    if position is not None:
        return position
    raise click.BadParameter(f"{value!r} is not a position, 'empty' or 'any'.", context, parameter)


@command("append", "rbank-es append notes events.jsonl --expect 12", "producer | rbank-es append notes --create")
@click.argument("bank")
@click.argument("file", default="-")
@click.option("--create", is_flag=True, help="Create the bank if there is none.")
@click.option(
    "--expect",
    metavar="N|empty|any",
    default="any",
    callback=_expectation,
    help="Append only if the log ends at position N, or is empty.",
)
@click.option(
    "--batch",
    metavar="N",
    type=click.IntRange(1, limits.GROUP_EVENTS),
    help="Append in groups of N, each all or none; default: one group.",
)
def append(bank: str, file: str, create: bool, expect: int | Expected, batch: int | None, as_json: bool) -> None:
    """Append new events from FILE, or from standard input: one JSON object, or JSON Lines.

    All events become visible at once, or none does; on return they are on disk. All are validated before any is
    written. Leave out seq, at and crc: the log's writer sets them. Give each event an id (a UUID), and the command
    may be repeated after any failure: events that are in the log already are not appended again.
    """
    place = whole_bank(bank)
    events = _parsed(file)
    size = batch or len(events)
    done = _append_to_new(place, events, expect, size) if create else None
    is_new = done is not None
    if done is None:
        into, is_new = open_or_create(place) if create else (open_to_fill(bank), False)
        with into:
            done = _append(into, events, into.position if is_new and expect is EMPTY else expect, size)
    _report(done, is_new, as_json)


def _append_to_new(place: str, events: list[Event], expect: int | Expected, size: int) -> AppendResult | None:
    """Create a bank that has the events from the start; refused events leave nothing behind. None if it exists."""
    from rbank_es.bank import Bank
    from rbank_es.log.groups import check_expected

    done: list[AppendResult] = []

    def fill(made: Bank) -> None:
        # A new bank holds the events of its creation, so it is expected to be at their end.
        expected = made.position if expect is EMPTY else expect
        check_expected(place, expected, made.position)  # here, because its log has another place until it is filled
        done.append(_append(made, events, expected, size, is_new=True))

    with suppress(BankExists), Bank.create(lasting(place), fill=fill):
        return done[0]
    return None


def _parsed(file: str) -> list[Event]:
    from rbank_es.events.json_input import parse_events

    if file == "-" and sys.stdin is not None and sys.stdin.isatty():
        say("reading events from the terminal; end with Ctrl-D")
    name = "standard input" if file == "-" else file
    try:
        events = parse_events(read_bounded(file))
    except BadEvent as error:
        raise BadInput(f"{name}, {error}; nothing was appended") from error
    if not events:
        raise BadInput(f"no events in {name}: expected one JSON object a line")
    return events


class AppendResult(NamedTuple):
    """The groups appended to a bank, and its head after them."""

    bank: str
    groups: list[AppendedGroup]
    head: str


def _append(
    bank: Bank, events: list[Event], expected: int | Expected, size: int, *, is_new: bool = False
) -> AppendResult:
    groups: list[AppendedGroup] = []
    for start in range(0, len(events), size):
        try:
            done = bank.append(events[start : start + size], expected=expected)
        except RBankError as error:
            # Groups that were appended stay, but those of a bank that is not made: say which events they hold, so that
            # the rest can be appended.
            if groups and not is_new:
                error.add_note(f"Kept: the first {count(start, 'event')}, up to position {groups[-1].last:,}.")
            raise
        groups.append(AppendedGroup(done.first, done.last, len(done.events), done.duplicate))
        # Each further group must follow the one before it, else another writer came between.
        if expected is not ANY:
            expected = done.last
    _warn_of_unknown_runs(bank, events)
    return AppendResult(bank.name, groups, str(bank.head(groups[-1].last)))


def _warn_of_unknown_runs(bank: Bank, events: list[Event]) -> None:
    """Warn of judgments of runs that never began: they count for nothing, and are a misspelt id more often than not."""
    judged = dict.fromkeys(event.run for event in events if isinstance(event, RunJudged | JudgmentOverruled))
    unknown = [run for run in judged if not any(bank.events(types={"run_started"}, run=run))]
    if unknown:
        named = format_names(unknown, limits.NAMES_LISTED)
        warn(f"{named} never began in this bank: a verdict counts for nothing before its run begins")


def _report(done: AppendResult, created: bool, as_json: bool) -> None:
    bank, groups, head = done
    first, last = groups[0].first, groups[-1].last
    new = sum(group.events for group in groups if not group.duplicate)
    known = sum(group.events for group in groups if group.duplicate)
    if as_json:
        facts = {"bank": bank, "created": created, "first": first, "last": last, "appended": new, "known": known}
        echo_json(facts | {"duplicate": not new, "groups": len(groups), "head": head})
        return
    where = format_positions(first, last)
    if not new:
        echo(f"nothing appended to {bank}: {count(known, 'event')} already there, at {where}")
    else:
        also = f" ({known:,} more already there)" if known else ""
        echo(f"{'made' if created else 'appended to'} {bank}: {count(new, 'event')} at {where}{also}")
    echo(f"head {head}")
