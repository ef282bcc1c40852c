"""The call of a model: question, try, answer or failure; and the protocol of whatever answers.

A failure has a code with a hint. Some codes are tried again after a wait; some end the run, or the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.events.redaction import redact, secrets
from rbank_es.events.run_events import Role
from rbank_es.events.server_traits import Bound
from rbank_es.models.lm_request import LmRequest, LmResponse
from rbank_es.system.error_hints import MODEL_HINTS
from rbank_es.system.text_cuts import cut


class Question(NamedTuple):
    """A request and its place in the run: role, step, the request's key, its redacted JSON.

    `bound` is the parameter that is known to bound a reply at the model's server.
    """

    request: LmRequest
    role: Role
    step: int | None
    key: str
    json: str
    bound: Bound | None = None


class ModelAnswer(NamedTuple):
    """A response, and its cost where that is known. `ended`: the provider's word for the end, if it is none of ours.

    `cut`: why we left the answer before its end; empty if we didn't.
    """

    response: LmResponse
    cost_usd: float | None = None
    ended: str = ""
    cut: str = ""


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
    return LmFailed(code, message, MODEL_HINTS.get(code, MODEL_HINTS["unexpected"]))


_CODES = {
    "insufficient_quota": "no_credit",
    "exceeded_current_quota_error": "no_credit",
    "context_length_exceeded": "context_too_long",
    "model_not_found": "unknown_model",
    "invalid_api_key": "wrong_key",
    "authentication_error": "wrong_key",
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_error": "rate_limited",
}
"""Our codes of the codes in which servers say what is wrong; they go before the status."""

_STATUS = {
    401: "wrong_key", 402: "no_credit", 403: "wrong_key", 404: "unknown_model", 408: "timeout", 429: "rate_limited",
}  # fmt: skip


def code_of_refusal(status: int, named: Iterable[str] = (), *, too_long: bool = False) -> str:
    """Return the code of an answer other than a completion, by the codes that the server names and the HTTP status."""
    known = next((_CODES[each] for each in named if each in _CODES), None) or _STATUS.get(status)
    if known is not None or too_long:
        return known or "context_too_long"
    return "server_error" if status >= 500 else "refused" if status >= 400 else "bad_response"


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
    return f": {cut(words, limits.ENDPOINT_MESSAGE_CHARS)}" if words else ""
