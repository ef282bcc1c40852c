"""`absorb`: bring in what another bank recorded, under this bank's policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank.ontology_registrations import confused_ids
from rbank_es.cli.shared.answer_output import print_answer
from rbank_es.cli.shared.arguments import open_at, open_whole
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.correction_report import act_options, recorded
from rbank_es.cli.shared.difference_report import print_difference, print_rows
from rbank_es.cli.shared.output import Cell, Progress, echo, echo_fields, warn
from rbank_es.events.readable_text import count, safe_line
from rbank_es.system.redacted_locator import shown_locator

if TYPE_CHECKING:
    from rbank_es.bank.absorption import Absorption
    from rbank_es.log import Erasure


@command(
    "absorb",
    "rbank-es absorb notes trial --dry-run",
    "rbank-es absorb notes ./from-ann/notes --by ann",
    "rbank-es absorb notes trial@run-7",
    "rbank-es absorb notes trial --erase",
)
@click.argument("bank")
@click.argument("other", metavar="OTHER[@POINT]")
@click.option("--erase", is_flag=True, help="Erase here, too, what was erased there. --dry-run lists it first.")
@act_options
def absorb(bank: str, other: str, erase: bool, by: str | None, dry_run: bool, as_json: bool) -> None:
    """Bring what another bank recorded into BANK: runs, judgments, extractions, guides, and what people did to items.

    The events keep their ids and times, and are marked with the bank that recorded them first. Policies and decisions
    stay there: BANK decides about every candidate by its own policies. A verdict or an act of a person there counts
    here, so absorb banks of people whose verdicts you would take.

    Events that are in BANK already are not brought again. So a fork can be absorbed by its parent, and the same bank
    many times; an absorption that was interrupted is completed by another one. A run or an imported item whose name
    another one has in BANK gets a new name. Events of a clock that is fast stay there until another absorption.

    Texts that were erased there, and are here, are listed; with --erase they are erased here, wherever their words are.
    """
    with open_whole(bank) as opened:
        source, point = open_at(other)
        with source, Progress("absorbing") as progress:
            confused = confused_ids(opened, source)
            made = opened.absorb(source, point, by=by, erase=erase, dry_run=dry_run, progress=progress)
    if confused:
        warn(
            f"two ontologies are called {', '.join(map(safe_line, confused))} here and there: what is learned on one "
            "counts as learned on the other; give one of them another --id from now on"
        )
    print_answer(made, "absorption", lambda: _print(other, made, dry_run), as_json)


def _print(other: str, made: Absorption, dry_run: bool) -> None:
    _warn_of_refusals(made)
    if made.brought:
        _print_counts(made)
        _print_renamed(made)
    else:
        echo(f"{shown_locator(other)} has nothing {'else ' if made.waiting else ''}that is not here already")
    if made.waiting:
        verb = "waits" if made.waiting == 1 else "wait"
        echo(
            f"{count(made.waiting, 'event')} {verb}: of a time in the future, or about what is; absorb again after "
            f"{safe_line(made.waiting_until)}"
        )
    print_difference(replace(made, runs=()))  # they were counted
    if made.brought or made.items:
        echo()
    if made.erasure is not None:
        _print_erasure(made, made.erasure)
    if dry_run:
        echo(recorded(made))
    elif made.recorded:
        own = made.brought or (made.erasure is not None and made.erasure.appended is not None)
        due = "" if own else "a correction that was due here before was "
        echo(f"{due}{recorded(made)}")


def _print_counts(made: Absorption) -> None:
    echo(f"brought up to position {made.other_seq:,} of bank {safe_line(made.other_id)}")
    fields: dict[str, Cell] = {
        "events": made.brought,
        "runs": made.brought_runs,
        "judgments": made.brought_judgments,
        "extractions": made.brought_extractions,
        "candidates": made.brought_candidates,
    }
    fields |= {f"decided: {action}": number for action, number in sorted(made.decisions.items())}
    fields |= {
        "here already": made.known,
        "staying there": made.own,
        "texts erased there": made.erased or None,
        "texts erased here, left out": made.withheld or None,
    }
    echo_fields(fields)


def _print_renamed(made: Absorption) -> None:
    for noun, names in (("run", made.renamed_runs), ("item", made.renamed_items)):
        title = f"renamed, because the name is taken here: {count(len(names), noun)}"
        print_rows(title, [f"{noun} there", "here"], list(names.items()))


def _print_erasure(made: Absorption, erasure: Erasure) -> None:
    """Print the places of texts that were erased in the other bank, and whether they were erased here."""
    rows: list[list[Cell]] = [
        [place.seq, place.type, place.path, "erased there" if place.named else "holds the same words"]
        for place in erasure.places
    ]
    kept = erasure.appended is None
    title = "were erased there, and are here" if kept else "erased here, as there"
    print_rows(f"{title}: {count(made.erased_since, 'text')}", ["seq", "type", "field", "why"], rows)
    if made.erased_items:
        echo(f"words of {', '.join(map(safe_line, made.erased_items[: limits.TABLE_ROWS]))} are among them")
    if erasure.texts:
        echo(f"and {count(len(erasure.texts), 'text')} stored apart")
    if kept:
        echo("nothing was erased here; --erase does it")
    elif erasure.residue is not None and erasure.residue.found:
        where = ", ".join(map(safe_line, erasure.residue.found))
        warn(f"the words are still in {where}: erase them by hand, and look there with --dry-run")
    echo()


def _warn_of_refusals(made: Absorption) -> None:
    if made.refused:
        first = made.refusals[0]
        held = f"at position {first.known_at:,} here" if first.known_at else "in that bank too"
        warn(
            f"left out {count(made.refused, 'event')} whose id another event has; the first is {first.type} at "
            f"position {first.seq:,} there, whose id is {held}. --json names them"
        )
