"""One table of what servers do, times every executor: a run ends in time and with a reason, and its rerun is the same.

Each server misbehaves for the first calls, and answers well from then on.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rbank_es.bank import Bank
from rbank_es.events import LmCalled, RunFinished
from rbank_es.executors.executor import EXECUTORS
from rbank_es.loop.settings import LoopSettings
from rbank_es.models import call_recorder
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.scripted_model import rendered
from rbank_es.rerun.execution import rerun
from tests.effort import one_in
from tests.loop.loops import HEIGHT, TASKS, looped
from tests.models import openai_server as says
from tests.models.misbehaviours import FAILING, LETTER, events, piece, raw, replies
from tests.models.openai_server import calling, completion, openai_server
from tests.models.test_context_length import REFUSALS, refusal
from tests.rerun.banks import quick_code, shipped
from tests.sandbox.sandboxes import require_dspy
from tests.sparql.fault_server import Asked, drips, head

require_dspy()

PAGES = {
    "props": {
        "build_info": "b1",
        "default_generation_settings": {"n_ctx": 65_536},
        "chat_template_caps": {"supports_tools": True},
    }
}
PATIENCE_S = 100  # the first of them loads dspy, which takes a busy machine a minute
"""Twenty times what an answer may take: a machine may be busy, and a run without an end would take for ever."""
SUBMITTED = {"answer": "45 metres", "sparql": HEIGHT, "evidence": ["results_0"]}


def written(tool: str, arguments: Any, code: str) -> str:
    """A reply with the fields of every executor that reads them, and of the forced answer."""
    fields = {"reasoning": "r", "code": f"```python\n{code}\n```", "next_thought": "t", "next_tool_name": tool}
    return rendered({**fields, "next_tool_args": arguments, **SUBMITTED})


def in_form(body: dict[str, Any], tool: str, arguments: Any, code: str) -> says.Behaviour:
    """A call of a tool, in the form of whoever asks."""
    if "tools" in body:
        return calling((tool, arguments))
    return says.says(completion(written(tool, arguments, code)), says.JSON)


def good(body: dict[str, Any]) -> says.Behaviour:
    return in_form(body, "SUBMIT", SUBMITTED, f"SUBMIT(**{SUBMITTED!r})")


def looks(body: dict[str, Any]) -> says.Behaviour:
    return in_form(body, "sparql_query", {"query": HEIGHT}, f"print(sparql_query({HEIGHT!r}))")


def with_usage(usage: Any) -> Callable[[dict[str, Any]], says.Behaviour]:
    """The good answer, with these numbers of tokens."""
    return lambda body: changed(body, {"usage": usage})


def changed(body: dict[str, Any], fields: dict[str, Any]) -> says.Behaviour:
    words = written("SUBMIT", SUBMITTED, f"SUBMIT(**{SUBMITTED!r})")
    function = {"name": "SUBMIT", "arguments": json.dumps(SUBMITTED)}
    calls = {"tool_calls": [{"id": "c", "type": "function", "function": function}], "content": None}
    message = {"role": "assistant", **(calls if "tools" in body else {"content": words})}
    return says.says(completion(None, choices=[{"index": 0, "message": message}], **fields), says.JSON)


def always(behaviour: says.Behaviour) -> Callable[[dict[str, Any]], says.Behaviour]:
    return lambda body: behaviour


def slow(body: dict[str, Any]) -> says.Behaviour:
    """The first word comes later than an answer may take."""

    def behave(connection: socket.socket, asked: Asked) -> None:
        time.sleep(1.3)
        good(body)(connection, asked)

    return behave


CALL_PIECE = piece(tool_calls=[{"index": 0, "id": "c", "function": {"name": "g_stats", "arguments": "[1, "}}])
TIMES_S = {"timeout": 1, "a slow first word": 1}
"""Seconds for an answer, by the case or the code of its first call: where none is late, a busy machine has more."""


class Case(NamedTuple):
    """Answers to the first calls, and the codes of those calls; the error of the run, where it has one."""

    answers: tuple[Callable[[dict[str, Any]], says.Behaviour], ...]
    codes: tuple[str | None, ...] = (None,)
    error: str | None = None


ENDURED = (
    *("a flood", "a stream that stops", "a stream that stops within a letter", "a stream that breaks off"),
    *("half a body", "half a letter", "no choices", "no message", "a call of nothing"),
)
CASES: dict[str, Case] = {
    "a stream that repeats itself for ever": Case((always(events(piece(content="word "), endless=True)),), ("cut",)),
    "a stream of comments for ever": Case(
        (always(events(": ping", pause_s=0.02, endless=True)),), ("timeout",), "timeout"
    ),
    "a stream of new words for ever": Case(
        (
            always(
                drips(head("200 OK", "text/event-stream"), b'data: {"choices": [{"delta": {"content": "a"}}]}\n', 0.3)
            ),
        ),
        ("timeout",),
        "timeout",
    ),
    "arguments for ever": Case((always(events(CALL_PIECE, pause_s=0.01, endless=True)),), ("timeout",), "timeout"),
    "a body for ever": Case((always(says.dripping()),), ("timeout",), "timeout"),
    "nothing at all": Case((always(says.hanging()),), ("timeout",), "timeout"),
    "a slow first word": Case((slow,)),
    "a letter in two pieces": Case((always(raw(LETTER, b'\xa9"}, "finish_reason": "stop"}]}\n', pause_s=0.05)),)),
    "tools ignored": Case((always(says.says(completion("I will look at the lights."), says.JSON)),) * 2, (None, None)),
    "broken arguments": Case((lambda body: in_form(body, "sparql_query", '{"query": "SELECT', "print("),)),
    "an unknown tool": Case((lambda body: in_form(body, "look it up!", {"word": "x"}, "look_it_up()"),)),
    "an id twice": Case((always(calling(("g_stats", {}), ("g_stats", {}), ids=("x", "x"))),)),
    "a thousand calls": Case((always(calling(*[("g_stats", {})] * 1_000)),)),
    "tokens below none": Case((with_usage({"prompt_tokens": -5, "completion_tokens": -1, "total_tokens": -6}),)),
    "tokens without number": Case(
        (with_usage({"prompt_tokens": 1e30, "completion_tokens": "many", "total_tokens": None}),)
    ),
    "tokens of another kind": Case((with_usage("a lot"),)),
    **{
        name: Case((looks, *map(always, made)), (None, *[FAILING[name].code] * len(made)))
        for name, made in replies(*ENDURED).items()
    },
    **{f"too long for {name}": Case((looks, always(refusal(name))), (None, "context_too_long")) for name in REFUSALS},
}


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("executor", EXECUTORS.names())
@pytest.mark.parametrize("name", one_in(10, CASES))
def test_whatever_a_server_does_a_run_ends_in_time_with_a_reason(
    name: str, executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tries wait for seconds: here they come at once.
    wait_s = call_recorder.wait_s
    monkeypatch.setattr(call_recorder, "wait_s", lambda *given: None if wait_s(*given) is None else 0.0)
    case, asked = CASES[name], list[int]()

    def answer(body: dict[str, Any]) -> says.Behaviour:
        asked.append(1)
        return case.answers[len(asked) - 1](body) if len(asked) <= len(case.answers) else good(body)

    began = time.monotonic()
    with openai_server(answer, **PAGES) as server, Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        timeout_s = TIMES_S.get(name, TIMES_S.get(str(case.codes[0]), 30))
        lm = LmChoice(model="openai/stub", api_base=server.url, arguments={"timeout": timeout_s})
        settings = LoopSettings(lm=lm, executor=executor, judge="none", extract=False, iterations=6)
        [result] = looped(bank, settings, TASKS[:1], interpreters=quick_code)
        assert time.monotonic() - began < PATIENCE_S
        events_ = list(bank.events(resolve=True))
        calls = [event for event in events_ if isinstance(event, LmCalled)]
        [end] = [event for event in events_ if isinstance(event, RunFinished)]
        assert tuple(call.error_code for call in calls)[: len(case.codes)] == case.codes
        assert len(calls) == len(server.requests), "calls in the log are those of the server"
        ending = ("failed", case.error) if case.error else ("submitted", None)
        assert (end.outcome, end.error_code) == ending and (end.error or not case.error)
        assert "unexpected" not in {call.error_code for call in calls} and "Traceback" not in str(events_)
        assert all(0 <= (tokens or 0) < 2**53 for call in calls for tokens in (call.tokens_in, call.tokens_out))
        assert bank.check().events == bank.position
        assert rerun(bank, result.run, ontologies=shipped(), tasks=TASKS).difference is None
