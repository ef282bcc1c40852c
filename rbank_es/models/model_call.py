"""The call of a model: question, try, answer or failure; and the protocol of whatever answers.

A failure has a code with a hint. Some codes are tried again after a wait; some end the run, or the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.events.redaction import redact, secrets
from rbank_es.events.run_events import Role
from rbank_es.models.lm_request import LmRequest, LmResponse


class Question(NamedTuple):
    """A request and its place in the run: role, step, the request's key, and its redacted JSON."""

    request: LmRequest
    role: Role
    step: int | None
    key: str
    json: str


class ModelAnswer(NamedTuple):
    """A response, and its cost where that is known. `ended`: the provider's word for the end, if it is none of ours."""

    response: LmResponse
    cost_usd: float | None = None
    ended: str = ""


Try = Callable[[], ModelAnswer]
"""One try at an answer. Raises `LmFailed`, or `RetryableFailure` where another try may succeed.

A try that repeats recorded ones has `left`, the number of those to come: it is retried as often as they were.
"""


class Model(Protocol):
    """Whatever answers the questions of a run. Several threads use it at once."""

    def prepare(self, question: Question) -> Try:
        """Accept a question; the result is called once for each try. Raises `LmFailed`."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


HINTS = {
    "unknown_model": "Check the model's name, and the address if one was given",
    "missing_key": "Set it and start again; no call was made",
    "wrong_key": "Check the key in the environment",
    "unreachable": "Check the address and the network, then run again",
    "timeout": "Give the model more time with --lm-arg timeout=SECONDS, or choose a faster one",
    "rate_limited": "Wait, then run again, or use fewer rollouts",
    "no_credit": "Check the account with the provider",
    "refused": "Check the model's parameters",
    "context_too_long": "Choose a model that reads more, or smaller budgets",
    "server_error": "The provider has a fault; run again later",
    "bad_response": "If it happens again, check that the address is that of a model",
    "cut": "Allow longer answers with --lm-arg max_tokens=N",
    "response_too_long": "Limit it with --lm-arg max_tokens=N",
    "request_too_long": "Use smaller budgets, or fewer iterations",
    "interrupted": "It was stopped from outside",
    "unexpected": "This is a defect of the code that calls the model; --debug shows where it happened",
    "bad_function": "Give a function from the prompt's text to the reply's text, or an engine of dspy's own form",
    "script_mismatch": "Change the script to what really happens",
    "replay_miss": "This release can't re-execute the run from its events",
    "not_recorded": "Make the bank writable again, then run again",
}
"""What to do next, by error code."""

FATAL = frozenset({"script_mismatch", "replay_miss", "not_recorded"})
"""Failures that end a run, because every later call of it would end the same way."""

STOPPING = frozenset({"unknown_model", "missing_key", "wrong_key", "no_credit", "unreachable", "unexpected"}) | {
    "bad_function"
}
"""Failures of a model that every other run would meet too, so a loop stops."""

UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError)
"""What dspy's clients raise for a response that is JSON, but of an unexpected form."""


class RetryableFailure(Exception):
    """A failed try that may be retried: the failure if it is not, and the seconds that the provider asks to wait."""

    def __init__(self, failure: LmFailed, asked_s: float | None = None) -> None:
        self.failure, self.asked_s = failure, asked_s
        super().__init__(failure.message)


def failed(code: str, message: str) -> LmFailed:
    """Return the failure with this code, and its hint."""
    return LmFailed(code, message, HINTS.get(code, HINTS["unexpected"]))


def wait_s(tries: int, asked_s: float | None) -> float | None:
    """Return the seconds to wait after so many tries; None to give up.

    That is what the provider asks for, else 1 and 2 s: at most `LM_WAIT_S`, and `LM_RETRIES` times.
    """
    pause_s = float(2 ** (tries - 1)) if asked_s is None else asked_s
    return None if tries > limits.LM_RETRIES or pause_s > limits.LM_WAIT_S else max(0.0, pause_s)


def said_by(message: str) -> str:
    """Return a provider's message in one bounded line, behind a colon; empty for none."""
    # Redact before truncating: half a key would escape redaction.
    words = " ".join(redact(message, secrets()).split())
    most = limits.ENDPOINT_MESSAGE_CHARS
    return f": {words[:most]}{'…' if len(words) > most else ''}" if words else ""
