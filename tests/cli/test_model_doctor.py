"""`doctor --lm`: what it says of a model and its server, in how many calls, and that what follows can be run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.cli import main
from rbank_es.events.server_traits import ServerTraits
from rbank_es.models.doctor_time import TryTime
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.model_findings import FORMS, ModelFindings, TaskSize, advice, most_tokens
from rbank_es.models.scripted_model import rendered
from rbank_es.models.server_properties import known_traits
from tests import cli_runner
from tests.models import openai_server as says
from tests.models.openai_server import Reply, openai_server
from tests.sandbox.sandboxes import require_dspy

require_dspy()

ITEM = {"title": "Count the letters one by one", "description": "d", "content": "Spell a word out before you count."}
EXECUTORS = ("rlm", "react", "scratchpad", "tools")
SIZE = TaskSize(steps=12, first={"rlm": 3_900, "react": 3_400, "scratchpad": 3_400}, step=520, reply=350, after=4_000)
LLAMA = {"default_generation_settings": {"n_ctx": 16_384}, "build_info": "b1"}
TOOLLESS = {**LLAMA, "chat_template_caps": {"supports_tools": False}}


MEASURED = "one number a line"
"""Words of the question by which the speed is measured, in a stream."""


def in_form(asked: str) -> str:
    """A reply in the form that a prompt asks for, known by the field with which it has to start."""
    first = re.findall(r"starting with the field `\[\[ ## (\w+)", asked)[-1]
    if first == "memory_items":
        return rendered({"memory_items": [ITEM], "why_none": ""})
    if first == "next_thought":
        call = {"next_tool_name": "event_log", "next_tool_args": {"obj": {"n": 10}}}
        return rendered({"next_thought": "I count.", **call})
    if first == "reasoning":
        return rendered({"reasoning": "Look first.", "code": "```python\nprint(1)\n```"})
    if first == "answer":
        return rendered({"answer": "10", "sparql": "", "evidence": {}})
    return rendered({"success": True, "reason": "Ten letters.", "confidence": 0.9})


def good(body: dict[str, Any]) -> Reply:
    """A model that keeps every form, at a server that keeps every parameter."""
    asked = "\n".join(str(each["content"]) for each in body["messages"])
    if MEASURED in asked:
        return says.streamed(*["one "] * body.get("max_tokens", 100), pause_s=0.001)
    if "response_format" in body:
        wanted = body["response_format"]["json_schema"]["schema"]["properties"]
        known = {"legs": 8, "memory_items": [ITEM], "why_none": "", "success": True, "verdict": "success"}
        return json.dumps({name: known.get(name, "Ten letters.") for name in wanted})
    if body.get("stop") == ["e"]:
        return "Th"
    return in_form(asked)


def prose(body: dict[str, Any]) -> Reply:
    """A model that would rather talk, at a server that ignores what it doesn't know: streams, bounds, schemas."""
    return "The sea is wide and blue, and I am glad to help you with your lighthouse. " * 9


def doctor(url: str, capfd: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = main(["doctor", "--lm", "openai/stub", "--api-base", url, *options])
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    return code, out


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_a_dry_run_shows_the_calls_and_makes_none(capfd: pytest.CaptureFixture[str]) -> None:
    with openai_server([], props=LLAMA) as server:
        code, out = doctor(server.url, capfd, "--dry-run")
    assert code == 0 and server.requests == []
    assert "at most 10 calls" in out and "they cost no money" in out and "leave out --dry-run" in out
    assert "16,384 tokens" in out and all(name in out for name in FORMS)


@pytest.mark.parametrize(
    ("reply", "kept"), [("[[ ## next_thought ## ]]\nI think", None), ("<think>So", None), ("The sea is wide", False)]
)
def test_a_short_try_that_its_bound_cut_decides_nothing_but_of_prose(
    reply: str, kept: bool | None, capfd: pytest.CaptureFixture[str]
) -> None:
    def cut(body: dict[str, Any]) -> Reply:
        if "[[ ## " not in str(body["messages"]):
            return good(body)
        choice = {"index": 0, "message": {"role": "assistant", "content": reply}, "finish_reason": "length"}
        return says.says(says.completion(None, choices=[choice]), says.JSON)

    with openai_server(cut, props=TOOLLESS) as server:
        _, out = doctor(server.url, capfd, "--json")
    found = json.loads(out)
    assert found["findings"]["traits"].get("forms", {}).get("step") is kept
    assert ("isn't known" in found["advice"]["sentences"][0]) == (kept is None)


@pytest.mark.slow
def test_what_was_found_is_known_to_the_next_run(capfd: pytest.CaptureFixture[str]) -> None:
    with openai_server(good, props=TOOLLESS) as server:
        doctor(server.url, capfd)
        traits = known_traits(LmChoice(model="openai/stub", api_base=server.url))
    assert traits.forms["step"] and traits.tried_on and traits.read_tokens_s


def test_a_model_that_only_talks_is_told_to_fit_no_executor(capfd: pytest.CaptureFixture[str]) -> None:
    with openai_server(prose, props=TOOLLESS) as server:
        code, out = doctor(server.url, capfd, "--json")
    found = json.loads(out)
    traits = found["findings"]["traits"]
    assert code == 1 and found["advice"]["executor"] is None and not any(traits["forms"].values())
    assert not traits["stop"] and not traits["json_schema"] and not traits["stream_usage"] and "bound" not in traits
    assert len(server.requests) <= len(found["planned"])


@pytest.mark.parametrize(
    ("reply", "code"),
    [(says.unauthorized(), "refused the key"), (says.unknown_model(), "no such model"), (says.no_credit(), "payment")],
)
def test_a_failure_that_every_call_would_meet_ends_it_after_one(
    reply: Reply, code: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with openai_server([reply]) as server:
        ended, out = doctor(server.url, capfd)
    assert ended == 1 and code in out and len(server.requests) == 1 and "doctor --lm" in out.splitlines()[-1]


@pytest.mark.parametrize("reply", [says.rate_limited(0), says.failing(), says.not_json(), says.half_a_body()])
def test_a_server_that_fails_is_called_no_more_often_than_was_said(
    reply: Reply, capfd: pytest.CaptureFixture[str]
) -> None:
    with openai_server(lambda body: reply) as server:
        _, out = doctor(server.url, capfd, "--json")
    assert 1 <= len(server.requests) <= len(json.loads(out)["planned"])


def test_a_server_that_is_not_there_costs_no_call(capfd: pytest.CaptureFixture[str]) -> None:
    code, out = doctor("http://127.0.0.1:9/v1", capfd)
    assert code == 1 and "can't be reached" in out and "calls of the model" not in out


def test_what_does_not_fit_into_the_time_is_left_out_and_named(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rbank_es.models.doctor_time.expected_s", lambda name, traits: 7.0 if name == "judge" else 0.5)
    monkeypatch.setattr("rbank_es.models.model_findings.expected_s", lambda name, traits: 7.0)
    with openai_server(good, props=TOOLLESS) as server:
        _, out = doctor(server.url, capfd, "--seconds", "6.9")
    words = " ".join(out.split())
    assert "They end within 6.9 s" in words and "left out, because they don't fit: judge" in words
    assert "6.9 s were not enough to try all" in words and "a judgment of a run. --seconds 60 would be." in words
    assert not any("suspicions" in str(body["messages"]) for body in server.requests)


def test_no_call_takes_longer_than_the_time_of_all(capfd: pytest.CaptureFixture[str]) -> None:
    def endless(body: dict[str, Any]) -> Reply:
        return says.streamed(*(f"{number} " for number in range(10_000)), pause_s=0.05)

    with openai_server(endless, props=TOOLLESS) as server:
        code, out = doctor(server.url, capfd, "--seconds", "1")
    assert (
        len(server.requests) == 1
        and "gave no answer within" in out
        and "--seconds 60 would be" in " ".join(out.split())
    )


@given(left=st.floats(0, 500), read=st.floats(0.1, 1e4), written=st.floats(0.1, 1e4))
def test_the_forecast_of_the_tries_is_what_then_fits(left: float, read: float, written: float) -> None:
    now = 0.0
    time_of_all = TryTime(left, lambda: now)
    traits = ServerTraits(model="m", read_tokens_s=read, written_tokens_s=written)
    forecast = dict(time_of_all.forecast(FORMS, traits))
    begun = list[str]()
    for name in FORMS:
        if time_of_all.fits(name, traits):
            begun.append(name)
            now += forecast.get(name, 1e9)
    assert begun == [*forecast] and {*begun, *time_of_all.left_out} == set(FORMS) and now <= left + 0.1


@pytest.mark.parametrize("wrong", [["--dry-run"], ["--lm", "script:x.toml"], ["--lm", "gpt-4.1", "--hooks"]])
def test_what_can_not_be_asked_is_refused(wrong: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *wrong]) == 2 and capfd.readouterr().err


# ---------------------------------------------------------------- the advice


RATES = st.none() | st.floats(0, 1e6)
TRAITS = st.builds(
    ServerTraits,
    model=st.sampled_from(["openai/local", "gpt-4.1-mini"]),
    server=st.sampled_from([None, "llama.cpp b1", "vLLM"]),
    context_tokens=st.none() | st.integers(1, 10**6),
    tools=st.none() | st.booleans(),
    forms=st.dictionaries(st.sampled_from(sorted(FORMS)), st.booleans()),
    read_tokens_s=RATES,
    written_tokens_s=RATES,
)
FOUND = st.builds(
    ModelFindings,
    traits=TRAITS,
    address=st.sampled_from([None, "http://127.0.0.1:8080/v1"]),
    key=st.just("none is needed"),
    seconds=st.floats(1, 1e6),
    left_out=st.lists(st.sampled_from([*FORMS, "stop"])).map(tuple),
    failure=st.sampled_from(["", "it can't be reached"]),
    price_in=RATES,
    price_out=RATES,
)


@given(found=FOUND, steps=st.integers(1, 100), executors=st.sets(st.sampled_from(EXECUTORS), min_size=1))
def test_advice_names_what_is_there_and_a_command_that_a_shell_reads(
    found: ModelFindings, steps: int, executors: set[str]
) -> None:
    size = TaskSize(steps=steps, first=SIZE.first, step=SIZE.step, reply=SIZE.reply, after=SIZE.after)
    made = advice(found, size, executors | {"rlm", "react"})
    words = shlex.split(made.command)
    assert words[0] == "rbank-es" and words[words.index("--lm") + 1] == found.traits.model
    assert (made.executor is None) == (words[1] == "doctor")
    assert made.executor in (*executors, "rlm", "react", None) and (made.executor != "tools" or found.traits.tools)
    assert made.sentences and all(each.endswith(".") or found.failure for each in made.sentences)
    assert all(number is None or number >= 0 for number in (made.seconds, made.usd))


@pytest.mark.parametrize(
    ("traits", "executor", "words"),
    [
        ({"forms": {"step": True, "guide": True}}, "rlm", "`rlm` fits"),
        ({"forms": {"step": True, "guide": True}, "read_tokens_s": 20.0}, "react", "only 20 tokens a second"),
        ({"forms": {"step": True, "guide": False}}, "react", "`react` fits"),
        ({"forms": {"step": False, "guide": False}}, None, "form of no step"),
        ({"tools": True, "forms": {"step": False}}, "tools", "`tools` is worth a try"),
        ({"tools": True, "forms": {"step": True}}, "react", "`react` fits"),
        ({"forms": {"step": True, "judge": False}}, "react", "let another model judge"),
        ({"forms": {"step": True}, "context_tokens": 8_192}, "react", "the last 8 steps"),
        ({"forms": {"step": True}, "context_tokens": 2_048}, "react", "no room for a first prompt"),
    ],
)
def test_what_follows_from_a_finding(traits: dict[str, Any], executor: str | None, words: str) -> None:
    found = ModelFindings(traits=ServerTraits(model="openai/local", **traits), address=None, key="", seconds=120)
    made = advice(found, SIZE, EXECUTORS)
    assert made.executor == executor and words in " ".join(made.sentences)


@pytest.mark.slow
@pytest.mark.parametrize("context", [None, 4_096])
def test_the_command_to_run_next_is_one_that_run_takes(tmp_path: Path, context: int | None) -> None:
    traits = ServerTraits(
        model="openai/local",
        context_tokens=context,
        forms={"step": True, "judge": False},
        read_tokens_s=9.0,
        written_tokens_s=3.0,
    )
    found = ModelFindings(traits=traits, address="http://127.0.0.1:9/v1", key="", seconds=120)
    command = shlex.split(advice(found, SIZE, ("react",)).command)
    done = cli_runner.run(*command[1:], "--dry-run", "--json", cwd=tmp_path)
    assert done.json["settings"]["executor"] == "react"


def test_the_prompts_of_the_tries_are_as_long_as_is_said_of_them(capfd: pytest.CaptureFixture[str]) -> None:
    with openai_server(good, props=TOOLLESS) as server:
        _, out = doctor(server.url, capfd, "--json")
    tried = [each["name"] for each in json.loads(out)["findings"]["tried"]]
    for name, body in zip(tried, server.requests, strict=True):
        chars = sum(len(str(each["content"])) for each in body["messages"]) + len(json.dumps(body.get("tools") or ""))
        # Models have 3 to 5 characters a token, headers in brackets fewer; a template adds up to 30 tokens.
        assert most_tokens(name)[0] * 2 < chars + 90 and chars < most_tokens(name)[0] * 5, name
