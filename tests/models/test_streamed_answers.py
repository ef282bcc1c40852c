"""Answers of servers of one's own come in a stream: the same is recorded, time is bounded, a repetition ends early."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from rbank_es.errors import LmFailed
from rbank_es.limits import reply_limits
from rbank_es.models.lm_request import LmMessage
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.recorded_model import RecordedModel
from rbank_es.models.run_models import Lms
from tests.models import openai_server as says
from tests.models.misbehaviours import events, piece
from tests.models.openai_server import OpenAiServer, openai_server
from tests.models.runs import ask, called, models
from tests.sparql.fault_server import Asked

TALK = [{"role": "user", "content": "How many?"}]


def local(server: OpenAiServer, **arguments: Any) -> LmChoice:
    return LmChoice(model="openai/small", api_base=server.url, arguments=arguments)


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
