"""`undo`: let one candidate count as never extracted."""

from __future__ import annotations

import click

from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.correction_report import act_options, because_option, report
from rbank_es.cli.shared.hook_spool import opened_to_correct


@command("undo", "rbank-es undo notes 132 --candidate 0 --because 'A slip of the extractor.'")
@click.argument("bank")
@click.argument("seq", type=click.IntRange(1))
@click.option(
    "--candidate", metavar="N", type=click.IntRange(0), default=0, show_default=True, help="Its index, from 0."
)
@because_option
@act_options
def undo(bank: str, seq: int, candidate: int, because: str, by: str | None, dry_run: bool, as_json: bool) -> None:
    """Let a candidate count as never extracted: SEQ is the position of its extraction, or of the decision about it.

    With the position of an earlier undoing, that is taken back. Nothing is removed from the log.
    """
    with opened_to_correct(bank, dry_run=dry_run) as opened:
        made = opened.undo(seq, candidate, because=because, by=by, dry_run=dry_run)
    report(bank, made, as_json=as_json, unchanged="that is so already: nothing was recorded")
