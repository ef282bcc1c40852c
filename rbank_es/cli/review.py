"""`review`: what a person should look at in a bank, pending items to be admitted or rejected; or the verdicts that a
person should check first."""

from __future__ import annotations

import click
import msgspec

from rbank_es import limits
from rbank_es.answers.doubts import RUN_TEXTS, DoubtRow, Doubts
from rbank_es.answers.item import ItemGround
from rbank_es.answers.review import PendingItem, Review
from rbank_es.bank import Bank
from rbank_es.bank.correction_effect import Correction
from rbank_es.bank.id_lookup import exact_id
from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.arguments import NumberRange
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.correction_report import NEXT, act_options, print_correction
from rbank_es.cli.shared.failed_run_table import print_failed_runs
from rbank_es.cli.shared.hook_spool import opened_to_correct
from rbank_es.cli.shared.output import (
    Cell,
    Progress,
    echo,
    echo_command,
    echo_fields,
    echo_heading,
    echo_json,
    echo_section,
    safe_block,
    truncate,
    warn,
)
from rbank_es.cli.shared.shown_items import print_near
from rbank_es.errors import BadInput
from rbank_es.events.readable_text import count, format_names, safe_line
from rbank_es.limits import answer_limits
from rbank_es.system.proportion import percent


@command(
    "review",
    "rbank-es review notes",
    "rbank-es review notes --admit 3f2a9c01b7de --admit 77b0c2d4e6f1 --by ann",
    "rbank-es review notes --reject 3f2a9c01b7de --because 'It names a property that is deprecated.'",
    "rbank-es review notes --verdicts 3",
    "rbank-es review notes --verdicts 20 --minutes 15 --json",
)
@click.argument("bank")
@click.option("--admit", "admitted", metavar="ID", multiple=True, help="Admit this item; may be repeated.")
@click.option("--reject", "rejected", metavar="ID", multiple=True, help="Condemn its words; may be repeated.")
@click.option("--because", metavar="TEXT", default="", help="Why; needed to reject.")
@click.option(
    "--verdicts",
    metavar="N",
    type=click.IntRange(1, limits.REVIEW_VERDICTS),
    help="List instead the verdicts whose being wrong would cost most.",
)
@click.option(
    "--minutes",
    metavar="M",
    type=NumberRange(0, limits.REVIEW_MINUTES, min_open=True),
    help="With --verdicts: as many as a person can check in so many minutes.",
)
@act_options
def review(
    bank: str,
    admitted: tuple[str, ...],
    rejected: tuple[str, ...],
    because: str,
    verdicts: int | None,
    minutes: float | None,
    by: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """List what a person should look at: errors that ended runs, verdicts that are missing or that scores contradict,
    active items that mostly lose, and the items that wait, with what each came from; admit or reject these.

    What agents propose in their own words waits until an extractor draws the same, or a person admits it; under the
    policy reviewed, everything that is learned waits.

    With --verdicts, list the N verdicts to check first: by the probability that they are wrong, times the items that
    rest on them alone, the uses of these, and the runs that were given them. Without any model; nothing is recorded.
    """
    if verdicts is not None and (admitted or rejected):
        raise click.UsageError("--verdicts only lists; leave out --admit and --reject.")
    if minutes is not None and verdicts is None:
        raise click.UsageError("--minutes goes with --verdicts N.")
    if verdicts is not None:
        list_doubtful(bank, verdicts, minutes, as_json=as_json)
        return
    if not (admitted or rejected):
        with opened_reader(bank) as reader:
            found: Review = reader.ask("review", limit=answer_limits.ANSWER_ROWS_MOST)
        print_answer(found, "review", lambda: _print_review(found), as_json)
        return
    with opened_to_correct(bank, dry_run=dry_run) as opened:
        if rejected and not because.strip():
            raise BadInput("say why these are rejected, with --because")
        # Tried first, so that a misspelt id changes nothing.
        made = _decide(opened, admitted, rejected, because, by, dry_run=True)
        if not dry_run:
            made = _decide(opened, admitted, rejected, because, by, dry_run=False)
    if as_json:
        done = [{"item": id} | msgspec.to_builtins(each) for id, each in made.items()]
        echo_json({"bank": opened.name, "dry_run": dry_run, "corrections": done})
        return
    for id, each in made.items():
        echo_heading(f"{'admitted' if id in admitted else 'rejected'} {id}")
        print_correction(bank, each, unchanged="decided already: nothing was recorded")


def _decide(
    bank: Bank, admitted: tuple[str, ...], rejected: tuple[str, ...], because: str, by: str | None, *, dry_run: bool
) -> dict[str, Correction]:
    """Admit and reject items, in this order, each in its own correction. Raises `BadInput` for one that is both."""
    with bank.live() as view:
        for id in (*admitted, *rejected):
            exact_id(view, "item", id)
    both = set(admitted) & set(rejected)
    if both:
        raise BadInput(f"{', '.join(sorted(both))}: both admitted and rejected; say one")
    made = {id: bank.admit(id, because=because, by=by, dry_run=dry_run) for id in admitted}
    return made | {id: bank.reject(id, because=because, by=by, dry_run=dry_run) for id in rejected}


# ---------------------------------------------------------------- the list


def _print_review(found: Review) -> None:
    print_failed_runs(found.failed_runs)
    runs: list[list[Cell]] = [
        [each.run, each.why, _short(each.task)] for each in found.runs_to_settle[: limits.IDS_NAMED]
    ]
    title = f"verdicts that are missing, or that scores contradict: {found.runs_to_settle_total:,}"
    echo_section(title, ["run", "why", "task"], runs, flexible=["task", "run"])
    if found.runs_to_settle:
        echo("to settle the first:")
        echo_command(found.runs_to_settle[0].command.removeprefix("rbank-es "), NEXT)
    lost = found.losing[: limits.IDS_NAMED]
    rows: list[list[Cell]] = [[each.id, each.losses, each.wins, _short(each.title)] for each in lost]
    title = f"active items that lose more than they win: {found.losing_total:,}"
    echo_section(title, ["item", "losses", "wins", "title"], rows, flexible=["title"])
    if max(found.runs_to_settle_total, found.losing_total) > limits.IDS_NAMED:
        echo(f"of each kind the newest {limits.IDS_NAMED}; all: --json")
    for each in found.pending:
        _print_pending(each)
    if found.pending:
        waiting = count(found.pending_total, "item")
        echo(f"\n{waiting} pending; admit with --admit ID, reject with --reject ID --because TEXT")
    else:
        warn("no item is pending")


def _short(text: str | None) -> str:
    return truncate(safe_line(text or ""), limits.REVIEW_TEXT_CHARS)


def _print_pending(item: PendingItem) -> None:
    echo_heading(f"{item.id}  {safe_line(item.title or '[erased]')}")
    lines = safe_block(item.content).split("\n") if item.content else []
    if lines:
        more = ["…"] if len(lines) > limits.REVIEW_CONTENT_LINES else []
        echo("\n".join([*lines[: limits.REVIEW_CONTENT_LINES], *more]))
    for near in item.near:
        print_near(near)
    for ground in item.grounds:
        if ground.stands:
            _print_ground(ground)


def _print_ground(ground: ItemGround) -> None:
    echo_fields({"drawn as": f"{ground.kind}, by {ground.extractor or 'hand'}, at position {ground.seq:,}"})
    for run in ground.runs:
        echo_fields({"from run": f"{run.run} ({run.verdict or 'not judged'}): {run.task or '[no task]'}"})


KINDS = {"lm": "a model", "check": "a check", "gold": "the right answer", "outcome": "the outcome"}


def list_doubtful(given: str, most: int, minutes: float | None, *, as_json: bool) -> None:
    """Print the first `most` doubtful verdicts of a bank, or those that fit into so many minutes."""
    with opened_reader(given) as reader, Progress("verdicts") as progress:
        reader.progress = progress
        found: Doubts = reader.ask("doubts", limit=most, minutes=minutes)
    print_answer(found, "doubts", lambda: _print_doubts(found, minutes), as_json)


def _print_doubts(found: Doubts, minutes: float | None) -> None:
    for number, each in enumerate(found.rows, 1):
        _print_doubt(number, each)
    if not found.total:
        warn("no item rests on a single verdict that a person hasn't given; there is nothing to check")
    elif not found.rows:
        warn(f"no verdict can be checked in {minutes:g} minutes; give more")
    else:
        spent = sum(each.minutes for each in found.rows)
        verdicts = count(found.total, "verdict")
        echo(f"\n{len(found.rows):,} of {verdicts} on which items rest alone, about {spent:.0f} min")
        echo("overrule --dry-run shows all that would follow, and records nothing")


def _print_doubt(number: int, each: DoubtRow) -> None:
    by = f"{each.judge} ({KINDS.get(each.kind, each.kind)})"
    said = f"{each.verdict}, says {safe_line(by)} at position {each.judged_seq:,}"
    echo_heading(f"{number}. {safe_line(each.run)}: {said}")
    texts = (*RUN_TEXTS, "reason")
    shown = {name: truncate(safe_line(getattr(each, name) or ""), limits.REVIEW_TEXT_CHARS) for name in texts}
    echo_fields(
        {
            **shown,
            "doubt": f"{percent(each.probability)} likely to be wrong: {safe_line('; '.join(each.because))}",
            "takes out": each.takes_out,
            "items": _items(each),
            "given to": format_names([safe_line(name) for name in each.stake_runs], limits.IDS_NAMED),
            "to check": f"about {each.minutes:g} min",
        }
    )
    echo("right? confirm it; wrong? overrule it:")
    for command_line in (each.confirm, each.overrule):
        echo_command(command_line.removeprefix("rbank-es "), NEXT)


def _items(each: DoubtRow) -> str:
    """Return the first items, one a line, each with its title."""
    lines = [f"{safe_line(item.id)}  {safe_line(item.title or '[erased]')}" for item in each.stake]
    more = each.stake_total - len(each.stake)
    return "\n".join([*lines, *([f"and {more:,} more"] if more else [])])
