"""The report of a correction, for people and programs, and the options that its commands share."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rbank_es.cli.shared.answer_output import print_answer
from rbank_es.cli.shared.command_registry import decorated
from rbank_es.cli.shared.difference_report import print_difference
from rbank_es.cli.shared.output import (
    VERDICT_COLOURS,
    Cell,
    echo,
    echo_command,
    echo_heading,
    echo_section,
    format_positions,
    program_name,
    styled,
)
from rbank_es.errors import RBankError
from rbank_es.events.readable_text import count, format_names, safe_line
from rbank_es.limits import NAMES_LISTED

if TYPE_CHECKING:
    from rbank_es.bank.bank_difference import ActDifference
    from rbank_es.bank.correction_effect import Correction

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


def report(bank: str, made: Correction, *, as_json: bool, unchanged: str) -> None:
    """Print what a correction of a bank (as the command line names it) changed, or would change.

    `unchanged` is the sentence for one that found nothing to do.
    """
    print_answer(made, "correction", lambda: print_correction(bank, made, unchanged=unchanged), as_json)


def print_correction(bank: str, made: Correction, *, unchanged: str) -> None:
    """Print what a correction changed, for people: see `report`."""
    _print_verdicts(made)
    if made.last_seq is None and not made.aside:
        echo(unchanged)
        return
    print_difference(replace(made, runs=tuple(each for each in made.runs if each.run not in made.verdicts)))
    _print_runs(made)
    _print_tainted(bank, made)
    _print_vouched(made)
    _print_to_extract(bank, made)
    echo()
    again = f", {count(made.decided, 'decision')} made again" if made.decided else ""
    echo(recorded(made, again))
    if made.recorded and made.items:
        _print_skills(bank)


def _print_skills(bank: str) -> None:
    """Name the places whose skills were written before a correction, and the command that brings them up to date."""
    from rbank_es.agents.skill_manifest import remembered_places
    from rbank_es.bank import Bank

    places: list[str] = []
    with suppress(RBankError), Bank.open(bank) as opened:
        places = [safe_line(str(place)) for place in remembered_places(opened.id)]
    if places:
        command = f"{program_name()} skills {shlex.join([bank, '--sync'])}"
        echo(f"skills were written to {format_names(places, NAMES_LISTED)} before: {command}")


def recorded(made: ActDifference, besides: str = "") -> str:
    """Return where the events of an act were recorded, and `besides`; or that nothing was."""
    if not made.recorded or made.first_seq is None or made.last_seq is None:
        return "nothing was recorded"
    return f"recorded at {format_positions(made.first_seq, made.last_seq)}{besides}"


def _print_verdicts(made: Correction) -> None:
    changed = {each.run: each for each in made.runs}
    for run, verdict in made.verdicts.items():
        if run in changed:
            before = changed[run].before
            was = (before and before.verdict) or "not judged"
            echo(f"{run}: {was} → {styled(verdict, VERDICT_COLOURS[verdict])}")
        else:
            echo(f"{run}: {verdict}, as it was")


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
        [(run, verdict)] = made.verdicts.items()
        words = shlex.join([bank, run, f"--{verdict}", "--influence", "--reason"])
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
