"""The engine that every call passes: it records each try, and tries again where that may help."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.events import LmCalled
from rbank_es.events.event import Settings
from rbank_es.events.run_events import Role
from rbank_es.models.call_errors import UNREADABLE, TurnedAway, failed, for_dspy, wait_s
from rbank_es.models.model import Answer, Model, Question, Try
from rbank_es.models.run_calls import Ledger
from rbank_es.models.serialization import (
    answer_text,
    canonical,
    key_of,
    prompt_text,
    request_data,
    response_data,
    response_of,
)

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

Clock = Callable[[], float]
Sleep = Callable[[float], None]

WITHIN_STEPS = ("agent", "sub")
"""Roles that are asked within a step; judges and extractors are asked after the last."""

_COUNT_MOST = 2**53 - 1


class _Outcome(NamedTuple):
    """What one try came to, and the seconds to wait before another one; None if there will be none."""

    event: LmCalled
    result: Response | LmFailed
    wait_s: float | None = None


class RecordingEngine:
    """An engine for dspy.LM around a model in one role. May be used by several threads.

    Each try is one `lm_called` event, on disk before the answer goes on. What goes on is what was recorded, so that a
    rerun gets the same: the values of keys in the environment are taken out of both.
    """

    def __init__(
        self,
        model: Model,
        ledger: Ledger,
        role: Role,
        name: str,
        *,
        parameters: Settings | None = None,
        sleep: Sleep = time.sleep,
        clock: Clock = time.perf_counter,
    ) -> None:
        """An engine that asks `model`, called `name` in the record, and records in `ledger`."""
        self._model, self._ledger = model, ledger
        self._role: Role = role
        self._name = name
        self._parameters = dict(parameters or {})
        self._sleep, self._clock = sleep, clock

    def complete(self, request: Request) -> Response:
        """The response to a request, recorded.

        Raises `LmFailed`: of the model, which is recorded too; `not_recorded` where the event can't be written; and
        once more what an earlier call of the run failed of, where nothing more may be asked.
        """
        self._ledger.check()
        data = request_data(request)
        question, blank = self._prepared(request, data)
        attempt = self._opened(question)
        for number in itertools.count(1):
            outcome = self._tried(attempt, msgspec.structs.replace(blank, attempt=number))
            self._ledger.record(outcome.event)
            if not isinstance(outcome.result, LmFailed):
                return outcome.result
            if outcome.wait_s is None:
                raise for_dspy(outcome.result)
            self._sleep(outcome.wait_s)
        raise AssertionError("a try is the last one, or there is another")

    def _prepared(self, request: Request, data: dict[str, Any]) -> tuple[Question, LmCalled]:
        text = self._ledger.scrubbed(canonical(data))
        step = self._ledger.step if self._role in WITHIN_STEPS else None
        if self._role == "agent":
            self._ledger.prompt_chars = len(prompt_text(data))
        blank = LmCalled(
            run=self._ledger.run,
            role=self._role,
            model=self._name,
            step=step,
            parameters={**self._parameters, **_temperature(data)},
            request_key=key_of(text),
            request=text if len(text.encode()) <= limits.LM_REQUEST_BYTES else None,
        )
        return Question(request, self._role, step, key_of(text), text), blank

    def _opened(self, question: Question) -> Try:
        size = len(question.json.encode())
        try:
            if size > limits.LM_REQUEST_BYTES:
                most = limits.LM_REQUEST_BYTES
                raise failed("request_too_long", f"the request has {size:,} bytes; {most:,} are sent")
            return self._model.asked(question)
        except LmFailed as failure:
            return _raising(failure)

    def _tried(self, attempt: Try, blank: LmCalled) -> _Outcome:
        """Try once; whatever comes of it is an event."""
        began = self._clock()
        try:
            answer = attempt()
            return self._answered(self._timed(blank, began), answer)
        except TurnedAway as turned:
            wait = wait_s(blank.attempt or 1, turned.asked_s)
            return self._failed(self._timed(blank, began), turned.failure, wait)
        except LmFailed as failure:
            return self._failed(self._timed(blank, began), failure)
        except Exception as error:
            defect = failed("unexpected", f"the call failed ({type(error).__name__}): {error}")
            defect.__cause__ = error
            return self._failed(self._timed(blank, began), defect)
        except BaseException:
            stopped = failed("interrupted", "the call was interrupted")
            with suppress(LmFailed):  # that it was interrupted says more
                self._ledger.record(self._failed(self._timed(blank, began), stopped).event)
            raise

    def _timed(self, blank: LmCalled, began: float) -> LmCalled:
        return msgspec.structs.replace(blank, duration_s=max(0.0, round(self._clock() - began, 6)))

    def _answered(self, blank: LmCalled, answer: Answer) -> _Outcome:
        usage = answer.response.usage
        paid = msgspec.structs.replace(
            blank,
            tokens_in=_count(usage.input_tokens),
            tokens_out=_count(usage.output_tokens),
            tokens_cached=_count(usage.cache_read_tokens),
            cost_usd=_cost(answer.cost_usd),
        )
        try:
            text = self._ledger.scrubbed(canonical(response_data(answer.response)))
            if len(text) > limits.LM_RESPONSE_CHARS:
                most = limits.LM_RESPONSE_CHARS
                raise failed("response_too_long", f"the answer has {len(text):,} characters; {most:,} are taken")
            data = msgspec.json.decode(text)
            response = response_of(data)
        except LmFailed as failure:
            return self._failed(paid, failure)
        except UNREADABLE as error:
            message = f"the answer is of no form that can be kept ({type(error).__name__}: {error})"
            return self._failed(paid, failed("bad_response", message))
        event = msgspec.structs.replace(paid, response=text)
        if not answer_text(data).strip() and not response.tool_calls:
            return self._failed(event, failed("bad_response", f"the answer is empty ({response.finish_reason})"))
        return _Outcome(event, response)

    def _failed(self, blank: LmCalled, failure: LmFailed, wait: float | None = None) -> _Outcome:
        words = self._ledger.scrubbed(failure.message)[: limits.ERROR_CHARS]
        shown = failed(failure.code, words)
        shown.__cause__ = failure.__cause__
        return _Outcome(msgspec.structs.replace(blank, error_code=failure.code, error=words), shown, wait)


def _raising(failure: LmFailed) -> Try:
    def attempt() -> Answer:
        raise failure

    return attempt


def _temperature(data: dict[str, Any]) -> Settings:
    """The temperature that a request really has: callers may set it call by call."""
    temperature = data.get("config", {}).get("temperature")
    return {} if temperature is None else {"temperature": temperature}


def _count(tokens: int | None) -> int | None:
    return None if tokens is None else max(0, min(tokens, _COUNT_MOST))


def _cost(cost_usd: float | None) -> float | None:
    return cost_usd if cost_usd is not None and math.isfinite(cost_usd) and cost_usd >= 0 else None
