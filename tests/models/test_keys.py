"""Keys: which variable they come from, and that they are found in any text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.errors import BadInput, LmFailed
from rbank_es.events.codec import encode_json
from rbank_es.events.redaction import REDACTED, redact, secrets
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.run_models import check_choices
from rbank_es.system.redacted_locator import names_secret
from tests.models.runs import models


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai/gpt-4.1", "OPENAI_API_KEY"),
        ("gpt-4.1", "OPENAI_API_KEY"),
        ("anthropic/claude-x", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-x", "GEMINI_API_KEY"),
        ("groq/llama", "GROQ_API_KEY"),
        ("openrouter/a/b", "OPENROUTER_API_KEY"),
    ],
)
def test_a_missing_key_is_named_by_its_variable_before_anything_is_recorded(
    model: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (variable, "GOOGLE_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(LmFailed, match=variable) as caught:
        check_choices({"agent": LmChoice(model=model)})
    assert caught.value.code == "missing_key"
    with pytest.raises(LmFailed, match=variable), models(tmp_path, LmChoice(model=model)):
        raise AssertionError("there are no models without a key")
    monkeypatch.setenv(variable, "any-value-at-all")
    check_choices({"agent": LmChoice(model=model)})


def test_a_server_elsewhere_needs_the_variable_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(LmFailed, match="OPENAI_API_KEY"):
        check_choices({"judge": LmChoice(model="openai/x", api_base="http://models.example/v1")})
    check_choices({"judge": LmChoice(model="openai/x", api_base="http://127.0.0.1:8000/v1")})


@pytest.mark.slow
def test_providers_that_only_litellm_knows_name_their_variable_and_others_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    with pytest.raises(LmFailed, match="MISTRAL_API_KEY") as caught:
        check_choices({"agent": LmChoice(model="mistral/mistral-small")})
    assert caught.value.code == "missing_key"
    monkeypatch.setenv("MISTRAL_API_KEY", "any-value-at-all")
    check_choices({"agent": LmChoice(model="mistral/mistral-small")})
    for model in ("nobody/knows-this", "nor-this"):
        with pytest.raises(LmFailed, match=model) as unknown:
            check_choices({"agent": LmChoice(model=model)})
        assert unknown.value.code == "unknown_model"


@pytest.mark.slow
def test_a_provider_that_nobody_knows_is_told_of_in_our_words_alone(capfd: pytest.CaptureFixture[str]) -> None:
    """litellm wrote an advertisement to standard output, before the JSON that programs read."""
    with pytest.raises(LmFailed):
        check_choices({"agent": LmChoice(model="nobody/knows-this")})
    assert capfd.readouterr() == ("", "")


def test_local_servers_that_need_no_key_need_none() -> None:
    check_choices({"agent": LmChoice(model="ollama_chat/llama3"), "sub": LmChoice(model="hosted_vllm/x")})


def test_a_parameter_that_no_request_can_hold_is_refused_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any-value-at-all")
    with pytest.raises(BadInput, match="can't be given the argument colour"):
        check_choices({"agent": LmChoice(model="openai/x", arguments={"colour": "red"})})
    with pytest.raises(BadInput, match="temperature"):
        check_choices({"agent": LmChoice(model="openai/x", arguments={"temperature": 30})})


@pytest.mark.parametrize(
    ("value", "hidden"),
    [("ab-12", False), ("abc-12", True), ("placeholder", False), ("placeholders", True), ("12345.67890", False)],
)
def test_short_values_and_plain_words_are_no_secrets(value: str, hidden: bool) -> None:
    """Six characters are one; a bare word or number is one from twelve on."""
    assert bool(secrets({"A_KEY": value})) == hidden


def test_which_values_of_an_environment_are_secrets() -> None:
    environment = {
        "OPENAI_API_KEY": "sk-test",
        "db_password": "correct horse battery",
        "AWS_SECRET_ACCESS_KEY": "a/b+c=d",
        "HF_TOKEN": "hf_x",
        "LOCAL_KEY": "none",
        "OTHER_KEY": "not-needed-here",
        "MAX_TOKENS": "100000-000",
        "PATH": "/bin:/usr/bin",
        "COUNT_KEY": "12345678",
        "PGPASSWORD": "of-the-database",
        "OPENAI_API_KEY2": "the-second-one",
        "authToken": "in-camel-case",
        "BINARY_KEY": "no-\udcff-utf-8",
    }
    assert secrets(environment) == (
        *("correct horse battery", "not-needed-here", "of-the-database", "the-second-one", "in-camel-case"),
        *("a/b+c=d", "sk-test"),
    )
    assert not any(map(names_secret, ("MAX_TOKENS", "maxTokens", "PATH", "KEYBOARD", "top_k", "MONKEY", "AUTHOR")))


@given(st.lists(st.text(min_size=6), min_size=1, max_size=3), st.text(), st.text())
def test_a_scrubbed_text_holds_no_secret_neither_plain_nor_as_json(values: list[str], before: str, after: str) -> None:
    hidden = secrets({f"KEY_{number}": value for number, value in enumerate(values)})
    for value in hidden:
        if any(other in REDACTED or REDACTED in other for other in hidden):
            continue
        assert value not in redact(value, hidden)
        assert encode_json(value)[1:-1].decode() not in redact(encode_json(before + value + after).decode(), [value])


def test_a_secret_is_found_as_an_address_writes_it() -> None:
    assert redact("at /v1?q=a%2Fb%2Bc%3Dd, or a/b%2Bc%3Dd", ["a/b+c=d"]) == f"at /v1?q={REDACTED}, or {REDACTED}"


def test_the_directory_that_a_shell_is_in_is_no_password() -> None:
    assert secrets({"PWD": "/boats/marigold", "OLDPWD": "/boats", "DB_PWD": "harbour-7"}) == ("harbour-7",)
