"""`correct`: complete what verdicts and acts left due."""

from __future__ import annotations

import click

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_whole
from rbank_es.cli.shared.correction_report import report


@command("correct", "rbank-es correct notes --dry-run")
@click.argument("bank")
@click.option("--dry-run", is_flag=True, help="Only report what would change.")
def correct(bank: str, dry_run: bool, as_json: bool) -> None:
    """Make decisions again that verdicts changed: those that came by append, by import, or from judge.

    A verdict acts at once, on what rests on it. What only it was in the way of comes in with this command, or with
    the next thing that is learned. It needs no model, and doing it twice is doing it once.
    """
    with open_whole(bank) as opened:
        made = opened.correct(dry_run=dry_run)
    report(bank, made, dry_run=dry_run, as_json=as_json, unchanged="nothing is due: the bank is as its verdicts say")
