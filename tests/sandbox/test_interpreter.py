"""The sandbox as dspy and the executors use it: values, tools, submissions, errors, sessions, the pool."""

from __future__ import annotations

import ast
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es.errors import BadInput, SandboxUnavailable
from rbank_es.limits import sandbox_limits
from rbank_es.sandbox import deno
from rbank_es.sandbox import sandbox_pool as pool_module
from rbank_es.sandbox.sandbox_pool import SandboxPool
from rbank_es.sandbox.session import Session, start_session
from rbank_es.sandbox.step_outcome import RecordedCall, StepReport
from tests.sandbox import sandboxes
from tests.sandbox.fake_deno import fake

sandboxes.require_dspy()
import dspy  # noqa: E402
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput  # noqa: E402

from rbank_es.sandbox.interpreter import CannotStart, Sandbox, StepFailed  # noqa: E402
from rbank_es.sandbox.session import SUB_AGENT_TOOL  # noqa: E402

pytestmark = pytest.mark.xdist_group("sandbox")

AWKWARD = {
    "none": None,
    "nested": [None, {"10": 1, "2": True, "a": None}],
    "integers": [2**53 + 1, -(2**70), 0],
    "floats": [1.0, -0.0, 5e-324],
    "texts": ["", "\x00", "\u2028", "🌊", "'\"\\"],
    "__proto__": {"x": 1},
    "constructor": "x",
}


def lookup(query: str, k: int = 6, *, domain: str | None = None) -> dict[str, Any]:
    """Find things."""
    return {"query": query, "k": k, "domain": domain}


def echo(value: Any) -> Any:
    """What it is given."""
    return value


def fail(reason: str) -> None:
    """Raise."""
    raise ValueError(reason)


class Row(msgspec.Struct):
    name: str
    n: int


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """For tests that leave the session usable."""
    tools: dict[str, Callable[..., Any]] = {"lookup": lookup, "echo": echo, "fail": fail}
    made = sandboxes.sandbox(tools=tools)
    yield made
    assert made.restarts == 0
    made.shutdown()


@pytest.fixture
def run(sandbox: Sandbox) -> Callable[..., Any]:
    """Run a step in that session."""
    execute: Callable[..., Any] = sandbox.execute
    return execute


def value_of(run: Callable[..., Any], code: str) -> Any:
    return ast.literal_eval(run(code))


# -------------------------------------------------------------------- the interpreter that dspy knows


def test_it_is_an_interpreter_to_dspy(sandbox: Sandbox) -> None:
    assert isinstance(sandbox, dspy.CodeInterpreter) and isinstance(sandbox, dspy.PythonInterpreter)
    assert "no network" in Sandbox.execution_instructions


@pytest.mark.slow
def test_what_was_printed_stands_before_the_value(run: Callable[..., Any]) -> None:
    assert run("print('a'); 5") == "a\n5"
    assert run("print('a', end=''); 'b'") == "a\nb"
    assert run("print('a')") == "a\n"
    assert run("x = 1") is None


def test_warnings_and_standard_error_are_shown_in_order(run: Callable[..., Any]) -> None:
    assert run("import sys\nprint('a'); print('b', file=sys.stderr); print('c')") == "a\nb\nc\n"


def test_variables_last_from_step_to_step_and_given_ones_are_set_anew(run: Callable[..., Any]) -> None:
    run("kept = given + ['x']\ngiven.append('lost')", {"given": ["a"]})
    assert value_of(run, "kept") == ["a", "x"]
    assert ast.literal_eval(run("given", {"given": [None, 1.0, 2**70, float("inf")]}).replace("inf", "1e999"))


@pytest.mark.slow
def test_variables_of_a_quarter_of_a_message_are_taken(run: Callable[..., Any]) -> None:
    """Three encodings escape them again."""
    most = 4 * 1024 * 1024 - len("''")
    assert run("len(given)", {"given": "x" * most}) == str(most)
    with pytest.raises(CodeInterpreterError, match="4,194,305 characters, 4,194,304 are taken"):
        run("1", {"given": "x" * (most + 1)})


@pytest.mark.parametrize("name", ["a b", "class", "", "x;y"])
def test_names_that_are_none_can_not_be_given(run: Callable[..., Any], name: str) -> None:
    with pytest.raises(CodeInterpreterError, match="can't name a variable"):
        run("1", {name: 1})


def test_variables_too_large_are_refused_before_they_are_sent(run: Callable[..., Any]) -> None:
    with pytest.raises(CodeInterpreterError, match="pass handles"):
        run("1", {"x": "y" * sandbox_limits.SANDBOX_MESSAGE_BYTES})
    assert run("1") == "1"


def test_names_that_agents_like_disturb_nothing(run: Callable[..., Any]) -> None:
    """dspy's runner and its wrappers of tools use these names; here they belong to the agent."""
    run("json = io = sys = old_stdout = 'mine'\nlast_exception_args = 1")
    assert value_of(run, "[json, io, sys, echo(1)]") == ["mine", "mine", "mine", 1]
    run("del json, io, sys, old_stdout, last_exception_args")


def test_code_of_a_main_program_runs(run: Callable[..., Any]) -> None:
    assert run("if __name__ == '__main__':\n    print('here')") == "here\n"


def test_await_is_allowed_at_the_top(run: Callable[..., Any]) -> None:
    assert run("import asyncio\nawait asyncio.sleep(0.001)\n'slept'") == "slept"


def test_output_has_a_bounded_size(run: Callable[..., Any]) -> None:
    shown = run("print('a' * 10**6)\n'b' * 10**6")
    assert len(shown) < 2 * sandbox_limits.SANDBOX_OUTPUT_CHARS + 200
    assert shown.count("characters left out") == 2


# -------------------------------------------------------------------- tools


def test_results_of_tools_arrive_as_they_were(run: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.tools["awkward"] = lambda: AWKWARD
    assert run("print(ascii(awkward()))") == ascii(AWKWARD) + "\n"
    assert list(value_of(run, "awkward()")["nested"][1]) == ["10", "2", "a"]


def test_arguments_of_tools_arrive_as_they_were(run: Callable[..., Any], sandbox: Sandbox) -> None:
    seen: list[Any] = []
    sandbox.tools["take"] = lambda value: seen.append(value)
    run(f"take({AWKWARD!r})")
    assert ascii(seen) == ascii([AWKWARD])


@pytest.mark.parametrize(
    ("given", "arrives"),
    [("{3, 1}", [1, 3]), ("(1, 2)", [1, 2]), ("float('nan')", "nan"), ("b'x'", "x"), ("{1: 2}", {"1": 2})],
)
def test_arguments_that_json_does_not_know_arrive_as_the_nearest(
    run: Callable[..., Any], given: str, arrives: Any
) -> None:
    assert value_of(run, f"repr(echo({given}))") == arrives


def test_structs_and_models_arrive_by_their_fields(run: Callable[..., Any], sandbox: Sandbox) -> None:
    import pydantic

    class Model(pydantic.BaseModel):
        name: str

    made = {"row": Row("a", 1), "model": Model(name="b"), "set": {1}, "path": Path("/x"), "nan": float("nan")}
    sandbox.tools["made"] = lambda: made
    assert run("x = made()\nx['row'], x['model'], x['set'], x['path'], x['nan'] != x['nan']") == (
        "({'name': 'a', 'n': 1}, {'name': 'b'}, [1], '/x', True)"
    )


def test_tools_are_called_by_position_and_name_and_keep_their_defaults(run: Callable[..., Any]) -> None:
    assert value_of(run, "lookup('x')") == {"query": "x", "k": 6, "domain": None}
    assert value_of(run, "lookup('x', 2, domain='d')") == {"query": "x", "k": 2, "domain": "d"}


def test_a_wrong_call_is_told_with_the_right_one(run: Callable[..., Any]) -> None:
    error = sandboxes.raised(lambda: run("lookup()"))
    assert "lookup(): missing a required argument: 'query'; call it as lookup(query, k=6, *, domain=None)" in str(error)


def test_help_shows_the_manual_of_a_tool(run: Callable[..., Any]) -> None:
    assert "lookup(query, k=6, *, domain=None)\n    Find things." in run("help(lookup)")


def test_an_error_of_a_tool_is_an_exception_that_the_agent_can_catch(run: Callable[..., Any]) -> None:
    assert run("try:\n    fail('no')\nexcept RuntimeError as error:\n    print(error)") == "ValueError: no\n"


def test_what_a_tool_raises_to_stop_all_goes_through_and_ends_the_session(tmp_path: Path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    target = sandboxes.standing_in(tmp_path, tools={"stop": stop})
    target.start()
    assert target.session is not None
    pid = target.session.pid
    with pytest.raises(KeyboardInterrupt):
        target.execute("call('stop', {})")
    assert target.session is None and sandboxes.is_gone(pid)
    target.shutdown()


def test_tools_may_come_go_and_change_between_steps(run: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.tools["later"] = lambda: "first"
    assert run("later()") == "first"
    sandbox.tools["later"] = lambda: "second"
    assert run("later()") == "second"
    del sandbox.tools["later"]
    with pytest.raises(StepFailed, match="NameError: name 'later' is not defined"):
        run("later()")


def test_a_tool_can_not_run_a_step(run: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.tools["nested"] = lambda: sandbox.execute("1")
    with pytest.raises(StepFailed, match="takes one at a time, and none from a tool"):
        run("nested()")


@pytest.mark.slow
def test_arguments_and_results_too_large_are_refused_and_the_session_goes_on(
    run: Callable[..., Any], sandbox: Sandbox
) -> None:
    sandbox.tools["huge"] = lambda: "x" * sandbox_limits.SANDBOX_MESSAGE_BYTES
    with pytest.raises(StepFailed, match=r"echo\(\): the arguments have 2,000,0\d\d characters"):
        run("echo('x' * 2_000_000)")
    with pytest.raises(StepFailed, match=r"huge\(\) gave 16,777,2\d\d characters as JSON"):
        run("huge()")
    sandbox.tools["large"] = lambda: "🌊" * 200_000
    assert run("len(large())") == "200000"


# -------------------------------------------------------------------- submissions and errors


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("SUBMIT('a', 'b')", {"answer": "a", "sparql": "b"}),
        ("SUBMIT(sparql='b', answer={'x': [None, 1.0]})", {"answer": {"x": [None, 1.0]}, "sparql": "b"}),
        ("SUBMIT({1, 2}, float('nan'))", {"answer": [1, 2], "sparql": "nan"}),
        ("SUBMIT(b'x', 2**70)", {"answer": "x", "sparql": 2**70}),
        ("SUBMIT(object, print)", {"answer": "<class 'object'>", "sparql": "<built-in function print>"}),
    ],
)
def test_whatever_is_submitted_arrives(
    run: Callable[..., Any], sandbox: Sandbox, code: str, fields: dict[str, Any]
) -> None:
    sandbox.output_fields = [{"name": "answer", "type": "str"}, {"name": "sparql"}]
    assert run(f"print('before')\n{code}") == FinalOutput(fields)


def test_a_submission_with_wrong_fields_is_an_error_that_names_them(run: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.output_fields = [{"name": "answer"}]
    with pytest.raises(StepFailed, match=r"missing a required argument: 'answer'; call it as SUBMIT\(answer\)"):
        run("SUBMIT(reply=1)")


def test_without_fields_there_is_one(run: Callable[..., Any]) -> None:
    assert run("SUBMIT(1)") == FinalOutput({"output": 1})


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("handle = {'key': 'x'}\nhandle[:3]", "KeyError: slice(None, 3, None)"),
        ("{}[b'x']", "KeyError: b'x'"),
        ("raise ValueError({1}, object)", "ValueError: ({1}, <class 'object'>)"),
        ("class E(Exception): pass\nraise E(E)", "E: <class '__main__.E'>"),
        ("b'\\xff'.decode()", "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("def r(): r()\nr()", "RecursionError: maximum recursion depth exceeded"),
        ("import numpy", "ModuleNotFoundError: No module named 'numpy'"),
        ("input()", "EOFError"),
        ("import threading; threading.Thread(target=print).start()", "RuntimeError: can't start new thread"),
        ("import os; os.system('ls')", "OSError: there are no processes here; 'ls' was not run"),
    ],
)
def test_an_exception_is_an_error_of_its_step_and_no_more(run: Callable[..., Any], code: str, message: str) -> None:
    """Among them those whose arguments no JSON can hold, which end the session of dspy's own interpreter."""
    error = sandboxes.raised(lambda: run(f"print('before')\n{code}"))
    assert isinstance(error, CodeExecutionError) and str(error).startswith(f"before\n{message}"), error
    assert "\n  step " in str(error) and f": {code.splitlines()[-1]}" in str(error)
    assert run("1 + 1") == "2"


@pytest.mark.parametrize(
    ("code", "value"), [("2**70", str(2**70)), ("{1, 2}", "{1, 2}"), ("{'a': None}", "{'a': None}")]
)
def test_any_last_value_is_shown(run: Callable[..., Any], code: str, value: str) -> None:
    assert run(code) == value


def test_code_that_can_not_be_parsed_is_a_syntax_error_with_its_line(run: Callable[..., Any]) -> None:
    with pytest.raises(SyntaxError, match=r"invalid syntax\n  step \d+, line 2: for in x"):
        run("x = 1\nfor in x: pass")


# -------------------------------------------------------------------- sessions


def test_a_session_may_be_started_in_one_thread_and_used_in_others(tmp_path: Path) -> None:
    target, seen = sandboxes.standing_in(tmp_path), []
    threads = [threading.Thread(target=target.start)]
    code = "outcome['value'] = '1'"
    threads += [threading.Thread(target=lambda: seen.append(target.execute(code))) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert seen == ["1", "1"] and target.restarts == 0
    target.shutdown()


def test_two_threads_can_not_run_steps_at_a_time(run: Callable[..., Any], sandbox: Sandbox) -> None:
    refused: list[BaseException] = []

    def busy() -> None:
        thread = threading.Thread(target=lambda: refused.append(sandboxes.raised(lambda: sandbox.execute("1"))))
        thread.start()
        thread.join()

    sandbox.tools["busy"] = busy
    run("busy()")
    assert "takes one at a time" in str(refused[0])


def test_what_was_shut_down_takes_no_more_steps() -> None:
    target = sandboxes.sandbox()
    target.shutdown()
    target.shutdown()
    with pytest.raises(CodeInterpreterError, match="was shut down; make a new one"):
        target.execute("1")


def test_shutting_down_from_elsewhere_ends_a_running_step(tmp_path: Path) -> None:
    ending: list[threading.Timer] = []

    def begun() -> None:
        ending.append(threading.Timer(0.1, target.shutdown))
        ending[0].start()

    target = sandboxes.standing_in(tmp_path, tools={"begun": begun})
    with pytest.raises(CodeInterpreterError, match="was shut down amid a step"):
        target.execute("call('begun', {}); import time; time.sleep(100)")
    ending[0].join()
    assert target.session is None


def test_each_step_is_reported_with_what_it_did() -> None:
    reports: list[StepReport] = []
    target = sandboxes.sandbox(tools={"echo": echo})
    for code in ("print('abc'); x = [1, 'two']\necho(value=[1.0, None])", "1/0", "(", "SUBMIT('done')"):
        with suppress(StepFailed, SyntaxError):
            target.execute(code)
        assert target.report is not None
        reports.append(target.report)
    target.shutdown()
    steps = [report.step for report in reports]
    assert steps[0].calls == (RecordedCall(tool="echo", arguments='{"value": [1.0, null]}'),)
    assert steps[0].output == "abc\n[1.0, None]"
    assert [step.kind for step in steps] == ["output", "error", "syntax", "final"]
    assert json.loads(steps[-1].output) == {"output": "done"}
    assert all(report.duration_s > 0 for report in reports) and reports[0].tools_s > 0


def test_a_step_is_measured_before_anything_is_cut(sandbox: Sandbox) -> None:
    """What it printed and the text of its last value count whole; variables as the agent has them after the step."""
    sandbox.execute("x = ['two', 'six']\nprint('a' * 30_000)\n'b' * 25_000")
    assert sandbox.report is not None and len(sandbox.report.step.output) < 45_000
    measures = sandbox.report.step.measures
    assert measures.stdout_chars == 55_001
    assert (measures.variables_n, measures.variable_types, measures.variables_chars) == (1, {"list": 1}, 6)


def test_a_variable_of_a_class_of_the_agents_own_is_counted_without_its_name(sandbox: Sandbox) -> None:
    """The name of a class may be words that it read, and what is measured outlives their erasure."""
    sandbox.execute("class MaryJones: pass\nx, y = MaryJones(), type('of 12 Shore Road', (), {})()")
    assert sandbox.report is not None
    assert sandbox.report.step.measures.variable_types == {"other": 2}


def test_a_step_that_could_not_begin_has_no_report(sandbox: Sandbox) -> None:
    sandbox.execute("1")
    with pytest.raises(CodeInterpreterError):
        sandbox.execute("1", {"not a name": 1})
    assert sandbox.report is None


def test_dspys_callbacks_hear_of_steps_and_calls(sandbox: Sandbox) -> None:
    from dspy.utils.callback import BaseCallback

    heard: list[tuple[str, Any]] = []

    class Listener(BaseCallback):
        def on_interpreter_execute_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
            heard.append(("code", inputs["code"]))

        def on_interpreter_tool_call_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
            heard.append((inputs["tool_name"], inputs["kwargs"]))

    with dspy.context(callbacks=[Listener()]):
        sandbox.execute("echo(1)")
    assert heard == [("code", "echo(1)"), ("echo", {"value": 1})]


# -------------------------------------------------------------------- dspy.RLM


def rlm(answers: list[dict[str, str]], **given: Any) -> Any:
    """What dspy.RLM makes of a question with these answers of a model, one after the other."""
    made = dspy.RLM("question -> answer", max_iters=len(answers), **given)
    with dspy.context(lm=dspy.utils.DummyLM(answers)):
        return made(question="What is it?")


def test_a_whole_run_of_dspys_rlm_with_tools_and_without_sub_agents(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    answers = [
        {"reasoning": "look", "code": "found = lookup(question)\nfound['query'][:3]"},
        {"reasoning": "slip", "code": "found[:3]"},
        {"reasoning": "end", "code": "SUBMIT(answer=found['query'])"},
    ]
    seen = rlm(answers, tools=[lookup], interpreter_factory=sandboxes.sandbox)
    assert seen.answer == "What is it?"
    outputs = [step["output"] for step in seen.trajectory]
    assert outputs[0] == "Wha" and "KeyError: slice(None, 3, None)" in outputs[1]
    assert "sub-agents are switched off" in caplog.text


def test_sub_agents_are_refused_unless_allowed() -> None:
    from dspy.primitives import facade

    assert facade.CONSTRUCT_TOOL == SUB_AGENT_TOOL
    target = sandboxes.sandbox(tools={SUB_AGENT_TOOL: echo})
    with pytest.raises(CodeExecutionError, match="sub-agents are switched off"):
        target.execute("1")
    allowed = sandboxes.sandbox(sub_agents=True)
    facade.FacadeInvocation([], sandboxes.sandbox, None).install(allowed)
    assert "_DspyPending" in allowed.execute("dspy.Predict('a -> b')")
    allowed.shutdown()


# -------------------------------------------------------------------- the pool


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxPool]:
    """A pool of sessions with a stand-in for Deno."""
    runtime = fake(tmp_path)
    monkeypatch.setattr(pool_module, "start_session", lambda settings: Session(runtime))
    with SandboxPool(1) as made:
        made.wait()
        yield made


def pids_of(pool: SandboxPool) -> list[int]:
    return [spare.result().pid for spare in pool.spares]


def test_a_pool_hands_out_each_session_once_and_starts_another(pool: SandboxPool) -> None:
    [ready] = pids_of(pool)
    first, second = pool(), pool()
    first.start()
    second.start()
    assert first.session and second.session
    assert first.session.pid == ready and len({ready, second.session.pid, *pids_of(pool)}) == 3
    for taken in (first, second):
        pid = taken.session.pid if taken.session else 0
        taken.shutdown()
        assert taken.session is None and sandboxes.is_gone(pid)


def test_a_pool_that_knows_how_many_are_needed_begins_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless one is lost: then another is started after all."""
    begun: list[Session] = []
    runtime = fake(tmp_path)

    def start(_: object) -> Session:
        begun.append(Session(runtime))
        return begun[-1]

    monkeypatch.setattr(pool_module, "start_session", start)
    with SandboxPool(2, needed=1) as few:
        few.wait()
        assert len(begun) == 1
    with SandboxPool(1, needed=2) as made:
        taken = [made.take(made.settings), made.take(made.settings)]
        assert len(begun) == 3 and not made.spares
        assert made.take(made.settings) is begun[-1] and len(begun) == 4
    for session in (*taken, begun[-1]):
        session.end()


def test_a_session_that_died_in_the_pool_is_passed_by(pool: SandboxPool) -> None:
    session = pool.spares[0].result()
    os.kill(session.pid, 9)
    while session.alive:
        time.sleep(0.01)
    target = pool()
    assert target.execute("outcome['value'] = '1'") == "1" and target.restarts == 0
    target.shutdown()


def test_a_pool_that_is_closed_leaves_no_process_behind(pool: SandboxPool) -> None:
    [pid] = pids_of(pool)
    assert not sandboxes.is_gone(pid)
    pool.close()
    assert sandboxes.is_gone(pid)


@pytest.mark.parametrize("size", [0, sandbox_limits.SANDBOX_POOL + 1])
def test_a_pool_has_a_bounded_size(size: int) -> None:
    with pytest.raises(BadInput, match="a pool keeps 1 to 16"):
        SandboxPool(size)


# -------------------------------------------------------------------- what it runs on


def test_deno_is_told_to_use_its_cache_alone() -> None:
    assert {"--cached-only", "--no-remote"} <= set(sandboxes.runtime().command())


@pytest.mark.slow
def test_a_session_starts_without_a_network() -> None:
    """In a network namespace of its own where the system allows that."""
    script = (
        "from rbank_es.sandbox import deno, guest_protocol, session\n"
        "s = session.Session(deno.find())\n"
        "print(s.run('40 + 2', {}, None, guest_protocol.TimeLimits.alike(60)).value)\n"
        "s.end()"
    )
    alone = ["unshare", "--map-root-user", "--net"]
    can = subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0
    command = [*(alone if can else []), sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout == "42\n"


def test_an_empty_cache_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandboxes.runtime()
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path))
    with pytest.raises(CannotStart, match="is not filled; run once, with a network: rbank-es doctor --warm") as caught:
        Sandbox(take_session=start_session).execute("1")
    assert caught.value.code == "cold" and isinstance(caught.value, SandboxUnavailable)


@pytest.mark.parametrize(("said", "filled"), [("--cached-only is specified", True), ("no such module", False)])
def test_a_cache_that_lacks_something_is_told_as_not_filled(tmp_path: Path, said: str, filled: bool) -> None:
    """Deno misses a module of a cache that looks complete, or stops for a reason of its own at an empty one."""
    runtime = fake(tmp_path)
    runtime.executable.write_text(f"#!/bin/sh\necho 'error: {said}' >&2\nexit 1\n")
    if not filled:
        shutil.rmtree(runtime.cache)
    with pytest.raises(SandboxUnavailable, match="is not filled") as caught:
        Session(runtime)
    assert caught.value.code == "cold"


def test_a_cache_that_can_not_be_kept_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandboxes.runtime()
    (tmp_path / "file").touch()
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(SandboxUnavailable, match="set RBANK_CACHE to a directory that can be written"):
        deno.find()


def test_a_cache_is_made_where_no_folder_is_yet_and_kept_where_one_is(tmp_path: Path) -> None:
    runtime = fake(tmp_path)._replace(cache=tmp_path / "no" / "such" / "cache")
    for _ in range(2):
        runtime.prepare()
        assert runtime.cache.is_dir()


def test_what_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deno, "find_spec", lambda name: None)
    monkeypatch.setattr(deno.shutil, "which", lambda name: None)
    with pytest.raises(SandboxUnavailable, match=r"Deno is not installed; .*pip install 'rbank-es\[agent\]'"):
        deno.find_executable()
    with pytest.raises(SandboxUnavailable, match=r"dspy is not installed; .*pip install 'rbank-es\[agent\]'"):
        deno.find_runner()


@pytest.mark.parametrize("release", ["3.4.0", "3.5.0", "4.0", "2.6.27"])
def test_another_release_of_dspy_is_refused(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(deno, "dspy_release", lambda: release)
    with pytest.raises(SandboxUnavailable, match=r"is not dspy>=3\.4\.1,<3\.5\.0"):
        deno.find_runner()


@pytest.mark.parametrize("says", ["echo deno 1.46.3", "echo deno 3.0.0", "echo something", "exit 1"])
def test_another_release_of_deno_is_refused(tmp_path: Path, says: str) -> None:
    binary = tmp_path / "deno"
    binary.write_text(f"#!/bin/sh\n{says}\n")
    binary.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match=r"is not >=2\.5\.0,<3\.0\.0; pip install") as caught:
        deno.check_release(binary)
    assert caught.value.code == "wrong_deno"


def test_a_deno_that_does_not_start_is_told(tmp_path: Path) -> None:
    binary = tmp_path / "deno"
    binary.write_text("#!/bin/sh\ncase $1 in --version) echo deno 2.9.8;; *) echo no way >&2; exit 1;; esac\n")
    binary.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match=r"the sandbox does not start \(no way\)"):
        Session(sandboxes.runtime()._replace(executable=binary))
