"""Runs within small contexts, over HTTP: a server counts tokens and refuses what is too long, as four servers do."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.events import LmCalled, RunFinished, RunStarted, StepTaken
from rbank_es.extraction import PastRun, PastStep, extract
from rbank_es.judging.lm_judge import Evidence, judge_by_lm
from rbank_es.judging.run_outcome import outcome_of
from rbank_es.loop.settings import LoopSettings
from rbank_es.models.lm_request import LmRequest
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.prompt_priorities import LEFT_OUT, GivingWay, PromptPart
from rbank_es.models.run_models import Lms
from rbank_es.models.scripted_model import rendered
from rbank_es.rerun.execution import rerun
from tests.extraction.judged_runs import LOST
from tests.loop.loops import TASKS, looped
from tests.models import openai_server as says
from tests.models.openai_server import OpenAiServer, openai_server
from tests.rerun.banks import quick_code, shipped
from tests.sandbox.sandboxes import require_dspy

require_dspy()

NAMES = (
    "ctx_peek", "ctx_slice", "ctx_find", "ctx_stats", "sparql_schema", "sparql_peek", "sparql_query", "sparql_slice",
    "g_search", "g_describe", "g_stats", "tools",
)  # fmt: skip
"""Tools whose manual an agent looks up, another one in each step: a step that repeats another is a standstill."""


def code(number: int) -> str:
    text = f"print(tools({NAMES[number % 12]!r})['manual'], 'a light ' * 400)"
    return rendered({"reasoning": "I look.", "code": f"```python\n{text}\n```"})


def call(number: int) -> str:
    arguments = {"name": NAMES[number % 12]}
    return rendered({"next_thought": "I look.", "next_tool_name": "tools", "next_tool_args": arguments})


ANSWER = rendered({"answer": "45 metres", "sparql": "", "evidence": {}})
STEPS: dict[str, Callable[[int], str]] = {"scratchpad": code, "rlm": code, "react": call, "tools": call}


def counted(body: dict[str, Any]) -> int:
    """The tokens of a prompt, as a model of the test's has them: 3.6 characters each."""
    chars = sum(len(each["content"] or "") + len(json.dumps(each.get("tool_calls", ""))) for each in body["messages"])
    return round((chars + len(json.dumps(body.get("tools", "")))) / 3.6) + 8


def serving(length: int, step: Callable[[int], str]) -> Any:
    """Answers of a server that refuses what is too long, prompt and reply together."""
    numbers = count()

    def answer(body: dict[str, Any]) -> says.Reply:
        tokens = counted(body)
        if tokens + body["max_tokens"] > length:
            refusal = {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": length}
            return says.says(json.dumps({"error": refusal}).encode(), says.JSON, "400 Bad Request")
        text = ANSWER if "Your steps are used up" in json.dumps(body) else step(next(numbers))
        usage = {"prompt_tokens": tokens, "completion_tokens": len(text) // 4}
        if "tools" not in body:
            return says.says(says.completion(text, usage=usage), says.JSON)
        return says.says(says.completion(None, usage=usage, choices=[_native(body, next(numbers))]), says.JSON)

    return answer


def _native(body: dict[str, Any], number: int) -> dict[str, Any]:
    """A call in the protocol's own form: one that looks, or the one that ends where that is required."""
    name, arguments = "tools", {"name": NAMES[number // 2 % 12]}  # two numbers are drawn a step
    if "Your steps are used up" in json.dumps(body):
        name, arguments = "SUBMIT", {"answer": "45 metres"}
    made = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [made]}}


def settings(server: OpenAiServer, executor: str, **more: Any) -> LoopSettings:
    lm = LmChoice(model="openai/small", api_base=server.url)
    return LoopSettings(lm=lm, executor=executor, iterations=12, judge="none", extract=False, **more)


@pytest.mark.slow
@pytest.mark.parametrize("executor", STEPS)
@pytest.mark.parametrize(("length", "preset"), [(8_192, "full"), (4_096, "lean")])
def test_a_context_of_so_many_tokens_is_enough_for_twelve_steps(
    tmp_path: Path, executor: str, length: int, preset: Any
) -> None:
    props = {"default_generation_settings": {"n_ctx": length}, "build_info": "b1"}
    with (
        openai_server(serving(length, STEPS[executor]), props=props) as server,
        Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank,
    ):
        [result] = looped(bank, settings(server, executor, preset=preset), TASKS[:1], interpreters=quick_code)
        calls = [event for event in bank.events(resolve=True) if isinstance(event, LmCalled)]
        steps = [event for event in bank.events() if isinstance(event, StepTaken)]
        again = rerun(bank, result.run, ontologies=shipped())
    assert (result.outcome, len(steps), result.answer) == ("forced_at_limit", 12, "45 metres")
    asked = 13 + (executor == "tools")  # one of them tries whether the server takes tools
    assert [call.error_code for call in calls] == [None] * asked, "a prompt that leaves no room isn't sent"
    assert len(server.requests) == asked
    assert calls[-1].gave_way[:1] == ("history",) or length == 8_192
    assert again.difference is None, again.difference


@pytest.mark.slow
@pytest.mark.parametrize("executor", STEPS)
def test_a_server_that_tells_its_length_only_when_it_refuses_is_kept_to_from_then_on(
    tmp_path: Path, executor: str
) -> None:
    with (
        openai_server(serving(3_000, STEPS[executor])) as server,
        Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank,
    ):
        [result] = looped(bank, settings(server, executor), TASKS[:1], interpreters=quick_code)
        calls = [event for event in bank.events(resolve=True) if isinstance(event, LmCalled)]
        [end] = [event for event in bank.events(resolve=True) if isinstance(event, RunFinished)]
        again = rerun(bank, result.run, ontologies=shipped())
    assert (end.outcome, end.iterations, end.error_code) == ("forced_at_limit", 12, None)
    assert [call.error_code for call in calls].count("context_too_long") == 1
    assert calls[-2].gave_way[0] == "history" and calls[-2].gave_way[1:2] in ((), ("manual",))
    assert again.difference is None, again.difference


def test_parts_give_way_in_order_and_stay_so() -> None:
    parts = [
        PromptPart("manual", "- `f(a)` - Finds. " * 9, "- `f(a)`"),
        PromptPart("L3", "A guide. " * 20),
        PromptPart("L1", "Rules. " * 20),
    ]
    request = LmRequest.of(
        "m",
        [
            {"role": "system", "content": f"Use:\n{parts[0].text}"},
            {"role": "user", "content": f"{parts[2].text}\nHow many?"},
        ],
        {},
    )
    giving = GivingWay()
    giving.offer([*parts, PromptPart("L0", "short")])
    assert giving.shortened(request) == request and giving.names == ()
    assert giving.next() and giving.shortened(request).system == "Use:\n- `f(a)`"
    assert giving.next() and giving.names == ("manual", "L1"), "what a prompt doesn't hold can't give way"
    assert giving.shortened(request).messages[0].parts[0]["text"] == f"{LEFT_OUT}\nHow many?"
    assert not giving.next()


JUDGED = rendered({"verdict": "failure", "confidence": "0.9", "reason": "A row is missing."})
DRAWN = rendered(
    {"memory_items": [{"title": "Count once", "description": "d", "content": "Use DISTINCT."}], "why_none": ""}
)


@pytest.mark.parametrize("told", [True, False], ids=["the length is known", "a refusal tells it"])
def test_prompts_of_judge_and_extractor_give_way_to_a_short_context(tmp_path: Path, told: bool) -> None:
    """The longest text loses its middle; what was asked stays whole."""
    props = {"default_generation_settings": {"n_ctx": 3_000}, "build_info": "b1"} if told else None
    replies = iter([JUDGED, DRAWN])

    def serve(body: dict[str, Any]) -> says.Reply:
        refusal = {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": 3_000}
        refused = says.says(json.dumps({"error": refusal}).encode(), says.JSON, "400 Bad Request")
        return refused if counted(body) > 2_700 else next(replies)

    long = tuple(PastStep(index=n, code="look()", output=f"{n} " * 900) for n in range(1, 9))
    with openai_server(serve, props=props) as server, Bank.create("memory:") as bank:
        choice = LmChoice(model="openai/small", api_base=server.url, arguments={"response_format": False})
        bank.append(
            [RunStarted(run="r", task=TASKS[0].question), RunFinished(run="r", outcome="submitted", answer="7")]
        )
        evidence = Evidence(ending="step " * 1_500)
        with Lms(bank, "r", {"judge": choice, "extractor": choice}) as lms:
            verdict = judge_by_lm(outcome_of(bank, "r"), lms, evidence=evidence)
            drawn = extract(
                PastRun(task=TASKS[0].question, run="r", answer="7", steps=long), TASKS[0].question, LOST, lms
            )
        calls = [event for event in bank.events(resolve=True) if isinstance(event, LmCalled)]
    assert verdict.verdict == "failure" and [item.title for item in drawn.items] == ["Count once"]
    assert all(TASKS[0].question in str(call.request) for call in calls if call.error_code is None)
    assert told != ("context_too_long" in [call.error_code for call in calls]), "what has no room isn't sent"
