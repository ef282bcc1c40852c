"""The tracing processor for the OpenAI Agents SDK: what is recorded of a run of its, and how that ends."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool, set_trace_processors
from openai import AsyncOpenAI

from rbank_es import Bank
from rbank_es.agents.agents_sdk import BankProcessor
from tests.models.openai_server import Answers, calling, hanging, openai_server

QUESTION = "Which lamps are lit?"
LESSON = ("Look at every lamp", "Which lamps are lit: look at every lamp before you say which lamps are lit.")


@pytest.fixture
def bank() -> Iterator[Bank]:
    with Bank.create("memory:") as made:
        made.remember(*LESSON)
        yield made
    set_trace_processors([])


def right(task: str, answer: Any) -> tuple[bool, str]:
    return answer == "The hall's.", f"{task} {answer}"


@function_tool(failure_error_function=None)
def look(lamp: str) -> str:
    """Look at a lamp."""
    if lamp == "cellar":
        raise RuntimeError("the cellar is locked")
    return f"{lamp} is lit"


async def runner(agent: Any, config: Any, **more: Any) -> Any:
    return (await Runner.run(agent, QUESTION, run_config=config, **more)).final_output


def ran(
    answers: Answers,
    processor: BankProcessor,
    run: Callable[..., Any] = runner,
    *,
    recalls: bool = True,
    **settings: Any,
) -> tuple[Any, list[dict[str, Any]]]:
    """Run an agent of two lines; return its answer, and what its model was asked."""
    set_trace_processors([processor])
    config = RunConfig(call_model_input_filter=processor.give_lessons if recalls else None)
    more = {name: settings.pop(name) for name in ("max_turns",) if name in settings}

    async def work() -> Any:
        client = AsyncOpenAI(base_url=server.url, api_key="sk-of-nobody-0123456789", max_retries=0)
        model = OpenAIChatCompletionsModel("stub", client)
        agent = Agent("lamps", instructions="You are short.", model=model, **{"tools": [look], **settings})
        return await run(agent, config, **more)

    with openai_server(answers) as server:
        return asyncio.run(work()), server.requests


def test_a_trace_is_a_run_from_its_recall_to_its_verdict(bank: Bank) -> None:
    processor = BankProcessor(bank, judge=right, domain="house")
    answer, asked = ran([calling(("look", {"lamp": "hall"})), "The hall's."], processor)
    assert answer == "The hall's."
    for body in asked:
        system = body["messages"][0]["content"]
        assert system.startswith("You are short.\n\n") and LESSON[1] in system
    [row] = bank.runs().rows
    assert (row.task, row.ontology, row.executor, row.outcome) == (QUESTION, "house", "openai-agents", "submitted")
    assert (row.verdict, row.kind, row.reason) == ("success", "outcome", f"{QUESTION} The hall's.")
    assert (row.recall_sent, row.lm_calls, row.tool_calls) == (True, 2, 1)
    [tool] = bank.events(types=["tool_called"])
    assert (tool.tool, json.loads(tool.arguments), tool.result) == ("look", {"lamp": "hall"}, "hall is lit")
    [first, second] = bank.events(types=["lm_called"])
    assert (first.model, second.tokens_in, second.tokens_out, second.tokens_cached) == ("stub", 10, 2, 4)
    assert "The hall's." in second.response and QUESTION in first.request and first.duration_s


def test_the_output_of_a_tool_is_the_answer_where_the_run_stops_at_it(bank: Bank) -> None:
    settings = {"tool_use_behavior": "stop_on_first_tool"}
    answer, _ = ran([calling(("look", {"lamp": "hall"}))], BankProcessor(bank), **settings)
    assert bank.run(bank.runs().rows[0].run).answer == answer == "hall is lit"


def test_a_cancelled_agent_ends_its_run_as_interrupted(bank: Bank) -> None:
    async def cancelled(agent: Any, config: Any) -> None:
        task = asyncio.create_task(runner(agent, config))
        while not list(bank.events(types=["run_started"])):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    ran([hanging()], BankProcessor(bank), cancelled)
    [row] = bank.runs().rows
    assert (row.outcome, row.error_code) == ("failed", "interrupted")


def test_no_search_is_made_on_the_loop(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, as_of = list[threading.Thread](), bank.as_of

    def noted(point: Any) -> Any:
        threads.append(threading.current_thread())
        return as_of(point)

    monkeypatch.setattr(bank, "as_of", noted)
    assert ran(["The hall's."], BankProcessor(bank))[0] == "The hall's."
    assert threads and threading.main_thread() not in threads
