"""The parts of `make real`, without a model: its proxy counts what passes, and its checks find what fails to hold."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rbank_es.models.model_choice import LmChoice
from tests.models import openai_server as says
from tests.models.openai_server import openai_server
from tests.models.runs import ask, called, models
from tests.real_models.counting_proxy import Call, Proxy
from tests.real_models.report import written
from tests.real_models.ways import Ended, Ways, ways


def long_stream(body: dict[str, Any]) -> says.Behaviour:
    """A server that keeps no bound."""
    return says.streamed(*(f"{number} " for number in range(200)))


def test_the_proxy_counts_each_call_with_its_bound_and_its_tokens(tmp_path: Path) -> None:
    with openai_server(["one two", says.rate_limited(0), "three"]) as server, Proxy(server.url, 10).running() as proxy:
        choice = LmChoice(model="openai/stub", api_base=proxy.url, arguments={"max_tokens": 9})
        with models(tmp_path, choice) as (bank, lms):
            assert ask(lms) == "one two" and ask(lms) == "three"
            assert len(proxy.calls) == len(called(bank)) == 3
    assert [(call.bound, call.status, call.tokens_out) for call in proxy.calls] == [
        (9, 200, 2),
        (9, 429, None),
        (9, 200, 1),
    ]


@pytest.mark.parametrize(("bound", "tokens", "kept"), [(None, 3, False), (9, 10, False), (9, 9, True), (9, None, True)])
def test_a_call_keeps_a_bound_that_it_has(bound: int | None, tokens: int | None, kept: bool) -> None:
    assert Call(bound, True, 200, 5, tokens).kept == kept


@pytest.mark.slow
def test_what_does_not_hold_is_found(tmp_path: Path) -> None:
    """A traceback, another exit code, a call past its bound, a process that doesn't end."""
    program = "import sys, httpx; httpx.post(sys.argv[1] + '/chat/completions', json={'max_tokens': 9}, timeout=60)"
    with openai_server(long_stream) as server, Proxy(server.url, 10).running() as proxy:
        trial = Ways(tmp_path, proxy, "openai/stub", time.monotonic() + 20)
        good = trial.process("good", ["python3", "-c", "pass"], codes=(0,))
        wrong = trial.process("wrong", ["python3", "-c", "raise ValueError"], codes=(0,))

        past = trial.process("past", [sys.executable, "-c", program, proxy.url], codes=(0,))
        trial.ends = time.monotonic()
        slow = trial.process("slow", ["sleep", "9"], codes=(0,))
    assert not good.wrong and "traceback" in str(wrong.wrong) and "exit code 1" in str(wrong.wrong)
    assert past.calls == 1 and "past it" in str(past.wrong) and "did not end" in str(slow.wrong)


def test_the_report_says_that_it_measures_no_quality_and_what_did_not_hold(tmp_path: Path) -> None:
    ended = [Ended("run, react", 0, 1.0, 3, "submitted | or not", ()), Ended("hook", 1, 0.1, 0, "", ("exit code 1",))]
    page = tmp_path / "page.md"
    page.write_text("What was.\n\n## Larger models\n\nA table.\n")
    written(page, ended, "a model", "a server")
    text = page.read_text()
    assert text.endswith("\n\n## Larger models\n\nA table.\n") and "What was" not in text
    assert (
        "no\nmeasurement of quality" in text and "1 of 2" in text and "- hook: exit code 1" in text and "guide" in text
    )


def test_each_executor_is_run_rerun_and_shown() -> None:
    from rbank_es.executors.executor import EXECUTORS

    names = [way.name for way in ways()]
    assert len(names) == len(set(names))
    assert {f"{what}, {name}" for what in ("run", "rerun", "page") for name in EXECUTORS.names()} <= set(names)
