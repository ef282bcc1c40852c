"""`erase`: remove texts from every file of a bank, after listing them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es import limits
from rbank_es.cli.shared.arguments import read_text_file
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.difference_report import print_difference
from rbank_es.cli.shared.hook_spool import opened_to_correct
from rbank_es.cli.shared.output import echo, echo_json, echo_table, flush, format_size, on_terminal
from rbank_es.errors import BadInput, CheckFailed, NotInBank
from rbank_es.events.readable_text import count, safe_line
from rbank_es.system.registry import Registry

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.bank.erasure_effect import BankErasure
    from rbank_es.log.protocol import Erasure, Place, Residue

WHOLES: Registry[Callable[[Path], Path | None]] = Registry(
    "whole of several banks", {"experiment": "rbank_es.lab.trial_place:experiment_of"}
)
"""Functions from the place of a bank to the folder of the whole that it is a part of, None where it is of none."""


@command(
    "erase",
    "rbank-es erase notes --item 3f2a9c01b7de --dry-run",
    "rbank-es erase notes --text secret.txt --reason 'asked for by its author' --yes",
)
@click.argument("bank")
@click.option("--event", metavar="SEQ", type=click.IntRange(1), help="The texts of the event at this position.")
@click.option("--item", metavar="ID", help="The words of this item.")
@click.option("--run", metavar="ID", help="The texts of all events of this run.")
@click.option("--text", metavar="FILE", help="The text in FILE (without its last newline), wherever it occurs.")
@click.option("--dry-run", is_flag=True, help="Only list the places.")
@click.option("--reason", metavar="TEXT", default="", help="The reason, recorded with the erasure.")
@click.option("--yes", is_flag=True, help="Don't ask.")
def erase(
    bank: str,
    event: int | None,
    item: str | None,
    run: str | None,
    text: str | None,
    dry_run: bool,
    reason: str,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove texts from every file of a bank: log, indexes and read models. This can't be undone.

    Every other place that holds the same words is found, listed, and erased too. With --run, texts that another run
    has too stay there. Ids, numbers and times stay, and heads noted before still verify. Backups, forks and exports
    are not reached; the bank that this one was forked from, and forks of it that are known here, are named.
    """
    named: dict[str, Any] = {"event": event, "item": item, "run": run, "text": _words(text)}
    if sum(value is not None for value in named.values()) != 1:
        raise click.UsageError("name exactly one thing to erase: --event, --item, --run or --text.")
    with opened_to_correct(bank, dry_run=dry_run) as opened:
        if not dry_run:
            from rbank_es.agents.spool_intake import take_all_in

            take_all_in(opened)
        folder = _experiment(opened)
        # Search first in any case, because people must see the places before they confirm.
        try:
            found = opened.erase(**named, reason=reason, dry_run=True)
        except NotInBank:
            # An erasure takes whole ids only: say so if the beginning of one was given.
            _check_whole_id(opened, item, run)
            raise
        if not as_json:
            print_places(found.erasure)
            print_difference(found)
            _print_experiment(folder)
        if dry_run or not _finds(found.erasure):
            _finish(found, as_json, folder, dry_run)
            return
        _confirm(yes, as_json)
        done = opened.erase(**named, reason=reason)
        _finish(done, as_json, folder, dry_run)
        if (residue := done.erasure.residue) is not None and residue.found:
            click.get_current_context().exit(CheckFailed.exit_code)


def _check_whole_id(bank: Bank, item: str | None, run: str | None) -> None:
    """Raise `NotInBank` with the ids that begin as given, or the nearest, where no item or run is called so."""
    from rbank_es.bank.id_lookup import exact_id

    kind, given = ("item", item) if item is not None else ("run", run)
    if given is not None:
        with bank.live() as view:
            exact_id(view, kind, given)


def _words(path: str | None) -> str | None:
    if path is None:
        return None
    words = read_text_file(path)
    words = words.removesuffix("\n").removesuffix("\r")
    if not words:
        raise BadInput(f"{path} is empty: there is no text to erase")
    return words


def print_places(found: Erasure) -> None:
    """Print every place that would be erased, and the texts that would stay."""
    rows: list[list[str | int]] = [[place.seq, place.type, place.path, _why(place)] for place in found.places]
    rest = "" if found.texts or found.remains else ", so there is nothing to erase"
    echo_table(["seq", "type", "field", "why"], rows, none=f"no event holds such a text{rest}")
    if found.texts:
        echo(f"and {count(len(found.texts), 'text')} stored apart")
    for where, size in found.remains.items():
        echo(f"and what an interrupted append left: {where}, {count(size, 'byte')}, removed whole by any erasure")
    if found.short:
        echo(f"{count(found.short, 'text')} too short to look for elsewhere: erased only where named")
    if found.facts:
        where = ", ".join(f"{seq:,}" for seq in found.facts[: limits.TABLE_ROWS])
        echo(f"stays: the same characters in ids or names, which are never erased (positions {where})")
    if found.shared:
        echo(f"stays: {count(found.shared, 'text')} in other runs that have the same (--text erases one everywhere)")
    _print_runs(found)
    searched = found.searched
    echo(
        f"searched {count(searched.lines, 'line')} of the log, {format_size(searched.bytes)}: {_forms(searched.forms)}"
    )
    echo(f"not searched: {found.not_reached}")
    echo(f"not searched for: {found.not_sought}")
    _print_relatives(found)


def _why(place: Place) -> str:
    from rbank_es.log.escaped_words import PLAIN

    if place.named:
        return "named"
    return "holds the same words" if place.form in ("", PLAIN) else f"holds the same words ({place.form})"


def _forms(forms: dict[str, int]) -> str:
    return ", ".join(f"{times:,} {form}" for form, times in forms.items()) or "nothing found"


def _print_runs(found: Erasure) -> None:
    """Print the runs that lose texts though none of theirs was named, for example from their prompts."""
    named = {place.run for place in found.places if place.named}
    runs = sorted({place.run for place in found.places if place.run is not None} - named)
    if runs:
        other = "other " if named else ""
        lose = f"1 {other}run loses" if len(runs) == 1 else f"{len(runs):,} {other}runs lose"
        more = ", …" if len(runs) > limits.TABLE_ROWS else ""
        echo(f"{lose} texts, and can't be run again: {', '.join(runs[: limits.TABLE_ROWS])}{more}")


def _print_relatives(found: Erasure) -> None:
    """Print the banks of the same lineage that may hold the texts, and what is not known of them."""
    for each in found.relatives[: limits.TABLE_ROWS]:
        place = safe_line(each.place) if each.place else f"bank {safe_line(each.bank)}, whose place is not known here"
        echo(f"may still hold it: {place} (the same log up to position {each.shared:,}); erase there, too")
    if (more := len(found.relatives) - limits.TABLE_ROWS) > 0:
        echo(f"and {count(more, 'related bank')} more (--json lists all)")
    if found.shared_parts and not any(each.place for each in found.relatives):
        shared = count(found.shared_parts, "segment")
        echo(f"may still hold it: a bank that is not known here, and that shares {shared} with such texts on this disk")


def _experiment(bank: Bank) -> str | None:
    """Return the folder of the experiment that a bank is a part of, if it is."""
    if bank.place.startswith("memory:"):
        return None
    return next((str(found) for _, folder_of in WHOLES.all() if (found := folder_of(Path(bank.place)))), None)


def _print_experiment(folder: str | None) -> None:
    if folder is not None:
        echo(
            f"may still hold it: the experiment in {safe_line(folder)}: its suite, its other banks, results and pages; "
            "erase in those banks too, and make its report again"
        )


def _confirm(yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json or not on_terminal() or sys.stdin is None or not sys.stdin.isatty():
        raise BadInput("nothing was erased: nobody can be asked here; add --yes, or look first with --dry-run")
    flush()
    if not click.confirm("Erase all of this for good?", default=False):
        raise BadInput("nothing was erased")


def _print_residue(residue: Residue) -> None:
    searched = residue.searched
    echo(f"searched again {count(searched.parts, 'file')}, {format_size(searched.bytes)}: {_forms(searched.forms)}")
    for name, forms in residue.found.items():
        echo(f"  still in {name}: {_forms(forms)}")
    for name in residue.unread:
        echo(f"  could not be searched: {name}")
    if residue.found:
        echo("ids and names are never erased; if another process wrote the words meanwhile, erase again")


def _finds(found: Erasure) -> bool:
    return bool(found.places or found.texts or found.remains)


def _finish(made: BankErasure, as_json: bool, experiment: str | None, dry_run: bool) -> None:
    found = made.erasure
    if as_json:
        # `first_seq` and `last_seq` say where the record of it is.
        echo_json(msgspec.structs.asdict(made) | {"erasure": _without_record(found), "experiment": experiment})
        return
    if dry_run:
        if _finds(found):
            echo("nothing was erased")
        return
    if made.recorded:
        echo(f"erased from {made.bank}: {count(len(found.places), 'place')}; recorded at position {made.last_seq:,}")
    if found.remains:
        echo(f"removed what interrupted appends left: {', '.join(found.remains)}")
    if found.residue is not None:
        _print_residue(found.residue)


def _without_record(found: Erasure) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(found).items() if name != "appended"}
