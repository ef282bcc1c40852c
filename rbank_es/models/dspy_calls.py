"""dspy's side of a call: its requests and responses as ours, ours as its, and its errors as failures with a code.

Executors' calls come in here, from `dspy.LM`; engines and clients of dspy's own form are called from here. Nothing else
knows the types of dspy's client. Importing this module does not load dspy.
"""

from __future__ import annotations

import logging
import os
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from rbank_es.errors import LmFailed, MissingExtra
from rbank_es.models.context_length import says_too_long
from rbank_es.models.lm_request import LmRequest, LmResponse
from rbank_es.models.model_call import (
    UNREADABLE,
    ModelAnswer,
    Question,
    RetryableFailure,
    Try,
    failed,
    said_by,
)
from rbank_es.models.reply_syntax import has_ended
from rbank_es.system.error_messages import foreign_words

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

    from rbank_es.models.call_recorder import RecordingEngine

# Causes of an error that are searched for one of ours: a chain of causes can be a circle.
_ERROR_CAUSES = 20


class LmEngine(Protocol):
    """An engine as `dspy.LM(engine=...)` takes it."""

    def complete(self, request: Request) -> Response:
        """Return the response to a request."""
        ...


def load_dspy() -> Any:
    """Return the module dspy, which then fetches no price list and prints no warning. Raises `MissingExtra`."""
    # dspy downloads a price list at its first call, unless this variable says that it has one.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    try:
        import dspy
        import dspy.lm15  # noqa: F401
    except ImportError as error:
        raise MissingExtra("agent", "running an agent, or calling a model over dspy,") from error
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


# ---------------------------------------------------------------- requests and responses


def to_dspy(request: LmRequest) -> Request:
    """Return a request as dspy's client takes it."""
    # Private, because dspy's public names parse requests but do not serialise them.
    from dspy._vendor.lm15.serde import request_from_dict

    return request_from_dict(request.data)


def _from_dspy(response: Response) -> ModelAnswer:
    from dspy._vendor.lm15.serde import response_to_dict

    unmapped: Any = (response.provider_data or {}).get("_lm15_unmapped") or []
    ends = [str(each.get("type")) for each in unmapped if "finish_reason" in str(each.get("path"))]
    return ModelAnswer(LmResponse.of(response_to_dict(response)), ended=" ".join(ends))


def price_of(request: LmRequest, response: LmResponse, provider: str, model: str) -> float | None:
    """Return the cost of a call in US dollars by the list that dspy ships; None for a model that it has no price of."""
    load_dspy()
    # Private, because dspy's public way to prices is the LM's history, which other threads append to.
    from dspy._vendor.lm15.serde import response_from_dict
    from dspy.clients.costs import estimate_cost

    given = response_from_dict(response.data)
    cost: float | None
    cost, _ = estimate_cost(given, provider=provider, requested_model=model, request=to_dspy(request))
    return cost


class DspyEngine:
    """The engine of a `dspy.LM` in a role: its calls are recorded, and fail with dspy's own kind of error."""

    def __init__(self, recorder: RecordingEngine, *, whole: bool = False) -> None:
        """Wrap the recorder. `whole`: a reply that its bound ended before its end marker is a failure, `cut`."""
        self._recorder, self._whole = recorder, whole

    def complete(self, request: Request) -> Response:
        """Return the recorded response to a request. Raises `LmFailed` as an error of dspy's own kind."""
        load_dspy()
        from dspy._vendor.lm15.serde import request_to_dict, response_from_dict

        try:
            made = self._recorder.complete(msgspec.convert(request_to_dict(request), LmRequest))
        except LmFailed as failure:
            raise for_dspy(failure) from failure.__cause__
        if self._whole and made.finish_reason == "length" and not has_ended(made.text):
            tokens = made.usage.get("output_tokens")
            bound = f"{tokens:,} tokens" if isinstance(tokens, int) and tokens else "its bound"
            raise for_dspy(failed("cut", f"it was cut at {bound}: be shorter"))
        return response_from_dict(made.data)


class EngineModel:
    """A model over any engine of the caller's own, which it does not close."""

    def __init__(self, engine: LmEngine) -> None:
        self._engine = engine

    def prepare(self, question: Question) -> Try:
        """Return a try that asks the engine once."""
        return lambda: complete_once(self._engine, question.request, "the environment")

    def close(self) -> None:
        """Do nothing."""


def complete_once(engine: LmEngine, request: LmRequest, key_variable: str) -> ModelAnswer:
    """Return an engine's answer; raise its errors as `LmFailed` or `RetryableFailure`.

    `key_variable` is the environment variable of its key, for messages.
    """
    load_dspy()
    try:
        given: Any = engine.complete(to_dspy(request))
        from dspy.lm15 import Response

        if not isinstance(given, Response):
            kind = type(given).__name__
            raise failed("bad_function", f"the engine returned {kind!r} where a dspy.lm15.Response was expected")
        return _from_dspy(given)
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


# ---------------------------------------------------------------- errors


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
            if code == "refused" and says_too_long(status, said):
                code, words = "context_too_long", "the request is longer than the model reads"
            failure = failed(code, f"{words}{_status(error)}{said}")
            return RetryableFailure(failure) if code == "bad_response" else failure
    if isinstance(error, UNREADABLE):
        why = said if isinstance(error, ValueError) else ""
        return RetryableFailure(failed("bad_response", f"the answer is of no known form{why}"))
    return failed("unexpected", f"the call failed{said}")


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
    message = str(getattr(error, "message", "")).split("\n\n", 1)[0]
    return said_by(foreign_words(Exception(message) if message else error))


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
