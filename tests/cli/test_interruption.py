"""Ctrl-C while agents work: once ends the run cleanly, twice leaves at once. Real signals, and a server that hangs."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from rbank_es.bank import Bank
from rbank_es.cli.shared.command_registry import application
from rbank_es.cli.shared.interruption import interruptible
from rbank_es.cli.shared.main import main
from rbank_es.events import LmCalled, RunFinished, RunStarted, StepTaken
from rbank_es.log.disk import LOCK, locked
from rbank_es.models.scripted_model import rendered
from tests.cli_runner import run, start
from tests.loop.test_closed_loop import of_type
from tests.models.openai_server import hanging, openai_server
from tests.sandbox.sandboxes import require_dspy

require_dspy()

PATIENCE_S = 60
STEP = rendered({"next_thought": "Look.", "next_tool_name": "mem_search", "next_tool_args": '{"query": "lights"}'})
LOOP = ("run", "./bank", "--ont", "lights", "--executor", "react", "--lm", "openai/stub", "--api-base")
TOLD = "rbank-es: interrupted. `{}` was stopped before its end; your banks keep what it had recorded"
QUESTIONS = '[{"id": "one", "question": "How many lights?"}, {"id": "two", "question": "Which harbours?"}]'


def wait_for(is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("rollouts", [1, 2])
def test_ctrl_c_once_records_the_end_says_what_was_kept_and_the_same_command_goes_on(
    tmp_path: Path, rollouts: int
) -> None:
    """Within a run, and with rollouts side by side, whose threads wait for the model."""
    (tmp_path / "tasks.json").write_text(QUESTIONS)
    more = ("--tasks", "tasks.json", "--judge", "checks", *(("--matts-k", str(rollouts)) if rollouts > 1 else ()))
    # By what a request holds, because one rollout may be two requests ahead of the other.
    with openai_server(lambda body: hanging() if "Look." in json.dumps(body, default=str) else STEP) as server:
        process = start(*LOOP, server.url, *more, cwd=tmp_path)
        wait_for(lambda: len(server.requests) == 2 * rollouts, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130 and out == b"" and b"Traceback" not in err, err
    told = err.decode().splitlines()[-1]
    run("verify", "./bank", cwd=tmp_path)
    with Bank.open(tmp_path / "bank") as bank:
        begun = [event.run for event in of_type(bank, RunStarted)]
        ends = of_type(bank, RunFinished)
        assert len(begun) == rollouts and sorted(end.run for end in ends) == sorted(begun)
        assert {(end.outcome, end.error_code, end.iterations) for end in ends} == {("failed", "interrupted", 1)}
        assert len(of_type(bank, StepTaken)) == rollouts
    assert told.startswith("rbank-es: interrupted. Kept: 0 of 2 tasks; recorded as interrupted: ")
    assert all(f"{run} with 1 step" in told for run in begun)
    assert told.endswith(". The same command goes on from here")
    submits = rendered({"next_thought": "So.", "next_tool_name": "SUBMIT", "next_tool_args": '{"answer": "Four."}'})
    with openai_server(lambda body: submits) as server:
        done = run(*LOOP, server.url, *more, "--json", cwd=tmp_path)
    assert [each["outcome"] for each in done.json["results"]] == ["submitted", "submitted"]


@pytest.mark.parametrize(
    "given", [["run", "./bank", "--task", "?"], ["show", "./bank", "x"], ["experiment", "run"], []]
)
@pytest.mark.parametrize("error", [KeyboardInterrupt, click.Abort])
def test_an_interruption_anywhere_says_in_a_line_what_was_stopped(
    given: list[str], error: type[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        raise error

    monkeypatch.setattr(application, "make_context", stop)
    assert main(given) == 130
    assert capsys.readouterr().err == TOLD.format(" ".join(["rbank-es", *given[:1]])) + "\n"


@pytest.mark.slow
def test_ctrl_c_twice_leaves_at_once_and_the_bank_is_sound(tmp_path: Path) -> None:
    """The way out of the first is held up by another writer of the log."""
    with openai_server([STEP, hanging()]) as server:
        process = start(*LOOP, server.url, "--task", "How many lights?", cwd=tmp_path)
        wait_for(lambda: len(server.requests) == 2, process)
        with locked(tmp_path / "bank" / LOCK, "bank"):
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            assert process.poll() is None
            # Again and again: of two that come before the first is handled, a busy system makes one.
            while process.poll() is None:
                process.send_signal(signal.SIGINT)
                time.sleep(0.3)
            _, err = process.communicate(timeout=PATIENCE_S)  # while the lock is held, so it was not waited for
    assert process.returncode == 130 and b"Traceback" not in err
    run("verify", "./bank", cwd=tmp_path)
    with Bank.open(tmp_path / "bank") as bank:
        assert of_type(bank, RunFinished) == [] and [event.error_code for event in of_type(bank, LmCalled)] == [None]


def test_without_an_interruption_the_handler_is_as_it_was() -> None:
    """Also where Ctrl-C is ignored, as in the background of a shell."""
    for handler in (signal.default_int_handler, signal.SIG_IGN):
        before = signal.signal(signal.SIGINT, handler)
        try:
            with interruptible(str, ""):
                assert (signal.getsignal(signal.SIGINT) is handler) == (handler is signal.SIG_IGN)
            assert signal.getsignal(signal.SIGINT) is handler
        finally:
            signal.signal(signal.SIGINT, before)
