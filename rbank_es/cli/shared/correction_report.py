"""The report of a correction, for people and programs, and the options that its commands share."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from rbank_es.cli.shared.application import decorated
from rbank_es.cli.shared.output import (
    VERDICT_COLOURS,
    Cell,
    count,
    echo,
    echo_command,
    echo_heading,
    echo_json,
    echo_section,
    format_positions,
    styled,
)

if TYPE_CHECKING:
    from rbank_es.bank.correction import Correction, ItemChange

because_option = click.option(
    "--because", metavar="TEXT", required=True, help="The reason, recorded for those who read the log later."
)
act_options = decorated(
    click.option("--by", metavar="NAME", help="Who does it."),
    click.option("--dry-run", is_flag=True, help="Only report what would change."),
)
"""Options that every act of a person takes."""


NEXT = "  "
"""Stands before a command that could come next, unlike the mark of one that ran."""


def report(bank: str, made: Correction, *, dry_run: bool, as_json: bool, unchanged: str) -> None:
    """Print what a correction of a bank (as the command line names it) did, or would do.

    `unchanged` is the sentence for one that found nothing to do.
    """
    if as_json:
        echo_json({"bank": bank, "dry_run": dry_run} | msgspec.to_builtins(made))
    else:
        print_correction(bank, made, dry_run=dry_run, unchanged=unchanged)


def print_correction(bank: str, made: Correction, *, dry_run: bool, unchanged: str) -> None:
    """Print what a correction did, for people: see `report`."""
    _print_verdicts(made)
    if _is_empty(made) and not (made.correction or dry_run):
        echo(unchanged)
        return
    _print_items("left the bank", made.left, "now", [change.after for change in made.left])
    _print_items("came", made.came, "before", [_before(change) for change in made.came])
    _print_others(made)
    _print_usage(made)
    _print_runs(made)
    _print_tainted(bank, made)
    _print_vouched(made)
    _print_to_extract(bank, made)
    echo()
    echo(_recorded(made, dry_run))


def _is_empty(made: Correction) -> bool:
    return not (made.items or made.usage or made.decided or made.aside)


def _print_verdicts(made: Correction) -> None:
    for each in made.verdicts:
        before = each.before or "not judged"
        if each.after != each.given:
            echo(f"{each.run}: recorded as {each.given}, but {before} stands: its judge has the higher authority")
        elif each.before == each.after:
            echo(f"{each.run}: {before}, as it was")
        else:
            shown = styled(each.after or "", VERDICT_COLOURS.get(each.after or "", "yellow"))
            echo(f"{each.run}: {before} → {shown}")


def _before(change: ItemChange) -> str:
    return change.before or "new"


def _print_items(title: str, changes: Sequence[ItemChange], column: str, states: Iterable[str]) -> None:
    rows = [[change.id, state, change.title or "[erased]"] for change, state in zip(changes, states, strict=True)]
    echo_section(f"{title}: {count(len(rows), 'item')}", ["item", column, "title"], rows, flexible=["title"])


def _print_others(made: Correction) -> None:
    """Print the items whose state changed though they neither left nor came."""
    seen = {change.id for change in (*made.left, *made.came)}
    rows = [
        [change.id, _before(change), change.after, change.title or "[erased]"]
        for change in made.items
        if change.id not in seen
    ]
    title = f"changed otherwise: {count(len(rows), 'item')}"
    echo_section(title, ["item", "before", "now", "title"], rows, flexible=["title"])


def _print_usage(made: Correction) -> None:
    echo_section(
        f"wins recounted: {count(len(made.usage), 'item')}",
        ["item", "uses", "wins before", "wins now"],
        [[each.id, each.uses, each.wins_before, each.wins_after] for each in made.usage],
    )


def _print_runs(made: Correction) -> None:
    rows = [[each.run, ", ".join(each.items)] for each in made.misled]
    echo_section(f"had been given what left: {count(len(rows), 'run')}", ["run", "items"], rows, flexible=["items"])


def _print_tainted(bank: str, made: Correction) -> None:
    title = f"set aside, because drawn from such runs: {count(len(made.aside), 'extraction')}"
    echo_section(title, ["extraction"], [[each] for each in made.aside])
    title = f"drawn from these runs, and still there: {count(len(made.tainted), 'item')}"
    rows = [[each.id, each.run, each.title or "[erased]"] for each in made.tainted]
    echo_section(title, ["item", "from run", "title"], rows, flexible=["title", "from run"])
    if not made.tainted:
        return
    if len(made.verdicts) == 1:
        [ruled] = made.verdicts
        words = shlex.join([bank, ruled.run, f"--{ruled.given}", "--influence", "--reason"])
        echo("to set these aside too, as long as that verdict stands:")
        echo_command(f"overrule {words} TEXT", NEXT)
    elif made.verdicts:
        echo("to set these aside too, as long as these verdicts stand:")
        echo_command(f"overrule {shlex.join([bank, '--from'])} FILE --influence", NEXT)
    else:
        echo("to end one of these:")
        echo_command(f"retract {shlex.join([bank, made.tainted[0].id])} --because TEXT", NEXT)


def _print_vouched(made: Correction) -> None:
    title = f"stays, because a person vouched for it: {count(len(made.stays), 'item')}"
    rows: list[list[Cell]] = [[each.id, each.seq, each.title or "[erased]"] for each in made.stays]
    echo_section(title, ["item", "restored at", "title"], rows, flexible=["title"])


def _print_to_extract(bank: str, made: Correction) -> None:
    if made.to_extract:
        echo_heading(f"nothing was learned yet under the verdict that stands: {count(len(made.to_extract), 'run')}")
        echo("a model can draw candidates from it:" if len(made.to_extract) == 1 else "a model can draw candidates:")
        echo_command(f"learn {shlex.join([bank, *made.to_extract])} --lm MODEL", NEXT)


def _recorded(made: Correction, dry_run: bool) -> str:
    if dry_run:
        return "nothing was recorded"
    again = f", {count(made.decided, 'decision')} made again" if made.decided else ""
    return f"recorded at {format_positions(made.first, made.last)}{again}"
