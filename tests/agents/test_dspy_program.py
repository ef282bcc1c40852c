"""`Remembering`: a DSPy program that recalls and is recorded, and that is compiled, saved and loaded as it was."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dspy
import pytest

from rbank_es import Bank
from rbank_es.agents.dspy_program import Remembering
from tests.models.openai_server import OpenAiServer, openai_server

QUESTION = "Which lamps are lit?"
LESSON = ("Look at every lamp", "Which lamps are lit: look at every lamp before you say which lamps are lit.")


def answer(body: dict[str, Any]) -> str:
    asked = json.dumps(body["messages"])
    found = "hall, porch" if "look at every lamp" in asked else "hall"
    return f"[[ ## reasoning ## ]]\nI looked.\n\n[[ ## answer ## ]]\n{found}\n\n[[ ## completed ## ]]"


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with openai_server(answer) as server, dspy.context(lm=lm_of(server)):
        yield server


def lm_of(server: OpenAiServer) -> dspy.LM:
    return dspy.LM("openai/stub", api_base=server.url, api_key="sk-of-nobody-0123456789", cache=False, num_retries=0)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with Bank.create(tmp_path / "bank") as bank:
        bank.remember(*LESSON)
    return tmp_path / "bank"


@pytest.fixture
def bank(place: Path) -> Iterator[Bank]:
    with Bank.open(place) as bank:
        yield bank


@pytest.mark.parametrize("cancelled", [False, True])
def test_an_asynchronous_call_searches_on_a_thread_and_ends_its_run_also_where_it_is_cancelled_there(
    cancelled: bool, bank: Bank, server: OpenAiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, as_of, searches = list[threading.Thread](), bank.as_of, threading.Event()

    def slowly(point: Any) -> Any:
        threads.append(threading.current_thread())
        searches.set()
        time.sleep(0.2)
        return as_of(point)

    async def call() -> None:
        work = asyncio.create_task(agent.acall(question=QUESTION))
        if cancelled:
            while not searches.is_set():
                await asyncio.sleep(0.01)
            work.cancel()
        await work

    monkeypatch.setattr(bank, "as_of", slowly)
    agent = Remembering(dspy.Predict("question -> answer"), bank)
    with pytest.raises(asyncio.CancelledError) if cancelled else nullcontext():
        asyncio.run(call())
    assert threading.main_thread() not in threads
    monkeypatch.undo()
    [row] = bank.runs().rows
    assert (row.outcome, row.error_code) == (("failed", "interrupted") if cancelled else ("submitted", None))


def test_an_lm_of_a_predictor_and_a_thread_of_parallel_are_recorded_in_their_own_runs(
    bank: Bank, server: OpenAiServer
) -> None:
    program = dspy.Predict("question -> answer")
    program.set_lm(lm_of(server))
    agent = Remembering(program, bank)
    questions = [f"{QUESTION} {number}" for number in range(4)]
    calls = [(agent, dspy.Example(question=each).with_inputs("question")) for each in questions]
    dspy.Parallel(num_threads=4, timeout=0, disable_progress_bar=True)(calls)
    assert {row.task: row.lm_calls for row in bank.runs().rows} == dict.fromkeys(questions, 1)


def test_tools_are_recorded_with_what_they_raise(bank: Bank, server: OpenAiServer) -> None:
    def look(lamp: str) -> str:
        """Look at a lamp."""
        if lamp == "cellar":
            raise ValueError("locked")
        return f"{lamp} is lit"

    class Looking(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tool = dspy.Tool(look)

        def forward(self, question: str, lamps: list[str]) -> Any:
            return dspy.Prediction(answer=[self.tool(lamp=lamp) for lamp in lamps], question=question)

    agent = Remembering(Looking(), bank)
    agent(question=QUESTION, lamps=["hall"])
    with pytest.raises(ValueError, match="locked"):
        agent(question=QUESTION, lamps=["cellar"])
    told: Any = [*bank.events(types=["tool_called"])]
    assert [(each.tool, each.arguments, each.result, each.error_code) for each in told] == [
        ("look", '{"lamp": "hall"}', "hall is lit", None),
        ("look", '{"lamp": "cellar"}', None, "ValueError"),
    ]
    second, first = bank.runs().rows
    assert first.task == f"question: {QUESTION}\nlamps: ['hall']" and json.loads(bank.run(first.run).answer or "")
    assert (second.outcome, second.error_code) == ("failed", "raised")


def test_saved_whole_it_opens_its_bank_again(place: Path, server: OpenAiServer, tmp_path: Path) -> None:
    with Bank.open(place) as bank:
        agent = Remembering(dspy.Predict("question -> answer"), bank)
        assert copy.deepcopy(agent)(question=QUESTION).answer == "hall, porch"
        agent.save(tmp_path / "whole", save_program=True)
    loaded = dspy.load(tmp_path / "whole", allow_pickle=True)
    assert loaded(question=QUESTION).answer == "hall, porch"
    loaded.bank.close()
    with Bank.open(place) as bank:
        assert len(bank.runs().rows) == 2
