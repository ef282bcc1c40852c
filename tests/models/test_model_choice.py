"""Choices of models: what a command line means, and that no key gets in."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.errors import BadInput
from rbank_es.models.model_choice import ASKERS, LmChoice


def test_what_is_for_the_connection_is_no_parameter_of_a_request() -> None:
    choice = LmChoice.parse("openai/gpt", arguments=["timeout=12", "model_type=responses", "top_p=0.5"])
    assert (choice.timeout_s, choice.parameters) == (12.0, {"top_p": 0.5})


def test_a_script_is_named_by_its_file_alone() -> None:
    choice = LmChoice(model="script:some/place/demo.v2.toml")
    assert (choice.name, choice.scripted, choice.script) == ("script:demo.v2", True, Path("some/place/demo.v2.toml"))
    assert LmChoice(model="openai/gpt").script is None


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "API-KEY",
        "key",
        "token",
        "secret",
        "password",
        "authorization",
        "extra_headers",
        "azure_ad_token_provider",
        "accessToken",
        "clientSecret",
        "key2",
        "pwd",
    ],
)
def test_an_argument_that_looks_like_a_key_is_refused_with_a_word_on_environment_variables(name: str) -> None:
    with pytest.raises(BadInput, match="environment variables") as caught:
        LmChoice.parse("openai/gpt", arguments=[f"{name}=hunter2222"])
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("value", ["sk-abcdefghij0123456789", "Bearer abcdefgh12345678", "the-value-of-a-variable"])
def test_a_value_that_looks_like_a_key_is_refused_wherever_it_stands(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "the-value-of-a-variable")
    for attempt in (
        lambda: LmChoice.parse("openai/gpt", arguments=[f"user={value}"]),
        lambda: LmChoice.parse("openai/gpt", arguments=[f'stop=["a", "{value}"]']),
        lambda: LmChoice.parse("openai/gpt", arguments=[value]),
        lambda: LmChoice.parse("openai/gpt", arguments=[f"{value}=1"]),
        lambda: LmChoice(model=value),
        lambda: LmChoice(model="openai/gpt", api_base=f"http://host/v1?x={value}"),
    ):
        with pytest.raises(BadInput) as caught:
            attempt()
        assert value not in str(caught.value)


@pytest.mark.parametrize("name", ["max_tokens", "top_k", "seed", "max_completion_tokens", "reasoning_effort", "user"])
def test_parameters_with_a_word_of_a_key_inside_are_none(name: str) -> None:
    assert LmChoice.parse("openai/gpt", arguments=[f"{name}=3"]).arguments == {name: 3}


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host/v1",
        "ftp://host",
        "http://",
        "http://user:pw@host/v1",
        "http://@host",
        "http://host?api_key=x",
        "http://host?api_key=",
        "http://host?a=1;accessToken=x",
        "http://host/v1#key=x",
        "http://host/v1;key=x",
        "http://a b",
    ],
)
def test_an_address_that_is_none_or_holds_a_key_is_refused(address: str) -> None:
    with pytest.raises(BadInput, match="address"):
        LmChoice(model="openai/gpt", api_base=address)


@pytest.mark.parametrize(
    "argument",
    [
        "temperature",
        "a b=1",
        "x={}",
        "x=null",
        "timeout=0",
        "timeout=true",
        "timeout=long",
        "timeout=1e999",
        "timeout=1e12",
    ],
)
def test_arguments_that_can_be_none_are_refused(argument: str) -> None:
    with pytest.raises(BadInput):
        LmChoice.parse("openai/gpt", arguments=[argument])


@pytest.mark.parametrize("model", ["", "script:", " openai/gpt", "a\nb", "x" * 300])
def test_a_name_that_names_no_model_is_refused(model: str) -> None:
    with pytest.raises(BadInput):
        LmChoice(model=model)


@given(st.text(), st.text(), st.lists(st.text()))
def test_any_texts_give_a_choice_or_are_bad_input(model: str, address: str, arguments: list[str]) -> None:
    try:
        choice = LmChoice.parse(model, api_base=address, arguments=arguments)
    except BadInput:
        return
    assert choice.model == model


def test_an_argument_of_one_role_takes_the_place_of_that_for_all() -> None:
    texts = [
        "max_tokens=900",
        "timeout=50",
        "judge.max_completion_tokens=300",
        "guide.max_tokens=4000",
        "sub.timeout=5",
    ]
    choice = LmChoice.parse("openai/gpt", arguments=texts)
    found = {asker: choice.asked_by(asker) for asker in ASKERS}
    assert {asker: each.parameters for asker, each in found.items()} == {
        "agent": {"max_tokens": 900},
        "sub": {"max_tokens": 900},
        "judge": {"max_completion_tokens": 300},
        "extractor": {"max_tokens": 900},
        "guide": {"max_tokens": 900},
    }
    assert (choice.timeout_s, found["sub"].timeout_s) == (50, 5)
    guide = found["guide"]
    assert guide.asked_by("guide") == guide and guide.asked_by("agent").parameters == {"max_tokens": 4000}
    assert guide.asked_by("judge") == found["judge"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("jugde.max_tokens=3", "did you mean 'judge'"),
        ("judge.api_key=x", "looks like a key"),
        ("judge.n=2", "one call gives one answer"),
        ("judge.timeout=0", "seconds above 0"),
        ("judge.=3", "no name of an argument"),
    ],
)
def test_an_argument_of_one_role_is_checked_as_one_for_all(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        LmChoice.parse("openai/gpt", arguments=[text])
