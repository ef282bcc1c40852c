"""`diff`: the differences between two points in time, or between two banks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rbank_es.answers.difference import between
from rbank_es.bank.locator import split_point
from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.difference_report import print_difference
from rbank_es.cli.shared.output import echo
from rbank_es.events.readable_text import count
from rbank_es.system.redacted_locator import shown_locator

if TYPE_CHECKING:
    from rbank_es.answers.difference import BankDifference, SharedHistory


@command(
    "diff",
    "rbank-es diff notes@2026-01-26",
    "rbank-es diff notes@120 notes@HEAD~5",
    "rbank-es diff notes@2026-01-31 ./copies/notes",
    "rbank-es diff notes trial",
)
@click.argument("before", metavar="BANK@A")
@click.argument("after", metavar="[BANK@B]", required=False)
def diff(before: str, after: str | None, as_json: bool) -> None:
    """Compare two points in time, of one bank or of two: items, their support, uses and wins; runs; policies.

    A and B are points: a position, an ISO time, HEAD~n or the id of a run. By default B is the same bank at its newest.
    Runs that began between the two are counted by their verdicts; those before are listed where they changed. A file
    that `replay` or `whatif` wrote may stand for a bank.

    If one bank was forked from the other, or both from a third, also print up to which position their logs are the
    same, as their heads prove, and how many events each has beyond it.
    """
    if after is None and split_point(before)[1] is None:
        raise click.UsageError(f"compare with what? Give a point, as {before}@HEAD~50, or a second bank.")
    after = split_point(before)[0] if after is None else after
    with opened_reader(before) as one, opened_reader(after) as other:
        found = between(one, other)
    before, after = shown_locator(before), shown_locator(after)
    print_answer(found, "difference", lambda: _print(before, after, found), as_json)


def _print(before: str, after: str, found: BankDifference) -> None:
    echo(f"from {before} (position {found.since_seq:,}) to {after} (position {found.position:,})")
    if found.shared is not None:
        _print_shared(before, after, found.shared)
    elif found.since_bank is not None:
        echo("they share no history: neither was forked from the other, nor both from a third")
    if found.empty:
        echo("nothing differs")
    print_difference(found)


def _print_shared(before: str, after: str, shared: SharedHistory) -> None:
    """Print the history that two banks share, and what each has beyond it."""
    echo(f"both are the same up to position {shared.head_seq:,}; head {shared.head.partition(':')[2]}")
    ours, theirs = shared.beyond
    echo(f"beyond it, {before} has {count(ours, 'event')}, {after} has {count(theirs, 'event')}")
    if shared.head_seq < shared.claimed_seq:
        claimed = f"{shared.claimed_seq:,}"
        echo(f"by their ancestry they must be the same up to {claimed}: one was altered, or went on as a copy")
