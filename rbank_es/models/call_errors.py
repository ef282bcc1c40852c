"""The failures of a call as one error with a code, the codes that are retried, and the waits before a retry."""

from __future__ import annotations

from functools import cache
from typing import Any

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.events.redaction import redact, secrets

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
    "response_too_long": "Limit it with --lm-arg max_tokens=N",
    "request_too_long": "Use smaller budgets, or fewer iterations",
    "interrupted": "It was stopped from outside",
    "unexpected": "This is a defect of the code that calls the model; --debug shows where it happened",
    "script_mismatch": "Change the script to what really happens",
    "replay_miss": "This release can't re-execute the run from its events",
    "not_recorded": "Make the bank writable again, then run again",
}
"""What to do next, by error code."""

FATAL = frozenset({"script_mismatch", "replay_miss", "not_recorded"})
"""Failures that end a run, because every later call of it would end the same way."""

STOPPING = frozenset({"unknown_model", "missing_key", "wrong_key", "no_credit", "unreachable", "unexpected"})
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


def failure_of_engine(error: Exception, key_variable: str) -> LmFailed | RetryableFailure:
    """Return the failure for an error of dspy's engines. `key_variable` is the key's environment variable."""
    from dspy import lm15

    said, status = _said(error), getattr(error, "status", None)
    asked_s: float | None = getattr(error, "retry_after", None)
    # Only these two kinds, and a refused connection, are retried: the same request may succeed later.
    if isinstance(error, lm15.RateLimitError):
        return RetryableFailure(failed("rate_limited", f"the provider turned the call away{said}"), asked_s)
    if isinstance(error, lm15.ServerError) or (status is not None and status >= 500):
        return RetryableFailure(failed("server_error", f"the provider failed{_status(error)}{said}"), asked_s)
    if isinstance(error, lm15.AuthError):
        return failed("wrong_key", f"the provider refused the key{key_variable and ' in '}{key_variable}{said}")
    if isinstance(error, lm15.TransportError):
        return _broken_connection(error, said)
    # Before the kinds, because a wrong address raises several of them.
    if status == 404:
        return failed("unknown_model", f"the provider has no such model, or the address is wrong (HTTP 404){said}")
    for kind, code, words in _kinds():
        if isinstance(error, kind):
            return failed(code, f"{words}{_status(error)}{said}")
    if isinstance(error, UNREADABLE):
        return failed("bad_response", f"the answer is of no known form ({type(error).__name__}{said})")
    return failed("unexpected", f"the call failed ({type(error).__name__}){said}")


@cache
def _kinds() -> tuple[tuple[type[Exception], str, str], ...]:
    # Special before general: the first class that fits decides.
    from dspy import lm15

    return (
        (lm15.BillingError, "no_credit", "the provider asks for payment"),
        (lm15.ContextLengthError, "context_too_long", "the request is longer than the model reads"),
        (lm15.UnsupportedModelError, "unknown_model", "the provider has no such model"),
        (lm15.InvalidRequestError, "refused", "the provider refused the request"),
        (lm15.TimeoutError, "timeout", "the provider took too long"),
        (lm15.NotConfiguredError, "missing_key", "the provider needs a key"),
        (lm15.ConfigurationError, "unknown_model", "no provider is known for this model"),
        (lm15.CapabilityError, "refused", "the request can't be put to this provider"),
        (lm15.ProviderError, "bad_response", "the answer can't be read"),
    )


def _broken_connection(error: Exception, said: str) -> LmFailed | RetryableFailure:
    # Only the class of the cause says what broke, and it has no public name.
    kinds = {kind.__name__ for kind in type(error.__cause__).__mro__}
    if kinds & {"ConnectError", "APIConnectionError"}:
        return RetryableFailure(failed("unreachable", f"the model's server can't be reached{said}"))
    if kinds & {"ReadTimeout", "WriteTimeout"}:
        return failed("timeout", f"the model's server fell silent{said}")
    if kinds & {"ReadError", "ProtocolError"}:
        return failed("bad_response", f"the answer broke off{said}")
    return failed("unreachable", f"the connection failed{said}")


def _status(error: Exception) -> str:
    status = getattr(error, "status", None)
    return f" (HTTP {status})" if status is not None else ""


def _said(error: Exception) -> str:
    """Return the provider's message in one bounded line, without dspy's advice for programmers."""
    message = str(getattr(error, "message", "") or error).split("\n\n", 1)[0]
    # Redact before truncating: half a key would escape redaction.
    words = " ".join(redact(message, secrets()).split())
    most = limits.ENDPOINT_MESSAGE_CHARS
    return f": {words[:most]}{'…' if len(words) > most else ''}" if words else ""


def for_dspy(failure: LmFailed) -> LmFailed:
    """Return the failure as an error of dspy's own kind, which dspy propagates unwrapped."""
    kind = _dspy_class(failure.code == "context_too_long")
    # Skip __init__, because dspy's classes differ in its arguments, and we need none of them.
    made: Any = kind.__new__(kind, str(failure))
    made.__dict__.update(dict.fromkeys(("model", "provider", "provider_code", "status", "request_id", "retry_after")))
    made.code, made.message, made.hint = failure.code, failure.message, failure.hint
    made.__cause__ = failure.__cause__
    result: LmFailed = made
    return result


@cache
def _dspy_class(context_too_long: bool) -> type[Any]:
    from dspy.utils.exceptions import ContextWindowExceededError, LMError

    return type("LmFailed", (LmFailed, ContextWindowExceededError if context_too_long else LMError), {})
