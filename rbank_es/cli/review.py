"""`review`: what a person should look at in a bank, or the verdicts that a person should check first."""

from __future__ import annotations

import shlex

import click

from rbank_es import limits
from rbank_es.answers.doubts import RUN_TEXTS, DoubtRow, Doubts
from rbank_es.answers.item import ItemGround
from rbank_es.answers.review import PendingItem, Review
from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.arguments import NumberRange
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.correction_report import NEXT
from rbank_es.cli.shared.failed_run_table import print_failed_runs
from rbank_es.cli.shared.output import (
    Cell,
    Progress,
    echo,
    echo_command,
    echo_fields,
    echo_heading,
    echo_section,
    safe_block,
    truncate,
    warn,
)
from rbank_es.cli.shared.shown_items import print_near
from rbank_es.events.readable_text import count, format_names, safe_line
from rbank_es.limits import answer_limits
from rbank_es.system.proportion import percent


@command(
    "review",
    "rbank-es review notes",
    "rbank-es review notes --verdicts 3",
    "rbank-es review notes --verdicts 20 --minutes 15 --json",
)
@click.argument("bank")
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
def review(bank: str, verdicts: int | None, minutes: float | None, as_json: bool) -> None:
    """List what a person should look at: errors that ended runs, verdicts that are missing or that scores contradict,
    active items that mostly lose, and the items that wait, with what each came from: see admit and reject.

    What agents propose in their own words waits until an extractor draws the same, or a person admits it; under the
    policy reviewed, everything that is learned waits.

    With --verdicts, list the N verdicts to check first: by the probability that they are wrong, times the items that
    rest on them alone, the uses of these, and the runs that were given them. Without any model; nothing is recorded.
    """
    if minutes is not None and verdicts is None:
        raise click.UsageError("--minutes goes with --verdicts N.")
    if verdicts is not None:
        list_doubtful(bank, verdicts, minutes, as_json=as_json)
        return
    with opened_reader(bank) as reader:
        found: Review = reader.ask("review", limit=answer_limits.ANSWER_ROWS_MOST)
    print_answer(found, "review", lambda: _print_review(bank, found), as_json)


# ---------------------------------------------------------------- the list


def _print_review(bank: str, found: Review) -> None:
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
        echo(f"\n{count(found.pending_total, 'item')} pending; to let one in, or to bar its words:")
        echo_command(f"admit {shlex.quote(bank)} ID", NEXT)
        echo_command(f"reject {shlex.quote(bank)} ID --because TEXT", NEXT)
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
