"""Whoever asks a model a second time says something else than before, behind the words that it said before."""

from __future__ import annotations

import json
import os.path
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.executors.executor import EXECUTORS
from rbank_es.loop.settings import LoopSettings
from rbank_es.models import call_recorder
from rbank_es.models.model_choice import LmChoice
from rbank_es.rerun.execution import rerun
from tests.effort import one_in
from tests.executors.test_misbehaving_servers import PAGES, good
from tests.loop.loops import TASKS, looped
from tests.models import openai_server as says
from tests.models.misbehaviours import ended
from tests.models.openai_server import Reply, openai_server
from tests.models.test_whole_runs import WELL
from tests.rerun.banks import quick_code, shipped

BAD: dict[str, Reply] = {
    "nothing": says.empty(),
    "blank": "  \n ",
    "prose": "I would rather talk about the sea.",
    "half": ended("length", "[[ ## next_thought ## ]]\nI begin"),
    "another object": '{"weather": "fine"}',
}
ASKING = [*EXECUTORS.names(), "judge", "extractor"]


def role_of(body: dict[str, Any]) -> str:
    said = json.dumps(body["messages"])
    return next(
        (role for role, field in (("extractor", "memory_items"), ("judge", "## suspicions")) if field in said), ""
    )


def begun(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The share of a request's words with which the other begins, too."""
    said = [json.dumps(each["messages"]) for each in (one, other)]
    return len(os.path.commonprefix(said)) / len(said[0])


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize("name", one_in(2, BAD))
def test_no_request_is_made_twice_word_for_word_and_each_keeps_the_beginning(
    name: str, asking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_recorder, "wait_s", lambda tries, asked_s: 0.0 if tries < 3 else None)
    executor, bad = (asking, "") if asking in EXECUTORS.names() else ("react", asking)

    def answer(body: dict[str, Any]) -> Reply:
        role = role_of(body)
        if role == bad:
            return BAD[name]
        return {"judge": WELL[1], "extractor": WELL[2]}.get(role) or good(body)

    with openai_server(answer, **PAGES) as server, Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        lm = LmChoice(model="openai/stub", api_base=server.url)
        settings = LoopSettings(lm=lm, executor=executor, judge="lm", extract=True, iterations=6)
        [result] = looped(bank, settings, TASKS[:1], interpreters=quick_code)
        asked = [body for body in server.requests if role_of(body) == bad]
        assert len(asked) > 1
        assert len({json.dumps(body, sort_keys=True) for body in asked}) == len(asked)
        assert all(begun(one, other) > 0.75 for one, other in zip(asked, asked[1:], strict=False))
        assert rerun(bank, result.run, ontologies=shipped()).difference is None
