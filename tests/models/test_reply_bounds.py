"""Replies of live models are bounded by role, and end at the end marker, unless something else is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbank_es.events.run_events import Role
from rbank_es.events.server_traits import ServerTraits
from rbank_es.limits import reply_limits
from rbank_es.models.live_model import reply_bounds
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.prompt import END_MARKER
from tests.models.openai_server import openai_server
from tests.models.runs import called, models

TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}]
TOKENS: dict[Role, int] = {
    "agent": reply_limits.AGENT_REPLY_TOKENS,
    "sub": reply_limits.SUB_REPLY_TOKENS,
    "judge": reply_limits.JUDGE_REPLY_TOKENS,
    "extractor": reply_limits.EXTRACTOR_REPLY_TOKENS,
}


@pytest.mark.parametrize(
    ("model", "given", "sent"),
    [
        ("openai/gpt-4.1-mini", {}, {"max_tokens": 512, "stop": (END_MARKER,)}),
        ("openai/gpt-4.1-mini", {"max_completion_tokens": 9}, {"max_completion_tokens": 9, "stop": (END_MARKER,)}),
        ("openai/gpt-4.1-mini", {"stop": "END", "max_tokens": 7}, {"max_tokens": 7, "stop": "END"}),
        ("ollama_chat/small", {}, {"max_tokens": 512, "stop": (END_MARKER,)}),
        ("openai/gpt-5", {}, {}),
        ("openai/o3", {"max_tokens": 20_000}, {"max_tokens": 20_000}),
        ("gemini/any", {}, {}),
    ],
)
def test_what_is_given_counts_and_thinking_models_get_no_bound(model: str, given: Any, sent: dict[str, Any]) -> None:
    """A reasoning model takes no `stop`, and its thinking counts; so it may with a provider of another protocol."""
    assert reply_bounds(LmChoice(model=model, arguments=given), "judge") == sent


def test_a_bound_of_one_role_is_sent_in_that_role_alone(tmp_path: Path) -> None:
    with openai_server(["nine", "ten"]) as server:
        arguments: Any = {"judge.max_tokens": 77, "temperature": 0.5}
        choice = LmChoice(model="openai/small", api_base=server.url, arguments=arguments)
        with models(tmp_path, choice) as (bank, lms):
            lms.ask("judge", TALK)
            lms.ask("extractor", TALK)
            assert [event.parameters["max_tokens"] for event in called(bank)] == [77, TOKENS["extractor"]]
    assert [(sent["max_tokens"], sent["temperature"]) for sent in server.requests] == [(77, 0.5), (2_048, 0.5)]


@pytest.mark.parametrize(
    ("known", "given", "sent"),
    [
        (None, {}, "max_tokens"),
        ("max_completion_tokens", {}, "max_completion_tokens"),
        ("max_completion_tokens", {"max_tokens": 9}, "max_tokens"),
        ("max_tokens", {"max_completion_tokens": 9}, "max_completion_tokens"),
    ],
)
def test_a_bound_is_sent_under_the_name_that_this_server_keeps_unless_one_is_given(
    tmp_path: Path, known: Any, given: Any, sent: str
) -> None:
    """A server that ignores the usual name was found out by the doctor, and was sent it all the same."""
    with openai_server(["nine"]) as server:
        choice = LmChoice(model="openai/small", api_base=server.url, arguments=given)
        with models(tmp_path, choice, servers=(ServerTraits(model="openai/small", bound=known),)) as (_, lms):
            lms.ask("judge", TALK)
    assert [name for name in ("max_tokens", "max_completion_tokens") if name in server.requests[0]] == [sent]
