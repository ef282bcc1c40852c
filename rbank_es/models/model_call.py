"""The call of a model: question, try, answer or failure; the protocol of what answers; requests and responses as JSON.

A failure has a code with a hint. Some codes are tried again after a wait; some end the run, or the loop.
"""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from rbank_es import limits
from rbank_es.errors import LmFailed, MissingExtra
from rbank_es.events.redaction import redact, secrets
from rbank_es.events.run_events import Role
from rbank_es.models.replies import ModelReply

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

# Causes of an error that are searched for one of ours: a chain of causes can be a circle.
_ERROR_CAUSES = 20

_ENCODER = msgspec.json.Encoder(order="deterministic")


class Question(NamedTuple):
    """A request and its place in the run: role, step, the request's key, and its redacted JSON."""

    request: Request
    role: Role
    step: int | None
    key: str
    json: str


class ModelAnswer(NamedTuple):
    """A response, and its cost where that is known."""

    response: Response
    cost_usd: float | None = None


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


class LmEngine(Protocol):
    """An engine as `dspy.LM(engine=...)` takes it."""

    def complete(self, request: Request) -> Response:
        """Return the response to a request."""
        ...


class EngineModel:
    """A model over any engine of the caller's own, which it does not close."""

    def __init__(self, engine: LmEngine) -> None:
        self._engine = engine

    def prepare(self, question: Question) -> Try:
        """Return a try that asks the engine once."""
        return lambda: ModelAnswer(complete_once(self._engine, question.request, "the environment"))

    def close(self) -> None:
        """Do nothing."""


def complete_once(engine: LmEngine, request: Request, key_variable: str) -> Response:
    """Return an engine's response; raise its errors as `LmFailed` or `RetryableFailure`.

    `key_variable` is the environment variable of its key, for messages.
    """
    try:
        return engine.complete(request)
    except (LmFailed, RetryableFailure):
        raise
    except Exception as error:
        raise _our_cause(error) or failure_of_engine(error, key_variable) from error


def _our_cause(error: BaseException | None) -> LmFailed | None:
    """Return the `LmFailed` that a client wrapped, because it mistook ours for an error of the connection."""
    for _ in range(_ERROR_CAUSES):
        if error is None or isinstance(error, LmFailed):
            return error
        error = error.__cause__ or error.__context__
    return None


# ---------------------------------------------------------------- requests and responses as JSON


def load_dspy() -> Any:
    """Return the module dspy, which then fetches no price list and prints no warning. Raises `MissingExtra`."""
    # dspy downloads a price list at its first call, unless this variable says that it has one.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    try:
        import dspy
        import dspy.lm15  # noqa: F401
    except ImportError as error:
        raise MissingExtra("agent", "calling a model") from error
    _hold_warnings()
    return dspy


@cache
def _hold_warnings() -> None:
    """Give dspy's log to the program that configures logging, and to nobody else.

    dspy itself prints it on standard error, where it would stand amid the table of a loop.
    """
    log = logging.getLogger("dspy")
    for handler in [each for each in log.handlers if each.name == "dspy_handler"]:
        log.removeHandler(handler)
    log.addHandler(logging.NullHandler())  # else Python's handler of last resort prints
    log.propagate = True
    warnings.filterwarnings("ignore", module=r"dspy(\.|$)")


def answered(messages: list[dict[str, Any]]) -> ModelReply:
    """Return the answer of the model in dspy's context, unparsed, with what it was given.

    dspy's parser refuses answers that can be read, and repairs others too much. Raises `LmFailed` as the model does.
    """
    dspy = load_dspy()
    lm = dspy.settings.lm
    chosen = {name: value for name, value in lm.kwargs.items() if value is not None}
    request = dspy.lm15.request_from_openai_chat({"model": lm.model, "messages": messages, **chosen})
    response = lm(request)
    # The model's own earlier answers are not given to it: it may repeat them.
    given = "\n".join(str(each["content"]) for each in messages if each["role"] == "user")
    return ModelReply(str(response.text or ""), cut=response.finish_reason in CUT, given=given)


def canonical(value: Any) -> str:
    """Return plain data as compact JSON with sorted names: equal text for equal content."""
    return _ENCODER.encode(value).decode()


def key_of(request_json: str) -> str:
    """Return the key under which a rerun finds a request: SHA-256 of its canonical JSON, in hex."""
    return hashlib.sha256(request_json.encode()).hexdigest()


def request_data(request: Request) -> dict[str, Any]:
    """Return a request as plain data."""
    # Private, because dspy's public names parse requests but do not serialise them.
    from dspy._vendor.lm15.serde import request_to_dict

    data: dict[str, Any] = request_to_dict(request)
    return data


def response_data(response: Response) -> dict[str, Any]:
    """Return a response as plain data, without the provider's envelope. Lone surrogates become U+FFFD."""
    from dspy._vendor.lm15.serde import response_to_dict

    data: dict[str, Any] = _encodable(response_to_dict(response))
    return data


def response_of(data: dict[str, Any]) -> Response:
    """Parse a response from plain data. Raises ValueError, TypeError or KeyError for anything else."""
    from dspy._vendor.lm15.serde import response_from_dict

    return response_from_dict(data)


def prompt_text(data: dict[str, Any]) -> str:
    """Return the words of a request that the model reads: of the system prompt, then of each message."""
    return "\n\n".join(_texts([data.get("system"), data["messages"]]))


def answer_text(data: dict[str, Any]) -> str:
    """Return the words of a response that dspy passes on: neither its thinking nor its refusal."""
    parts = data.get("message", {}).get("parts", [])
    return "".join(_texts([part for part in parts if part.get("type") in ("text", "data")]))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    if isinstance(value, dict):
        return [text for name in ("text", "value", "content", "parts") for text in _texts(value.get(name))]
    return []


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            # Two surrogates that are a pair become their character, a lone one becomes U+FFFD.
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, dict):
        return {_encodable(name): _encodable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    return value


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

CUT = frozenset({"length", "content_filter", "error"})
"""Reasons of a provider to end an answer before the model did: at a bound, by a filter, by a fault of its own."""

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
    # The same request may succeed later: these two kinds, a refused connection, and what is no model's word.
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
            failure = failed(code, f"{words}{_status(error)}{said}")
            return RetryableFailure(failure) if code == "bad_response" else failure
    if isinstance(error, UNREADABLE):
        return RetryableFailure(
            failed("bad_response", f"the answer is of no known form ({type(error).__name__}{said})")
        )
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
        return RetryableFailure(failed("bad_response", f"the answer broke off{said}"))
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
