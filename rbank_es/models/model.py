"""The protocol of a model: questions, tries and answers, and requests and responses as JSON."""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from rbank_es.errors import LmFailed, MissingExtra
from rbank_es.events.run_events import Role
from rbank_es.models.call_errors import RetryableFailure, failure_of_engine

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
"""One try at an answer. Raises `LmFailed`, or `RetryableFailure` where another try may succeed."""


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


def answered(messages: list[dict[str, Any]]) -> str:
    """Return the answer of the model in dspy's context, unparsed.

    dspy's parser refuses answers that can be read, and repairs others too much. Raises `LmFailed` as the model does.
    """
    dspy = load_dspy()
    lm = dspy.settings.lm
    given = {name: value for name, value in lm.kwargs.items() if value is not None}
    request = dspy.lm15.request_from_openai_chat({"model": lm.model, "messages": messages, **given})
    return str(lm(request).text or "")


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
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, dict):
        return {_encodable(name): _encodable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    return value
