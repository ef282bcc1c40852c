"""A loop that is killed, interrupted, or out of disk: the bank verifies, and the same loop goes on."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import LogError, LoopStopped, SandboxUnavailable
from rbank_es.events import LmCalled, MemoriesExtracted, RunFinished, RunStarted, StepTaken
from rbank_es.sandbox import sandbox_pool as pool_module
from rbank_es.sandbox.process import SandboxProcess
from rbank_es.sandbox.sandbox_pool import STARTERS, SandboxPool
from tests.cli_runner import COMMAND, environment, run
from tests.faults.disk import Disk, no_space
from tests.loop.loops import SCRIPT, TASKS, learnt, looped, quick, scripted, summary, told
from tests.loop.test_closed_loop import of_type
from tests.sandbox.fake_deno import fake
from tests.sandbox.sandboxes import require_dspy

require_dspy()

SLOW = SCRIPT.replace('SUBMIT(answer="49 metres"', 'import time; time.sleep(60)\nSUBMIT(answer="49 metres"')
PATIENCE_S = 60


# ---------------------------------------------------------------- killed, interrupted


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the tasks and a script whose second step takes a minute."""
    fields = ("id", "question", "gold_sparql")
    tasks = [{name: getattr(task, name) for name in fields} for task in TASKS]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    (tmp_path / "turns.toml").write_text(SLOW)
    return tmp_path


LOOP = (
    "run", "./bank", "--ont", "lights", "--tasks", "tasks.json", "--lm", "script:turns.toml",
    "--executor", "scratchpad", "--extract", "--unsafe-local",
)  # fmt: skip


@pytest.fixture
def running(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A loop that is in the second step of its first task."""
    process = subprocess.Popen(
        [*COMMAND, *LOOP],
        cwd=place,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None and not _is_at_work(place):
        time.sleep(0.1)
    assert process.poll() is None, process.communicate()
    yield process
    process.kill()
    process.communicate()


def _is_at_work(place: Path) -> bool:
    """Whether the model was asked for the second step."""
    if not any((place / "bank").glob("*.jsonl")):
        return False
    with Bank.open(place / "bank") as bank:
        return any(event.step == 2 for event in of_type(bank, LmCalled))


def resumed(place: Path) -> list[dict[str, object]]:
    """The same command again, with a model that is faster."""
    (place / "turns.toml").write_text(SCRIPT)
    results: list[dict[str, object]] = run(*LOOP, "--json", cwd=place).json["results"]
    return results


@pytest.mark.slow
def test_a_loop_that_is_killed_amid_a_run_leaves_a_bank_that_verifies_and_goes_on(
    place: Path, running: subprocess.Popen[bytes]
) -> None:
    """The run is kept with its steps and closed by the next loop; the task is run anew."""
    running.kill()
    running.communicate()
    run("verify", "./bank", cwd=place)
    with Bank.open(place / "bank") as bank:
        [started] = of_type(bank, RunStarted)
        assert of_type(bank, RunFinished) == [] and [event.index for event in of_type(bank, StepTaken)] == [1]
    first, second = resumed(place)
    assert (first["verdict"], second["verdict"]) == ("failure", "success")
    assert (first["how"], second["how"]) == ("ran", "ran")
    run("verify", "./bank", "--retrievals", cwd=place)
    with Bank.open(place / "bank") as bank:
        [cut, *ended] = of_type(bank, RunFinished)
        assert (cut.run, cut.outcome, cut.error_code, cut.iterations) == (started.run, "failed", "interrupted", 1)
        assert len(ended) == 2 and started.run not in {
            run for event in of_type(bank, MemoriesExtracted) for run in event.runs
        }


@pytest.mark.slow
def test_ctrl_c_closes_the_run_and_the_same_command_goes_on(place: Path, running: subprocess.Popen[bytes]) -> None:
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130 and b"Traceback" not in err and out == b""
    assert b"interrupted. Kept: 0 of 2 tasks" in err and b"with 1 step. The same command goes on from here" in err
    run("verify", "./bank", cwd=place)
    with Bank.open(place / "bank") as bank:
        [end] = of_type(bank, RunFinished)
        assert (end.outcome, end.error_code) == ("failed", "interrupted")
    assert [each["verdict"] for each in resumed(place)] == ["failure", "success"]


def test_whoever_is_interrupted_does_not_wait_for_sandboxes_that_are_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start takes seconds, on a busy machine many; it goes on behind, and what it started is ended then."""
    begun, go_on, ended = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)

    class Starting:
        def end(self) -> None:
            ended.release()

    def start(settings: object) -> Starting:
        begun.release()
        assert go_on.wait(PATIENCE_S)
        return Starting()

    monkeypatch.setattr(pool_module, "start_session", start)
    with SandboxPool(STARTERS + 1) as pool:
        for _ in range(STARTERS):
            assert begun.acquire(timeout=PATIENCE_S)
    assert not ended.acquire(timeout=0.05), "closed before any was ready"
    go_on.set()
    for _ in range(STARTERS):
        assert ended.acquire(timeout=PATIENCE_S)
    with pytest.raises(SandboxUnavailable, match="closed"):
        pool.take(pool.settings)
    assert not begun.acquire(timeout=0.05), "a rollout that was left behind starts nothing more"


def test_a_sandbox_lets_go_at_once_also_where_a_thread_waits_for_it(tmp_path: Path) -> None:
    """As the threads of rollouts do that were interrupted. Its watchdog ends by itself, and needs no killing."""
    process = SandboxProcess(fake(tmp_path), offline=True)
    process.receive_pid(PATIENCE_S)
    poll, waits = select.poll(), threading.Event()
    poll.register(process.pipes.life, select.POLLIN)

    def wait() -> None:
        waits.set()
        poll.poll(PATIENCE_S * 1000)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waits.wait(PATIENCE_S)
    time.sleep(0.05)  # into the call of the system
    process.end()
    thread.join(PATIENCE_S)
    assert not thread.is_alive() and process.watchdog.returncode > 0


# ---------------------------------------------------------------- a full disk


def writes_of(place: Path) -> int:
    """How many writes a loop makes where nothing goes wrong, and how many of them make the bank."""
    disk = Disk()
    with Bank.create(place / "counted", calls=disk) as bank:
        looped(bank, scripted(place))
    return disk.calls.count("write")


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])
def test_a_disk_that_fills_up_amid_the_loop_leaves_a_bank_that_verifies_and_goes_on(
    tmp_path: Path, share: float
) -> None:
    """Whatever could not be written, nothing is claimed that is not there; with room again, nothing is missing."""
    settings = scripted(tmp_path)
    room = int(writes_of(tmp_path) * share)
    disk = Disk()
    with Bank.create(tmp_path / "bank", calls=disk) as bank:
        made = disk.calls.count("write")
        disk.fail = lambda name, _: no_space() if name == "write" and disk.calls.count("write") > made + room else None
        with pytest.raises((LogError, LoopStopped)) as caught:
            looped(bank, settings)
        assert "space" in str(caught.value)
    with Bank.open(tmp_path / "bank") as bank:
        bank.check()
        results = looped(bank, settings)
        bank.check(retrievals=True)
        with quick(tmp_path / "whole") as whole:
            assert summary(results) == summary(looped(whole, settings))
            assert learnt(bank) == learnt(whole) and told(bank) == told(whole)
