"""`learn`: candidates drawn from runs under the verdicts that stand now."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.events import MemoriesExtracted
from tests.cli.misled import misled_bank
from tests.cli_runner import fails, run

SCRIPT = """
[[task]]
id = "wrong"
[[task.extractor]]
expects = ["The judge decided that it is a failure", "Kittiwake Head"]
fields = { why_none = "", memory_items = [
  { title = "Ask what a height measures", description = "Read its comment.", content = "A light is not its tower." } ] }
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that each test has a copy of: a bank in which a person overruled the judge."""
    folder = tmp_path_factory.mktemp("misled")
    with misled_bank(folder / "logs" / "misled") as bank:
        bank.overrule("wrong", "failure", reason="It is Cormorant Rock.", by="ann")
    (folder / "turns.toml").write_text(SCRIPT)
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_run_that_was_overruled_teaches_under_its_new_verdict(place: Path) -> None:
    """The extraction relies on the verdict that stands, and the item leaves with it; nothing is drawn twice."""
    said = run("learn", "misled", "--due", "--lm", "script:turns.toml", cwd=place).out
    assert "Ask what a height measures" in said and "add " in said and "scripted" in said
    with Bank.open(place / "logs" / "misled") as bank:
        *_, event = bank.events(types={"memories_extracted"})
        assert isinstance(event, MemoriesExtracted) and event.kind == "failure"
        assert [(each.run, each.verdict) for each in event.relied] == [("wrong", "failure")]
        assert bank.search("height measures")
        bank.overrule("wrong", "success", reason="I had misread it.")
        assert not [hit for hit in bank.search("height measures") if hit.title.startswith("Ask what")]
    assert "there is no such run" in run("learn", "misled", "--due", "--dry-run", cwd=place).out


def test_a_run_that_taught_already_is_left_out(place: Path) -> None:
    told = run("learn", "misled", "lucky", "--lm", "script:turns.toml", "--json", cwd=place)
    assert told.json["runs"] == [] and "drawn from it already" in told.err


def test_a_dry_run_lists_the_runs_and_asks_nobody(place: Path) -> None:
    assert run("learn", "misled", "--due", "--dry-run", "--json", cwd=place).json == {"runs": ["wrong"]}


def test_a_model_that_does_not_answer_leaves_the_run_for_another_time(place: Path) -> None:
    (place / "slow.toml").write_text('[[task]]\nid = "*"\n[[task.extractor]]\nerror = "timeout"\n')
    assert "timeout" in run("learn", "misled", "wrong", "--lm", "script:slow.toml", cwd=place, code=1).out
    assert run("learn", "misled", "--due", "--dry-run", "--json", cwd=place).json == {"runs": ["wrong"]}


def test_nothing_is_learned_from_a_run_that_is_undecided_or_unknown(place: Path) -> None:
    run("overrule", "misled", "lucky", "--undecided", "--reason", "The task is ambiguous.", cwd=place)
    model = ("--lm", "script:turns.toml")
    assert "is undecided" in fails("learn", "misled", "lucky", *model, cwd=place)
    assert "did you mean wrong?" in fails("learn", "misled", "wrnog", *model, cwd=place)
    assert "--lm MODEL" in fails("learn", "misled", "wrong", cwd=place)
    assert "--due" in fails("learn", "misled", *model, cwd=place)
