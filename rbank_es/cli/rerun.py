"""`rerun`: recorded runs run again from their own events, and compared event by event."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import ONTOLOGY_HELP, ontology_paths, open_at, outside
from rbank_es.cli.shared.output import Progress, echo, echo_fields, echo_json, echo_paragraph, echo_table, styled
from rbank_es.errors import BadInput, CannotRerun, CheckFailed

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.rerun.execution import Rerun


WHY = "first difference, or why not"
SCRIPTED = "a script, with no model"
NEW_OBJECTS = 50_000
"""Objects after which garbage is looked for; Python's own 700 cost a tenth of the time that it takes to load dspy."""


class Done(NamedTuple):
    """What came of one run: what was compared, or why it could not be run again."""

    run: str
    came: Rerun | None
    refused: str = ""

    @property
    def word(self) -> str:
        """The result in a word."""
        if self.came is None:
            return "not run"
        return "identical" if self.came.identical else "different"

    @property
    def maker(self) -> str | None:
        """Whose answers were played, in a word; None where the run could not be run again."""
        if self.came is None:
            return None
        return "script" if self.came.scripted else "model"


@command(
    "rerun",
    "rbank-es rerun ./logs/sample --all",
    "rbank-es rerun notes lights-L1-1-3f2a9c1b-1 --ont lights --live-sandbox",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.argument("runs", metavar="RUN...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every run that can be run again; those that can't are listed.")
@click.option("--ont", "paths", metavar="PATH", multiple=True, help=f"The runs' ontology. {ONTOLOGY_HELP}")
@click.option(
    "--tasks", metavar="FILE", help="The tasks that were run: with their right answers, scores are compared too."
)
@click.option("--live-sandbox", is_flag=True, help="Run the agent's code again too, in the sandbox.")
@click.option("--into", metavar="DIR", help="Keep the bank in which it ran again; of several, one in DIR for each.")
def rerun(
    bank: str,
    runs: tuple[str, ...],
    every: bool,
    paths: tuple[str, ...],
    tasks: str | None,
    live_sandbox: bool,
    into: str | None,
    as_json: bool,
) -> None:
    """Run recorded runs again with this release, and compare them with what was recorded, event by event.

    Each runs in a copy of the bank as it was just before. What models said is taken from the record, and so is what
    code came to, unless with --live-sandbox: no model, no key and no network are needed. Retrieval, context, tools,
    prompts, judging, scoring and learning are done anew. Positions, times, ids and durations are not compared. The bank
    is only read.

    The ontology is found by its digest among the files of --ont; the shipped one always is. Imported and erased runs
    can't be run again, nor those of an endpoint. Exit code 1: one came out otherwise. 2: one could not be run; with
    --all, none could.
    """
    if bool(runs) == every:
        raise BadInput("name the runs to be run again, or give --all")
    opened, point = open_at(bank)
    with opened, Progress("running again") as progress, _few_collections():
        chosen = Chosen(point, paths, tasks, live_sandbox, into)
        done = list(_all_done(opened, runs, chosen, progress))
        name = opened.name
    code = _code(done, every)
    if as_json:
        echo_json({"bank": name, "ok": code == 0, "runs": [_facts(each) for each in done]})
    else:
        _print(name, done)
    click.get_current_context().exit(code)


class Chosen(NamedTuple):
    """What was chosen for all runs."""

    point: str | None
    paths: tuple[str, ...]
    tasks: str | None
    live_sandbox: bool
    into: str | None


def _all_done(bank: Bank, named: tuple[str, ...], chosen: Chosen, progress: Progress) -> Iterator[Done]:
    from rbank_es.loop.tasks import load_tasks
    from rbank_es.rerun.execution import rerun as run_again
    from rbank_es.rerun.ontology_lookup import Ontologies
    from rbank_es.rerun.recorded_run import runs_of

    kept = outside(bank, Path(chosen.into)) if chosen.into else None
    shared: dict[str, Any] = {
        "point": chosen.point,
        "tasks": load_tasks(chosen.tasks) if chosen.tasks else (),
        "live_sandbox": chosen.live_sandbox,
    }
    runs = list(dict.fromkeys(named)) or runs_of(bank, chosen.point)
    with Ontologies(ontology_paths(chosen.paths)) as ontologies:
        for number, run in enumerate(runs):
            progress(number, len(runs))
            place = kept / run if kept and len(runs) > 1 else kept
            try:
                came = run_again(bank, run, ontologies=ontologies, into=place, **shared)
            except CannotRerun as error:
                yield Done(run, None, error.reason)
            else:
                yield Done(run, came)


@contextmanager
def _few_collections() -> Iterator[None]:
    """Look for garbage less often: most objects are made while dspy loads, and stay."""
    before = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _code(done: Sequence[Done], every: bool) -> int:
    """The exit code: with --all, a run that can't be run again is no failure, as long as another can."""
    if any(each.came is not None and not each.came.identical for each in done):
        return CheckFailed.exit_code
    refused = [each for each in done if each.came is None]
    return CannotRerun.exit_code if refused and (not every or len(refused) == len(done)) else 0


def _facts(done: Done) -> dict[str, Any]:
    facts: dict[str, Any] = {"run": done.run, "result": done.word}
    if done.came is None:
        return facts | {"reason": done.refused}
    return facts | {name: value for name, value in msgspec.to_builtins(done.came).items() if name != "run"}


def _print(name: str, done: Sequence[Done]) -> None:
    if len(done) == 1:
        _print_one(done[0])
        return
    rows = [[each.run, each.word, each.maker, each.came.events if each.came else None, _short(each)] for each in done]
    echo_table(
        ["run", "result", "made by", "events", WHY], rows, flexible=[WHY, "run"], none=f"there are no runs in {name}"
    )
    for each in done:
        if each.came is not None and not each.came.identical:
            echo()
            _print_one(each)


def _short(done: Done) -> str:
    if done.came is None:
        return done.refused
    found = done.came.difference
    return f"event {found.number}, {found.type}, {found.field}" if found else ""


def _print_one(done: Done) -> None:
    colour = {"identical": "green", "different": "red"}.get(done.word, "yellow")
    echo(f"run {done.run}: {styled(done.word, colour)}")
    if done.came is None:
        echo_paragraph(done.refused)
        return
    came, found = done.came, done.came.difference
    made = {"made by": SCRIPTED if came.scripted else None}
    if found is None:
        echo_fields({"events compared": came.events, **made})
    else:
        at = f" at position {found.position:,}" if found.position else ""
        where = f"event {found.number} of {came.events}, {found.type}{at}"
        told = {"field": found.field, "recorded": found.recorded, "now": found.now, "maybe": found.hint}
        echo_fields({"first difference": where, **told, **made})
    for note in came.notes:
        echo_fields({"note": note})
