"""The look at a model's server: what is known without a call, whatever the server says, and what is kept of tries."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.events.server_traits import ServerTraits
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.server_properties import ServerWord, keep, kept, known_traits, look, traits_of
from tests.models import openai_server as says
from tests.models.openai_server import openai_server

LLAMA_PROPS: dict[str, Any] = {
    "default_generation_settings": {"n_ctx": 8192},
    "build_info": "b1-7e4c0a9",
    "model_path": "/home/somebody/models/small.gguf",
    "chat_template_caps": {"supports_tools": True},
}
LLAMA_MODELS = {"data": [{"id": "small.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": 8192}}]}
VLLM_MODELS = {
    "data": [
        {"id": "other/model", "owned_by": "vllm", "max_model_len": 512},
        {"id": "own/model", "owned_by": "vllm", "max_model_len": 32_768},
    ]
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "cache"))


def choice(address: str, model: str = "openai/own/model") -> LmChoice:
    return LmChoice(model=model, api_base=address)


def test_a_template_without_tools_is_known_before_they_are_ignored() -> None:
    props = {**LLAMA_PROPS, "chat_template_caps": {"supports_tools": False}}
    with openai_server([], props=props, models=LLAMA_MODELS) as server:
        assert known_traits(choice(server.url)).tools is False


def test_vllm_says_the_length_of_the_model_that_is_named_and_nothing_of_tools() -> None:
    with openai_server([], models=VLLM_MODELS) as server:
        seen = known_traits(choice(server.url))
    assert (seen.server, seen.served, seen.context_tokens, seen.tools) == ("vLLM", "own/model", 32_768, None)


SILENT = {
    "no pages": {},
    "other JSON": {"props": [1, "two"], "models": {"data": {"id": 3}}},
    "absurd values": {"models": {"data": [{"id": 3, "owned_by": "vllm-like", "max_model_len": -1}]}},
    "no JSON": {"props": says.not_json(), "models": says.not_json()},
    "closed connections": {"props": says.closing(), "models": says.closing()},
    "deep JSON": {"models": says.says(b"[" * 100_000, says.JSON)},
    "an endless page": {"models": says.flooding()},
}


@pytest.mark.parametrize("name", SILENT)
def test_of_a_server_that_says_nothing_of_use_nothing_is_known(name: str) -> None:
    with openai_server([], **SILENT[name]) as server:
        assert not known_traits(choice(server.url)).known


def test_a_server_that_falls_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rbank_es.limits.reply_limits.SERVER_LOOK_S", 0.3)
    began = time.monotonic()
    with openai_server([], models=says.dripping()) as server:
        said = look(choice(server.url))
    assert said.failure is not None and said.failure.code == "timeout" and time.monotonic() - began < 5


LOADS = says.error("503 Service Unavailable", "Loading model")


def test_a_server_that_loads_for_ever_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rbank_es.limits.reply_limits.SERVER_LOADS_S", 0.6)
    with openai_server([], props=LOADS, models=LOADS) as server:
        said = look(choice(server.url))
    assert said.failure is not None and "still loads its model after 0.6 s" in str(said.failure)


def test_a_server_that_is_not_there_is_said_to_be_unreachable() -> None:
    said = look(choice("http://127.0.0.1:9/v1"))
    assert said.failure is not None and said.failure.code == "unreachable"


@pytest.mark.parametrize("model", ["script:turns.toml", "gpt-4.1-mini", "anthropic/some-model"])
def test_nobody_is_asked_where_no_address_was_named(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rbank_es.models.server_properties.run_within", lambda *_: pytest.fail("somebody was asked"))
    assert look(LmChoice(model=model)) == ServerWord()


_NAMES = (
    "data", "id", "owned_by", "max_model_len", "default_generation_settings", "n_ctx", "build_info",
    "chat_template_caps", "supports_tools",
)  # fmt: skip
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4),
    max_leaves=12,
)


@given(props=PLAIN, models=PLAIN)
def test_whatever_a_server_says_an_event_can_hold_what_follows(props: Any, models: Any) -> None:
    seen = traits_of(choice("http://127.0.0.1/v1"), ServerWord(200, props, models))
    assert msgspec.json.decode(msgspec.json.encode(seen), type=ServerTraits) == seen


def test_a_path_in_a_models_name_shows_no_folders() -> None:
    rows = {"data": [{"id": "/home/somebody/models/small.gguf"}]}
    assert traits_of(choice("http://127.0.0.1/v1"), ServerWord(200, None, rows)).served == "small.gguf"


def test_what_tries_found_counts_while_the_server_is_the_same() -> None:
    with openai_server([], props=LLAMA_PROPS, models=LLAMA_MODELS) as server:
        named = choice(server.url)
        found = msgspec.structs.replace(
            known_traits(named), forms={"step": True}, context_tokens=1, tried_on="2026-01-31"
        )
        keep(named, found)
        again = known_traits(named)
        assert again.forms == {"step": True} and again.tried_on == "2026-01-31"
        assert again.context_tokens == 8192, "what the server says now counts first"
        assert known_traits(choice(server.url, "openai/other")).forms == {}, "another model's finding"
    with openai_server([], props={**LLAMA_PROPS, "build_info": "b2"}, models=LLAMA_MODELS) as other:
        keep(choice(other.url), found)
        assert known_traits(choice(other.url)).tried_on is None, "another build: nobody tried it"


def test_a_damaged_file_of_findings_is_no_finding(tmp_path: Path) -> None:
    named = choice("http://127.0.0.1:9/v1")
    keep(named, ServerTraits(model=named.name, tools=True))
    [place] = (tmp_path / "cache" / "models").iterdir()
    assert kept(named) is not None
    for damaged in (b"{", b'{"model": 3}', json.dumps({"model": "m", "colour": "red"}).encode(), b" " * 20_000):
        place.write_bytes(damaged)
        assert kept(named) is None
