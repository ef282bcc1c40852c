"""`retract`: end one item."""

from __future__ import annotations

import click

from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.correction_report import act_options, because_option, report
from rbank_es.cli.shared.hook_spool import opened_to_correct


@command("retract", "rbank-es retract notes 3f2a9c01b7de --because 'No light is built like that any more.'")
@click.argument("bank")
@click.argument("item")
@because_option
@act_options
def retract(bank: str, item: str, because: str, by: str | None, dry_run: bool, as_json: bool) -> None:
    """End ITEM from here on, however often it is learned again; what states the same may come in.

    To bar its words, use reject. The command restore takes it back.
    """
    with opened_to_correct(bank, dry_run=dry_run) as opened:
        made = opened.retract(item, because=because, by=by, dry_run=dry_run)
    report(bank, made, as_json=as_json, unchanged="it is withdrawn already: nothing was recorded")
