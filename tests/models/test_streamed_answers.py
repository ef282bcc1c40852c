"""Answers of servers of one's own come in a stream: the same is recorded, time is bounded, a repetition ends early."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from rbank_es.errors import LmFailed
from rbank_es.limits import reply_limits
from rbank_es.models.choice import LmChoice
from rbank_es.models.lm_request import LmMessage
from rbank_es.models.recorded_model import RecordedModel
from rbank_es.models.run_models import Lms
from tests.models import openai_server as says
from tests.models.openai_server import OpenAiServer, openai_server
from tests.models.runs import ask, called, models
from tests.sparql.fault_server import Asked, chunk, head

TALK = [{"role": "user", "content": "How many?"}]


def local(server: OpenAiServer, **arguments: Any) -> LmChoice:
    return LmChoice(model="openai/small", api_base=server.url, arguments=arguments)


def events(*data: Any, pause_s: float = 0.0, endless: bool = False) -> says.Behaviour:
    """A stream of these chunks; an endless one begins again at its last."""

    def behave(connection: socket.socket, asked: Asked) -> None:
        connection.sendall(head("200 OK", "text/event-stream", "Transfer-Encoding: chunked", "Connection: close"))
        while True:
            for each in data:
                text = each if isinstance(each, str) else "data: " + json.dumps(each)
                connection.sendall(chunk(f"{text}\n\n".encode()))
                time.sleep(pause_s)
            if not endless:
                break
        connection.sendall(b"0\r\n\r\n")

    return behave


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c1", "model": "small", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


USAGE = {
    "choices": [],
    "usage": {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
}
CALLS = [
    piece(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x"'}}]),
    piece(tool_calls=[{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]),
    piece(tool_calls=[{"index": 0, "function": {"arguments": ": 1}"}}]),
]


@pytest.mark.parametrize("numbers", [(0, 0), (None, None), ("a", 7), (-1, -1)])
def test_streamed_calls_are_told_apart_by_their_ids_however_they_are_numbered(tmp_path: Path, numbers: Any) -> None:
    """Two calls of one number were taken for one, of the name `fg`."""
    first, second = (
        piece(tool_calls=[{"index": number, "id": name, "function": {"name": name, "arguments": '{"x"'}}])
        for number, name in zip(numbers, "fg", strict=True)
    )
    rest = [piece(tool_calls=[{"index": number, "function": {"arguments": ": 1}"}}]) for number in numbers]
    behaviour = events(first, rest[0], second, rest[1], piece("tool_calls"), "data: [DONE]")
    with openai_server([behaviour]) as server, models(tmp_path, local(server)) as (_, lms):
        response = lms.converse("agent", "s", [LmMessage.of("user", "?")], [])
    assert [(part["name"], part["input"]) for part in response.message.parts] == [("f", {"x": 1}), ("g", {"x": 1})]


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (says.streamed("some", "words", done=False), "bad_response"),
        (says.streamed("some", "words", done=False, breaks=True), "bad_response"),
        (events("data: {no JSON"), "bad_response"),
        (events("data: [3]"), "bad_response"),
        (events({"error": {"message": "it broke", "type": "server_error"}}), "server_error"),
        (events("error: " + json.dumps({"message": "no", "type": "exceed_context_size_error"})), "context_too_long"),
        (events("data: [DONE]"), "bad_response"),
    ],
)
def test_a_stream_that_breaks_off_or_holds_an_error_is_a_failure(
    tmp_path: Path, behaviour: says.Behaviour, code: str
) -> None:
    with openai_server([behaviour] * 3) as server, models(tmp_path, local(server)) as (bank, lms):
        with pytest.raises(LmFailed):
            lms.ask("judge", TALK)
        assert {event.error_code for event in called(bank)} == {code}


def test_a_server_that_does_not_stream_is_asked_for_whole_answers_from_then_on(tmp_path: Path) -> None:
    refused = says.error("400 Bad Request", "stream_options is not supported")
    with (
        openai_server([refused, "one", "two"]) as server,
        models(tmp_path / "refuses", local(server)) as (bank, lms),
    ):
        assert [lms.ask("judge", TALK).text for _ in range(2)] == ["one", "two"]
        assert [(event.error_code, event.attempt) for event in called(bank)] == [("refused", 1), (None, 2), (None, 1)]
        assert ["stream" in sent for sent in server.requests] == [True, False, False], "each request is recorded"
    with openai_server(["one", "two"]) as server, models(tmp_path / "ignores", local(server)) as (_, lms):
        assert [lms.ask("judge", TALK).text for _ in range(2)] == ["one", "two"]
        assert ["stream" in sent for sent in server.requests] == [True, False]


@pytest.mark.slow
def test_the_time_for_an_answer_counts_from_its_first_word_and_reading_may_take_three_times_as_long(
    tmp_path: Path,
) -> None:
    def slow_to_read(connection: socket.socket, asked: Asked) -> None:
        time.sleep(3)
        events(piece(content="at last"), piece("stop"), "data: [DONE]")(connection, asked)

    with openai_server([slow_to_read]) as server, models(tmp_path / "reads", local(server, timeout=2)) as (_, lms):
        assert lms.ask("judge", TALK).text == "at last"
    never_ends = events(piece(content="word "), pause_s=0.05, endless=True)
    with (
        openai_server([never_ends]) as server,
        models(tmp_path / "talks", local(server, timeout=2)) as (_, lms),
        pytest.raises(LmFailed, match="within 2 s of its first word") as caught,
    ):
        lms.ask("judge", TALK)
    assert caught.value.code == "timeout"


@pytest.mark.slow
def test_a_server_that_does_not_stream_is_told_what_its_time_includes(tmp_path: Path) -> None:
    with openai_server(["one", says.hanging()]) as server, models(tmp_path, local(server, timeout=2)) as (_, lms):
        lms.ask("judge", TALK)
        with pytest.raises(LmFailed, match="no answer within 2 s; it includes reading 3 tokens or fewer"):
            lms.ask("judge", TALK)


PASSAGE = "SELECT ?l WHERE { ?l a lt:Lighthouse } and once more. "


@pytest.mark.parametrize("role", ["agent", "judge"])
def test_a_reply_that_repeats_itself_ends_early_and_is_told_and_rerun_as_cut(tmp_path: Path, role: Any) -> None:
    def said(lms: Lms) -> Any:
        if role == "judge":
            return lms.ask("judge", TALK)
        with pytest.raises(LmFailed) as caught:
            ask(lms, "How many?")
        return caught.value.message

    endless = events(piece(content="I think. "), *[piece(content=PASSAGE)] * 3, endless=True)
    with openai_server([endless]) as server, models(tmp_path / "one", local(server, timeout=20)) as (bank, lms):
        began = time.monotonic()
        first = said(lms)
        assert time.monotonic() - began < 10
        [event] = called(bank)
    assert event.error_code == "cut" and len(str(event.response)) < 10_000
    assert str(event.error).startswith("it was cut: its end repeats")
    if role == "agent":
        assert first == event.error
    else:
        assert first.cut and PASSAGE in first.text
    recorded = RecordedModel([event])
    with models(tmp_path / "two", recorded.choices[role], model_for=lambda role, choice: recorded) as (bank, lms):
        assert said(lms) == first
        [again] = called(bank)
    assert (again.error_code, again.error, again.response) == (event.error_code, event.error, event.response)


def test_a_repetition_behind_the_end_marker_leaves_the_answer_whole(tmp_path: Path) -> None:
    whole = "[[ ## success ## ]] true\n[[ ## completed ## ]]\n"
    endless = events(piece(content=whole), *[piece(content=PASSAGE)] * 400)
    with openai_server([endless]) as server, models(tmp_path, local(server)) as (bank, lms):
        assert lms.ask("judge", TALK).text.startswith(whole)
        assert [event.error_code for event in called(bank)] == [None]
    assert 400 * len(PASSAGE) > reply_limits.REPEATED_CHARS
