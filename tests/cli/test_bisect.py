"""`bisect`: what it prints on the sample, its JSON, its exit codes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.events import RunStarted
from tests.cli.misled import misled_bank
from tests.cli_runner import digest_of, run

MISLED, BEFORE, TAUGHT = "lights-08-", "lights-05-", "lights-07-"


@pytest.fixture(scope="module")
def misled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `bank`, in which a wrong verdict misled runs."""
    place = tmp_path_factory.mktemp("misled")
    misled_bank(place / "bank").close()
    return place


def test_the_sample_tells_which_decision_misled_its_run(sample: Path) -> None:
    """The event in words, what came with it and from which run; each check; and that only a model could tell more."""
    before = digest_of(sample / "logs")
    shown = run("bisect", "sample", "--bad", MISLED, "--good", BEFORE, cwd=sample).out
    assert "memories_consolidated\nadd bfd1fd5367a2" in shown
    assert "Compare how tall lighthouses are by focal height" in shown and f"  {TAUGHT}" in shown
    assert "only a model can tell" in shown and "it only marks the time" in shown
    told = run("bisect", "sample", "--bad", MISLED, "--good", BEFORE, "--json", cwd=sample).json
    assert told["ok"] and told["needs_model"] == [each["run"] for each in told["runs"]]
    [one] = told["runs"]
    assert one["run"].startswith(MISLED)
    assert f"{len(one['checks'])} checks:" in shown
    assert all(f"\n{check['position']:>14,}  " in shown for check in one["checks"])
    assert any(TAUGHT in "".join(item["drawn_from"]) for each in told["changes"] for item in each["items"])
    assert digest_of(sample / "logs") == before


def listed(place: Path) -> list[dict[str, str]]:
    """The runs of the sample, by id."""
    return run("runs", "sample", "--sort", "run", "--json", cwd=place).json["runs"]


def test_memory_that_had_no_part_is_said(sample: Path) -> None:
    """Exit code 0: that is an answer. So is a metric by which no task fell."""
    first, second, third = (each["run"] for each in listed(sample) if each["run"].startswith("lights-16-"))
    shown = run("bisect", "sample", "--bad", first, "--good", second, cwd=sample).out
    assert "memory had no part in it" in shown and f"{third} (success)" in shown
    assert "no task" in run("bisect", "sample", "--metric", "score", cwd=sample).out


def test_an_id_steers_no_terminal(tmp_path: Path) -> None:
    """Ids of runs come from whoever made the bank."""
    with Bank.create(tmp_path / "bank") as bank:
        for name in ("good\x1b[31m", "bad\x1b]0;x\x07"):
            bank.append(RunStarted(run=name, task="a\x1b[2Jtask"))
    line = ["bisect", "./bank", "--bad", "bad\x1b]0;x\x07", "--good", "good\x1b[31m"]
    assert "\x1b" not in run(*line, cwd=tmp_path).out
    assert json.loads(run(*line, "--json", cwd=tmp_path).out)["runs"][0]["outcome"] == "nothing"
