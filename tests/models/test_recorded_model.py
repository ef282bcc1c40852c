"""Recorded calls answer again: the same run, told from its events, without network, key or litellm."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.errors import BadInput, LmFailed
from rbank_es.events import LmCalled, NoteLogged
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.recorded_model import RecordedModel, departure
from rbank_es.models.run_models import Lms
from tests.models import openai_server as says
from tests.models.openai_server import openai_server
from tests.models.runs import RUN, ask, called, models, saying


def long_story(lms: Lms) -> list[str]:
    """Calls of every role, some of which fail, with the same words more than once."""
    said = []
    for step, words in enumerate(("first", "same", "same", "slow", "gone", "nothing"), 1):
        lms.calls.step = step
        for role in ("agent", "sub"):
            try:
                said.append(ask(lms, words, role))
            except LmFailed as failure:
                said.append(str(failure))
    said.append(ask(lms, "well?", "judge", temperature=0.0))
    said.append(ask(lms, "what then?", "extractor", temperature=1.0, rollout_id=2))
    return said


@pytest.fixture
def told(tmp_path: Path) -> tuple[list[str], list[LmCalled]]:
    """The long story as a real server told it: what was said, and what was recorded."""
    slow, count = iter([says.rate_limited(0), says.failing()]), iter(range(1_000))

    def answer(body: dict[str, Any]) -> says.Reply:
        words = body["messages"][-1]["content"]
        if words == "slow":
            return next(slow, "at last")
        special: dict[str, says.Reply] = {"gone": says.unknown_model(), "nothing": says.empty()}
        return special.get(words, f"{words}, answer {next(count)}")

    with openai_server(answer) as server:
        choice = LmChoice(model="openai/stub", api_base=server.url, arguments={"max_tokens": 64, "stop": ("END",)})
        with models(tmp_path, choice) as (bank, lms):
            return long_story(lms), called(bank)


def test_tries_of_equal_questions_side_by_side_find_their_own_calls() -> None:
    def event(attempt: int, error: str | None) -> LmCalled:
        answer = None if error else '{"model":"m","message":{"role":"assistant","parts":[{"type":"text","text":"x"}]}}'
        known = {"role": "sub", "model": "m", "request_key": "k", "request": "{}"}
        return LmCalled(attempt=attempt, error_code=error, error=error, response=answer, **known)  # type: ignore[arg-type]

    both = [event(1, "rate_limited"), event(1, "rate_limited"), event(2, None), event(2, "refused")]
    replay = RecordedModel([*both, event(1, None), NoteLogged(run=RUN)])
    assert [[each.error_code for each in call] for call in replay.left()] == [
        ["rate_limited", None],
        ["rate_limited", "refused"],
        [None],
    ]


def test_what_was_never_asked_is_a_miss_that_shows_the_first_difference(tmp_path: Path) -> None:
    with models(tmp_path, **saying()) as (bank, lms):
        lms.calls.step = 1
        ask(lms, "Which lights are there in the north?")
        lms.calls.step = 2
        ask(lms, "How many keepers are there?")
        events = called(bank)
    replay = RecordedModel(events)
    with models(tmp_path / "again", model_for=lambda role, choice: replay) as (bank, lms):
        lms.calls.step = 1
        with pytest.raises(LmFailed) as caught:
            ask(lms, "Which lights are there in the south?")
        assert [event.error_code for event in called(bank)] == ["replay_miss"]
        with pytest.raises(LmFailed):
            ask(lms, "How many keepers are there?")
        assert len(replay.unused) == 2, "after a miss nothing is asked any more"
    assert caught.value.code == "replay_miss"
    for word in ("agent, step 1", "messages[0].parts[0].text, character 30", "the north?", "the south?"):
        assert word in caught.value.message


def test_one_call_too_many_and_a_role_that_was_silent_are_misses(tmp_path: Path) -> None:
    with models(tmp_path, **saying()) as (bank, lms):
        ask(lms)
        events = called(bank)
    replay = RecordedModel(events)
    with models(tmp_path / "more", model_for=lambda role, choice: replay) as (_, lms):
        ask(lms)
        with pytest.raises(LmFailed, match="agent: the run made no further call in this role"):
            ask(lms)
    with models(tmp_path / "judge", model_for=lambda role, choice: RecordedModel(events)) as (_, lms):  # noqa: SIM117
        with pytest.raises(LmFailed, match="judge: the run made no further call in this role"):
            ask(lms, role="judge")


def test_calls_without_their_texts_are_refused(tmp_path: Path) -> None:
    with models(tmp_path, **saying()) as (bank, lms):
        ask(lms, "x" * 5_000)
        with pytest.raises(BadInput, match="without its texts"):
            RecordedModel(bank.events())
        bank.erase(run=RUN, reason="asked to")
        with pytest.raises(BadInput, match="erased"):
            RecordedModel(bank.events(resolve=True))
    with pytest.raises(BadInput, match="without its texts"):
        RecordedModel([LmCalled(role="agent", model="imported")])


ASK_AGAIN = """
import os, sys
os.environ.pop("OPENAI_API_KEY", None)
import socket
def refused(*arguments, **named):
    raise AssertionError(f"asked the network for {arguments}")
socket.socket.connect = socket.getaddrinfo = refused
from pathlib import Path
from tests.models.runs import ask, models
from rbank_es.bank import Bank
from rbank_es.models.recorded_model import RecordedModel
place = Path(sys.argv[1])
with Bank.open(place / "bank") as told:
    replay = RecordedModel(told.events(resolve=True))
with models(place / "again", replay.choices["agent"], model_for=lambda role, choice: replay) as (bank, lms):
    print(ask(lms, "once more"))
print("litellm" in sys.modules, "openai" in sys.modules, "httpx" in sys.modules)
"""


@pytest.mark.slow
def test_a_replay_needs_no_network_no_key_and_no_litellm(tmp_path: Path) -> None:
    with models(tmp_path, **saying(lambda words: f"{words} it was")) as (_, lms):
        ask(lms, "once more")
    (tmp_path / "again").mkdir()
    command = [sys.executable, "-c", ASK_AGAIN, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2])
    assert done.stdout.split("\n")[:2] == ["once more it was", "False False False"], done.stderr


json = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(json, json)
def test_a_difference_is_told_where_there_is_one(before: Any, now: Any) -> None:
    same = msgspec.json.encode(before, order="sorted") == msgspec.json.encode(now, order="sorted")
    told = departure(before, now)
    # A name that is absent, and one that has nothing, mean the same in a request.
    assert (told is None) if same else (told is not None or "null" in str(msgspec.json.encode([before, now])))
