"""`bisect`: find the event since which runs were given something else by the bank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Cell, Progress, echo, echo_fields, echo_heading, echo_table, format_time, styled
from rbank_es.errors import CheckFailed
from rbank_es.events.readable_text import count, safe_line

if TYPE_CHECKING:
    from rbank_es.answers.shared.bisection_answer import (
        Bisection,
        GivenChange,
        RecordedAnswer,
        RunBisection,
        SharedChange,
    )

METRICS = ("success", "score")
RECORDED = "recorded with that prompt"


@command(
    "bisect",
    "rbank-es bisect notes --bad run-8 --bad run-9 --good run-5",
    "rbank-es bisect notes@HEAD~100 --metric success --json",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--bad", metavar="RUN", multiple=True, help="A run that went wrong; give several to see what they share.")
@click.option("--good", metavar="RUN", multiple=True, help="A run that went well, and began before.")
@click.option(
    "--metric",
    type=click.Choice(METRICS),
    help="Every task that succeeded and then failed, by verdict (success; the default) or by right answer (score).",
)
def bisect(bank: str, bad: tuple[str, ...], good: tuple[str, ...], metric: Any, as_json: bool) -> None:
    """Find the event since which bad runs were given something else by the bank, without a model.

    What each bad run searched for is searched again as of earlier positions, back to the time when the latest good run
    before it began. A binary search over the positions at which memory or the retrieval policy changed finds the
    event of each item that it gained or lost. Every check is shown, with recorded runs that had the very prompt which
    the bad run would have had then, and their verdicts. Where none had one from before, only a model could tell more.

    First order: how an agent would have gone on with other items is unknown. That memory changed before runs failed
    does not prove that they failed because of it. Exit code 1: a run can't be decided about, and the reason is printed.
    """
    with opened_reader(bank) as reader, Progress("searching the past") as progress:
        reader.progress = progress
        found: Bisection = reader.ask("bisect", bad=bad, good=good, metric=metric)
    print_answer(found, "bisect", lambda: _print(found), as_json)
    click.get_current_context().exit(0 if found.ok else CheckFailed.exit_code)


def _print(found: Bisection) -> None:
    if not found.runs:
        echo(f"no task of {found.bank} succeeded and then failed (metric: {found.metric})")
    for change in found.changes:
        _print_change(change, len(found.runs))
    for each in found.runs:
        _print_run(each)


def _print_change(change: SharedChange, runs: int) -> None:
    echo_heading(f"since position {change.position:,}, {format_time(change.recorded_at)}: {change.type}")
    echo(change.summary)
    share = f"{len(change.runs)} of {count(runs, 'bad run')}"
    before, since = change.before, change.since
    echo_fields(
        {
            "given otherwise": f"{share}: {', '.join(map(safe_line, change.runs))}",
            "the same tasks": f"before, {before.successes} of {before.decided} succeeded; "
            f"since, {since.successes} of {since.decided}",
        }
    )
    rows: list[list[Cell]] = [
        [each.id, "given" if each.gained else "given no more", each.title or "[erased]", ", ".join(each.drawn_from)]
        for each in change.items
    ]
    if rows:
        echo_table(["item", "since then", "title", "drawn from"], rows, flexible=["title", "drawn from"])


def _print_run(found: RunBisection) -> None:
    against = f"{safe_line(found.good)} ({found.good_verdict or 'not judged'})"
    echo_heading(f"{safe_line(found.run)} ({found.verdict or 'not judged'}), compared with {against}")
    echo(styled(safe_line(_conclusion(found)), "yellow" if found.outcome == "unknown" else "bold"))
    if found.checks:
        where = f"after position {found.after_seq:,}, up to {found.upto_seq:,}"
        echo(f"memory changed at {count(found.places, 'position')} {where}; {count(len(found.checks), 'check')}:")
        rows: list[list[Cell]] = [
            [check.position, check.same, ", ".join(check.items) or "nothing", ", ".join(map(_told, check.answers))]
            for check in found.checks
        ]
        headers = ["as of position", "as it had it", "it is given", RECORDED]
        echo_table(headers, rows, flexible=["it is given", RECORDED])
    if found.needs_model:
        echo("no recorded run had a prompt that it would have had before: how that goes, only a model can tell")
    for note in found.notes:
        echo_fields({"note": note})


def _told(answer: RecordedAnswer) -> str:
    return f"{answer.run} ({answer.verdict or 'not judged'})"


def _conclusion(found: RunBisection) -> str:
    if found.outcome == "unknown":
        return f"nobody can tell: {found.reason}"
    if found.outcome == "nothing":
        why = f": {found.reason}" if found.reason else ""
        return f"memory had no part in it: the run was given nothing of the bank{why}"
    if found.outcome == "same":
        return "memory had no part in it: at the time of the good run, it would have been given the same"
    return f"it was given otherwise since {'; '.join(map(_since, found.changes))}"


def _since(change: GivenChange) -> str:
    parts = [
        f"{count(len(change.gained), 'item')} more" if change.gained else "",
        f"{count(len(change.lost), 'item')} less" if change.lost else "",
        "another guide" if change.guide else "",
        "the same items in another order or other words" if change.words else "",
    ]
    return f"position {change.position:,} ({', '.join(filter(None, parts))})"
