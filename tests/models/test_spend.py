"""Bounds in tokens and money are kept while a run goes on, said before it, and recorded with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.cli.shared.arguments import parse_bounds, parse_loop_bounds
from rbank_es.errors import BadInput, LoopStopped
from rbank_es.events import LmCalled, RunFinished, RunStarted
from rbank_es.events.run_events import DEFAULT_BOUNDS, RunBounds
from rbank_es.loop.loop_spend import LoopBounds
from rbank_es.loop.resources import check
from rbank_es.loop.settings import LoopSettings
from rbank_es.models import openai_model
from rbank_es.models.model_choice import LmChoice
from rbank_es.rerun.execution import rerun
from rbank_es.tools.shared.call_budget import RunMeter
from tests.cli_runner import run
from tests.loop.loops import TASKS, looped, scripted
from tests.models.openai_server import openai_server
from tests.models.test_small_contexts import STEPS, serving, settings
from tests.rerun.banks import quick_code, shipped


@pytest.mark.parametrize(
    ("tokens", "asked", "code"), [(40_000, None, None), (3_200, 1, "bound_spent"), (300, 0, "bound_spent")]
)
def test_a_run_spends_no_more_tokens_than_its_bound_and_keeps_some_for_its_answer(
    tmp_path: Path, tokens: int, asked: int | None, code: str | None
) -> None:
    with (
        openai_server(serving(100_000, STEPS["scratchpad"])) as server,
        Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank,
    ):
        chosen = settings(server, "scratchpad", bounds=RunBounds(run_tokens=tokens))
        [result] = looped(bank, chosen, TASKS[:1], interpreters=quick_code)
        events = list(bank.events(resolve=True))
        again = rerun(bank, result.run, ontologies=shipped())
        sent = len(server.requests)
    calls = [event for event in events if isinstance(event, LmCalled)]
    [end] = [event for event in events if isinstance(event, RunFinished)]
    [started] = [event for event in events if isinstance(event, RunStarted)]
    assert started.bounds is not None and started.bounds.run_tokens == tokens
    assert sum((call.tokens_in or 0) + (call.tokens_out or 0) for call in calls) <= tokens
    assert (end.outcome, end.bound, end.error_code) == ("forced_at_limit", "run_tokens", code)
    assert sent == len(calls) == (asked if asked is not None else sent)
    assert (end.answer == "45 metres") == (code is None)
    assert asked is not None or 2 < int(end.iterations or 0) < 12
    assert again.difference is None, again.difference


def call(role: Any = "agent", **fields: Any) -> LmCalled:
    return LmCalled(run="r", role=role, model="m", **fields)


def test_tokens_that_nobody_counted_are_estimated_and_those_of_judges_are_not_the_runs() -> None:
    meter = RunMeter(RunBounds(run_tokens=1_000, run_usd=0.5))
    meter.wrote(call(tokens_in=100, tokens_out=50, cost_usd=0.1))
    assert (meter.tokens_left, meter.usd_left, meter.spent) == (850, 0.4, None)
    meter.wrote(call(role="judge", tokens_in=900, cost_usd=9.0), call(error_code="timeout", request="w" * 999))
    assert (meter.tokens_left, meter.usd_left, meter.spent) == (850, 0.4, None)
    meter.wrote(call(role="sub", request="w" * 300, response="w" * 30, cost_usd=None))
    assert (meter.tokens_left, meter.usd_left) == (740, 0.4)
    assert meter.room_for_prompts(["How many?"]) is not None, "a reply may have 2,048 tokens"
    meter.wrote(call(tokens_in=200, tokens_out=50, cost_usd=0.2))
    assert meter.tokens_left == 490 and meter.spent is not None and meter.spent.bound == "run_tokens"


def test_money_is_a_bound_too_and_leaves_room_for_the_answer() -> None:
    meter = RunMeter(RunBounds(run_usd=0.5))
    meter.wrote(call(tokens_in=1, cost_usd=0.2))
    assert meter.spent is not None and meter.spent.bound == "run_usd" and meter.bound_of_models is None
    meter.wrote(call(tokens_in=1, cost_usd=0.4))
    assert (meter.usd_left, meter.bound_of_models) == (0.0, "run_usd")
    assert meter.room_for_prompts(["How many?"]) is not None


def test_a_bound_in_money_is_refused_where_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-0123456789")
    bounds = RunBounds(run_usd=1.0)
    for choice in (LmChoice(model="openai/x", api_base="http://127.0.0.1:9/v1"), LmChoice(model="openai/no-such")):
        with pytest.raises(BadInput, match="no list has prices of openai/.*run_tokens"):
            check(LoopSettings(lm=choice, bounds=bounds), sandbox=False)
    check(LoopSettings(lm=LmChoice(model="openai/gpt-4.1-mini"), bounds=bounds), sandbox=False)


def test_a_loop_begins_no_task_once_its_bound_is_spent_and_goes_on_with_another(tmp_path: Path) -> None:
    chosen = scripted(tmp_path)
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        with pytest.raises(LoopStopped, match=r"the loop has spent loop_tokens: [\d,]+ of 10.*goes on") as caught:
            looped(bank, chosen, bounds=LoopBounds(loop_tokens=10))
        assert caught.value.code == "bound_spent"
        assert [event.task_id for event in bank.events() if isinstance(event, RunStarted)] == ["height"]
        assert [each.how for each in looped(bank, chosen, bounds=LoopBounds(loop_tokens=10))] == ["known", "ran"]


@pytest.mark.slow
def test_bounds_in_money_are_kept_by_run_and_loop_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the price of a model that the list has, asked at OpenAI's address, where a server of the test is."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-0123456789")
    answer, most = serving(100_000, STEPS["react"]), 0.004
    with (
        openai_server(lambda body: answer({**body, "max_tokens": body["max_completion_tokens"]})) as server,
        Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank,
    ):
        monkeypatch.setattr(openai_model, "ADDRESS", server.url)
        chosen = settings(server, "react", bounds=RunBounds(run_usd=most))
        chosen = msgspec.structs.replace(chosen, lm=LmChoice(model="openai/gpt-4.1-mini"))
        with pytest.raises(LoopStopped, match=r"the loop has spent loop_usd: .* of 0\.003"):
            looped(bank, chosen, TASKS[:2], bounds=LoopBounds(loop_usd=0.003))
        events = list(bank.events(resolve=True))
        [end] = [event for event in events if isinstance(event, RunFinished)]
        again = rerun(bank, str(end.run), ontologies=shipped())
    costs = [event.cost_usd or 0.0 for event in events if isinstance(event, LmCalled)]
    assert (end.outcome, end.bound, end.answer) == ("forced_at_limit", "run_usd", "45 metres")
    assert 2 < len(costs) < 12 and min(costs) > 0 and 0.003 <= sum(costs) <= most + max(costs)
    assert again.difference is None, again.difference


def test_bounds_that_are_not_given_are_not_written() -> None:
    """A record of before must be written again as it was."""
    assert b"run_tokens" not in msgspec.json.encode(DEFAULT_BOUNDS) + msgspec.json.encode(RunBounds(run_calls=3))
    [kept] = [msgspec.json.decode(msgspec.json.encode(RunBounds(run_usd=0.5)), type=RunBounds)]
    assert kept == RunBounds(run_usd=0.5)


def test_bounds_are_read_from_a_command_line() -> None:
    of_run, of_loop = parse_loop_bounds(["run_tokens=90000", "run_usd=0.5", "loop_usd=2", "step_code_s=1.5"])
    assert of_run == RunBounds(run_tokens=90_000, run_usd=0.5, step_code_s=1.5)
    assert of_loop == LoopBounds(loop_usd=2.0)
    for text in ("loop_tokens=0", "run_usd=nan", "loop_usd=inf", "run_tokens=1.5", "loop_calls=3"):
        with pytest.raises(BadInput):
            parse_loop_bounds([text])
    with pytest.raises(BadInput, match="no bound of a run"):
        parse_bounds(["loop_tokens=3"])


@pytest.mark.slow
def test_a_dry_run_says_the_bounds_of_run_and_loop(tmp_path: Path) -> None:
    asked = (
        "run",
        "./notes",
        "--ont",
        "lights",
        "--task",
        "?",
        "--lm",
        "openai/x",
        "--api-base",
        "http://127.0.0.1:9/v1",
    )
    bounds = ("--bound", "run_tokens=90000", "--bound", "loop_tokens=200000", "--dry-run")
    said = run(*asked, *bounds, cwd=tmp_path)
    assert "90,000" in said.out and "spent 200,000 (loop_tokens)" in said.out
    facts = run(*asked, *bounds, "--json", cwd=tmp_path).json
    assert facts["settings"]["bounds"]["run_tokens"] == 90_000
    assert facts["loop_bounds"] == {"loop_tokens": 200_000, "loop_usd": None}
