"""`import`: take in the files of other tools, and of other banks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.banks import lasting, open_or_create, open_whole, whole_bank
from rbank_es.cli.shared.output import Cell, say, say_json, table
from rbank_es.cli.shared.progress import Progress
from rbank_es.cli.shared.terminal_text import count

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.importers import ImportReport


@command("import", "rbank-es import notes items.json trajectories/ --create")
@click.argument("bank")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--create", is_flag=True, help="Make the bank first if there is none.")
def import_files(bank: str, paths: tuple[str, ...], create: bool, as_json: bool) -> None:
    """Take in files, told apart by what they hold; of a folder, all .json and .jsonl files in it.

    Items as a JSON list; trajectories as JSON Lines, one run a file; ReasoningBank memory as JSON Lines; events as
    written by export. The time that a file records becomes occurred_at. Importing the same file twice adds nothing.
    """
    from rbank_es.importers import import_paths

    into, created = _bank_for(bank, paths) if create else (open_whole(bank), False)
    with into, Progress("importing") as progress:
        report = import_paths(into, paths, progress)
        facts = {"bank": into.name, "created": created, "appended": report.appended, "head": str(into.head())}
    if as_json:
        say_json(facts | msgspec.to_builtins(report))
    else:
        _print_report(facts, report)


def _bank_for(bank: str, paths: tuple[str, ...]) -> tuple[Bank, bool]:
    """The bank, made if need be; but first the files are read, for a broken one should not leave an empty bank."""
    from rbank_es.importers.file_import import files_in, read_file

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
    table(headers, rows, flexible=["file"])
    made = "made and " if facts["created"] else ""
    say(f"\n{made}appended to {facts['bank']}: {count(facts['appended'], 'event')}")
    say(f"head {facts['head']}")
