"""The shipped script: the real loop with it, in the real sandbox, fails once, learns why, and uses what it learnt."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.data import SCRIPTED_TASKS, lights
from rbank_es.events import Event, type_of
from rbank_es.lms.choices import LmChoice
from rbank_es.lms.scripting import Script
from rbank_es.loop.closed_loop import TaskResult, run_closed_loop
from rbank_es.loop.settings import LoopSettings
from rbank_es.loop.tasks import Task, load_tasks
from rbank_es.ontology.cache import cache_directory
from rbank_es.ontology.loading import load_ontology
from rbank_es.sparql.source import open_source
from tests.cli_runner import COMMAND, environment, run
from tests.executors.sandboxes import require_dspy, runtime

require_dspy()

# Each run starts a sandbox of its own, which is slow where much else runs.
pytestmark = [pytest.mark.xdist_group("sandbox"), pytest.mark.timeout(300)]

PATIENCE_S = 200
"""For the whole demo on a machine that does other things too; alone it takes a tenth of that."""

TRAP, SAME_KIND = "lights-L4-1", ("lights-L2-1", "lights-L5-1")


def scripted_tasks() -> list[Task]:
    known = {task.id: task for task in load_tasks(lights().tasks)}
    return [known[id] for id in SCRIPTED_TASKS]


@pytest.fixture(scope="module")
def looped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bank, dict[str, TaskResult]]]:
    """The bank after the six tasks, and their results by task."""
    runtime()
    settings = LoopSettings(lm=LmChoice(model=f"script:{lights().script}"))
    source = open_source(ontology=load_ontology(lights().ontology, id="lights"))
    with Bank.create(tmp_path_factory.mktemp("loop") / "lights") as bank:
        try:
            results = run_closed_loop(scripted_tasks(), bank, settings, source)
        finally:
            source.close()
        yield bank, {result.task: result for result in results}


def events(bank: Bank, kind: str, run: str | None = None) -> list[Any]:
    found: list[Event] = list(bank.events(types={kind}, resolve=True))
    return [event for event in found if run is None or getattr(event, "run", None) == run]


def retrieved(bank: Bank, run: str) -> set[str]:
    return {hit.id for event in events(bank, "memories_retrieved", run) for hit in event.hits}


def test_the_script_has_exactly_the_tasks_that_are_named() -> None:
    """Six of the shipped tasks, in the order in which they are to be run, and its first line says what it is."""
    assert [task.id for task in Script.load(lights().script).task] == list(SCRIPTED_TASKS)
    assert len(SCRIPTED_TASKS) == 6 and "scripted" in lights().script.read_text().splitlines()[0]


def test_one_task_fails_and_a_check_says_why(looped: tuple[Bank, dict[str, TaskResult]]) -> None:
    """Only the trap fails; no judge that is scripted decides that, and the expected answers agree with all verdicts."""
    bank, results = looped
    assert {task for task, result in results.items() if not result.success} == {TRAP}
    assert all(result.outcome == "submitted" and result.scored == result.success for result in results.values())
    [verdict] = [each for each in events(bank, "run_judged", results[TRAP].run) if each.purpose == "learning"]
    assert verdict.judge == "checks" and "empty_result" in verdict.reason
    assert not [each for each in events(bank, "lm_called", results[TRAP].run) if each.role == "judge"]


def test_a_guardrail_is_learnt_and_given_to_tasks_of_the_same_kind(looped: tuple[Bank, dict[str, TaskResult]]) -> None:
    """What the failure taught is in the context of later runs that succeed, and of none before."""
    bank, results = looped
    [guardrail] = results[TRAP].added
    item = bank.state().items[guardrail].item
    assert item.polarity == "failure" and item.src == "failure"
    order = list(results)
    for task in order[: order.index(TRAP) + 1]:
        assert guardrail not in retrieved(bank, results[task].run)
    for task in SAME_KIND:
        assert guardrail in retrieved(bank, results[task].run) and results[task].success
        [built] = events(bank, "context_built", results[task].run)
        assert guardrail in built.items


def test_strategies_are_learnt_reused_and_not_doubled(looped: tuple[Bank, dict[str, TaskResult]]) -> None:
    """The first task's strategy is given to the last one; what the fifth teaches again supports what is there."""
    bank, results = looped
    first, *_, fifth, last = results.values()
    strategies = {id for id in first.added if bank.state().items[id].item.src == "success"}
    assert strategies & retrieved(bank, last.run)
    assert set(fifth.supported) & set(results[SAME_KIND[0]].added)


def test_all_is_scripted_recorded_and_intact(looped: tuple[Bank, dict[str, TaskResult]]) -> None:
    """Every run says that it is scripted, every call is in the log, and the bank verifies with its retrievals."""
    bank, results = looped
    assert all(event.scripted for event in events(bank, "run_started"))
    assert {event.model for event in events(bank, "lm_called")} == {"script:lights_script"}
    assert sum(result.lm_calls for result in results.values()) == len(events(bank, "lm_called")) >= 6 * 3
    assert type_of(next(bank.events())) == "bank_created"
    checked = bank.verify(retrievals=True)
    assert checked.retrievals is not None and checked.retrievals.checked == 2 * len(SCRIPTED_TASKS)


def test_the_demo_shows_it(tmp_path: Path) -> None:
    """`demo` runs the loop, names what was learnt and retrieved, compares before and after, and keeps the bank."""
    runtime()
    here = {"RBANK_CACHE": str(cache_directory())}
    command = [*COMMAND, "demo", "--into", "./lesson", "-o", "page.html"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(here), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert "scripted LM, real sandbox, no model" in said and "6 of 6: " in said
    before, after = said.split("Before the lesson", 1)[1].split("Now: position", 1)
    assert "guardrail: Don't ask" in said and "Don't ask" not in before and "Don't ask" in after
    assert ": identical" in after and (tmp_path / "page.html").stat().st_size > 100_000
    again = run("rerun", "./lesson", "--all", "--json", cwd=tmp_path, env=here).json
    assert [each["result"] for each in again["runs"]] == ["identical"] * len(SCRIPTED_TASKS)
