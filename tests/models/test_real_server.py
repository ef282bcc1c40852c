"""Models over HTTP: a server on the loopback that answers, and one that does all that servers were seen to do."""

import threading
import time
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.models.model_choice import LmChoice
from tests.models import openai_server as says
from tests.models.misbehaviours import FAILING
from tests.models.openai_server import OpenAiServer, openai_server
from tests.models.runs import ask, called, models


@pytest.fixture(autouse=True)
def _a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-0123456789")


def stub(server: OpenAiServer, **arguments: float | str) -> LmChoice:
    return LmChoice(model="openai/stub", api_base=server.url, arguments=dict(arguments))


@pytest.mark.parametrize("name", FAILING)
def test_a_misbehaviour_ends_as_a_failure_with_a_code_and_is_recorded(tmp_path: Path, name: str) -> None:
    reply, code, tries = FAILING[name]
    with openai_server([reply] * tries) as server, models(tmp_path, stub(server)) as (bank, lms):
        with pytest.raises(LmFailed) as caught:
            ask(lms)
        events = called(bank)
        assert len(server.requests) == tries
    assert (caught.value.code, [event.error_code for event in events]) == (code, [code] * tries)
    assert events[-1].error == caught.value.message and caught.value.hint
    assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value)


def test_a_right_answer_in_a_wrong_wrapping_is_an_answer(tmp_path: Path) -> None:
    with openai_server([says.wrong_type("still right")]) as server, models(tmp_path, stub(server)) as (_, lms):
        assert ask(lms) == "still right"


def test_nobody_reads_on_from_a_server_that_was_left(tmp_path: Path) -> None:
    """Each such call left a thread behind, which read on for hours."""
    with openai_server([says.dripping()] * 3) as server, models(tmp_path, stub(server, timeout=0.2)) as (_, lms):
        for _ in range(3):
            with pytest.raises(LmFailed):
                ask(lms)
        ended = time.monotonic() + 10
        while reading() and time.monotonic() < ended:
            time.sleep(0.02)
        assert reading() == 0


def reading() -> int:
    """Threads in which an answer is waited for."""
    return sum(thread.name == "model call" for thread in threading.enumerate())


@pytest.mark.parametrize("depth", [100, 400, 900, 2_000, 50_000])
def test_an_answer_that_is_nested_deeply_is_an_answer_or_a_bad_one(tmp_path: Path, depth: int) -> None:
    """Some were called a defect of this program."""
    arguments = '{"a": ' + "[" * depth + "]" * depth + "}"
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    choice = {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [call]}}
    body = says.completion(None, choices=[choice])
    with openai_server([says.says(body, says.JSON)]) as server, models(tmp_path, stub(server)) as (bank, lms):
        try:
            assert ask(lms)
        except LmFailed as failure:
            assert failure.code == "bad_response"
        (event,) = called(bank)
    assert event.error_code in (None, "bad_response") and event.tokens_in in (None, 10)


def test_an_answer_that_is_too_long_has_cost_its_tokens_all_the_same(tmp_path: Path) -> None:
    long = says.very_long(limits.LM_RESPONSE_CHARS + 1)
    with openai_server([long]) as server, models(tmp_path, stub(server)) as (bank, lms):
        with pytest.raises(LmFailed):
            ask(lms)
        (event,) = called(bank)
    assert (event.error_code, event.tokens_in, event.tokens_out) == ("response_too_long", 10, 1)
    assert event.response is None


def test_a_key_is_nowhere_in_the_bank_even_where_the_server_says_it_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, other = "sk-live-abc123XYZ-0987654321", 'tok"en\\with-signs'
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("MY_SERVICE_TOKEN", other)
    answers = [f"your key is {key}", says.unauthorized(f"wrong key {key}"), f"and {other}"]
    with openai_server(answers) as server, models(tmp_path, stub(server)) as (bank, lms):
        assert ask(lms, f"is it {other}?") == "your key is [key]"
        with pytest.raises(LmFailed) as caught:
            ask(lms)
        assert ask(lms) == "and [key]"
        bank.project()
    assert key not in str(caught.value)
    assert server.requests[0]["messages"][-1]["content"] == f"is it {other}?", "the request itself is not touched"
    written = b"".join(path.read_bytes() for path in (tmp_path / "bank").rglob("*") if path.is_file())
    assert b"is it [key]?" in written
    for form in (key, other, other.replace("\\", "\\\\").replace('"', '\\"'), key[3:]):
        assert form.encode() not in written


@pytest.mark.parametrize("before", [5, 10, 20])
def test_of_a_key_at_the_end_of_a_long_error_no_part_is_left(tmp_path: Path, before: int) -> None:
    """The error was cut first, and scrubbed then: the first half of the key stayed."""
    key = "sk-of-a-test-0123456789"
    said = "x" * (limits.ENDPOINT_MESSAGE_CHARS - before) + key
    with openai_server([says.unauthorized(said)]) as server, models(tmp_path, stub(server)) as (bank, lms):
        with pytest.raises(LmFailed) as caught:
            ask(lms)
        (event,) = called(bank)
    assert "sk-" not in str(event.error) + str(caught.value)


def test_a_provider_is_not_followed_elsewhere(tmp_path: Path) -> None:
    """The key would go to whoever the first server names."""
    with openai_server(lambda body: "never asked") as elsewhere:
        moved = says.error("307 Temporary Redirect", "over there", None, f"Location: {elsewhere.url}/chat/completions")
        with openai_server([moved]) as server, models(tmp_path, stub(server)) as (_, lms), pytest.raises(LmFailed):
            ask(lms)
        assert not elsewhere.requests


@pytest.mark.slow
def test_a_provider_that_only_litellm_knows_is_bounded_and_not_followed_either(tmp_path: Path) -> None:
    """litellm sent the prompt on to wherever it was led, and read without end."""
    with openai_server(lambda body: "never asked") as elsewhere:
        moved = says.error("307 Temporary Redirect", "over there", None, f"Location: {elsewhere.url}/chat/completions")
        with openai_server([moved, moved, moved, says.flooding(), "well"]) as server:
            choice = LmChoice(model="lm_studio/stub", api_base=server.url)
            with models(tmp_path, choice) as (bank, lms):
                for _ in range(2):
                    with pytest.raises(LmFailed):
                        ask(lms)
                assert ask(lms) == "well"
                assert [event.error_code for event in called(bank)] == [
                    *["bad_response"] * 3, "response_too_long", None,
                ]  # fmt: skip
        assert not elsewhere.requests
