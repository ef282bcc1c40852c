"""Recorded steps played again: the same outcomes and calls, no process; the first difference is told. And the unsafe
interpreter, which says loudly what it is."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from rbank_es.errors import CheckFailed
from rbank_es.executors.agent_step import open_interpreter
from rbank_es.executors.submission import Submission
from rbank_es.sandbox.interpreter import UnsafeLocal
from rbank_es.sandbox.recorded_interpreter import RecordedInterpreter, difference
from rbank_es.sandbox.session import SUB_AGENT_TOOL
from rbank_es.sandbox.step_outcome import RecordedCall, RecordedStep, RecordingDiffers
from tests.sandbox import sandboxes

sandboxes.require_dspy()
import dspy  # noqa: E402
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput  # noqa: E402

from rbank_es.sandbox.interpreter import SandboxExhausted, SessionLost, StepFailed  # noqa: E402

pytestmark = pytest.mark.xdist_group("sandbox")

STEPS = (
    RecordedStep(
        code="x = look('a')\nlook(query='b', k=2)",
        output="found",
        calls=(
            RecordedCall(tool="look", arguments='{"query":"a"}'),
            RecordedCall(tool="look", arguments='{"query":"b","k":2}'),
        ),
    ),
    RecordedStep(code="1/0", kind="error", output="ZeroDivisionError: division by zero"),
    RecordedStep(code="SUBMIT(x)", kind="final", output='{"answer":{"n":1.0,"none":null}}'),
)


class Calls:
    """A tool that notes how it was called."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def look(self, query: str, k: int = 6) -> str:
        self.seen.append((query, k))
        return "now"


def played(*steps: RecordedStep, **tools: Any) -> RecordedInterpreter:
    return RecordedInterpreter(steps or STEPS, tools=tools)


def test_it_is_an_interpreter_to_dspy() -> None:
    assert isinstance(played(), dspy.CodeInterpreter)


def test_steps_come_out_as_they_did_and_their_calls_are_made_again_in_order() -> None:
    calls = Calls()
    interpreter = played(look=calls.look)
    interpreter.start()
    assert interpreter.execute(STEPS[0].code, {"question": "other"}) == "found"
    assert calls.seen == [("a", 6), ("b", 2)]
    with pytest.raises(StepFailed, match="^ZeroDivisionError: division by zero$"):
        interpreter.execute("1/0")
    assert interpreter.remaining == 1
    assert interpreter.execute("SUBMIT(x)") == FinalOutput({"answer": {"n": 1.0, "none": None}})
    assert interpreter.remaining == 0
    interpreter.shutdown()


@pytest.mark.parametrize(
    ("kind", "error"),
    [("error", StepFailed), ("syntax", SyntaxError), ("lost", SessionLost), ("exhausted", SandboxExhausted)],
)
def test_a_step_that_failed_fails_in_the_same_way(kind: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="^as it was$"):
        played(RecordedStep(code="x", kind=kind, output="as it was")).execute("x")


def test_a_step_without_output_gives_none() -> None:
    assert played(RecordedStep(code="x = 1")).execute("x = 1") is None


def test_a_tool_that_raised_then_may_raise_now() -> None:
    def look(query: str, k: int = 6) -> None:
        raise ValueError(query)

    assert played(look=look).execute(STEPS[0].code) == "found"


def test_what_a_tool_raises_to_stop_all_goes_up() -> None:
    def look(query: str, k: int = 6) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        played(look=look).execute(STEPS[0].code)


def test_other_code_is_told_by_its_first_line_that_differs() -> None:
    with pytest.raises(RecordingDiffers) as caught:
        played().execute("x = look('a')\nlook(query='b', k=3)")
    assert isinstance(caught.value, CheckFailed) and caught.value.exit_code == 1 and caught.value.step == 1
    assert str(caught.value) == (
        "step 1 differs from its recording: "
        "line 2 of the code was \"look(query='b', k=2)\" and is \"look(query='b', k=3)\""
    )


@pytest.mark.parametrize(
    ("recorded", "now", "told"),
    [
        ("a", "b", "line 1 of the code was 'a' and is 'b'"),
        ("a\nb", "a", "the code had 2 lines and has 1"),
        ("a", "a\n", "the code ends otherwise, in blank space"),
        ("x" * 999, "y", f"line 1 of the code was {'x' * 200!r} and is 'y'"),
    ],
)
def test_where_two_codes_differ(recorded: str, now: str, told: str) -> None:
    assert difference(recorded, now) == told


def test_a_tool_that_is_not_there_is_told() -> None:
    with pytest.raises(RecordingDiffers, match="step 1 .*: it called the tool look, which is not there now"):
        played().execute(STEPS[0].code)


def test_arguments_that_a_tool_no_longer_takes_are_told() -> None:
    with pytest.raises(
        RecordingDiffers, match=r'it called look with {"query":"b","k":2}, .*unexpected keyword .*\'k\''
    ):
        played(look=lambda query: None).execute(STEPS[0].code)


def test_more_steps_than_were_recorded_are_told() -> None:
    interpreter = played(RecordedStep(code="1", output="1"))
    interpreter.execute("1")
    with pytest.raises(RecordingDiffers, match="step 2 .*: only 1 steps were recorded"):
        interpreter.execute("2")


@pytest.mark.slow
def test_what_the_sandbox_reports_can_be_played_by_dspys_rlm(caplog: pytest.LogCaptureFixture) -> None:
    """The same answers of the model give the same trajectory, first in the sandbox, then from what it reported."""
    caplog.set_level(logging.ERROR)
    answers = [
        {"reasoning": "look", "code": "print('looking')\nx = look(question, k=2**60)\nx"},
        {"reasoning": "slip", "code": "x[b'y']"},
        {"reasoning": "end", "code": "SUBMIT(answer=x)"},
    ]

    def trajectory(factory: Any, calls: Calls) -> Any:
        rlm = dspy.RLM("question -> answer", max_iters=3, tools=[calls.look], interpreter_factory=factory)
        with dspy.context(lm=dspy.utils.DummyLM(answers)):
            return rlm(question="What is it?").trajectory

    live, again = Calls(), Calls()
    target = sandboxes.sandbox()
    played, execute = [], target.execute

    def reported(code: str, variables: Any = None) -> Any:
        try:
            return execute(code, variables)
        finally:
            if target.report is not None:  # dspy first asks for sub-agents, which is no step
                played.append(target.report.step)

    target.execute = reported
    first = trajectory(lambda: target, live)
    stored = msgspec.json.encode(played)
    steps = msgspec.json.decode(stored, type=list[RecordedStep])
    second = trajectory(lambda: RecordedInterpreter(steps), again)
    assert first == second and len(steps) == 3
    assert live.seen == again.seen == [("What is it?", 2**60)]


def test_sub_agents_are_refused_as_they_were() -> None:
    interpreter = played()
    interpreter.tools[SUB_AGENT_TOOL] = print
    with pytest.raises(CodeExecutionError, match="sub-agents are switched off"):
        interpreter.execute("x")
    assert interpreter.position == 0


def test_the_unsafe_interpreter_says_so_loudly(capsys: pytest.CaptureFixture[str]) -> None:
    factory = UnsafeLocal(step_wall_s=60)
    told = capsys.readouterr()
    assert told.out == "" and "UNSAFE: the agent's code runs WITHOUT a sandbox" in told.err
    assert "local subprocess" in factory.execution_instructions
    interpreter = factory()
    assert interpreter.execute("1 + 1") == 2
    interpreter.shutdown()
    interpreter = UnsafeLocal(step_wall_s=0.5)()
    with pytest.raises(CodeInterpreterError, match="timeout"):
        interpreter.execute("while True: pass")
    interpreter.shutdown()


@pytest.mark.parametrize("given", ["'Two.'", "answer='Two.'", "'Two.', 'SELECT ?l'", "answer='Two.', evidence=['k']"])
def test_without_a_sandbox_an_answer_alone_is_submitted_as_in_one(given: str) -> None:
    """dspy's interpreter raised an error of its own where a field was left out."""
    with open_interpreter(UnsafeLocal(step_wall_s=20), {"g_stats": dict}) as interpreter:
        for _ in range(2):
            assert Submission.of(interpreter.execute(f"SUBMIT({given})").output).answer == "Two."
        with pytest.raises(SyntaxError, match="line 2"):
            interpreter.execute("1\n+")
