"""`learn`: draw candidates from runs under the verdicts that stand now."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from rbank_es.cli.shared.arguments import begun_run
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.hook_spool import opened_to_correct
from rbank_es.cli.shared.interruption import interruptible
from rbank_es.cli.shared.judge_sources import JudgeSources, model_and_source_options
from rbank_es.cli.shared.output import Cell, Progress, echo, echo_json, echo_scripted, echo_table, warn
from rbank_es.errors import BadInput, CheckFailed
from rbank_es.events.event_sentences import decided
from rbank_es.events.readable_text import count

if TYPE_CHECKING:
    from rbank_es.agents.learned_lessons import LessonPlan
    from rbank_es.bank import Bank
    from rbank_es.law.lessons_to_draw import LateLessons, LessonToDraw
    from rbank_es.models.model_choice import LmChoice


@command(
    "learn",
    "rbank-es learn notes run-7 --lm openai/gpt-4.1-mini --ont model.ttl",
    "rbank-es learn notes --due --dry-run",
    "rbank-es learn notes --git .",
)
@click.argument("bank")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--due", is_flag=True, help="All judged runs from which nothing that stands was drawn.")
@click.option("--git", "repository", metavar="REPO", help="Judge runs by what became of their commits there.")
@click.option("--dry-run", is_flag=True, help="Only list the runs; no model is called.")
@model_and_source_options(", in which terms are looked up", "--extractor-lm", "extracts")
def learn(
    bank: str, runs: tuple[str, ...], due: bool, repository: str | None, dry_run: bool, as_json: bool, **options: Any
) -> None:
    """Draw candidates from runs under the verdicts that stand now, and let the bank's policies decide about them.

    A run that was overruled taught something under its old verdict, which left the bank; under the new one a model can
    draw other candidates from the recorded steps. The agent doesn't run again. Rollouts of one task are compared again,
    if the extraction policy compares them. A run from which something that stands was drawn is left out.

    What hooks of coding agents spooled for the bank is taken in before; see `rbank-es hook`.

    With --git, no model is called: a run that made a commit which was reverted in REPO, or thrown away by a reset,
    failed; when the revert is reverted, the verdict before comes back. A person's verdict stands.
    """
    from rbank_es.agents.learned_lessons import planned_lessons

    if repository is not None:
        if due or runs or any(options.values()):
            raise click.UsageError("--git looks at all runs with commits, without a model: give nothing else with it.")
        _judge_commits(bank, repository, dry_run, as_json)
        return
    if due == bool(runs):
        raise click.UsageError("name one or more RUNs, or give --due for all that there are.")
    given = JudgeSources(**options)
    choice = given.choice()
    if choice is None and not dry_run:
        raise BadInput("learning from a run needs a model: --lm MODEL; --dry-run lists the runs without one")
    with ExitStack() as stack:
        opened = stack.enter_context(opened_to_correct(bank, dry_run=dry_run))
        plan = planned_lessons(opened, None if due else [begun_run(opened, run) for run in runs])
        for each in plan.left:
            warn(f"{each.run}: {each.reason}; left out")
        if dry_run or choice is None:
            _print_plan(plan.lessons, as_json)
            return
        _learn(opened, plan, choice, given, stack, as_json)


def _judge_commits(bank: str, repository: str, dry_run: bool, as_json: bool) -> None:
    from rbank_es.agents.git_verdicts import learn_from_git
    from rbank_es.cli.shared.correction_report import print_correction

    with opened_to_correct(bank, dry_run=dry_run) as opened:
        found = learn_from_git(opened, repository, dry_run=dry_run)
    if as_json:
        echo_json(found)
        return
    echo(f"{count(found.looked_at, 'run')} with commits")
    rows: list[list[Cell]] = [
        [each.run, each.commit[:COMMIT_DIGITS], each.fate, each.by[:COMMIT_DIGITS], each.verdict or each.because]
        for each in found.rows
    ]
    echo_table(["run", "commit", "fate", "by", "verdict"], rows, flexible=["verdict"], none="nothing new")
    print_correction(bank, found.correction, unchanged="nothing was recorded")


COMMIT_DIGITS = 12
"""Digits of a commit that name it to people, as git does in large repositories."""


def _learn(
    bank: Bank, plan: LessonPlan, choice: LmChoice, given: JudgeSources, stack: ExitStack, as_json: bool
) -> None:
    from rbank_es.agents.learned_lessons import draw_lessons
    from rbank_es.loop.closed_loop import GOES_ON
    from rbank_es.loop.late_extraction import UNREAD
    from rbank_es.models.run_models import Lms

    source = given.source(stack, bank)
    with interruptible(lambda: "Kept: what was drawn so far", GOES_ON), Progress("learning") as progress:
        found = draw_lessons(
            bank, plan, lambda run: Lms(bank, run, {"extractor": choice}, task=run), source, progress
        ).lessons
    if as_json:
        echo_json({"bank": bank.name, "model": choice.name, "scripted": choice.scripted, "lessons": found})
    else:
        _print_lessons(found)
        if choice.scripted:
            echo_scripted()
    unread = sum(not each.titles and each.code in UNREAD for each in found)
    if unread:
        left = (
            f"{count(unread, 'extraction')} of {len(found)} gave nothing, because no answer of the model could be used"
        )
        warn(f"{left}; the runs stay due: the same command asks again")
        click.get_current_context().exit(CheckFailed.exit_code)


def _print_plan(lessons: Sequence[LessonToDraw], as_json: bool) -> None:
    if as_json:
        echo_json({"lessons": [each._asdict() for each in lessons]})
        return
    rows: list[list[Cell]] = [[each.kind, ", ".join(each.runs)] for each in lessons]
    echo_table(["kind", "runs"], rows, flexible=["runs"], none="nothing is due")
    if lessons:
        echo(f"{count(len(lessons), 'extraction')}; a model would be asked once or more for each")


def _print_lessons(found: Sequence[LateLessons]) -> None:
    rows: list[list[Cell]] = []
    for each in found:
        lesson: list[Cell] = [", ".join(each.runs), each.kind]
        for title, decision in zip(each.titles, each.decisions, strict=True):
            rows.append([*lesson, decided(decision), title])
        if not each.decisions:
            rows.append([*lesson, "nothing", each.reason])
    echo_table(["runs", "kind", "decision", "title, or why not"], rows, flexible=["title, or why not", "runs"])
