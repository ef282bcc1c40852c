"""`restore`: vouch for an item that has ended."""

from __future__ import annotations

import click

from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.correction_report import act_options, because_option, report
from rbank_es.cli.shared.hook_spool import opened_to_correct


@command("restore", "rbank-es restore notes 3f2a9c01b7de --because 'It holds for lightships.' --by ann")
@click.argument("bank")
@click.argument("item")
@click.option("--even-rejected", is_flag=True, help="Also if somebody rejected its words.")
@because_option
@act_options
def restore(
    bank: str, item: str, even_rejected: bool, because: str, by: str | None, dry_run: bool, as_json: bool
) -> None:
    """Vouch for ITEM: from here on it is active whatever is judged, until a person or a later decision ends it.

    An item that was forgotten, withdrawn, superseded or lost its support comes back; one that was rejected only with
    --even-rejected.
    """
    with opened_to_correct(bank, dry_run=dry_run) as opened:
        made = opened.restore(item, because=because, by=by, even_rejected=even_rejected, dry_run=dry_run)
    report(bank, made, as_json=as_json, unchanged="somebody vouched for it already: nothing was recorded")
