"""Clients of models that are recorded: OpenAI's over the loopback, `dspy.LM`, functions; and what can't be wrapped."""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import json
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from rbank_es import Bank
from rbank_es.agents.wrapped_clients import wrapped
from rbank_es.answers.shared.event_texts import messages_of
from rbank_es.bank.model_calls import ModelCalls
from rbank_es.errors import BadInput, LogBusy
from rbank_es.events import LmCalled
from rbank_es.limits import recorder_limits
from tests.models.openai_server import (
    OpenAiServer,
    failing,
    gzipped,
    hanging,
    openai_server,
    rate_limited,
    streamed,
    unauthorized,
)

# The library of openai 3 is httpx2, which has the same names.
http: Any = importlib.import_module("httpx2" if openai.__version__.startswith("3.") else "httpx")
KEY = "sk-a-key-of-nobody-0123456789"
ASK: list[Any] = [{"role": "user", "content": "Which lamps are lit?"}]


@pytest.fixture
def bank() -> Iterator[Bank]:
    with Bank.create("memory:") as bank:
        yield bank


@pytest.fixture
def calls(bank: Bank) -> ModelCalls:
    return ModelCalls(bank, "r1", "a-model")


def recorded(bank: Bank) -> list[LmCalled]:
    return [event for event in bank.log.read(resolve={"lm_called"}) if isinstance(event, LmCalled)]


def client_of(server: OpenAiServer, **more: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key=KEY, **{"max_retries": 0, **more})


def async_client_of(server: OpenAiServer, **more: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=server.url, api_key=KEY, **{"max_retries": 0, **more})


def ask(client: openai.OpenAI, **more: Any) -> Any:
    return client.chat.completions.create(model="stub", messages=ASK, **more)


# ---------------------------------------------------------------- OpenAI


def test_each_retry_is_a_call_of_its_own(bank: Bank, calls: ModelCalls) -> None:
    """Numbered; the user gets the last answer."""
    with openai_server([rate_limited(0), failing(), "at last"]) as server:
        client = wrapped(client_of(server, max_retries=2), calls)
        assert ask(client).choices[0].message.content == "at last"
    assert [(call.attempt, call.error_code) for call in recorded(bank)] == [
        (1, "rate_limited"),
        (2, "server_error"),
        (3, None),
    ]
    assert recorded(bank)[0].error == "slow down"


def test_a_server_that_is_not_there_is_recorded(bank: Bank, calls: ModelCalls) -> None:
    client = openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key=KEY, max_retries=0)
    with pytest.raises(openai.APIConnectionError):
        ask(wrapped(client, calls))
    [call] = recorded(bank)
    assert (call.error_code, call.response) == ("unreachable", None) and call.request


def test_a_compressed_answer_is_recorded_in_plain(bank: Bank, calls: ModelCalls) -> None:
    with openai_server([gzipped("squeezed")]) as server:
        assert ask(wrapped(client_of(server), calls)).choices[0].message.content == "squeezed"
    assert "squeezed" in str(recorded(bank)[0].response) and recorded(bank)[0].tokens_out == 1


@pytest.mark.parametrize("breaks", [False, True])
def test_a_stream_that_is_cut_says_so(bank: Bank, calls: ModelCalls, breaks: bool) -> None:
    """A clean close looks whole to the client: only the record knows that the end is missing."""
    with openai_server([streamed("the ", done=False, breaks=breaks)]) as server:
        stream = ask(wrapped(client_of(server), calls), stream=True)
        if not breaks:
            assert len(list(stream)) == 1
        else:
            with pytest.raises((http.RemoteProtocolError, openai.APIConnectionError)):
                list(stream)
    [call] = recorded(bank)
    assert call.error_code == "stream_cut" and "the " in str(call.response)


@pytest.mark.parametrize("way", ["closed", "left"])
def test_a_stream_that_its_reader_leaves_is_recorded(bank: Bank, calls: ModelCalls, way: str) -> None:
    """At once if it is closed; at the next call, or the end of the run, if it is only dropped."""
    with openai_server([streamed("the ", "hall", pause_s=0.02)]) as server:
        stream = ask(wrapped(client_of(server), calls), stream=True)
        next(iter(stream))
        if way == "closed":
            stream.close()
        del stream
        gc.collect()
    calls.delivery()
    [call] = recorded(bank)
    assert call.error_code == "closed_early" and "the " in str(call.response)


def test_an_asynchronous_client_is_recorded_in_the_same_way(bank: Bank, calls: ModelCalls) -> None:
    """Calls, retries, streams, and a call that is cancelled."""

    async def work(server: OpenAiServer) -> None:
        client = wrapped(async_client_of(server, max_retries=1), calls)
        await client.chat.completions.create(model="stub", messages=ASK)
        stream = await client.chat.completions.create(model="stub", messages=ASK, stream=True)
        assert len([chunk async for chunk in stream]) == 3
        task = asyncio.create_task(client.chat.completions.create(model="stub", messages=ASK))
        while len(server.requests) < 4:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with openai_server([rate_limited(0), "one", streamed("a", "b"), hanging()]) as server:
        asyncio.run(work(server))
    assert [call.error_code for call in recorded(bank)] == ["rate_limited", None, None, "interrupted"]
    assert [call.attempt for call in recorded(bank)] == [1, 2, 1, 1]


def test_what_calls_no_model_is_passed_on_unrecorded(bank: Bank, calls: ModelCalls) -> None:
    """Lists, embeddings, uploads."""
    seen: list[str] = []

    def answer(request: Any) -> Any:
        seen.append(request.url.path)
        return http.Response(200, json={"object": "list", "data": []})

    inner = http.Client(transport=http.MockTransport(answer))
    client = wrapped(openai.OpenAI(base_url="http://a/v1", api_key=KEY, http_client=inner), calls)
    client.models.list()
    client.files.create(file=b"{}", purpose="batch")
    assert seen == ["/v1/models", "/v1/files"] and recorded(bank) == []


def test_a_stand_in_for_a_server_is_recorded(bank: Bank, calls: ModelCalls) -> None:
    """Tests of agents answer from a function: there the body is whole before it is read."""
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "stub", "choices": []}
    inner = http.Client(transport=http.MockTransport(lambda request: http.Response(200, json=body)))
    ask(wrapped(openai.OpenAI(base_url="http://a/v1", api_key=KEY, http_client=inner), calls))
    [call] = recorded(bank)
    assert call.error_code is None and json.loads(str(call.response)) == body


def test_a_call_that_can_not_be_recorded_still_answers(bank: Bank, calls: ModelCalls, monkeypatch: Any) -> None:
    """The failure is warned of once, and kept."""

    def refuse(*_: Any, **__: Any) -> None:
        raise LogBusy("notes", 60.0)

    monkeypatch.setattr(bank, "append", refuse)
    with openai_server(["one", "two"]) as server, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        client = wrapped(client_of(server), calls)
        assert [ask(client).choices[0].message.content for _ in range(2)] == ["one", "two"]
    assert isinstance(calls.unrecorded, LogBusy)
    assert [str(each.message)[:35] for each in warned if each.category is RuntimeWarning] == [
        "a model call of run r1 was not reco"
    ]


def test_a_late_call_reaches_its_model_and_belongs_to_no_run(bank: Bank, calls: ModelCalls) -> None:
    """One that began before the end belongs to its run, whenever it answers."""
    began, release = threading.Event(), threading.Event()

    def slow(prompt: str) -> str:
        began.set()
        release.wait(60)
        return "late"

    early = wrapped(slow, calls)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(early, "early")
        began.wait(60)
        calls.close()
        release.set()
        assert answer.result() == "late"
    assert early("later") == "late"
    assert [call.run for call in recorded(bank)] == ["r1", None]


def test_a_client_whose_inside_is_unknown_is_refused_with_another_way(calls: ModelCalls) -> None:
    client = type("OpenAI", (), {"__module__": "openai"})()
    with pytest.raises(BadInput, match="run.wrap\\(client.chat.completions.create\\)"):
        wrapped(client, calls)


@pytest.mark.parametrize("given", ["gpt-5", None, 5, {"model": "gpt-5"}, openai.OpenAI])
def test_anything_else_is_refused_with_what_can_be_wrapped(calls: ModelCalls, given: Any) -> None:
    with pytest.raises(BadInput, match="an OpenAI client, a dspy.LM, or a function|make a client of it"):
        wrapped(given, calls)


def test_recorded_messages_are_shown_as_words(bank: Bank, calls: ModelCalls) -> None:
    """In answers and on the page: of a request, of an answer, and of a stream, whole or cut."""
    with openai_server(["the hall", streamed("the ", "porch")]) as server:
        ask(wrapped(client_of(server), calls))
        list(ask(wrapped(client_of(server), calls), stream=True))
    whole, stream = recorded(bank)
    assert messages_of(str(whole.request)) == [{"role": "user", "text": "Which lamps are lit?"}]
    assert messages_of(str(whole.response)) == [{"role": "assistant", "text": "the hall"}]
    assert messages_of(str(stream.response)) == [{"role": "assistant", "text": "the porch"}]
    assert messages_of(str(stream.response)[:-150]) == [{"role": "assistant", "text": "the porch"}]
    for odd in ("data: 5", "data: {}", 'data: {"choices": 5}', '{"choices": [5]}', '{"choices": {"a": 1}}', "event: x"):
        assert messages_of(odd) == [{"role": "", "text": odd}]


# ---------------------------------------------------------------- functions


def test_asynchronous_functions_and_objects_are_recorded(bank: Bank, calls: ModelCalls) -> None:
    """Coroutine functions, objects with an asynchronous `__call__`, functions that return an awaitable."""

    class Asked:
        async def __call__(self, prompt: str) -> str:
            return "object " + prompt

    async def plain(prompt: str) -> str:
        return "plain " + prompt

    async def failing(prompt: str) -> str:
        raise ValueError("no")

    async def work() -> list[str]:
        assert inspect.iscoroutinefunction(wrapped(plain, calls))
        with pytest.raises(ValueError, match="no"):
            await wrapped(failing, calls)("x")
        return [await wrapped(each, calls)("x") for each in (plain, Asked(), lambda prompt: plain(prompt))]

    assert asyncio.run(work()) == ["plain x", "object x", "plain x"]
    assert [(call.error_code, call.response) for call in recorded(bank)] == [
        ("unexpected", None), (None, '"plain x"'), (None, '"object x"'), (None, '"plain x"'),
    ]  # fmt: skip


CIRCLE: list[Any] = []
CIRCLE += [CIRCLE] * 9


def test_a_generator_is_recorded_as_far_as_the_caller_takes_it(bank: Bank, calls: ModelCalls) -> None:
    """Whole at its end, cut where it is closed or dropped, with the exception that ends it; no piece too early."""
    made: list[str] = []

    def pieces(prompt: str) -> Iterator[Any]:
        for piece in ("The ", "hall's ", "lamp."):
            made.append(piece)
            yield piece
        if prompt == "fail":
            raise TimeoutError("late")

    ask = wrapped(pieces, calls)
    assert (list(ask("all")), list(ask("")), made) == (["The ", "hall's ", "lamp."],) * 2 + (made[:3] * 2,)
    made.clear()
    closed = ask("some")
    assert (next(closed), next(closed), made) == ("The ", "hall's ", ["The ", "hall's "])
    closed.close()
    dropped = ask("one")
    next(dropped)
    del dropped
    gc.collect()
    with pytest.raises(TimeoutError):
        list(ask("fail"))
    calls.flush()
    found = {str(call.request): (call.response, call.previews, call.error_code) for call in recorded(bank)}
    assert found == {
        '"all"': ('"The hall\'s lamp."', (), None),
        '""': ('"The hall\'s lamp."', (), None),
        '"some"': ('"The hall\'s "', ("response",), None),
        '"one"': ('"The "', ("response",), None),
        '"fail"': ('"The hall\'s lamp."', ("response",), "timeout"),
    }


def test_an_endless_generator_and_an_asynchronous_one_are_recorded_within_bounds(bank: Bank, calls: ModelCalls) -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "a" * 1_000_000

    ask = wrapped(endless, calls)()
    assert {len(next(ask)) for _ in range(100)} == {1_000_000}
    ask.close()

    async def later(prompt: str) -> AsyncIterator[Any]:
        reply = yield {"n": 1}
        yield [reply]

    async def work() -> list[Any]:
        ask: Any = wrapped(later, calls)("x")
        return [await anext(ask), await ask.asend("said"), [piece async for piece in ask]]

    assert asyncio.run(work()) == [{"n": 1}, ["said"], []]
    long, short = recorded(bank)
    assert len(str(long.response)) <= recorder_limits.RECORDED_CHARS and long.previews == ("response",)
    assert (short.response, short.previews) == ('[{"n":1},["said"]]', ())


@pytest.mark.parametrize("huge", ["a" * 10_000_000, "\0" * 10_000_000, b"\xff" * 10_000_000, ["a"] * 5_000_000, CIRCLE])
def test_huge_arguments_and_replies_are_recorded_within_bounds(bank: Bank, calls: ModelCalls, huge: Any) -> None:
    assert wrapped(lambda prompt: huge, calls)(huge) is huge
    [call] = recorded(bank)
    assert max(len(str(call.response)), len(str(call.request))) <= recorder_limits.RECORDED_CHARS
    assert call.previews == ("request", "response")


@pytest.mark.parametrize(
    "error", [ValueError("wrong " + KEY), KeyboardInterrupt(), TimeoutError("late"), SystemExit(3)]
)
def test_an_exception_is_recorded_and_raised_again(
    bank: Bank, calls: ModelCalls, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(prompt: str) -> str:
        raise error

    calls.hide(KEY)
    with pytest.raises(type(error)) as raised:
        wrapped(fail, calls)("x")
    assert raised.value is error
    [call] = recorded(bank)
    codes = {
        ValueError: "unexpected",
        KeyboardInterrupt: "interrupted",
        TimeoutError: "timeout",
        SystemExit: "interrupted",
    }
    assert call.error_code == codes[type(error)] and KEY not in str(call.error) and call.response is None


# ---------------------------------------------------------------- dspy


def test_an_error_of_a_dspy_lm_is_recorded(bank: Bank, calls: ModelCalls) -> None:
    dspy = pytest.importorskip("dspy")

    with openai_server([unauthorized()]) as server:
        lm = dspy.LM("openai/stub", api_base=server.url, api_key=KEY, cache=False, num_retries=0, engine="lm15")
        with pytest.raises(Exception, match="wrong key"):
            wrapped(lm, calls)("hello")
    [call] = recorded(bank)
    assert call.error_code == "unexpected" and "wrong key" in str(call.error)
    assert json.loads(str(call.request))["messages"] == [{"role": "user", "content": "hello"}]
