"""`admit`: let a pending item become active."""

from __future__ import annotations

import click

from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.correction_report import act_options, report
from rbank_es.cli.shared.hook_spool import opened_to_correct


@command("admit", "rbank-es admit notes 3f2a9c01b7de --by ann")
@click.argument("bank")
@click.argument("item")
@click.option("--because", metavar="TEXT", default="", help="Why, recorded for those who read the log later.")
@act_options
def admit(bank: str, item: str, because: str, by: str | None, dry_run: bool, as_json: bool) -> None:
    """Let ITEM, which is pending, become active; it still leaves if the verdicts that it rests on change.

    The command review lists what is pending.
    """
    with opened_to_correct(bank, dry_run=dry_run) as opened:
        made = opened.admit(item, because=because, by=by, dry_run=dry_run)
    report(bank, made, as_json=as_json, unchanged="it is active already: nothing was recorded")
