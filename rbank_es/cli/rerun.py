"""`rerun`: re-execute recorded runs from their own events, and compare them event by event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from rbank_es.bank.id_lookup import recorded_run
from rbank_es.cli.shared.arguments import open_at, outside
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.ontology_options import ONTOLOGY_HELP, ontology_options, skips_unreadable
from rbank_es.cli.shared.output import Progress, echo, echo_fields, echo_json, echo_paragraph, echo_table, styled
from rbank_es.errors import BadInput, CannotRerun, CheckFailed, JudgeFailed, LmFailed, LogError, LoopStopped
from rbank_es.events.readable_text import count

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.rerun.execution import Rerun


WHY = "first difference, or why not"
SCRIPTED = "a script, with no model"


class RerunOutcome(NamedTuple):
    """The comparison of one run, or the reason why it can't be re-executed."""

    run: str
    compared: Rerun | None
    refused: str = ""

    @property
    def word(self) -> str:
        """The result in a word."""
        if self.compared is None:
            return "not run"
        return "identical" if self.compared.identical else "different"

    @property
    def maker(self) -> str | None:
        """Who had given the recorded answers, in a word; None where the run can't be re-executed."""
        if self.compared is None:
            return None
        return "script" if self.compared.scripted else "model"


@command(
    "rerun",
    "rbank-es rerun ./logs/sample --all",
    "rbank-es rerun notes lights-L1-1-3f2a9c1b-1 --ont lights --live-sandbox",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.argument("runs", metavar="RUN...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every run that can be re-executed; the others are listed.")
@ontology_options(f"The runs' ontology. {ONTOLOGY_HELP}")
@click.option(
    "--tasks", metavar="FILE", help="The tasks of the runs: with their right answers, scores are compared too."
)
@click.option("--live-sandbox", is_flag=True, help="Also run the agent's code again, in the sandbox.")
@click.option("--into", metavar="DIR", help="Keep the new bank in DIR; of several runs, one bank each.")
def rerun(bank: str, runs: tuple[str, ...], every: bool, paths: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Re-execute recorded runs with this release, and compare them with the record, event by event.

    Each runs in a copy of the bank as it was just before. Model responses are taken from the record, and so are the
    results of code unless --live-sandbox is given: no model, key or network is needed. Retrieval, context, tools,
    prompts, judging, scoring and learning are repeated. Positions, times, ids and durations are not compared. The bank
    is only read.

    The ontology is found by its digest among the files of --ont; the shipped one is always found. Imported runs,
    erased runs and runs over an endpoint can't be re-executed. Exit code 1: a run differs, or with --all can't be
    re-executed: the others are, and those are named at the end, each with the reason. 2: a run named can't be.
    """
    if bool(runs) == every:
        raise BadInput("name the runs to re-execute, or give --all")
    opened, point = open_at(bank)
    with opened, Progress("running again") as progress:
        done = list(_outcomes(opened, runs, progress, point=point, paths=paths, every=every, **options))
        name = opened.name
    code = _code(done, every)
    if as_json:
        echo_json({"bank": name, "ok": code == 0, "runs": [_facts(each) for each in done]})
    else:
        _print(name, done)
    click.get_current_context().exit(code)


def _outcomes(
    bank: Bank,
    named: tuple[str, ...],
    progress: Progress,
    *,
    point: str | None,
    paths: tuple[str, ...],
    every: bool,
    tasks: str | None,
    live_sandbox: bool,
    into: str | None,
) -> Iterator[RerunOutcome]:
    from rbank_es.loop.tasks import load_tasks
    from rbank_es.rerun.execution import rerun as run_again
    from rbank_es.rerun.ontology_lookup import Ontologies
    from rbank_es.rerun.recorded_run import runs_of

    kept = outside(bank, Path(into)) if into else None
    shared: dict[str, Any] = {"point": point, "tasks": load_tasks(tasks) if tasks else (), "live_sandbox": live_sandbox}
    runs = list(dict.fromkeys(recorded_run(bank, each, bank.resolve(point)) for each in named)) or runs_of(bank, point)
    with Ontologies(paths, skip_unreadable=skips_unreadable()) as ontologies:
        for number, run in enumerate(runs):
            progress(number, len(runs))
            # One bank per run, because each starts from another point in time.
            place = kept / run if kept and len(runs) > 1 else kept
            try:
                compared = run_again(bank, run, ontologies=ontologies, into=place, **shared)
            except CannotRerun as error:
                yield RerunOutcome(run, None, error.reason)
            except (JudgeFailed, LmFailed, LogError, LoopStopped) as error:
                # Of all runs, one that this machine or a damaged log fails must not hide the others.
                if not every:
                    raise
                yield RerunOutcome(run, None, str(error))
            else:
                yield RerunOutcome(run, compared)


def _code(done: Sequence[RerunOutcome], every: bool) -> int:
    """Return the exit code: a run that differs comes before one that can't be re-executed."""
    if any(each.compared is not None and not each.compared.identical for each in done):
        return CheckFailed.exit_code
    refused = any(each.compared is None for each in done)
    return (CheckFailed if every else CannotRerun).exit_code if refused else 0


def _facts(done: RerunOutcome) -> dict[str, Any]:
    facts: dict[str, Any] = {"run": done.run, "result": done.word}
    if done.compared is None:
        return facts | {"reason": done.refused}
    return facts | {name: value for name, value in msgspec.to_builtins(done.compared).items() if name != "run"}


def _print(name: str, done: Sequence[RerunOutcome]) -> None:
    if len(done) == 1:
        _print_one(done[0])
        return
    rows = [
        [each.run, each.word, each.maker, each.compared.events if each.compared else None, _short(each)]
        for each in done
    ]
    echo_table(
        ["run", "result", "made by", "events", WHY], rows, flexible=[WHY, "run"], none=f"there are no runs in {name}"
    )
    for each in done:
        if each.compared is not None and not each.compared.identical:
            echo()
            _print_one(each)
    if left := [each for each in done if each.compared is None]:
        echo(styled(f"\n{count(len(left), 'run')} of {len(done):,} could not be run again:", "yellow"))
        echo_fields({each.run: each.refused for each in left})


def _short(done: RerunOutcome) -> str:
    if done.compared is None:
        return done.refused
    found = done.compared.difference
    return f"event {found.number}, {found.type}, {found.field}" if found else ""


def _print_one(done: RerunOutcome) -> None:
    colour = {"identical": "green", "different": "red"}.get(done.word, "yellow")
    echo(f"run {done.run}: {styled(done.word, colour)}")
    if done.compared is None:
        echo_paragraph(done.refused)
        return
    compared, found = done.compared, done.compared.difference
    maker = {"made by": SCRIPTED if compared.scripted else None}
    if found is None:
        echo_fields({"events compared": compared.events, **maker})
    else:
        at = f" at position {found.position:,}" if found.position else ""
        where = f"event {found.number} of {compared.events}, {found.type}{at}"
        values = {"field": found.field, "recorded": found.recorded, "now": found.now, "maybe": found.hint}
        echo_fields({"first difference": where, **values, **maker})
    for note in compared.notes:
        echo_fields({"note": note})
