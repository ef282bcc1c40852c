"""Runs in the real sandbox: what code does to it costs steps, and the run goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbank_es.limits import STEP_TIME_S
from rbank_es.sandbox.session import Session
from tests.sandbox.fake_deno import fake
from tests.sandbox.sandboxes import limited, require_dspy, sandbox

require_dspy()
from rbank_es.sandbox.interpreter import Sandbox  # noqa: E402
from tests.executors.contract import comparable  # noqa: E402
from tests.executors.runs import TASK, Setting, code  # noqa: E402

pytestmark = pytest.mark.xdist_group("sandbox")

SUBMITS = code("SUBMIT(answer='Three.', sparql='', evidence={})")


def in_sandbox(**given: Any) -> Any:
    def made() -> Any:
        return sandbox(**given)

    return made


@pytest.fixture(params=["rlm", pytest.param("scratchpad", marks=pytest.mark.slow)])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.slow
def test_a_whole_run(name: str, tmp_path: Path) -> None:
    made = Setting(
        tmp_path / "bank",
        [
            code("found = find('rock', k=2)\nprint(found['found'], len(context) > 100)"),
            code("print(llm_query_batched(['a', 'b'])[1])\nfound['k']"),
            code("SUBMIT(found['found'], 'SELECT', {'keys': [found['key']]})"),
        ],
    )
    result = made.run(name, in_sandbox())
    assert (result.outcome, result.answer, result.sparql) == ("submitted", "rock light", "SELECT")
    assert [step.output.strip() for step in result.steps[:2]] == ["rock light True", "B\n2"]
    [key] = [event.id for event in made.events if event.__struct_config__.tag == "tool_called"]
    assert result.evidence == {"keys": [key]}


@pytest.mark.slow
def test_a_step_is_recorded_with_what_it_printed_and_holds(name: str, tmp_path: Path) -> None:
    """All that it printed counts, also where it is cut, before an error and before SUBMIT; inputs are variables too."""
    made = Setting(
        tmp_path / "bank",
        [
            code("print('x' * 30_000)\nfound = find('rock')"),
            code("print('abc')\n1/0"),
            "prose",
            code("print('ends')\nheld = [1.5, None]\nSUBMIT('Three.', '', {})"),
        ],
    )
    made.run(name, in_sandbox())
    assert [step.stdout_chars for step in made.steps] == [30_001, 4, 0, 5]
    assert [step.error_code for step in made.steps] == [None, "raised", "unreadable", None]
    two = {"dict": 1, "str": 2}
    assert [step.variable_types for step in made.steps] == [two, two, {}, {"dict": 1, "list": 1, "str": 2}]
    assert [step.variables_n for step in made.steps] == [3, 3, None, 4]
    inputs = len(made.context.text) + len(TASK)
    assert all(step.variables_chars > inputs for step in made.steps if step.variables_chars is not None)


BAD: dict[str, str | None] = {
    "find('rock')[:3]": "raised",
    "raise ValueError({1, 2}, object())": "raised",
    "class Mine(BaseException): pass\nraise Mine(b'x')": "raised",
    "raise SystemExit": "raised",
    "find(": "syntax",
    "find('rock', nothing=1)": "raised",
    "no_such_tool()": "raised",
    "SUBMIT(sparql='only')": "raised",
    "SUBMIT(answer='', sparql='', evidence={})": "refused",
    "print('x' * 2_000_000)": None,
    "2**70": None,
}
"""Code, and the fault of its step."""


def test_what_code_does_costs_a_step_and_no_variable(name: str, tmp_path: Path) -> None:
    steps = [each for bad in BAD for each in (code(bad), code("print(kept)"))]
    made = Setting(tmp_path / "bank", [code("kept = 7"), *steps, SUBMITS])
    result = made.run(name, in_sandbox(), iterations=len(steps) + 2)
    assert result.outcome == "submitted"
    assert [step.fault for step in result.steps[1:-1:2]] == list(BAD.values())
    assert {step.output.strip() for step in result.steps[2:-1:2]} == {"7"}
    assert max(len(step.output) for step in result.steps) < 60_000


def test_a_submission_that_is_no_json_is_typed_too(name: str, tmp_path: Path) -> None:
    odd = "{'set': {1, 2}, 'nan': float('nan'), 'bytes': b'x', 'object': print, 'big': 2**70, 'none': None}"
    made = Setting(tmp_path / "bank", [code(f"SUBMIT(answer={odd}, sparql=b'S', evidence={odd})")])
    result = made.run(name, in_sandbox())
    assert result.outcome == "submitted" and result.answer.startswith("{") and result.sparql == "S"
    assert result.evidence["set"] == [1, 2] and result.evidence["big"] in (2**70, str(2**70))


def in_time(box: Sandbox, text: str, step_code_s: float) -> Callable[[object], str]:
    """A reply with code that is given so many seconds: half a second is over soon on a busy machine."""

    def said(_: object) -> str:
        limited(box, step_code_s)
        return code(text)

    return said


@pytest.mark.slow
def test_a_step_without_end_costs_the_session_and_the_run_goes_on(tmp_path: Path) -> None:
    box = sandbox()
    said = [code("kept = 7"), in_time(box, "while True: pass", 0.5), in_time(box, "kept", STEP_TIME_S), SUBMITS]
    made = Setting(tmp_path / "bank", said)
    result = made.run("rlm", lambda: box)
    assert [step.fault for step in result.steps] == [None, "timeout", "raised", None]
    assert "All variables are gone" in made.turns.prompt(2) and result.outcome == "submitted"


def test_a_sandbox_that_does_not_start_again_fails_the_run_with_its_steps(name: str, tmp_path: Path) -> None:
    runtime = fake(tmp_path)
    box = Sandbox(take_session=lambda settings: Session(runtime))

    def remove(_: object) -> str:
        runtime.executable.write_text("#!/bin/sh\ncase $1 in --version) echo deno 2.9.8;; *) exit 7;; esac\n")
        return code("os._exit(1)")

    made = Setting(tmp_path / "bank", [code("outcome['value'] = 'seen'"), remove, code("pass")])
    result = made.run(name, lambda: box)
    assert (result.outcome, result.error_code) == ("failed", "broken") and "does not start" in str(made.end.error)
    assert [step.fault for step in result.steps] == [None, "died", "no_sandbox"] and len(made.steps) == 3


@pytest.mark.slow
def test_the_same_run_in_two_sandboxes_makes_the_same_events(name: str, tmp_path: Path) -> None:
    said = [code("print(sorted(find('rock')))"), code("{}['x']"), code("raise ValueError(1)"), SUBMITS]
    runs = []
    for place in ("one", "two"):
        made = Setting(
            tmp_path / place, said, new_id=iter([f"0199d0a2-5a7e-7000-8000-00000000000{n}" for n in range(9)]).__next__
        )
        made.run(name, in_sandbox())
        runs.append(comparable(made))
    assert runs[0] == runs[1]
