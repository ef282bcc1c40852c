"""The engine of every call, which records each try before it returns the response, and retries temporary failures."""

from __future__ import annotations

import itertools
import math
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.bank.recall_delivery import RecallDelivery
from rbank_es.errors import LmFailed, RBankError
from rbank_es.events import LmCalled
from rbank_es.events.derived_ids import request_key
from rbank_es.events.event_envelope import Settings, Timer
from rbank_es.events.redaction import redact, secrets
from rbank_es.events.run_events import Role
from rbank_es.events.server_traits import Bound
from rbank_es.limits import reply_limits
from rbank_es.models.context_length import TokenEstimates, length_in, room_for_reply
from rbank_es.models.lm_request import LmRequest, LmResponse, canonical
from rbank_es.models.model_call import (
    FATAL,
    UNREADABLE,
    Model,
    ModelAnswer,
    Question,
    RetryableFailure,
    Try,
    failed,
    wait_s,
)
from rbank_es.models.model_choice import CONTEXT_TOKENS
from rbank_es.models.prompt_priorities import GivingWay
from rbank_es.models.reply_syntax import parsed_json
from rbank_es.system.error_messages import foreign_words
from rbank_es.tools.shared.call_budget import RunMeter

if TYPE_CHECKING:
    from rbank_es.bank import Bank

Sleep = Callable[[float], None]

NO_WORD = "bad_response"
"""The code of a call whose answer is not the model's word: a page, a broken connection, nothing at all."""

WITHIN_STEPS = ("agent", "sub")
"""Roles whose calls belong to a step; judges and extractors are called after the last."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a run's calls. Failed tries count as calls; unknown costs add nothing."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None


class RunCalls:
    """The record of one run's calls, and their totals.

    `step` is the index of the current step, from 1; None outside of steps. `prompt_chars` is the length of the agent's
    last prompt. `broken` is the failure after which no more calls may be made: a script or a record that differs, or a
    call that was not recorded. `silent` is the provider's last failure while the agent's model has not said a word in
    as many tries as one call has.
    """

    def __init__(self, bank: Bank, run: str | None) -> None:
        self.run = run
        self.step: int | None = None
        self.prompt_chars = 0
        self.totals = Totals()
        self.broken: LmFailed | None = None
        self.silent: LmFailed | None = None
        self._spoken, self._unanswered = False, 0
        self.meter = RunMeter()
        """Counts what the run spends, against its bounds."""
        self.giving_way = GivingWay()
        self.estimates = TokenEstimates()
        self.context_tokens: dict[str, int] = {}
        """The tokens that a model reads, by its name, where it refused a longer request and told how many."""
        self.delivery = RecallDelivery()
        """The items that the run's context gave, and whether the agent's requests held them."""
        self.ids: list[str] = []
        """Ids of the recorded events, in order."""
        self.on_record: Callable[[LmCalled], None] | None = None
        """Called with each event that was appended."""
        self._bank = bank
        self._hidden = secrets()
        self._mutex = threading.Lock()

    def redact(self, text: str) -> str:
        """Return a text without the values of keys in the environment."""
        return redact(text, self._hidden)

    def check(self) -> None:
        """Raise the failure that ended the run's calls, if there was one."""
        if self.broken is not None:
            raise self.broken

    def record(self, event: LmCalled) -> None:
        """Append the event; it is on disk on return. Raises `LmFailed('not_recorded')`."""
        event = msgspec.structs.replace(event, id=self._bank.log.new_id())
        try:
            self._bank.append(event)
        except (RBankError, OSError) as error:
            failure = failed("not_recorded", f"the call of the {event.role} could not be recorded: {error}")
            failure.__cause__ = error
            self.broken = failure
            # Raised to the caller as well as kept, because batched sub-calls swallow errors.
            raise failure from error
        if self.on_record is not None:
            self.on_record(event)
        with self._mutex:
            self.ids.append(event.id)
            self.totals = _added(self.totals, event)
            if event.role == "agent":
                self._count_answers(event)
                self._look_for_items(event)
            if event.error_code in FATAL:
                self.broken = failed(event.error_code, str(event.error))

    def _look_for_items(self, event: LmCalled) -> None:
        if self.delivery.complete:
            return
        try:
            self.delivery.look(msgspec.json.decode(str(event.request)))
        except msgspec.MsgspecError:  # too long to be recorded
            self.delivery.miss()

    def _count_answers(self, event: LmCalled) -> None:
        self._spoken |= event.error_code is None
        self._unanswered += event.error_code == NO_WORD
        silent = not self._spoken and self._unanswered > limits.LM_RETRIES
        self.silent = failed(NO_WORD, str(event.error)) if silent else None


def _added(totals: Totals, event: LmCalled) -> Totals:
    known = [cost for cost in (totals.cost_usd, event.cost_usd) if cost is not None]
    return Totals(
        calls=totals.calls + 1,
        tokens_in=totals.tokens_in + (event.tokens_in or 0),
        tokens_out=totals.tokens_out + (event.tokens_out or 0),
        cost_usd=sum(known) if known else None,
    )


class _Outcome(NamedTuple):
    """One try: its event, its result, and the seconds to wait before a retry (None: no retry).

    `is_reply`: the model replied, with nothing; the retry tells it so.
    """

    event: LmCalled
    result: LmResponse | LmFailed
    wait_s: float | None = None
    is_reply: bool = False


class RecordingEngine:
    """The engine around a model in one role, safe for several threads.

    Each try is one `lm_called` event, on disk before the response is returned. The response is parsed back from the
    record, redacted, because a rerun must get the same one.
    """

    def __init__(
        self,
        model: Model,
        calls: RunCalls,
        role: Role,
        name: str,
        *,
        parameters: Settings | None = None,
        context_tokens: int | None = None,
        bound: Bound | None = None,
        sleep: Sleep = time.sleep,
        clock: Timer = time.perf_counter,
    ) -> None:
        """Wrap `model`, recorded as `name` in `calls`; `context_tokens` are those of prompt and reply, if known.

        `bound` is the parameter that bounds a reply at the model's server, if known.
        """
        self._model, self._calls = model, calls
        self._bound: Bound | None = bound
        self._role: Role = role
        self._name = name
        self._parameters = dict(parameters or {})
        self._context_tokens = context_tokens
        if context_tokens is not None:
            # Recorded, because a rerun must leave out the same.
            self._parameters[CONTEXT_TOKENS] = context_tokens
        self._sleep, self._clock = sleep, clock

    def complete(self, request: LmRequest) -> LmResponse:
        """Return the response to a request, and record it.

        Raises `LmFailed`: the model's, which is recorded too; `not_recorded` where the event can't be appended; the
        failure of an earlier call where that ended the run; and `context_too_long` for a prompt that leaves no room for
        its reply: that is neither sent nor recorded.
        """
        self._calls.check()
        request = self._fitted(request)
        try:
            return self._asked(request)
        except LmFailed as failure:
            shorter = self._with_shorter_reply(request, failure)
            if shorter is None:
                raise
        return self._asked(shorter)

    def _with_shorter_reply(self, request: LmRequest, failure: LmFailed) -> LmRequest | None:
        """Return a request that may fit, now that the server has told what it reads; None if none may."""
        if failure.code != "context_too_long":
            return None
        with suppress(LmFailed):
            fitted = self._fitted(request)
            return fitted if fitted != request else None
        return None

    def _asked(self, request: LmRequest) -> LmResponse:
        asked = request
        question, blank = self._question(asked, asked.data)
        try_once = self._prepared_try(question)
        for number in itertools.count(1):
            outcome = self._try(try_once, msgspec.structs.replace(blank, attempt=number))
            self._calls.record(outcome.event)
            self._measure(asked, outcome.event)
            if not isinstance(outcome.result, LmFailed):
                return outcome.result
            if outcome.wait_s is None:
                raise outcome.result
            self._sleep(outcome.wait_s)
            if outcome.is_reply:
                # The same words would get the same reply: a model at temperature 0 has no other.
                asked = self._fitted(
                    request.telling(_EMPTY.format("reply was" if number == 1 else f"{number} replies were"))
                )
                question, blank = self._question(asked, asked.data)
                try_once = self._prepared_try(question, instead=outcome.result)
        raise AssertionError("a try is the last one, or there is another")

    def _fitted(self, request: LmRequest) -> LmRequest:
        """Return the request with a bound of the reply that the context has room for beside the prompt."""
        if self._role == "agent":
            request = self._calls.giving_way.shortened(request)
        length = self._context_tokens or self._calls.context_tokens.get(self._name)
        # Sub-calls come side by side: there is room for them before any is made.
        left = self._calls.meter.tokens_left if self._role == "agent" else None
        if self._role == "agent" and self._calls.meter.usd_left == 0:
            raise failed("bound_spent", "the prompt was not sent: the run has spent its US dollars")
        if length is None and left is None:
            return request
        prompt, most = self._calls.estimates.tokens(self._name, request.words), request.config.get("max_tokens")
        if length is not None:
            most = room_for_reply(length, prompt, most)
            if most is None:
                room = f"no room for a reply in the {length:,} that the model reads and writes"
                raise failed("context_too_long", f"the prompt was not sent: about {prompt:,} tokens leave {room}")
        if left is not None:
            # Without a bound of the reply, that of the run couldn't be kept.
            most = min(left - prompt, most or left)
            if most < reply_limits.REPLY_TOKENS_LEAST:
                raise failed(
                    "bound_spent", f"the prompt was not sent: about {prompt:,} tokens are too many for the run"
                )
        elif "max_tokens" not in request.config:
            return request
        return msgspec.structs.replace(request, config={**request.config, "max_tokens": most})

    def _measure(self, request: LmRequest, event: LmCalled) -> None:
        """Take what the server said of a prompt's tokens, and of those that it reads, for the prompts to come."""
        if event.error_code == "context_too_long" and (length := length_in(str(event.error))):
            self._calls.context_tokens[self._name] = length
        # Not those of sub-calls: they come in no fixed order, so a rerun would estimate otherwise.
        elif event.error_code is None and event.tokens_in and self._role != "sub":
            self._calls.estimates.correct(self._name, request.words, event.tokens_in)

    def _question(self, request: LmRequest, data: dict[str, Any]) -> tuple[Question, LmCalled]:
        # Redact before the key is made, because a rerun has only the recorded text to make it from.
        text = self._calls.redact(canonical(data))
        step = self._calls.step if self._role in WITHIN_STEPS else None
        # Only the agent's, because the leakage report measures what the agent was shown.
        if self._role == "agent":
            self._calls.prompt_chars = len(request.words)
        blank = LmCalled(
            run=self._calls.run,
            role=self._role,
            model=self._name,
            step=step,
            parameters={**self._parameters, **_temperature(data)},
            gave_way=self._calls.giving_way.names if self._role == "agent" else (),
            request_key=request_key(text),
            request=text if len(text.encode()) <= limits.LM_REQUEST_BYTES else None,
        )
        return Question(request, self._role, step, request_key(text), text, self._bound), blank

    def _prepared_try(self, question: Question, instead: LmFailed | None = None) -> Try:
        """Return the try of a question. Raises `instead` where a record has no such question: it ended there."""
        size = len(question.json.encode())
        try:
            if size > limits.LM_REQUEST_BYTES:
                most = limits.LM_REQUEST_BYTES
                raise failed("request_too_long", f"the request has {size:,} bytes; {most:,} are sent")
            return self._model.prepare(question)
        except LmFailed as failure:
            if instead is not None and failure.code == "replay_miss":
                raise instead from None
            # Raise in the try instead of here, so that a request that was never sent is recorded too.
            return _raising(failure)

    def _try(self, try_once: Try, blank: LmCalled) -> _Outcome:
        """Try once. Whatever happens becomes an event, an interruption too."""
        began = self._clock()
        try:
            answer = try_once()
            return self._answered(self._timed(blank, began), answer, getattr(try_once, "left", None))
        except RetryableFailure as turned:
            wait = wait_s(blank.attempt or 1, turned.asked_s)
            return self._failed(self._timed(blank, began), turned.failure, wait)
        except LmFailed as failure:
            return self._failed(self._timed(blank, began), failure)
        except Exception as error:
            defect = failed("unexpected", f"the call failed: {foreign_words(error)}")
            defect.__cause__ = error
            return self._failed(self._timed(blank, began), defect)
        except BaseException:
            stopped = failed("interrupted", "the call was interrupted")
            with suppress(LmFailed):  # the interruption matters more than a failure to record it
                self._calls.record(self._failed(self._timed(blank, began), stopped).event)
            raise

    def _timed(self, blank: LmCalled, began: float) -> LmCalled:
        return msgspec.structs.replace(blank, duration_s=max(0.0, round(self._clock() - began, 6)))

    def _answered(self, blank: LmCalled, answer: ModelAnswer, left: int | None) -> _Outcome:
        usage = answer.response.usage
        # Usage first, because an answer that can't be kept was paid for all the same.
        paid = msgspec.structs.replace(
            blank,
            tokens_in=_count(usage.get("input_tokens")),
            tokens_out=_count(usage.get("output_tokens")),
            tokens_cached=_count(usage.get("cache_read_tokens")),
            cost_usd=_cost(answer.cost_usd),
        )
        try:
            text = self._calls.redact(canonical(answer.response.data))
            if len(text) > limits.LM_RESPONSE_CHARS:
                most = limits.LM_RESPONSE_CHARS
                raise failed("response_too_long", f"the answer has {len(text):,} characters; {most:,} are taken")
            # The caller gets the response as recorded, redacted, because a rerun can give no other.
            response = LmResponse.of(msgspec.json.decode(text))
        except LmFailed as failure:
            return self._failed(paid, failure)
        except UNREADABLE as error:
            message = f"the answer is of no form that can be kept: {foreign_words(error)}"
            return self._failed(paid, failed("bad_response", message))
        event = msgspec.structs.replace(paid, response=text)
        # A recorded answer was the model's word when it was recorded.
        if left is None and (fault := _fault(response, answer.ended, self._role)):
            # Without the response, because a rerun repeats a failure that has none.
            return self._failed(paid, failed(NO_WORD, fault), wait_s(blank.attempt or 1, None))
        if answer.cut:
            left_off = self._failed(event, failed("cut", answer.cut))
            # What is whole in it may be read by others; a step that is cut is never run.
            return left_off if self._role == "agent" else left_off._replace(result=response)
        # Recorded whole, but no success: dspy would pass on an empty text, and the caller could not tell.
        if not response.text.strip() and not response.calls_tools:
            # An answer that its bound left empty would be left empty again.
            wait = None if response.finish_reason == "length" else wait_s(blank.attempt or 1, None)
            empty = failed("bad_response", f"the answer is empty ({response.finish_reason})")
            wait = wait if left is None or wait is None else 0.0
            # Where a record has a further try of the same request, that one is repeated.
            return self._failed(event, empty, wait)._replace(is_reply=not left)
        return _Outcome(event, response)

    def _failed(self, blank: LmCalled, failure: LmFailed, wait: float | None = None) -> _Outcome:
        words = self._calls.redact(failure.message)[: limits.ERROR_CHARS]
        shown = failed(failure.code, words)
        shown.__cause__ = failure.__cause__
        return _Outcome(msgspec.structs.replace(blank, error_code=failure.code, error=words), shown, wait)


_EMPTY = "Your last {} empty. Reply in the form that you were asked for."
"""What a model is told behind an empty reply."""

_FAULTS = re.compile(r"error|abort|cancel|content_filter", re.IGNORECASE)
_PAGE = re.compile(
    r"\s*(?:<!doctype html|<html)\b(?=.*(?:\b[45]\d\d\b|gateway|unavailable|nginx|cloudflare))",
    re.IGNORECASE | re.DOTALL,
)
_OF_ERRORS = frozenset({"error", "message", "type", "code", "status", "detail", "request_id", "param"})


def _fault(response: LmResponse, ended: str, role: Role) -> str:
    """Return why an answer is not the model's word although it has one's form; empty if it is.

    A provider that breaks off at a fault or by its filter says so in the reason of the end. A gateway puts its own page
    or error where the model's words would be; a sub-call may have asked for such a text.
    """
    text = response.text
    begins = f": {text[: limits.GIVEN_CHARS]!r}"
    if found := next((end for end in (response.finish_reason, ended) if _FAULTS.search(end)), ""):
        return f"the provider broke the answer off ({found[: limits.GIVEN_CHARS]}){begins}"
    if role == "sub":
        return ""
    value = parsed_json(text.strip()) if text.lstrip().startswith("{") else None
    if isinstance(value, dict) and value.get("error") and value.keys() <= _OF_ERRORS:
        return f"the answer is an error in the place of the model's words{begins}"
    return f"the answer is a gateway's page in the place of the model's words{begins}" if _PAGE.match(text) else ""


def _raising(failure: LmFailed) -> Try:
    def try_once() -> ModelAnswer:
        raise failure

    return try_once


def _temperature(data: dict[str, Any]) -> Settings:
    # From the request, because callers may set the temperature call by call.
    temperature = data.get("config", {}).get("temperature")
    return {} if temperature is None else {"temperature": temperature}


def _count(tokens: Any) -> int | None:
    # Clamped, because providers report any number, and an event's counts are bounded.
    return max(0, min(tokens, limits.COUNT_MOST)) if type(tokens) is int else None


def _cost(cost_usd: float | None) -> float | None:
    # An unknown price is null, never 0: a sum must not look complete.
    return cost_usd if cost_usd is not None and math.isfinite(cost_usd) and cost_usd >= 0 else None
