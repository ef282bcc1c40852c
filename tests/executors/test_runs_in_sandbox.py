"""Runs in the real sandbox: what code does to it costs steps, and the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.executors.sandboxes import limited, require_dspy, sandbox

require_dspy()
from rbank_es.executors.protocol import executor_named  # noqa: E402
from tests.executors.contract import comparable  # noqa: E402
from tests.executors.runs import Setting, answer, code  # noqa: E402

pytestmark = pytest.mark.xdist_group("sandbox")

SUBMITS = code("SUBMIT(answer='Three.', sparql='', evidence={})")


def in_sandbox(**given: Any) -> Any:
    def made() -> Any:
        return sandbox(**given)

    return made


@pytest.fixture(params=["rlm", "scratchpad"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_whole_run(name: str, tmp_path: Path) -> None:
    made = Setting(
        tmp_path / "bank",
        [
            code("found = find('rock', k=2)\nprint(found['found'], len(context) > 100)"),
            code("print(llm_query_batched([question, 'b'])[1])\nfound['k']"),
            code("SUBMIT(found['found'], 'SELECT', {'keys': [found['key']]})"),
        ],
    )
    result = made.run(name, in_sandbox())
    assert (result.outcome, result.answer, result.sparql) == ("submitted", "rock light", "SELECT")
    assert [step.output for step in result.steps[:2]] == ["rock light True", "B\n2"]
    [key] = [event.id for event in made.events if event.__struct_config__.tag == "tool_called"]
    assert result.evidence == {"keys": [key]}


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("find('rock')[:3]", "raised"),
        ("raise ValueError({1, 2}, object())", "raised"),
        ("class Mine(BaseException): pass\nraise Mine(b'x')", "raised"),
        ("raise SystemExit", "raised"),
        ("find(", "syntax"),
        ("find('rock', nothing=1)", "raised"),
        ("no_such_tool()", "raised"),
        ("SUBMIT(answer='only')", "raised"),
        ("SUBMIT(answer='', sparql='', evidence={})", "refused"),
        ("print('x' * 2_000_000)", None),
        ("2**70", None),
    ],
)
def test_what_code_does_costs_a_step(name: str, tmp_path: Path, bad: str, told: str | None) -> None:
    made = Setting(tmp_path / "bank", [code("kept = 7"), code(bad), code("print(kept)"), SUBMITS])
    result = made.run(name, in_sandbox())
    assert (result.outcome, result.steps[1].fault, result.steps[2].output) == ("submitted", told, "7")
    assert len(result.steps[1].output) < 60_000


@pytest.mark.parametrize("given", ["{1, 2}", "float('nan')", "b'bytes'", "object()", "2**70", "['a', None]"])
def test_a_submission_that_is_no_json_is_typed_too(name: str, tmp_path: Path, given: str) -> None:
    made = Setting(tmp_path / "bank", [code(f"SUBMIT(answer={given}, sparql='', evidence={given})")])
    result = made.run(name, in_sandbox())
    assert result.outcome == "submitted" and result.answer and isinstance(result.evidence, dict)


def test_a_step_without_end_costs_the_session_and_the_run_goes_on(name: str, tmp_path: Path) -> None:
    box = sandbox()
    limited(box, 0.5)
    made = Setting(tmp_path / "bank", [code("kept = 7"), code("while True: pass"), code("kept"), SUBMITS])
    result = made.run(name, lambda: box)
    assert [step.fault for step in result.steps] == [None, "lost", "raised", None]
    assert "All variables are gone" in made.turns.prompt(2) and result.outcome == "submitted"


def test_inputs_are_there_again_after_a_lost_session(name: str, tmp_path: Path) -> None:
    box = sandbox()

    def kill(_: object) -> str:
        assert box.session is not None
        box.session._process.kill() if hasattr(box.session._process, "kill") else box.session.end()
        return code("print(1)")

    made = Setting(tmp_path / "bank", [code("print(question[:5])"), kill, code("print(question[:5])"), SUBMITS])
    result = made.run(name, lambda: box)
    assert [step.fault for step in result.steps] == [None, "lost", None, None]
    assert result.steps[2].output == "Which" and result.outcome == "submitted"


def test_a_sandbox_that_is_lost_too_often_fails_the_run_with_its_steps(name: str, tmp_path: Path) -> None:
    box = sandbox(restarts=1)
    limited(box, 0.5)
    made = Setting(tmp_path / "bank", [code("print(1)"), *[code("while True: pass")] * 3])
    result = made.run(name, lambda: box)
    assert (result.outcome, result.error_code) == ("failed", "sandbox_exhausted")
    assert [step.fault for step in result.steps] == [None, "lost", "exhausted"] and len(made.steps) == 3


def test_without_a_place_to_run_code_each_run_starts_a_sandbox(name: str, tmp_path: Path) -> None:
    sandbox().shutdown()  # sees to it that the cache is filled
    made = Setting(tmp_path / "bank", [code("import sys; print(sys.platform)"), answer("Two.")])
    result = made.run(executor_named(name), iterations=1)
    assert (result.outcome, result.steps[0].output) == ("forced_at_limit", "emscripten")


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
