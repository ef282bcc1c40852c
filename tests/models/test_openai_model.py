"""The client over httpx: it records what dspy's client would, sends what is meant, and reads what servers say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbank_es.errors import LmFailed
from rbank_es.models.dspy_model import DspyModel
from rbank_es.models.lm_request import LmMessage
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.openai_model import read_completion
from tests.models import openai_server as says
from tests.models.misbehaviours import choosing, ended, replies
from tests.models.openai_server import Answers, openai_server
from tests.models.runs import called, models


@pytest.fixture(autouse=True)
def _a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-0123456789")


def message(**fields: Any) -> says.Behaviour:
    return choosing({"index": 0, "message": {"role": "assistant", **fields}, "finish_reason": "stop"})


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": [1, null]}'}}
REPLIES: dict[str, Answers] = {
    "words": ["some words"],
    "unicode": ["é \ud83d \u2028 \x00"],
    "thinking": [message(content="words", reasoning_content="hm")],
    "parts": [message(content=[{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}])],
    "a refusal": [message(content=None, refusal="I will not")],
    "a tool": [message(content="", tool_calls=[CALL])],
    "arguments that are none": [message(tool_calls=[{**CALL, "function": {"name": "f", "arguments": "{"}}])],
    "cut": [ended("length")],
    "an end of no name": [ended(None)],
    "an end of its own": [ended("eos")],
    "no tokens": [says.says(says.completion("words", usage=None), says.JSON)],
    "other tokens": [says.says(says.completion("words", usage={"prompt_tokens": 3, "x": 1}), says.JSON)],
    **replies(
        "busy", "500", "an error for an answer", "no credit", "401", "404", "400", "too much context", "other JSON"
    ),
    **replies("broken off", "filtered"),
}
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is it?"},
    {"role": "assistant", "content": "A light."},
    {"role": "user", "content": "Sure?"},
]


def whole(server: says.OpenAiServer) -> list[dict[str, Any]]:
    """The requests without the parameters that ask for a stream, as dspy's client asks for none."""
    return [{name: each for name, each in sent.items() if not name.startswith("stream")} for sent in server.requests]


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLIES)
def test_what_is_recorded_is_what_dspys_client_would_have_had_recorded(tmp_path: Path, name: str) -> None:
    """Requests, responses, tokens, codes and tries, so that runs of either are rerun by either."""
    arguments: Any = {"max_tokens": 64, "seed": 3, "stop": ("a", "b"), "reasoning_effort": "low", "user": "u"}
    found = []
    for way in ("httpx", "dspy"):
        with openai_server(REPLIES[name]) as server:
            choice = LmChoice(model="openai/stub", api_base=server.url, arguments=arguments)
            client = DspyModel(choice, server.url, "OPENAI_API_KEY")
            options: Any = {} if way == "httpx" else {"model_for": lambda role, choice, client=client: client}
            with models(tmp_path / way, choice, **options) as (bank, lms):
                try:
                    said: Any = lms.ask("judge", TALK, temperature=0.0)
                except LmFailed as failure:
                    said = failure.code
                facts = [
                    (each.parameters, each.request, each.response, each.tokens_in, each.tokens_out, each.error_code)
                    for each in called(bank)
                ]
            # The bound has another name at a server of one's own.
            sent = [{name.replace("completion_", ""): each for name, each in body.items()} for body in whole(server)]
            found.append((said, facts, sent))
    assert found[0] == found[1]


FIND = {"type": "function", "name": "find", "description": "Find.", "parameters": {"type": "object", "properties": {}}}
CALLED = {"type": "tool_call", "id": "s0001c001", "name": "find", "input": {"word": "é", "k": None}}
RESULT = {"type": "tool_result", "id": "s0001c001", "name": "find", "content": [{"type": "text", "text": "none"}]}
CHAT = [
    LmMessage.of("user", "What is it?"),
    LmMessage(role="assistant", parts=[{"type": "text", "text": "So:"}, CALLED]),
    LmMessage(role="tool", parts=[RESULT]),
    LmMessage(role="assistant", parts=[CALLED, {**CALLED, "id": "s0002c002"}]),
    LmMessage(role="tool", parts=[RESULT, {**RESULT, "id": "s0002c002"}]),
]


@pytest.mark.parametrize("forced", [[], [FIND]], ids=["free", "forced"])
@pytest.mark.parametrize("name", ["words", "a tool", "arguments that are none", "two tools"])
def test_a_conversation_with_tools_is_sent_and_recorded_as_by_dspys_client(
    tmp_path: Path, name: str, forced: list[Any]
) -> None:
    replies = {**REPLIES, "two tools": [message(content=None, tool_calls=[CALL, CALL])]}[name]
    arguments: Any = {"max_completion_tokens": 64, "stop": ("a", "b")}
    found = []
    for way in ("httpx", "dspy"):
        with openai_server(replies) as server:
            choice = LmChoice(model="openai/stub", api_base=server.url, arguments=arguments)
            client = DspyModel(choice, server.url, "OPENAI_API_KEY")
            options: Any = {} if way == "httpx" else {"model_for": lambda role, choice, client=client: client}
            with models(tmp_path / way, choice, **options) as (bank, lms):
                said = lms.converse("judge", "Be brief.", CHAT, [FIND], forced=forced, temperature=0.0)
                facts = [(each.parameters, each.request, each.response) for each in called(bank)]
        found.append((said, facts, whole(server)))
    assert found[0] == found[1]
    [sent] = found[0][2]
    assert ("tool_choice" in sent) == bool(forced) and sent["messages"][2]["tool_calls"][0]["id"] == "s0001c001"


def test_a_request_with_more_than_texts_goes_through_dspys_client(tmp_path: Path) -> None:
    from dspy.lm15 import ImagePart, Message, Request, TextPart

    picture = ImagePart(media_type="image/png", data="iVBORw0KGgo=")
    asked = Message(role="user", parts=(TextPart(text="What?"), picture))
    with openai_server(["red"]) as server:
        choice = LmChoice(model="openai/stub", api_base=server.url)
        with models(tmp_path, choice) as (bank, lms):
            assert lms.lm("agent")(Request(model="openai/stub", messages=(asked,))).text == "red"
            assert [event.error_code for event in called(bank)] == [None]
    assert isinstance(server.requests[0]["messages"][0]["content"], list)


def test_a_body_that_is_no_completion_is_a_bad_response() -> None:
    for body in (b"", b"null", b"[]", b"3", b'{"choices": 3}', b'{"choices": [{"message": {"tool_calls": [3]}}]}'):
        with pytest.raises(Exception, match="no known form"):
            read_completion(body, "m")
    response, end = read_completion(json.dumps({"choices": [{"message": {"content": "x"}}]}).encode(), "m")
    assert (response.text, response.model, end) == ("x", "m", "")


def test_a_call_whose_thread_begins_after_its_time_is_a_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine it was called a defect of this program: a socket takes no time below 0."""

    def late(deadline: Any, work: Any) -> Any:
        deadline.restart(-1.0, "no answer in time")
        return work()

    monkeypatch.setattr("rbank_es.models.openai_model.run_within", late)
    with openai_server(["late"]) as server:
        choice = LmChoice(model="openai/stub", api_base=server.url)
        with models(tmp_path, choice) as (bank, lms):
            with pytest.raises(LmFailed, match="no answer in time"):
                lms.ask("judge", TALK)
            assert [event.error_code for event in called(bank)] == ["timeout"] and not server.requests
