"""`correct`: complete what verdicts and acts left due."""

from __future__ import annotations

import click

from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.correction_report import report
from rbank_es.cli.shared.hook_spool import opened_to_correct


@command("correct", "rbank-es correct notes --dry-run", "rbank-es correct notes --decisions")
@click.argument("bank")
@click.option("--decisions", is_flag=True, help="Make every decision again, as verify --decisions does.")
@click.option("--dry-run", is_flag=True, help="Only report what would change.")
def correct(bank: str, decisions: bool, dry_run: bool, as_json: bool) -> None:
    """Make decisions again that verdicts changed: those that came by append, by import, or from judge.

    A verdict acts at once on items that rest on it. Items that only it kept out come in with this command, or with the
    next extraction. It needs no model, and doing it twice is doing it once.

    Without --decisions, only decisions that the log leaves open are examined; those that it records as corrected are
    taken to be right.
    """
    with opened_to_correct(bank, dry_run=dry_run) as opened:
        made = opened.correct(decisions=decisions, dry_run=dry_run)
    report(bank, made, as_json=as_json, unchanged="nothing is due: the bank is as its verdicts say")
