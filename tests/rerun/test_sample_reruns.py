"""Every run of the sample bank comes out the same again, with no model, no key and no sandbox."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import CannotRerun
from rbank_es.loop.tasks import Task, load_tasks
from rbank_es.rerun.execution import rerun
from rbank_es.rerun.recorded_run import runs_of
from tests.cli_runner import ROOT, SAMPLE, run
from tests.effort import one_in
from tests.rerun.banks import shipped
from tests.sandbox.sandboxes import require_dspy

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


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(4, RUNS))
def test_it_comes_out_the_same(bank: Bank, tasks: tuple[Task, ...], name: str) -> None:
    """With its verdict, its score and what was learnt of it."""
    came = rerun(bank, name, ontologies=shipped(), tasks=tasks)
    assert came.difference is None, came.difference
    assert came.events >= 10 and not any("right answer" in note for note in came.notes)


@pytest.mark.slow
def test_runs_that_searched_among_texts_that_were_erased_since_are_refused(tmp_path: Path) -> None:
    """No score is the same without them, so nobody can tell whether anything else changed: that is no difference."""
    shutil.copytree(SAMPLE, tmp_path / "sample")
    said = []
    with Bank.open(tmp_path / "sample") as bank:
        bank.erase(run=RUNS[0])
        for name in RUNS[1:12]:
            try:
                assert rerun(bank, name, ontologies=shipped()).identical
            except CannotRerun as refused:
                said.append(str(refused))
    assert any("what it read of the bank is not the same without them" in each for each in said)


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_a_run_whose_question_was_erased_is_refused_and_others_are_not(tmp_path: Path, tasks: tuple[Task, ...]) -> None:
    place, (first, second) = copy_in(tmp_path), RUNS[:2]
    (place / "question.txt").write_text(tasks[0].question)
    run("erase", "sample", "--text", "question.txt", "--yes", cwd=place)
    told = run("rerun", "sample", first, second, "--json", cwd=place, code=2).json["runs"]
    assert [each["result"] for each in told] == ["not run", "identical"]
    assert "texts of it were erased" in told[0]["reason"]


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_a_run_that_was_erased_leaves_the_others_as_they_were(tmp_path: Path, tasks: tuple[Task, ...]) -> None:
    """The base instructions, settings and the schema's card are in all of them; only its own words are gone."""
    erased, other = RUNS[2], RUNS[3]
    with Bank.open(copy_in(tmp_path) / "logs" / "sample", unsafe_no_sync=True) as bank:
        own = next(event.task for event in bank.events(run=erased, resolve=True))  # type: ignore[attr-defined]
        assert {place.run for place in bank.erase(run=erased).erasure.places} == {erased}
        assert not [
            path for path in Path(bank.place).rglob("*") if path.is_file() and own.encode() in path.read_bytes()
        ]
        with pytest.raises(CannotRerun, match="texts of it were erased"):
            rerun(bank, erased, ontologies=shipped(), tasks=tasks)
        assert rerun(bank, other, ontologies=shipped(), tasks=tasks).identical
        assert bank.check().events == bank.position


@pytest.mark.slow
def test_runs_that_were_exported_and_imported_are_refused(tmp_path: Path) -> None:
    """Trajectories hold settings, but no context, and nothing of what was said to a model and by it."""
    place = copy_in(tmp_path)
    run("export", "sample", "--format", "trajectories", "-o", "runs", cwd=place)
    run("import", "again", "runs", "--create", cwd=place)
    told = run("rerun", "again", "--all", "--json", cwd=place, code=1).json["runs"]
    assert len(told) == len(RUNS) and {each["result"] for each in told} == {"not run"}
    assert all("it ran in bank" in each["reason"] for each in told)


def copy_in(place: Path) -> Path:
    shutil.copytree(SAMPLE, place / "logs" / "sample", ignore=shutil.ignore_patterns("*lock"))
    return place
