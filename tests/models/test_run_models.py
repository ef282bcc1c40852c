"""The record of calls: each try an event, on disk before its answer goes on."""

import errno
from pathlib import Path
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, LmFailed, LogUnavailable, MissingExtra
from rbank_es.models.lm_request import LmRequest
from rbank_es.models.model_call import Question
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.run_models import Lms, check_choices
from tests.faults.disk import Disk
from tests.models.runs import RUN, STUB, Saying, Waits, ask, called, models, saying


def test_no_choice_for_a_role_is_bad_input(tmp_path: Path) -> None:
    with Bank.create(tmp_path / "bank") as bank:
        with pytest.raises(BadInput, match="--lm"):
            Lms(bank, RUN, {})
        with pytest.raises(BadInput, match="agent"):
            Lms(bank, RUN, {"judge": STUB}, **saying()).lm("agent")


def test_a_model_that_takes_no_temperature_gets_none_and_none_is_recorded(tmp_path: Path) -> None:
    with models(tmp_path, LmChoice(model="openai/gpt-5"), **saying()) as (bank, lms):
        ask(lms, temperature=0.0)
        (event,) = called(bank)
    assert "temperature" not in event.parameters and "temperature" not in str(event.request)


def test_a_parameter_that_the_model_refuses_outright_is_bad_input(tmp_path: Path) -> None:
    few = LmChoice(model="openai/gpt-5", arguments={"max_tokens": 10})
    with models(tmp_path, few, **saying()) as (_, lms), pytest.raises(BadInput, match="16000"):
        lms.lm("agent")


def test_costs_are_told_where_the_price_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    from rbank_es.models.dspy_model import DspyModel
    from rbank_es.models.live_model import live_model
    from tests.models.openai_server import completion

    monkeypatch.setenv("OPENAI_API_KEY", "any-value-at-all")
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    choice, body = LmChoice(model="openai/gpt-4o-mini"), completion("two words")
    request = LmRequest.of(choice.model, [{"role": "user", "content": "hello"}], {})
    over_http: Any = live_model(choice)
    answers = httpx.MockTransport(lambda asked: httpx.Response(200, stream=httpx.ByteStream(body)))
    over_http.client = httpx.Client(transport=answers)
    over_dspy = DspyModel(choice, None, "OPENAI_API_KEY")
    over_dspy.client = Saying()
    costs = [model.prepare(Question(request, "agent", 1, "", ""))().cost_usd for model in (over_http, over_dspy)]
    cached = 4
    assert costs == [
        pytest.approx((10 - cached) * 0.15e-6 + cached * 0.075e-6 + 2 * 0.6e-6),
        pytest.approx(3 * 0.15e-6 + 2 * 0.6e-6),
    ]


def test_a_call_that_cant_be_recorded_fails_and_so_does_every_later_one(tmp_path: Path) -> None:
    disk = Disk()
    bank = Bank.create(tmp_path / "bank", calls=disk)
    lms = Lms(bank, RUN, {"agent": STUB}, **saying())
    assert ask(lms)
    disk.fail = lambda name, number: OSError(errno.ENOSPC, "no space left on device") if name == "write" else None
    with pytest.raises(LmFailed, match="no space") as caught:
        ask(lms)
    assert caught.value.code == "not_recorded" and isinstance(caught.value.__cause__, LogUnavailable)
    disk.fail = lambda name, number: None
    with pytest.raises(LmFailed) as again:
        ask(lms)
    assert again.value.code == "not_recorded" and lms.calls.broken is not None
    assert len(called(bank)) == 1


def test_an_interruption_is_recorded_and_goes_on(tmp_path: Path) -> None:
    def interrupted(words: str) -> str:
        raise KeyboardInterrupt

    with models(tmp_path, **saying(interrupted)) as (bank, lms):
        with pytest.raises(KeyboardInterrupt):
            ask(lms)
        assert [event.error_code for event in called(bank)] == ["interrupted"]


def test_a_defect_of_an_engine_is_a_failure_that_names_it(tmp_path: Path) -> None:
    def broken(words: str) -> str:
        raise ZeroDivisionError("by nought")

    with models(tmp_path, **saying(broken)) as (bank, lms):
        with pytest.raises(LmFailed, match="ZeroDivisionError.*by nought") as caught:
            ask(lms)
        assert caught.value.code == called(bank)[0].error_code == "unexpected"
    with models(tmp_path / "other", **saying(lambda words: 17)) as (bank, lms), pytest.raises(LmFailed):
        ask(lms)


def test_a_request_that_is_too_long_is_not_sent(tmp_path: Path) -> None:
    engine = Saying()
    with models(tmp_path, model_for=lambda role, choice: engine) as (bank, lms):
        with pytest.raises(LmFailed) as caught:
            ask(lms, "é" * (limits.LM_REQUEST_BYTES // 2))
        (event,) = called(bank)
    assert caught.value.code == event.error_code == "request_too_long"
    assert event.request is None and event.request_key and not engine.requests


def test_the_largest_request_and_answer_that_are_taken_fit_into_the_bank(tmp_path: Path) -> None:
    answer = '"' * (limits.LM_RESPONSE_CHARS // 2 - 1_000)
    with models(tmp_path, **saying(lambda words: answer)) as (bank, lms):
        assert ask(lms, '"' * (limits.LM_REQUEST_BYTES // 2 - 1_000)) == answer
        assert called(bank)[0].error_code is None


def test_waits_are_bounded_in_number_and_length(tmp_path: Path) -> None:
    from dspy.lm15 import RateLimitError

    def turned_away(words: str) -> str:
        raise RateLimitError("slow down", retry_after=float(words))

    slept = Waits()
    with models(tmp_path, sleep=slept, **saying(turned_away)) as (_, lms):
        for asked_s in (limits.LM_WAIT_S, limits.LM_WAIT_S + 1):
            with pytest.raises(LmFailed):
                ask(lms, str(asked_s))
    assert slept == [limits.LM_WAIT_S] * limits.LM_RETRIES


@pytest.fixture
def no_dspy(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name == "dspy" or name.startswith("dspy.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dspy", None)


@pytest.mark.usefixtures("no_dspy")
def test_without_dspy_an_agents_model_names_what_to_install_and_a_judges_needs_nothing(tmp_path: Path) -> None:
    options: Any = {"model_for": lambda role, choice: lambda prompt: "yes"}
    with models(tmp_path, **options) as (_, lms):
        assert lms.ask("judge", [{"role": "user", "content": "Is it?"}]).text == "yes"
        with pytest.raises(MissingExtra, match=r"rbank-es\[agent\]"):
            lms.lm("agent")


@pytest.mark.usefixtures("no_dspy")
def test_without_dspy_another_provider_names_what_to_install_and_the_way_without_it() -> None:
    with pytest.raises(MissingExtra, match=r"openai/NAME, --api-base URL.*rbank-es\[agent\]"):
        check_choices({"judge": LmChoice(model="anthropic/claude-x")})
    check_choices({"judge": LmChoice(model="openai/x", api_base="http://localhost:8000/v1")})
    check_choices({"judge": LmChoice(model="x", api_base="http://localhost:8000/v1")})
