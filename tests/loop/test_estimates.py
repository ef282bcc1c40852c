"""Estimates of a dry run: they rest on prompts and on recorded runs, and are measured here again."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.events import ContextBuilt, LmCalled
from rbank_es.executors.executor import EXECUTORS, executor_class
from rbank_es.loop.call_estimate import (
    ANSWER_TOKENS,
    LESSON_CHARS,
    STEP_TOKENS,
    VERDICT_CHARS,
    estimate_calls,
    manual_chars,
)
from rbank_es.models.lm_request import prompt_text
from tests.loop.loops import SCRIPT, TASKS, looped, quick, scripted, source
from tests.loop.test_closed_loop import OF_ANOTHER_FORM, of_type
from tests.sandbox.sandboxes import require_dspy

require_dspy()

FREE = SCRIPT.replace('expects = ["Use lt:focalHeight for heights"]', "")


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS.names())
def test_prompts_are_about_as_long_as_they_are_said_to_be(tmp_path: Path, executor: str) -> None:
    """The agent's first prompt within a tenth; those of judge and extractor not above."""
    settings = scripted(tmp_path, OF_ANOTHER_FORM.get(executor, FREE), executor=executor)
    with quick(tmp_path / "bank") as bank:
        looped(bank, settings, TASKS[1:])
        context = of_type(bank, ContextBuilt)[0].chars
        sizes = {
            event.role: len(prompt_text(json.loads(str(event.request)))) for event in of_type(bank, LmCalled)[::-1]
        }
    known = context + manual_chars(settings, source()) + len(TASKS[1].question)
    assert known + executor_class(executor).frame_chars == pytest.approx(sizes["agent"], rel=0.1)
    assert sizes["judge"] <= VERDICT_CHARS
    assert sizes["extractor"] <= limits.EXTRACTION_TRAJECTORY_CHARS + LESSON_CHARS


def test_every_role_that_may_be_asked_is_in_the_estimate(tmp_path: Path) -> None:
    settings = scripted(tmp_path, SCRIPT, rollouts=3, iterations=5)
    calls = {each.role: (each.least, each.most) for each in estimate_calls(10_000, settings)}
    judge, extractor = 3 * limits.JUDGE_TRIES, 2 * limits.EXTRACTION_TRIES
    assert calls == {"agent": (3, 18), "sub": (0, 75), "judge": (0, judge), "extractor": (0, extractor)}
    alone = estimate_calls(10_000, scripted(tmp_path, SCRIPT, executor="react", judge="none", extract=False))
    assert [each.role for each in alone] == ["agent"]
    more, less = (estimate_calls(chars, settings)[0].tokens_most for chars in (20_000, 10_000))
    assert more - less == 18 * 2_500


@pytest.mark.real
@pytest.mark.skipif("RBANK_REAL_DATA" not in os.environ, reason="RBANK_REAL_DATA is not set")
def test_steps_are_about_as_long_as_those_of_recorded_runs() -> None:
    """Least squares over what the provider counted: prompts of n calls are n·first + n(n-1)/2·step."""
    runs = [(each["total_calls"], each["prompt_tokens"], each["completion_tokens"]) for each in recorded_usage()]
    assert len(runs) == 12
    pairs = [(n, n * (n - 1) / 2, prompt) for n, prompt, _ in runs]
    nn, nm, mm = (sum(x * y for x, y in ((p[i], p[j]) for p in pairs)) for i, j in ((0, 0), (0, 1), (1, 1)))
    np, mp = (sum(p[i] * p[2] for p in pairs) for i in (0, 1))
    assert (nn * mp - nm * np) / (nn * mm - nm**2) == pytest.approx(STEP_TOKENS, rel=0.02)
    assert sum(said for *_, said in runs) / sum(n for n, *_ in runs) == pytest.approx(ANSWER_TOKENS, rel=0.02)


def recorded_usage() -> Iterator[dict[str, int]]:
    """The provider's counts of the recorded runs that ended."""
    for file in sorted((Path(os.environ["RBANK_REAL_DATA"]) / "trajectories").rglob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["event_type"] == "run_complete":
                used = event["data"]["lm_usage"]
                yield ast.literal_eval(used) if isinstance(used, str) else used
