"""An executor of another package: found by its entry point, it passes the contract and runs wherever ours run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.sandboxes import require_dspy

require_dspy()
from rbank_es.errors import BadInput, LoopStopped  # noqa: E402
from rbank_es.events import RunFinished, RunStarted  # noqa: E402
from rbank_es.executors.executor import EXECUTORS, Executor, executor_class  # noqa: E402
from rbank_es.loop.settings import LoopSettings  # noqa: E402
from rbank_es.models.model_choice import LmChoice  # noqa: E402
from tests.cli_runner import ROOT, run  # noqa: E402
from tests.executors.contract import ExecutorContract  # noqa: E402
from tests.loop.loops import TASKS, looped, quick, scripted  # noqa: E402

TURNS = """
[[task]]
id = "*"
[[task.agent]]
text = '{"thought": "t", "tool": "g_classes", "args": {"limit": 3}}'
[[task.agent]]
text = '{"thought": "t", "tool": "SUBMIT", "args": {"answer": "Three."}}'
"""


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A package whose entry point registers an executor, as `pip install` leaves it."""
    site = tmp_path_factory.mktemp("site")
    package = site / "plain_agent-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: plain-agent\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[rbank_es.plugins]\nplain = tests.executors.plain_executor:register\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        assert executor_class("plain").__name__ == "Plain"
        yield site


class TestPlain(ExecutorContract):
    name = "plain"
    interpreters = None

    def calls(self, tool: str, **arguments: Any) -> str:
        return json.dumps({"thought": "I think.", "tool": tool, "args": arguments})

    def submits(self, text: Any = "Three.", **fields: Any) -> str:
        return self.calls("SUBMIT", answer=text, **{"sparql": "", "evidence": {}, **fields})

    def answers(self, text: str, sparql: str = "", evidence: Any = None) -> str:
        return json.dumps({"answer": text, "sparql": sparql, "evidence": evidence or {}})

    def half_said(self) -> str:
        return '{"thought": "I have a plan."}'


def test_a_loop_runs_an_executor_of_a_plugin_without_a_sandbox(tmp_path: Path) -> None:
    settings = scripted(tmp_path, TURNS, executor="plain", judge="none", extract=False)
    with quick(tmp_path / "bank") as bank:
        looped(bank, settings, TASKS[:1], interpreters=None)
        assert [event.outcome for event in bank.events() if isinstance(event, RunFinished)] == ["submitted"]
        assert [event.executor for event in bank.events() if isinstance(event, RunStarted)] == ["plain"]


def test_an_executor_that_returns_no_ending_fails_its_run(tmp_path: Path) -> None:
    """The run is closed with a message that names the executor; the bank is as sound as ever."""

    class Endless(Executor):
        runs_code = False

        def work(self, *_: Any) -> Any:
            return None

    EXECUTORS.add("endless", Endless)
    settings = scripted(tmp_path, TURNS, executor="endless", judge="none", extract=False)
    with quick(tmp_path / "bank") as bank:
        with pytest.raises(LoopStopped, match="'Endless' of the package tests can't be used: it returned NoneType"):
            looped(bank, settings, TASKS[:1], interpreters=None)
        [end] = bank.events(types={"run_finished"})
        assert isinstance(end, RunFinished) and (end.outcome, end.error_code) == ("failed", "unexpected")


@pytest.mark.slow
def test_the_command_line_runs_and_lists_an_executor_of_a_plugin(tmp_path: Path, installed: Path) -> None:
    around = {"PYTHONPATH": f"{ROOT}{os.pathsep}{installed}"}
    (tmp_path / "turns.toml").write_text(TURNS)
    command = ("run", "./bank", "--ont", "lights", "--task", "How many?", "--lm", "script:turns.toml")
    run(*command, "--executor", "plain", "--judge", "none", cwd=tmp_path, env=around)
    [end] = run("log", "./bank", "--type", "run_finished", "--json", cwd=tmp_path).lines
    assert (end["outcome"], end["answer"]) == ("submitted", "Three.")
    assert "[rlm|react|scratchpad|tools|plain]" in run("run", "--help", cwd=tmp_path, env=around).out
    unknown = run(*command, "--executor", "codeact", cwd=tmp_path, env=around, code=2)
    assert "no executor 'codeact'; there are: rlm, react, scratchpad, tools, plain" in unknown.err
    idle = run(*command, "--executor", "plain", "--unsafe-local", cwd=tmp_path, env=around, code=2)
    assert "this executor runs no code" in idle.err


def test_settings_take_any_registered_executor_and_no_other() -> None:
    lm = LmChoice(model="script:turns.toml")
    assert LoopSettings(lm=lm, executor="plain").executor == "plain"
    with pytest.raises(BadInput, match="no executor 'codeact'; there are: rlm, react, scratchpad.*plain"):
        LoopSettings(lm=lm, executor="codeact")
    with pytest.raises(BadInput, match="there is executor 'rlm' already"):
        EXECUTORS.add("rlm", "elsewhere:Rlm")
