"""Whether a model takes tool calls is found out before the first run: by its server's word, else by one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import LmFailed
from rbank_es.events import LmCalled, RunStarted
from rbank_es.models.model_choice import LmChoice
from tests.loop.loops import HEIGHT, TASKS, looped
from tests.models import openai_server as says
from tests.models.openai_server import calling, openai_server
from tests.models.test_server_properties import LLAMA_MODELS, LLAMA_PROPS
from tests.models.test_whole_runs import settings

SUBMITS = calling(("SUBMIT", {"answer": "45 metres", "sparql": HEIGHT}))
READY = calling(("ready", {"word": "yes"}))


@pytest.fixture(autouse=True)
def _own_cache(own_cache: None) -> None:
    """What one test finds out, no other knows."""


def ran(
    place: Path, server: says.OpenAiServer, **more: Any
) -> tuple[list[LmCalled], list[RunStarted], LmFailed | None]:
    """The calls and the runs of a loop of one task, and why it was refused."""
    refused = None
    with Bank.create(place, unsafe_no_sync=True) as bank:
        try:
            looped(bank, settings(server.url, executor="tools", judge="none", extract=False, **more), TASKS[:1])
        except LmFailed as failure:
            refused = failure
        events = list(bank.events(resolve=True))
        assert bank.check().events == bank.position
    calls = [event for event in events if isinstance(event, LmCalled)]
    assert len(calls) == len(server.requests), "no call that is not recorded, no record of a call that was not made"
    return calls, [event for event in events if isinstance(event, RunStarted)], refused


def test_a_server_that_says_that_its_template_has_no_tools_is_refused_without_a_call(tmp_path: Path) -> None:
    props = {**LLAMA_PROPS, "chat_template_caps": {"supports_tools": False}}
    with openai_server([], props=props, models=LLAMA_MODELS) as server:
        calls, runs, refused = ran(tmp_path / "bank", server)
    assert refused is not None and refused.code == "no_tools" and not calls and not runs
    assert "says that it shows the model no tools" in str(refused) and "--executor react" in str(refused)


def test_a_server_that_ignores_tools_without_a_word_is_found_out_by_one_recorded_call(tmp_path: Path) -> None:
    with openai_server(["Yes, I am ready!"]) as server:
        calls, runs, refused = ran(tmp_path / "bank", server)
    assert refused is not None and refused.code == "no_tools" and not runs
    assert [(call.run, call.role, call.error_code) for call in calls] == [(None, "agent", None)]
    assert server.requests[0]["tools"][0]["function"]["name"] == "ready"


@pytest.mark.parametrize(
    ("reply", "code"), [(says.refused(), "refused"), (says.unauthorized(), "wrong_key"), (says.hanging(), "timeout")]
)
def test_a_server_that_refuses_the_call_is_refused_with_its_own_words(
    tmp_path: Path, reply: says.Behaviour, code: str
) -> None:
    with openai_server([reply]) as server:
        lm = LmChoice(model="openai/stub", api_base=server.url, arguments={"timeout": 0.2})
        calls, runs, refused = ran(tmp_path / "bank", server, lm=lm)
    assert refused is not None and refused.code == code == calls[0].error_code and not runs


def test_a_loop_that_has_nothing_to_do_asks_nobody(tmp_path: Path) -> None:
    with openai_server([READY, SUBMITS]) as server, Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        chosen = settings(server.url, executor="tools", judge="none", extract=False)
        looped(bank, chosen, TASKS[:1])
        looped(bank, chosen, TASKS[:1])
        assert len(server.requests) == 2
