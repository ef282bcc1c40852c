"""Contexts of any length: refusals of four servers are known, a prompt is estimated, and fits beside its reply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.errors import BadInput, LmFailed
from rbank_es.events import LmCalled
from rbank_es.models.context_length import TokenEstimates, length_in, room_for_reply
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.recorded_model import RecordedModel
from rbank_es.system.token_estimate import estimated_tokens
from tests.models import openai_server as says
from tests.models.openai_server import openai_server
from tests.models.runs import ask, called, models

LLAMA = {
    "error": {
        "code": 400,
        "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 14_429,
        "n_ctx": 8_192,
    }
}
VLLM = {
    "object": "error",
    "message": "This model's maximum context length is 8192 tokens. However, you requested 9616 tokens (7568 in the "
    "messages, 2048 in the completion). Please reduce the length of the messages or completion.",
    "type": "BadRequestError",
    "param": None,
    "code": 400,
}
VLLM_ALONE = {"object": "error", "message": "max_tokens must be at least 1, got -186.", "type": "BadRequestError"}
OLLAMA = {
    "error": {
        "message": "the prompt is too long: 9012 tokens, which exceeds the context length of 8192",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }
}
OPENAI = {
    "error": {
        "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9012 "
        "tokens.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
}
REFUSALS: dict[str, tuple[Any, int | None]] = {
    "llama.cpp": (LLAMA, 8_192),
    "vLLM": ({"error": VLLM}, 8_192),
    "vLLM before 0.10": (VLLM, 8_192),
    "vLLM, a prompt alone": ({"error": VLLM_ALONE}, None),
    "Ollama": (OLLAMA, 8_192),
    "OpenAI": (OPENAI, 8_192),
}


def refusal(name: str, status: str = "400 Bad Request") -> says.Behaviour:
    return says.says(json.dumps(REFUSALS[name][0]).encode(), says.JSON, status)


CLIENTS = {
    "llama.cpp": ("openai/small", "lm_studio/small"),
    "vLLM": ("openai/small", "hosted_vllm/small"),
    "vLLM before 0.10": ("openai/small",),
    "vLLM, a prompt alone": ("openai/small", "hosted_vllm/small"),
    "Ollama": ("openai/small", "ollama_chat/small"),
    "OpenAI": ("openai/small",),
}


@pytest.mark.parametrize(("name", "client"), [(name, client) for name in CLIENTS for client in CLIENTS[name]])
def test_a_refusal_of_what_is_too_long_is_known_whoever_serves_and_calls(
    tmp_path: Path, name: str, client: str
) -> None:
    with openai_server([refusal(name)]) as server, models(tmp_path, local(server, client)) as (bank, lms):
        with pytest.raises(LmFailed) as caught:
            lms.lm("agent", temperature=0.0)("word " * 30_000)
        assert len(server.requests) == 1
        [event] = called(bank)
    assert (caught.value.code, event.error_code) == ("context_too_long", "context_too_long")
    if client.startswith("openai/"):
        assert lms.calls.context_tokens == ({"openai/small": 8_192} if REFUSALS[name][1] else {})


@given(st.text(), st.integers(1, 10**7))
def test_a_length_is_read_where_it_is_named(words: str, tokens: int) -> None:
    assert length_in(f"{words} maximum context length is {tokens:,} tokens; you requested 9") is not None
    assert length_in(f"maximum context length is {tokens} tokens. However, 99 {words}") == tokens
    length_in(words)


def local(server: says.OpenAiServer, model: str = "openai/small", **arguments: Any) -> LmChoice:
    return LmChoice(model=model, api_base=server.url, arguments=arguments)


def _asked_again(place: Path, events: list[LmCalled], words: list[str]) -> None:
    recorded = RecordedModel(events)
    with models(place, recorded.choices["agent"], model_for=lambda role, choice: recorded) as (bank, lms):
        for each in words:
            ask(lms, each)
        assert [each.request_key for each in called(bank)] == [each.request_key for each in events]


def test_a_server_that_counts_the_reply_too_is_asked_again_for_a_shorter_one(tmp_path: Path) -> None:
    """vLLM refuses what is too long together: the first step of a run was refused for its bound alone."""
    with openai_server(_refusing(8_192)) as server, models(tmp_path / "one", local(server)) as (bank, lms):
        assert ask(lms, "w" * 20_000) == "fits"
        events = called(bank)
    assert [event.error_code for event in events] == ["context_too_long", None]
    first, second = (sent["max_tokens"] for sent in server.requests)
    assert first == 2_048 and second < first
    _asked_again(tmp_path / "two", events, ["w" * 20_000])


def _refusing(length: int) -> Any:
    def answer(body: dict[str, Any]) -> says.Reply:
        tokens = sum(len(each["content"]) for each in body["messages"]) // 3
        return "fits" if tokens + body["max_tokens"] <= length else refusal("vLLM")

    return answer


def test_what_the_server_counted_is_the_measure_of_the_next_prompt(tmp_path: Path) -> None:
    text = "one word after the other, and so on. " * 100
    estimates = TokenEstimates()
    assert estimates.tokens("m", text) == estimated_tokens(text) == 1_234
    estimates.correct("m", text, 900)
    assert estimates.tokens("m", text) == 990 and estimates.tokens("other", text) == 1_234
    estimates.correct("m", text, 300)
    assert estimates.tokens("m", text) == 990, "so few are those of a prompt that was cut"
    estimates.correct("m", text, 2_000)
    assert estimates.tokens("m", text) == 2_200


@given(st.text())
def test_an_estimate_grows_with_the_text_and_never_counts_more_than_its_bytes(text: str) -> None:
    assert 0 <= estimated_tokens(text) <= estimated_tokens(text + "é") <= len(text.encode()) + 2


@given(st.integers(1, 200_000), st.integers(0, 300_000), st.none() | st.integers(1, 50_000))
def test_prompt_and_reply_never_exceed_the_context(length: int, prompt: int, most: int | None) -> None:
    room = room_for_reply(length, prompt, most)
    if room is None:
        assert prompt + min(most or length, max(64, length // 8)) > length
    else:
        assert prompt + room <= length and (most is None or room <= most)


@pytest.mark.parametrize("given", ["0", "-3", "1.5", "true", "many"])
def test_a_length_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(BadInput, match="context_tokens must be a whole number"):
        LmChoice.parse("openai/x", arguments=[f"context_tokens={given}"])
