"""The question `prompts`: what a run's models were asked and replied, and which replies were of no use."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rbank_es import Bank
from rbank_es.answers.prompts import ASKED_AGAIN
from rbank_es.events import Event, LmCalled, MemoriesExtracted, RunFinished, RunJudged, RunStarted, StepTaken
from rbank_es.events.run_events import Role
from tests.cli_runner import run

WHY = "[ERROR] Your reply could not be read: it is empty."
LONG = "a manual of tools, the same in each request\n" * 10


def call(
    role: Role, asked: str, replied: str, step: int | None = None, code: str | None = None, id: str = ""
) -> LmCalled:
    request = {"system": LONG, "messages": [{"role": "user", "parts": [{"type": "text", "text": LONG + asked}]}]}
    response = {"message": {"role": "assistant", "parts": [{"type": "text", "text": replied}]}}
    texts = [msgspec.json.encode(each).decode() for each in (request, response)]
    answered = {"error_code": code, "error": "it fell silent"} if code else {"response": texts[1]}
    sizes = {"tokens_in": 10, "tokens_out": 2}
    return LmCalled(
        id=id, run="r", role=role, model="m", step=step, request_key="k", request=texts[0], **sizes, **answered
    )


IDS = [f"0198f000-0000-7000-8000-00000000000{number}" for number in range(4)]

EVENTS: tuple[Event, ...] = (
    RunStarted(run="r", task="Which?"),
    call("agent", "step 1", "prose alone", 1),
    StepTaken(run="r", index=1, error_code="unreadable", output=WHY),
    call("agent", "step 2", "", 2, "timeout"),
    call("agent", "step 2", "a call\x1b[31m", 2),
    StepTaken(run="r", index=2, error_code="tool_failed", output="no such tool"),
    call("agent", "the answer?", "no form", None),
    RunFinished(run="r", outcome="forced_at_limit", error_code="unreadable", error="it gave no answer"),
    call("judge", "right?", "perhaps", id=IDS[0]),
    call("judge", "right, please?", "success", id=IDS[1]),
    RunJudged(
        run="r", purpose="learning", verdict="success", judge="j", judge_version="1", kind="lm", calls=tuple(IDS[:2])
    ),
    call("extractor", "lessons?", "none", id=IDS[2]),
    MemoriesExtracted(kind="success", runs=("r",), reason="malformed: no list", calls=(IDS[2],)),
    call("extractor", "in other words?", "", id=IDS[3]),
    MemoriesExtracted(kind="success", runs=("r",), reason="nothing_new: it was known", calls=(IDS[3],)),
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with Bank.create(tmp_path / "bank") as bank:
        for event in EVENTS:
            bank.append(event)
    return tmp_path


def test_each_call_has_its_messages_and_those_of_no_use_the_reason(place: Path) -> None:
    with Bank.open(place / "bank") as bank:
        found = bank.ask("prompts", run="r")
    assert (found.total, found.next_seq) == (8, None)
    assert [row.unread for row in found.rows] == [
        WHY, None, None, "it gave no answer", ASKED_AGAIN, None, "malformed: no list", None,
    ]  # fmt: skip
    first, failed, *_ = found.rows
    assert [(text.path, text.author) for text in first.texts] == [
        ("request.0", "system"), ("request.1", "user"), ("response.0", "assistant"),
    ]  # fmt: skip
    assert first.texts[-1].text == "prose alone"
    assert failed.error_code == "timeout" and failed.texts[-1].text == "it fell silent"


def test_the_command_prints_what_is_new_in_each_request_and_marks_what_was_of_no_use(place: Path) -> None:
    shown = run("show", "./bank", "r", "--prompts", cwd=place).out
    assert shown.startswith("8 calls of models in the run r\n")
    assert shown.count(LONG.strip()) == 6, "of each role once, in two messages"
    assert "[440 characters as at position 4]\nstep 2" in shown
    assert f"prose alone\nof no use: {WHY}" in shown and "failed: timeout" in shown
    assert "a call\\x1b[31m" in shown and "\x1b" not in shown
    assert run("show", "./bank", "r", "--prompts", "--json", cwd=place).json["rows"][0]["unread"] == WHY


def test_erased_words_are_shown_as_erased(place: Path) -> None:
    run("erase", "./bank", "--run", "r", "--reason", "asked", "--yes", cwd=place)
    shown = run("show", "./bank", "r", "--prompts", cwd=place).out
    assert "prose alone" not in shown and "[erased]" in shown
