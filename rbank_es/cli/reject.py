"""`reject`: condemn the words of an item."""

from __future__ import annotations

import click

from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.correction_report import act_options, because_option, report
from rbank_es.cli.shared.hook_spool import opened_to_correct


@command("reject", "rbank-es reject notes 3f2a9c01b7de --because 'A focal height says nothing of the tower.' --by ann")
@click.argument("bank")
@click.argument("item")
@because_option
@act_options
def reject(bank: str, item: str, because: str, by: str | None, dry_run: bool, as_json: bool) -> None:
    """Condemn the words of ITEM: it leaves, and whatever states the same leaves or never comes in.

    What is near to them, by a number, a unit or a few other words, becomes or stays pending: review shows it beside
    them, and admit lets it in. All that changes is listed; restore exempts a single item. To end one item and leave
    those that resemble it alone, use retract.
    """
    with opened_to_correct(bank, dry_run=dry_run) as opened:
        made = opened.reject(item, because=because, by=by, dry_run=dry_run)
    report(bank, made, as_json=as_json, unchanged="it is rejected already: nothing was recorded")
