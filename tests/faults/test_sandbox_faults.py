"""What an agent's code, or the system, may do to a sandbox: the step fails, the run goes on, no process is left."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.limits import sandbox_limits
from rbank_es.sandbox import sandbox_pool as pool_module
from rbank_es.sandbox.session import Restart, SandboxSettings, Session
from rbank_es.sandbox.step_outcome import NOTHING, RecordedStep
from tests.sandbox import sandboxes
from tests.sandbox.fake_deno import fake

sandboxes.require_dspy()
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError  # noqa: E402

from rbank_es.sandbox.interpreter import Sandbox, SandboxExhausted, SessionLost, StepFailed  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("sandbox")

CALL = '{"jsonrpc":"2.0","id":"tc_1_1","method":"tool_call","params":{"name":"%s","kwargs":{"packed":"{}"}}}'


def note(text: str = "") -> str:
    """Note something."""
    return text


@pytest.fixture(scope="module")
def lasting() -> Iterator[Sandbox]:
    """One sandbox that loses session after session."""
    made = sandboxes.sandbox(tools={"note": note})
    yield made
    made.shutdown()


@pytest.fixture
def sandbox(lasting: Sandbox) -> Iterator[Sandbox]:
    """The same, whose settings and tools are put back after each test."""
    yield lasting
    sandboxes.limited(lasting, limits.STEP_TIME_S)
    lasting.tools.clear()
    lasting.tools["note"] = note


def step_of(sandbox: Sandbox) -> RecordedStep:
    """The last step as the sandbox tells it."""
    assert sandbox.report is not None
    return sandbox.report.step


def lose(sandbox: Sandbox, code: str, step_code_s: float = limits.STEP_TIME_S) -> Restart:
    """Run a step that costs the session, and see that all goes on as it should; why the session was lost."""
    sandboxes.limited(sandbox, limits.STEP_TIME_S)
    sandbox.output_fields = [{"name": "answer"}]
    sandbox.execute("before = 1")
    session, restarts = sandbox.session, sandbox.restarts
    assert session is not None
    sandboxes.limited(sandbox, step_code_s)
    with pytest.raises(SessionLost) as caught:
        sandbox.execute(code)
    sandboxes.limited(sandbox, limits.STEP_TIME_S)
    assert isinstance(caught.value, CodeExecutionError), "dspy must take it for an error that can be repaired"
    assert sandboxes.soon_gone(session.pid) and not session.alive
    restart = caught.value.restart
    assert restart is not None and sandbox.restarts == restarts + 1 == restart.number
    assert sandbox.report is not None and sandbox.report.step.measures == NOTHING
    message = str(caught.value)
    assert "All variables are gone; the session was restarted" in message and "/" not in message
    assert sandbox.report.step.kind == "lost" and sandbox.report.step.output == message
    with pytest.raises(StepFailed, match="NameError: name 'before' is not defined"):
        sandbox.execute("before")
    assert sandbox.execute("note(text='again')") == "again", "tools are there in the new session"
    assert sandbox.execute("SUBMIT(answer=1)").output == {"answer": 1}, "and so are the fields to submit"
    return restart


# -------------------------------------------------------------------- time


@pytest.mark.slow
def test_an_infinite_loop_is_stopped_at_its_time_limit(sandbox: Sandbox) -> None:
    restart = lose(sandbox, "while True: pass", step_code_s=1)
    assert restart.code == "timeout" and "took too long and was stopped (the limit is 1 s)" in restart.message


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    ["import time; time.sleep(1000)", "import js\nawait js.eval('new Promise(() => 0)')"],
    ids=["sleep", "promise"],
)
def test_a_wait_without_end_is_stopped_as_well(sandbox: Sandbox, code: str) -> None:
    assert lose(sandbox, code, step_code_s=1).code == "timeout"


@pytest.mark.slow
def test_what_a_step_leaves_running_is_stopped_with_it_or_with_the_next(sandbox: Sandbox) -> None:
    sandbox.start()
    sandboxes.limited(sandbox, 1)
    with pytest.raises(SessionLost, match="took too long"):
        sandbox.execute("import js; js.setTimeout(js.eval('() => { while (true) {} }'), 0)")
        sandbox.execute("1")
    sandboxes.limited(sandbox, limits.STEP_TIME_S)
    assert sandbox.execute("1") == "1"


# -------------------------------------------------------------------- memory


@pytest.mark.slow
def test_a_memory_hog_in_python_gets_a_memory_error_and_may_go_on(sandbox: Sandbox) -> None:
    pid = sandbox.session.pid if sandbox.session else 0
    with pytest.raises(StepFailed, match="MemoryError: the memory of the sandbox is used up; delete what you don't"):
        sandbox.execute("hog = []\nwhile True: hog.append(bytearray(10_000_000))")
    resident = Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]
    assert int(resident) * limits.KIB < 2 * sandbox_limits.SANDBOX_MEMORY_BYTES
    assert sandbox.execute("del hog\n'here'") == "here"


@pytest.mark.slow
def test_a_memory_hog_of_many_small_things_ends_no_run(sandbox: Sandbox) -> None:
    """Python may be too short of memory to say so: then the session is lost. Either is an error of the step."""
    error = sandboxes.raised(lambda: sandbox.execute("hog = []\nwhile True: hog.append([len(hog)])"))
    assert isinstance(error, CodeExecutionError) and "memory" in str(error)
    with suppress(CodeExecutionError):
        sandbox.execute("hog = None")
    assert sandbox.execute("'here'") == "here"


@pytest.mark.slow
def test_memory_outside_of_any_heap_is_bounded_too(sandbox: Sandbox) -> None:
    """V8 tells the step, or gives up where it needs memory itself."""
    code = "import js\njs.eval('globalThis.a = []; while (true) a.push(new Uint8Array(1e7).fill(1))')"
    error = sandboxes.raised(lambda: sandbox.execute(code))
    assert isinstance(error, CodeExecutionError)
    if isinstance(error, SessionLost):
        assert error.restart is not None and error.restart.code in ("memory", "died")
    else:
        assert "Array buffer allocation failed" in str(error)
    sandboxes.raised(lambda: sandbox.execute("import js; del js.a; 1 / 0"))
    assert sandbox.execute("'here'") == "here"


@pytest.mark.slow
def test_a_memory_hog_in_javascript_costs_the_session(sandbox: Sandbox) -> None:
    """It stands last of those about memory: what they leave behind goes with the session."""
    code = "import js\njs.eval('const a = []; while (true) a.push(new Array(1000).fill(Math.random()))')"
    restart = lose(sandbox, code)
    assert restart.code == "memory" and "used up the memory" in restart.message


# -------------------------------------------------------------------- floods


@pytest.mark.slow
def test_a_flood_of_print_is_refused_and_the_session_goes_on(sandbox: Sandbox) -> None:
    restarts = sandbox.restarts
    with pytest.raises(StepFailed, match="PrintedTooMuch: more than 10,000,000 characters were printed in one step"):
        sandbox.execute("while True: print('x' * 1000)")
    assert sandbox.execute("1") == "1" and sandbox.restarts == restarts


@pytest.mark.slow
def test_a_flood_past_print_costs_the_session(sandbox: Sandbox) -> None:
    """A slow reader may see the process out of memory before it has read enough to call it a flood."""
    assert lose(sandbox, "import js\nwhile True: js.console.log('x' * 100)").code in ("flood", "memory")


def test_a_few_lines_past_print_are_passed_over(sandbox: Sandbox) -> None:
    lines = "import js\nfor line in ['x', '', '{', '{]', '[]', '{\"a\":', 'null'] * 20: js.console.log(line)\n'here'"
    assert sandbox.execute(lines) == "here"


@pytest.mark.slow
def test_a_line_without_end_costs_the_session(sandbox: Sandbox) -> None:
    code = "import js\npiece = js.Uint8Array.new(1_000_000).fill(120)\nwhile True: js.Deno.stdout.writeSync(piece)"
    assert lose(sandbox, code).code == "too_long"


def test_a_flood_on_standard_error_is_drained(sandbox: Sandbox) -> None:
    restarts = sandbox.restarts
    assert sandbox.execute("import js\nfor _ in range(2000): js.console.error('x' * 1000)\n'here'") == "here"
    assert sandbox.restarts == restarts


@pytest.mark.slow
def test_a_flood_that_a_step_leaves_behind_costs_the_session_with_it_or_with_the_next(sandbox: Sandbox) -> None:
    flood = "() => { for (let i = 0; i < 9999; i++) console.log(i) }"
    with pytest.raises(SessionLost):
        sandbox.execute(f"import js; js.setInterval(js.eval({flood!r}), 1)")
        sandbox.execute("for _ in range(50): await __import__('asyncio').sleep(0.05)")
    assert sandbox.execute("1") == "1"


# -------------------------------------------------------------------- forged messages


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["note", "remove"])
def test_a_forged_call_costs_the_session_and_reaches_no_tool_but_a_known_one(tool: str) -> None:
    """A step may call a known tool anyway; a forged call is among those that the step is said to have made."""
    called: list[str] = []
    target = sandboxes.sandbox(tools={"note": lambda: called.append("note")})
    with pytest.raises(SessionLost, match="sent a message to the host that no tool made"):
        target.execute(f"import js\njs.console.log({CALL % tool!r})\n'on'")
    target.shutdown()
    assert [call.tool for call in step_of(target).calls] == [tool]
    assert called == (["note"] if tool == "note" else [])


@pytest.mark.slow
def test_an_agent_that_takes_away_what_runs_it_loses_the_session(sandbox: Sandbox) -> None:
    sandbox.execute("import sys\nsys.modules['_sandbox'].workspace = None")
    with pytest.raises(SessionLost, match="disturbed the sandbox"):
        sandbox.execute("1")


@pytest.mark.slow
def test_an_agent_that_breaks_what_runs_it_loses_the_session(sandbox: Sandbox) -> None:
    broken = "import sys\nsys.modules['_sandbox'].json = None"
    assert lose(sandbox, broken).code == "broken"


# -------------------------------------------------------------------- death


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    ["import js; js.Deno.exit(0)", "import sys; sys.setrecursionlimit(10**6)\ndef r(): return r()\nr()"],
    ids=["exit", "stack"],
)
def test_a_step_that_brings_the_process_down_costs_the_session(sandbox: Sandbox, code: str) -> None:
    assert lose(sandbox, code).code == "died"


def test_a_process_killed_between_steps_costs_the_session(tmp_path: Path) -> None:
    target = sandboxes.standing_in(tmp_path)
    target.start()
    assert target.session is not None
    os.kill(target.session.pid, signal.SIGKILL)
    with pytest.raises(SessionLost, match="the sandbox died"):
        target.execute("pass")
    assert target.execute("outcome['value'] = '1'") == "1"
    target.shutdown()


@pytest.mark.slow
def test_a_process_killed_amid_a_step_is_noticed_at_once(sandbox: Sandbox) -> None:
    sandbox.tools["kill"] = lambda: os.kill(sandbox.session.pid, signal.SIGKILL)  # type: ignore[union-attr]
    assert "SIGKILL" in lose(sandbox, "kill()\nwhile True: pass").message


def test_a_run_gets_so_many_sessions_and_no_more(tmp_path: Path) -> None:
    settings = SandboxSettings(restarts=2)
    target = sandboxes.standing_in(tmp_path, settings=settings)
    for number in (1, 2):
        with pytest.raises(SessionLost) as lost:
            target.execute("os._exit(1)")
        assert lost.value.restart is not None and lost.value.restart.number == number
    with pytest.raises(SandboxExhausted, match="restarted 2 times already, which is all that a run gets") as caught:
        target.execute("os._exit(1)")
    assert not isinstance(caught.value, CodeExecutionError), "dspy must take it for the end"
    assert step_of(target).kind == "exhausted" and target.restarts == 2
    with pytest.raises(CodeInterpreterError, match="was shut down"):
        target.execute("pass")


# -------------------------------------------------------------------- this side ends


def test_a_sandbox_that_is_shut_down_while_it_starts_leaves_no_process(tmp_path: Path) -> None:
    taken: list[Session] = []

    def take(settings: SandboxSettings) -> Session:
        taken.append(Session(fake(tmp_path)))
        other = threading.Thread(target=target.shutdown)
        other.start()
        other.join()
        return taken[0]

    target = Sandbox(take_session=take)
    with pytest.raises(CodeInterpreterError, match="was shut down while it started"):
        target.execute("pass")
    assert sandboxes.soon_gone(taken[0].pid) and not taken[0].alive


def test_a_wait_for_a_pooled_session_that_is_interrupted_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[object] = []

    class Late:
        def end(self) -> None:
            ended.append(self)

    class Interrupted(pool_module.Future):  # type: ignore[type-arg]
        def result(self, timeout: float | None = None) -> object:
            if threading.current_thread() is threading.main_thread() and not was_interrupted:
                was_interrupted.append(True)
                raise KeyboardInterrupt
            return super().result(timeout)

    was_interrupted: list[bool] = []
    monkeypatch.setattr(pool_module, "Future", Interrupted)
    monkeypatch.setattr(pool_module, "start_session", lambda settings: Late())
    sessions = pool_module.SandboxPool(1, needed=1)
    with pytest.raises(KeyboardInterrupt):
        sessions.take(SandboxSettings())
    sessions.close()
    assert len(ended) == 1


def test_a_sandbox_that_nobody_holds_any_more_ends(tmp_path: Path) -> None:
    target: Any = sandboxes.standing_in(tmp_path)
    target.start()
    pid = target.session.pid
    del target
    gc.collect()
    assert sandboxes.is_gone(pid)


START = """
    import os, signal, sys, threading, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where the tests run in the background
    from pathlib import Path
    from rbank_es.sandbox import deno, sandbox_pool
    from rbank_es.sandbox.guest_protocol import TimeLimits
    from rbank_es.sandbox.session import Session
    from tests.sandbox.fake_deno import fake
    runtime = deno.find() if {real} else fake(Path({place!r}))
"""
BUSY = """
    s = Session(runtime)
    threading.Thread(target=s.run, args=("while True: pass", {}, None, TimeLimits.alike(1000)), daemon=True).start()
    time.sleep(0.2)
    print(s.pid, s.process.watchdog.pid, flush=True)
    time.sleep(1000)
"""
FORK = """
    s = Session(runtime)
    if not os.fork():
        s.end()
        del s
        sys.exit(0)
    os.wait()
    print(s.pid if s.run("pass", {}, None, TimeLimits.alike(60)).kind == "output" else 0, flush=True)
    time.sleep(1000)
"""
FORGET = """
    sandbox_pool.start_session = lambda settings: Session(runtime)
    sessions = sandbox_pool.SandboxPool(3)
    sessions.wait()
    print(*[spare.result().pid for spare in sessions.spares], flush=True)
"""


def start(script: str, place: Path, *, real: bool = False) -> tuple[subprocess.Popen[str], list[int]]:
    """Run a script that starts sandboxes, of which only `real` ones are, and tells process ids."""
    code = textwrap.dedent(START.format(real=real, place=str(place)) + script)
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, [int(pid) for pid in process.stdout.readline().split()]


@pytest.mark.parametrize(
    ("number", "real"),
    [pytest.param(signal.SIGKILL, True, marks=pytest.mark.slow), (signal.SIGKILL, False), (signal.SIGINT, False)],
)
def test_no_process_is_left_when_this_one_is_killed_in_mid_step(tmp_path: Path, number: int, real: bool) -> None:
    if real:
        sandboxes.runtime()
    process, pids = start(BUSY, tmp_path, real=real)
    assert len(pids) == 2 and not any(map(sandboxes.is_gone, pids))
    process.send_signal(number)
    process.communicate(timeout=20)
    assert sandboxes.soon_gone(*pids)


@pytest.mark.slow
def test_a_forked_child_leaves_the_sandbox_to_its_parent(tmp_path: Path) -> None:
    process, pids = start(FORK, tmp_path)
    assert len(pids) == 1 and not sandboxes.is_gone(pids[0])
    process.kill()
    process.communicate(timeout=20)
    assert sandboxes.soon_gone(*pids)


@pytest.mark.slow
def test_a_pool_that_is_not_closed_keeps_nobody_from_ending(tmp_path: Path) -> None:
    process, pids = start(FORGET, tmp_path)
    assert process.wait(timeout=20) == 0 and len(pids) == 3
    assert sandboxes.soon_gone(*pids)
