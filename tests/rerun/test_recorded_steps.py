"""What a rerun takes from a run's events, where it can't be had: it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es.errors import BadInput
from tests.sandbox.sandboxes import require_dspy

require_dspy()
from rbank_es.models.scripted_model import rendered  # noqa: E402
from rbank_es.rerun.recorded_steps import recorded_keys, recorded_steps  # noqa: E402
from rbank_es.sandbox.step_outcome import RecordedCall  # noqa: E402
from tests.executors.runs import Setting, code  # noqa: E402


def test_steps_hold_their_calls_and_those_without_code_are_left_out(tmp_path: Path) -> None:
    said = [
        code("print(find('rock')['found'])\nprint(llm_query('p'))"),
        "prose",
        rendered({"reasoning": "r", "code": "```sparql\nSELECT\n```"}),
        code("print('FINAL: {}')"),
        code("SUBMIT('A', '', {})"),
    ]
    made = Setting(tmp_path / "bank", said)
    made.run("rlm")
    calls = (
        RecordedCall(tool="find", arguments='{"word":"rock"}'),
        RecordedCall(tool="llm_query", arguments='{"prompt":"p"}'),
    )
    first, printed, last = recorded_steps(made.events)
    assert (first.kind, first.output.strip(), first.calls) == ("output", "rock light\nP", calls)
    assert (printed.kind, printed.output.strip()) == ("output", "FINAL: {}")
    assert (last.code, last.kind) == ("SUBMIT('A', '', {})", "final")
    assert last.output == '{"answer": "A", "sparql": "", "evidence": {}}'
    assert len(recorded_keys(made.events)) == 1


def test_an_erased_run_can_not_be_played(tmp_path: Path) -> None:
    made = Setting(tmp_path / "bank", [code("print('x' * 3_000)"), code("SUBMIT('A', '', {})")])
    made.run("rlm")
    made.bank.erase(run=made.run_id, reason="test")
    with pytest.raises(BadInput, match="erased"):
        recorded_steps(made.events)


def test_arguments_that_were_not_kept_whole_can_not_be_played(tmp_path: Path) -> None:
    made = Setting(tmp_path / "bank", [code("find('x' * 30_000)"), code("SUBMIT('A', '', {})")])
    assert made.run("rlm").outcome == "submitted"
    with pytest.raises(BadInput, match="too long"):
        recorded_steps(made.events)
