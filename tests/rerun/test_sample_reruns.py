"""Every run of the sample bank comes out the same again, with no model, no key and no sandbox."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.loop.tasks import Task, load_tasks
from rbank_es.rerun.recording import runs_of
from rbank_es.rerun.rerunning import rerun
from tests.cli_runner import ROOT, SAMPLE, run
from tests.executors.sandboxes import require_dspy
from tests.rerun.banks import shipped

require_dspy()

TASKS = ROOT / "logs" / "sample_tasks.json"


def recorded() -> tuple[str, ...]:
    with Bank.open(SAMPLE) as opened:
        return runs_of(opened)


RUNS = recorded()


@pytest.fixture(scope="module")
def bank() -> Iterator[Bank]:
    with Bank.open(SAMPLE) as opened:
        yield opened


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    return load_tasks(TASKS)


@pytest.mark.parametrize("name", RUNS)
def test_it_comes_out_the_same(bank: Bank, tasks: tuple[Task, ...], name: str) -> None:
    """With its verdict, its score and what was learnt of it."""
    came = rerun(bank, name, ontologies=shipped(), tasks=tasks)
    assert came.difference is None, came.difference
    assert came.events >= 10 and not any("right answer" in note for note in came.notes)


@pytest.mark.slow
def test_the_command_runs_all_of_them_again(tmp_path: Path) -> None:
    place = copy_in(tmp_path)
    told = run("rerun", "sample", "--all", "--tasks", TASKS, "--json", cwd=place).json
    assert {each["run"]: each["result"] for each in told["runs"]} == dict.fromkeys(RUNS, "identical")


@pytest.mark.slow
def test_a_run_whose_question_was_erased_is_refused_and_others_are_not(tmp_path: Path, tasks: tuple[Task, ...]) -> None:
    place, (first, second) = copy_in(tmp_path), RUNS[:2]
    (place / "question.txt").write_text(tasks[0].question)
    run("erase", "sample", "--text", "question.txt", "--yes", cwd=place)
    told = run("rerun", "sample", first, second, "--json", cwd=place, code=2).json["runs"]
    assert [each["result"] for each in told] == ["not run", "identical"]
    assert "texts of it were erased" in told[0]["reason"]


@pytest.mark.slow
def test_runs_that_were_exported_and_imported_are_refused(tmp_path: Path) -> None:
    """Trajectories don't tell which ontology was asked."""
    place = copy_in(tmp_path)
    run("export", "sample", "--format", "trajectories", "-o", "runs", cwd=place)
    run("import", "again", "runs", "--create", cwd=place)
    told = run("rerun", "again", "--all", "--json", cwd=place, code=2).json["runs"]
    assert len(told) == len(RUNS) and {each["result"] for each in told} == {"not run"}
    assert all("never registered" in each["reason"] for each in told)


def copy_in(place: Path) -> Path:
    shutil.copytree(SAMPLE, place / "logs" / "sample", ignore=shutil.ignore_patterns("derived", "lock"))
    return place
