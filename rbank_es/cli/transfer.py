"""`import` and `export`: between a bank and the files of others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from rbank_es.cli.app import command
from rbank_es.cli.banks import open_at, open_or_create, open_whole, whole_bank
from rbank_es.cli.output import say, say_json
from rbank_es.cli.progress import Progress

FORMATS = ("items", "trajectories", "reasoningbank", "events", "prov")


@command("import", example="rbank-es import notes items.json trajectories/*.jsonl --create")
@click.argument("bank")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--create", is_flag=True, help="Make the bank first if there is none.")
def import_files(bank: str, paths: tuple[str, ...], create: bool, as_json: bool) -> None:
    """Take in files of any of these forms, told apart by what they hold; folders are searched.

    Items as a JSON list; trajectories as JSON Lines, one run a file; ReasoningBank memory as JSON Lines; events as
    written by export. The time that a file records becomes occurred_at. Importing the same file twice adds nothing.
    """
    from rbank_es.importers import import_paths

    place = whole_bank(bank)
    into, _ = open_or_create(place) if create else (open_whole(bank), False)
    with into, Progress("importing") as progress:
        report = import_paths(into, [Path(path) for path in paths], progress=progress)
        head = str(into.head())
    facts: dict[str, Any] = msgspec.to_builtins(report)
    if as_json:
        say_json({"bank": into.name, "head": head} | facts)


@command("export", example="rbank-es export notes --format items -o items.json\n"
                           "rbank-es export notes@HEAD~50 --format events > events.jsonl")  # fmt: skip
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--format", "format_", metavar="F", type=click.Choice(FORMATS), required=True, help=", ".join(FORMATS))
@click.option("-o", "output", metavar="FILE|DIR", help="Where to write; standard output, unless given.")
def export_bank(bank: str, format_: str, output: str | None, as_json: bool) -> None:
    """Write a bank as it was at a point in time, in a form that others read.

    items: the active items, as a JSON list. trajectories: one JSON Lines file per run, into a folder. reasoningbank:
    JSON Lines, one line per run. events: everything, as JSON Lines that append takes. prov: W3C PROV-O, as Turtle.
    """
    from rbank_es.exporters import export

    opened, point = open_at(bank)
    with opened, Progress("exporting") as progress:
        export(opened, format_, output or sys.stdout.buffer, point=point, progress=progress)
    say("")
