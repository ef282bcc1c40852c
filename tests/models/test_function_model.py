"""A function in the place of a model: what it is given, what is recorded, and what becomes of one that is none."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, LmFailed
from rbank_es.models.function_model import FunctionModel, choice_of
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.run_models import Lms, check_choices, lms_for
from tests.models.runs import RUN, Waits, called, models

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is it?"},
    {"role": "assistant", "content": "A light."},
    {"role": "user", "content": "In one word."},
]


class Odd(str):
    """A text of a kind of its own, as some clients return."""


@pytest.mark.parametrize("said", [Odd("Light."), "a \ud83d b", "\x00", "x" * 500_000])
def test_any_text_is_a_reply(bank: Bank, said: str) -> None:
    with lms_for(bank, RUN, complete=lambda prompt: said) as lms:
        assert lms.ask("judge", TALK).text == said.replace("\ud83d", "\ufffd")


@pytest.mark.parametrize("given", ["an \ud83d emoji cut in two", "", "[[ ## verdict ## ]] success"])
def test_any_text_is_a_prompt(bank: Bank, given: str) -> None:
    with lms_for(bank, RUN, complete=lambda prompt: prompt + ".") as lms:
        assert lms.ask("judge", [{"role": "user", "content": given}]).text == given.replace("\ud83d", "\ufffd") + "."


async def later(prompt: str) -> str:
    return prompt


def raising(prompt: str) -> str:
    raise RuntimeError("no more money\nfor you")


def hanging(prompt: str) -> str:
    time.sleep(1)
    return prompt


WRONG: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "None": (lambda prompt: None, "bad_function", r"function:<lambda> returned None, and no text\. Give a function"),
    "bytes": (lambda prompt: b"yes", "bad_function", "a value of the type bytes"),
    "a coroutine": (later, "bad_function", "function:later returned a value of the type coroutine"),
    "another object": (lambda prompt: ["yes"], "bad_function", "list"),
    "raises": (raising, "bad_function", "function:raising raised RuntimeError: no more money for you"),
    "10 MB": (lambda prompt: "x" * 10_000_000, "response_too_long", "10,000,000 characters"),
    "takes no text": (lambda: "yes", "bad_function", "raised TypeError"),
    "a partial": (functools.partial(raising), "bad_function", "function:partial raised"),
    "nothing": (lambda prompt: "", "bad_response", "the answer is empty"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_reply_is_one_sentence_with_a_code_and_is_recorded(bank: Bank, name: str) -> None:
    complete, code, words = WRONG[name]
    options: Any = {"model_for": lambda role, choice: complete, "sleep": Waits()}
    with (
        Lms(bank, RUN, {"extractor": choice_of(complete)}, **options) as lms,
        pytest.raises(LmFailed, match=words) as caught,
    ):
        lms.ask("extractor", TALK)
    assert caught.value.code == code and "\n" not in str(caught.value)
    assert {event.error_code for event in called(bank)} == {code}


def test_a_function_that_never_returns_is_left_at_its_time_limit(bank: Bank) -> None:
    model = FunctionModel(hanging, timeout_s=0.1)
    choices: Any = {"judge": LmChoice(model="function:hanging")}
    with (
        Lms(bank, RUN, choices, model_for=lambda role, choice: model) as lms,
        pytest.raises(LmFailed, match="within 0.1 s"),
    ):
        lms.ask("judge", TALK)
    assert [event.error_code for event in called(bank)] == ["timeout"]


def test_an_engine_that_returns_a_text_and_what_is_no_engine_get_one_sentence(tmp_path: Path) -> None:
    class Texts:
        def complete(self, request: Any) -> Any:
            return "yes"

    with models(tmp_path, model_for=lambda role, choice: Texts()) as (bank, lms):
        with pytest.raises(LmFailed, match=r"returned 'str' where a dspy.lm15.Response was expected\. Give a function"):
            lms.ask("judge", TALK)
        assert [event.error_code for event in called(bank)] == ["bad_function"]
    with pytest.raises(BadInput, match="'int' is neither"), models(tmp_path / "b", model_for=lambda role, choice: 3):
        raise AssertionError("there are no models of a number")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "give either complete"),
        ({"complete": str, "lm": "openai/x"}, "give either complete"),
        ({"complete": str, "api_base": "http://localhost/v1"}, "leave it out beside complete"),
        ({"complete": "openai/x"}, "'str' is neither"),
        ({"lm": str.upper}, "give a function as complete"),
        ({"lm": "function:agent"}, "is a function of a Python program"),
    ],
)
def test_models_that_cant_be_are_refused_before_any_call(bank: Bank, given: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        lms_for(bank, RUN, **given)
    assert not called(bank)


def test_no_command_can_call_a_function() -> None:
    with pytest.raises(BadInput, match="no command can call"):
        check_choices({"judge": LmChoice(model="function:agent")})
