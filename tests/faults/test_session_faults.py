"""What a sandbox's process may say, or fail to say: a session ends, with a reason, and this side goes on.

The process is a stand-in that starts at once and says what the tests want; what the real one does is tried elsewhere.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es.errors import SandboxUnavailable
from rbank_es.limits import sandbox_limits
from rbank_es.sandbox import session as session_module
from rbank_es.sandbox.guest_protocol import Lost, TimeLimits
from rbank_es.sandbox.process import WATCHDOG
from rbank_es.sandbox.session import Session
from tests.sandbox.fake_deno import fake
from tests.sandbox.sandboxes import soon_gone

TIMES = TimeLimits.alike(20)
CALL = '{"jsonrpc":"2.0","id":"tc_1_1","method":"tool_call","params":{"name":"note","kwargs":{"packed":"{}"}}}'
FORGED = {"a call that no tool made": CALL, "any object": '{"a":1}'}
"""Messages of every form are tried without a process: see `tests/attacks/test_hostile_frames.py`."""


def answer(name: str, arguments: dict[str, Any]) -> str:
    """A tool that gives back what it is given."""
    return json.dumps({"value": [name, arguments]})


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(fake(tmp_path))
    yield made
    made.end()


def lost(
    session: Session, code: str, time_s: float = 20, answer: Callable[[str, dict[str, Any]], str] = answer
) -> Lost:
    """How a step costs a session. Its process is gone, also if it had no wish to go."""
    with pytest.raises(Lost) as caught:
        session.run(code, {}, answer, TimeLimits(time_s, 20))
    assert soon_gone(session.pid) and not session.alive
    return caught.value


def lost_amid_a_step(session: Session, act: Callable[[], object]) -> Lost:
    """How a session is lost by an act of another thread, which comes once the step has called a tool."""

    def begin(name: str, arguments: dict[str, Any]) -> str:
        threading.Timer(0.1, act).start()
        return answer(name, arguments)

    return lost(session, "call('begun', {}); import time; time.sleep(100)", answer=begin)


def test_a_step_and_a_call_are_answered(session: Session) -> None:
    session.register([], None)
    outcome = session.run("outcome['value'] = str(call('note', {'a': None})) + str(call('x', {}))", {}, answer, TIMES)
    assert outcome.value == "['note', {'a': None}]['x', {}]" and outcome.calls == 2


def test_a_session_inherits_no_variable_but_those_by_which_it_finds_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key in the caller's environment is not in that of the process which runs an agent's code."""
    monkeypatch.setenv("PROVIDER_API_KEY", "hidden")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "https://packages.invalid")
    session = Session(fake(tmp_path))
    try:
        seen = json.loads(session.run("outcome['value'] = json.dumps(dict(os.environ))", {}, answer, TIMES).value)
    finally:
        session.end()
    assert "PROVIDER_API_KEY" not in seen and seen["NPM_CONFIG_REGISTRY"] == "https://packages.invalid"
    assert seen["DENO_DIR"] == str(tmp_path / "cache")


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_message_ends_the_session(session: Session, what: str) -> None:
    assert lost(session, f"say({FORGED[what]!r})").code == "forged"


def test_a_forged_call_after_a_real_one_ends_the_session(session: Session) -> None:
    assert lost(session, f"call('note', {{}}); say({FORGED['a call that no tool made']!r})").code == "forged"


@pytest.mark.slow
@pytest.mark.parametrize("what", FORGED)
def test_a_message_between_two_steps_ends_the_session(session: Session, what: str) -> None:
    behind_its_reply = f"import __main__; __main__.say = lambda line: say(line + '\\n' + {FORGED[what]!r})"
    session.run(behind_its_reply, {}, answer, TIMES)
    assert lost(session, "pass").code == "forged"


def test_standard_error_is_drained_and_its_end_kept(session: Session) -> None:
    assert session.run("sys.stderr.write('x' * 5_000_000); outcome['value'] = 'on'", {}, answer, TIMES).value == "on"
    error = lost(session, "sys.stderr.write('the end'); sys.stderr.flush(); os._exit(3)")
    assert error.code == "died" and "exit code 3" in str(error)
    assert error.detail.endswith("the end") and len(error.detail) <= sandbox_limits.SANDBOX_STDERR_BYTES


@pytest.mark.slow
def test_closed_pipes_are_a_death(session: Session) -> None:
    assert lost(session, "os.close(1); import time; time.sleep(100)").code == "died"


def test_a_process_that_takes_no_input_is_ended_at_the_time_limit(session: Session) -> None:
    session.run("import threading, time; sys.stdin.close; threading.Timer(0, time.sleep, [100])", {}, answer, TIMES)
    os.kill(session.pid, signal.SIGSTOP)
    assert lost(session, "x = " + repr("y" * 1_000_000), time_s=0.5).code == "timeout"


def test_python_that_has_fallen_is_noticed_at_once(session: Session) -> None:
    code = "sys.stderr.write('Pyodide has suffered a fatal error.'); sys.stderr.flush(); import time; time.sleep(100)"
    assert lost(session, code).code == "died"


def test_memory_that_ran_out_is_told_as_such(session: Session) -> None:
    code = "sys.stderr.write('Fatal JavaScript out of memory: Reached heap limit'); sys.stderr.flush(); os.abort()"
    assert lost(session, code).code == "memory"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_process_is_told_by_its_signal(session: Session, number: signal.Signals) -> None:
    assert number.name in str(lost_amid_a_step(session, lambda: os.kill(session.pid, number)))


def test_a_killed_watchdog_is_noticed_at_once_and_its_process_ended(session: Session) -> None:
    watchdog = int(Path(f"/proc/{session.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    assert lost_amid_a_step(session, lambda: os.kill(watchdog, signal.SIGKILL)).code == "died"


def test_stopping_from_another_thread_ends_a_step(session: Session) -> None:
    assert lost_amid_a_step(session, session.stop).code == "died"


@pytest.mark.slow
def test_time_that_tools_take_is_not_counted(session: Session) -> None:
    def slow(name: str, arguments: dict[str, Any]) -> str:
        time.sleep(2.1)
        return answer(name, arguments)

    assert (
        session.run("call('x', {}); call('x', {}); outcome['value'] = 'on'", {}, slow, TimeLimits(4, 20)).value == "on"
    )
    assert lost(session, "import time; call('x', {}); time.sleep(100)", time_s=2).code == "timeout"


def test_a_session_that_ended_takes_no_more_steps(session: Session) -> None:
    session.end()
    session.end()
    with pytest.raises((Lost, OSError, ValueError)):
        session.run("pass", {}, answer, TIMES)


def test_nothing_can_be_opened_once_the_session_is_ready(session: Session) -> None:
    assert session.is_confined
    seen = session.run("try: open('/dev/null')\nexcept OSError as e: outcome['value'] = str(e)", {}, answer, TIMES)
    assert "Too many open files" in seen.value


def test_memory_is_bounded_once_the_session_is_ready(session: Session) -> None:
    code = (
        f"try: bytearray({2 * sandbox_limits.SANDBOX_MEMORY_BYTES})\nexcept MemoryError: outcome['value'] = 'bounded'"
    )
    assert session.run(code, {}, answer, TIMES).value == "bounded"


@pytest.mark.parametrize("fault", ["exit 7", "echo out of order; exit 0", "echo '{}'"])
def test_a_process_that_does_not_get_ready_is_told(tmp_path: Path, fault: str) -> None:
    runtime = fake(tmp_path)
    runtime.executable.write_text(f"#!/bin/sh\ncase $1 in --version) echo deno 2.9.8;; *) {fault};; esac\n")
    with pytest.raises(SandboxUnavailable, match="the sandbox does not start") as caught:
        Session(runtime)
    assert caught.value.code == "broken"


# -------------------------------------------------------------------- every way out ends the process

ANSWERED = """read line; echo '{"jsonrpc":"2.0","id":"x","result":{}}'; exec sleep 1000"""
NEVER_READY = ("exec sleep 1000", "while true; do echo; done", "while true; do echo x >&2; done")


@pytest.mark.parametrize("does", [ANSWERED, *(pytest.param(each, marks=pytest.mark.slow) for each in NEVER_READY)])
def test_a_session_that_does_not_get_ready_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    runtime = fake(tmp_path)
    pid_file = tmp_path / "pid"
    script = f"#!/bin/sh\ncase $1 in --version) echo deno 2.9.8; exit;; esac\necho $$ > {pid_file}\n"
    runtime.executable.write_text(script + does)
    # On a busy machine the time may be over before the process is there: then again with more of it.
    for start_s in (0.3, 3, 30):
        monkeypatch.setattr(sandbox_limits, "SANDBOX_START_S", start_s)
        # The error is held, and with it all that it refers to: the process must not wait for it to be collected.
        with pytest.raises(SandboxUnavailable) as caught:
            Session(runtime)
        if pid_file.exists() and pid_file.read_text():
            break
    assert soon_gone(int(pid_file.read_text())), caught.value


def test_a_watchdog_whose_starter_gave_up_before_it_was_there_ends_its_command() -> None:
    """It failed as it told the process id, and what it had started ran for ever."""
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        command = [sys.executable, "-I", "-S", WATCHDOG, str(theirs.fileno()), "/bin/sh", "-c", "exec sleep 1000"]
        started = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    assert started.wait(60) == 128 + signal.SIGKILL


@pytest.mark.parametrize("interrupted", ["confine", pytest.param("Conversation", marks=pytest.mark.slow)])
def test_an_interrupted_start_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    started: list[int] = []

    class Noted(session_module.SandboxProcess):
        def __init__(self, runtime: Any, *, offline: bool) -> None:
            super().__init__(runtime, offline=offline)
            started.append(self.watchdog.pid)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session_module, "SandboxProcess", Noted)
    monkeypatch.setattr(session_module, interrupted, stop)
    with pytest.raises(KeyboardInterrupt) as caught:
        Session(fake(tmp_path))
    assert len(started) == 1 and soon_gone(*started), caught


@pytest.mark.slow
def test_a_process_that_can_not_be_started_leaves_no_descriptor(tmp_path: Path) -> None:
    runtime = fake(tmp_path)
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(20):
        with pytest.raises(SandboxUnavailable):
            Session(runtime._replace(executable=tmp_path / "missing"))
    assert len([*Path("/proc/self/fd").iterdir()]) <= before
