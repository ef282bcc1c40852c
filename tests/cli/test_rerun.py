"""The command `rerun`: what it prints, its exit codes, and that it needs no model, no key and no network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.cli.shared.main import main
from rbank_es.errors import LogCorruption, LoopStopped, RBankError
from rbank_es.events import RunFinished, RunStarted
from rbank_es.rerun.recorded_run import runs_of
from tests import cli_runner as cli
from tests.loop.loops import SCRIPT, TASKS
from tests.rerun.banks import changing, retold, run_in
from tests.sandbox.sandboxes import require_dspy

require_dspy()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with `bank`: two runs that come out the same, and one that was imported."""
    place = tmp_path_factory.mktemp("cli")
    with run_in(place, SCRIPT, TASKS) as bank:
        bank.append([RunStarted(run="old", task="Which?"), RunFinished(run="old", outcome="submitted")])
    yield place


@pytest.fixture(scope="module")
def runs(place: Path) -> tuple[str, ...]:
    with Bank.open(place / "bank") as bank:
        return runs_of(bank)


@pytest.fixture(scope="module")
def tampered(place: Path) -> Path:
    """The same, but that the first run is said to have answered otherwise."""
    with Bank.open(place / "bank") as bank:
        retold(bank, place / "tampered", changing(RunFinished, answer="Nothing.")).close()
    return place / "tampered"


@pytest.mark.slow
def test_a_difference_is_shown_and_is_exit_code_1(place: Path, tampered: Path, runs: tuple[str, ...]) -> None:
    done = cli.run("rerun", "./tampered", runs[0], cwd=place, code=1)
    assert "different" in done.out
    for line in ("run_finished", "answer, character 0", "recorded", "'Nothing.'", "now", "maybe", "a script, with no"):
        assert line in done.out
    told = cli.run("rerun", "./tampered", *runs[:2], "--json", cwd=place, code=1).json
    assert (told["ok"], [run["result"] for run in told["runs"]]) == (False, ["different", "identical"])
    assert told["runs"][0]["difference"]["recorded"] == "'Nothing.'"


@pytest.mark.parametrize("error", [LoopStopped("r", "sandbox_failed", "it broke"), LogCorruption("a line", "damaged")])
def test_all_goes_on_behind_a_run_that_this_machine_or_the_log_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: RBankError
) -> None:
    """A run that was named alone fails with its own exit code."""
    with Bank.create(tmp_path / "two") as bank:
        for run in ("r1", "r2"):
            bank.append([RunStarted(run=run, task="Which?"), RunFinished(run=run, outcome="submitted")])
    tried = []

    def fail(bank: Bank, run: str, **_: object) -> None:
        tried.append(run)
        raise error

    monkeypatch.setattr("rbank_es.rerun.execution.rerun", fail)
    place = str(tmp_path / "two")
    assert main(["rerun", place, "--all"]) == 1 and tried == ["r1", "r2"]
    told = capsys.readouterr().out
    assert "2 runs of 2 could not be run again:" in told and told.count(str(error)) == 4
    assert main(["rerun", place, "r1"]) == error.exit_code and capsys.readouterr().out == ""


WITHOUT_NETWORK = """
import json, os, sys

def audit(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg"):
        raise SystemExit(f"{event} {arguments}")

sys.addaudithook(audit)
from rbank_es.cli import main
code = main(sys.argv[1:])
print(json.dumps({"code": code, "loaded": [name for name in ("litellm", "openai", "deno") if name in sys.modules]}))
"""


@pytest.mark.slow
def test_it_opens_no_connection_needs_no_key_and_loads_no_client_of_models(tmp_path: Path) -> None:
    with run_in(tmp_path, SCRIPT, TASKS, executor="rlm"):
        pass
    kept = {name: value for name, value in cli.environment().items() if not name.endswith(("_KEY", "_TOKEN", "_BASE"))}
    nowhere = {"HOME": str(tmp_path), "PATH": os.devnull, "DENO_DIR": os.devnull}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NETWORK, "rerun", "./bank", "--all"],
        cwd=tmp_path,
        env=kept | nowhere,
        capture_output=True,
        text=True,
        timeout=cli.TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"code": 0, "loaded": []}, done.stdout
    assert done.stdout.count("identical") == 2
