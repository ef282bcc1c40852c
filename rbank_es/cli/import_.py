"""`import`: add the files of other tools, and of other banks, to a bank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import lasting, open_or_create, open_to_fill, whole_bank
from rbank_es.cli.shared.output import Cell, Progress, count, echo, echo_json, echo_table

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.exchange import ImportReport


@command("import", "rbank-es import notes items.json trajectories/ --create")
@click.argument("bank")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--create", is_flag=True, help="Create the bank if there is none.")
def import_(bank: str, paths: tuple[str, ...], create: bool, as_json: bool) -> None:
    """Import files, whose form is recognised by their content; of a directory, all .json and .jsonl files in it.

    Forms: items as a JSON list; trajectories as JSON Lines, one run a file; ReasoningBank memory as JSON Lines; events
    as written by export. Times in a file become occurred_at; those without a zone are read as UTC. Importing the same
    file twice adds nothing.
    """
    from rbank_es.exchange import import_paths

    into, created = _bank_for(bank, paths) if create else (open_to_fill(bank), False)
    with into, Progress("importing") as progress:
        report = import_paths(into, paths, progress)
        facts = {"bank": into.name, "created": created, "appended": report.appended, "head": str(into.head())}
    if as_json:
        echo_json(facts | msgspec.to_builtins(report))
    else:
        _print_report(facts, report)


def _bank_for(bank: str, paths: tuple[str, ...]) -> tuple[Bank, bool]:
    """Open or create the bank, after reading all files, because a broken one must not leave an empty bank."""
    from rbank_es.exchange.file_import import files_in, read_file

    place = lasting(whole_bank(bank))
    for path in files_in(paths):
        read_file(path)
    return open_or_create(place)


def _print_report(facts: dict[str, Any], report: ImportReport) -> None:
    columns = ("form", "runs", "items_added", "items_skipped", "appended", "left_out")
    headers = ["file", "form", "runs", "items added", "items skipped", "events", "left out", ""]
    rows: list[list[Cell]] = []
    for file in report.files:
        known = "was there already" if file.groups and file.groups_known == file.groups else None
        rows.append([file.path, *(getattr(file, name) for name in columns), known])
    echo_table(headers, rows, flexible=["file"], optional=[""])
    if unset := [file for file in report.files if file.times_unset]:
        of = f"of {count(len(unset), 'file')} "
        echo(f"\ntimes {of}have no zone and would be in the future as UTC: left unset, and kept in extra as written")
    made = "made and " if facts["created"] else ""
    echo(f"\n{made}appended to {facts['bank']}: {count(facts['appended'], 'event')}")
    echo(f"head {facts['head']}")
