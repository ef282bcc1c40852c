"""`overrule`: give a person's verdict on runs, and correct what was learned from them."""

from __future__ import annotations

import click

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import open_whole
from rbank_es.cli.shared.correction_report import act_options, report
from rbank_es.cli.shared.rulings import read_rulings
from rbank_es.errors import BadInput
from rbank_es.events.run_events import VerdictValue


@command(
    "overrule",
    "rbank-es overrule notes run-7 --failure --reason 'It measured the wrong height.' --by ann",
    "rbank-es overrule notes run-7 --failure --reason 'The wrong height.' --influence --dry-run",
    "rbank-es overrule notes --from verdicts.csv --influence --by ann",
)
@click.argument("bank")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--success", "verdict", flag_value="success", help="The run is a success.")
@click.option("--failure", "verdict", flag_value="failure", help="The run is a failure.")
@click.option("--undecided", "verdict", flag_value="undecided", help="Nobody can tell; nothing is learned from it.")
@click.option("--reason", metavar="TEXT", help="Why, recorded for those who read the log later.")
@click.option("--influence", is_flag=True, help="Set aside what was drawn from runs that had been given what leaves.")
@click.option("--from", "path", metavar="FILE", help="Many verdicts: CSV, JSON Lines or TOML; see docs/corrections.md.")
@act_options
def overrule(
    bank: str,
    run_id: str | None,
    verdict: VerdictValue | None,
    reason: str | None,
    influence: bool,
    path: str | None,
    by: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Give a verdict on a run that no judge outranks, and correct what was learned from it, without any model.

    What rests on the verdict before leaves the bank, what stands under the new one comes back, decisions that it
    changes are made again, and wins are counted again, in one atomic group. Reported are also the runs that had been
    given what left, and what was drawn from those. Searches as of an earlier point are unchanged.
    """
    if (path is None) == (run_id is None):
        raise click.UsageError("name a RUN with its verdict, or a file of verdicts with --from.")
    if path is not None:
        if verdict is not None:
            raise BadInput(f"--from takes the verdicts from the file: leave out --{verdict}")
        rulings = read_rulings(path, reason=reason, by=by)
        with open_whole(bank) as opened:
            made = opened.overrule_many(rulings, influence=influence, dry_run=dry_run)
    else:
        if verdict is None:
            raise click.UsageError("say which verdict: --success, --failure or --undecided.")
        if reason is None:
            raise click.UsageError("say why, with --reason.")
        with open_whole(bank) as opened:
            made = opened.overrule(run_id or "", verdict, reason=reason, by=by, influence=influence, dry_run=dry_run)
    report(bank, made, dry_run=dry_run, as_json=as_json, unchanged="a person said so before: nothing was recorded")
