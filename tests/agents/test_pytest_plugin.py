"""The plugin of pytest: which verdict a test is on the runs recorded within it, and that it does nothing unasked."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.agents import pytest_plugin
from rbank_es.agents.verdicts_of_tests import verdict_of

PLUGIN = ("-p", "no:rbank", "-p", "rbank_es.agents.pytest_plugin")
"""By its module, because an environment may have no entry point of it, or an older one."""

AGENT = """
import threading
import pytest
from rbank_es import Bank

def agent(bank, task, answer="done"):
    with bank.record(task) as run:
        run.recall()
        run.finish(answer)
    return answer

@pytest.fixture
def broken():
    raise OSError("no house")

@pytest.fixture
def left(rbank):
    yield
    raise OSError("the house is gone")

def test_right(rbank):
    assert agent(rbank, "right") == "done"

def test_wrong(rbank):
    assert agent(rbank, "wrong") == "half done"

@pytest.mark.parametrize("lamp", ["hall", "cellar"])
def test_each(rbank, lamp):
    assert agent(rbank, f"each {lamp}", lamp) == "hall"

def test_skipped(rbank):
    agent(rbank, "skipped")
    pytest.skip("no time")

@pytest.mark.xfail(reason="too hard")
def test_expected(rbank):
    assert agent(rbank, "expected") == "half done"

@pytest.mark.xfail(reason="too hard", strict=True)
def test_unexpected(rbank):
    assert agent(rbank, "unexpected") == "done"

@pytest.fixture
def ran(rbank):
    agent(rbank, "set-up")

def test_broken(ran, broken):
    pass

def test_left(rbank, left):
    agent(rbank, "left")

def test_several(rbank):
    agent(rbank, "first of several")
    thread = threading.Thread(target=agent, args=(rbank, "second of several, in a thread"))
    thread.start()
    thread.join()
    with pytest.raises(ValueError):
        with rbank.record("third of several, which fails"):
            raise ValueError("as it should")

def test_open(rbank):
    rbank.record("open").__enter__()

def test_elsewhere(tmp_path):
    with Bank.create(tmp_path / "own") as own:
        agent(own, "elsewhere")
        assert own.runs().rows[0].verdict is None

def test_without_a_run():
    assert True
"""


def test_an_environment_that_has_the_package_has_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"rbank": pytest_plugin.__name__}


def test_the_verdict_of_a_test_by_its_phases() -> None:
    def report(when: str, outcome: str, words: str = "", **more: Any) -> Any:
        told = {"failed": outcome == "failed", "skipped": outcome == "skipped", "longrepr": None}
        return SimpleNamespace(nodeid="t.py::t", when=when, longreprtext=words, **told, **more)

    phases = {
        ("passed", "passed", "passed"): "success",
        ("passed", "failed", "passed"): "failure",
        ("passed", "failed", "failed"): "failure",
        ("passed", "skipped", "passed"): None,
        ("passed", "passed", "failed"): "undecided",
        ("failed", None, "passed"): "undecided",
        ("skipped", None, "passed"): None,
    }
    for outcomes, verdict in phases.items():
        reports = [
            report(when, each) for when, each in zip(("setup", "call", "teardown"), outcomes, strict=True) if each
        ]
        told = verdict_of(reports)
        assert (told and told[0]) == verdict, outcomes
    assert verdict_of([report("call", "skipped", wasxfail="too hard")]) == ("failure", "t.py::t: too hard")
    assert verdict_of([report("call", "failed", "[XPASS(strict)] too hard")]) is not None
    assert verdict_of([report("call", "failed", "x" * 10_000)])[1] < "t.py::t: " + "x" * 5_000  # type: ignore[index]


VERDICTS = {
    "right": "success",
    "wrong": "failure",
    "each hall": "success",
    "each cellar": "failure",
    "skipped": None,
    "expected": "failure",
    "unexpected": "success",
    "set-up": "undecided",
    "left": "undecided",
    "first of several": "success",
    "second of several, in a thread": "success",
    "third of several, which fails": "success",
    "open": None,
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "test_agent.py").write_text(AGENT)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def words_of(place: Path, *options: str, code: int = 1) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGIN, *options]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("workers", [(), ("-n", "3")], ids=["one process", "three workers"])
@pytest.mark.slow
def test_a_test_is_a_verdict_on_the_runs_recorded_within_it(place: Path, workers: tuple[str, ...]) -> None:
    words = words_of(place, "--rbank", "./bank", *workers, "--junitxml=out.xml")
    with Bank.open(place / "bank") as bank:
        rows = {row.task: row for row in bank.runs().rows}
        assert {task: row.verdict for task, row in rows.items()} == VERDICTS
        assert {row.kind for row in rows.values()} == {"outcome", None}
        assert "test_agent.py::test_wrong: AssertionError: assert 'done' == 'half done'" in (rows["wrong"].reason or "")
        assert "test_broken, in its setup: OSError: no house" in (rows["set-up"].reason or "")
        assert rows["right"].reason == "test_agent.py::test_right passed"
        # A person is right against a test.
        assert bank.overrule(rows["right"].run, "failure", reason="no", by="me").verdicts
    assert f"rbank: {len(VERDICTS)} runs of agents in bank" in words
    assert f'<property name="rbank_run" value="{rows["right"].run}"' in (place / "out.xml").read_text()


@pytest.mark.slow
def test_without_the_option_nothing_is_recorded_and_the_fixture_is_a_bank_of_the_test_alone(place: Path) -> None:
    (place / "test_agent.py").write_text(
        "import sys\nLOADED = set(sys.modules)\n"
        "def test_one(rbank):\n    assert 'rbank_es.bank' not in LOADED and rbank.runs().rows == ()\n"
        "    with rbank.record('one') as run:\n        run.finish()\n"
        "def test_two(rbank):\n    assert rbank.runs().rows == ()\n"
    )
    assert "rbank:" not in words_of(place, code=0)
    assert not (place / "bank").exists()


@pytest.mark.slow
def test_a_bank_that_cannot_be_opened_is_an_error_of_use(place: Path) -> None:
    (place / "file").write_text("no bank")
    words = words_of(place, "--rbank", "./file", code=4)
    assert "--rbank ./file" in words and "Traceback" not in words
