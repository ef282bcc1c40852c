"""What stands behind a role: something that answers requests, one try at a time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from rbank_es.errors import LmFailed, MissingExtra
from rbank_es.events.run import Role
from rbank_es.models.call_errors import TurnedAway, raised_by_engine

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response


CAUSES = 20
"""How many errors back the reason of one is looked for."""


class Question(NamedTuple):
    """A request, and where in the run it is made: the role, the step, its key, and its JSON without keys."""

    request: Request
    role: Role
    step: int | None
    key: str
    json: str


class Answer(NamedTuple):
    """A response, and what it cost where that is known."""

    response: Response
    cost_usd: float | None = None


Try = Callable[[], Answer]
"""One try at an answer. Raises `LmFailed`, or `TurnedAway` where another try may mend it."""


class Model(Protocol):
    """Answers the questions of a run. Used by several threads at once."""

    def asked(self, question: Question) -> Try:
        """Take a question; what comes back is called once for each try at it. Raises `LmFailed`."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class Engine(Protocol):
    """What dspy calls an engine: anything that completes a request."""

    def complete(self, request: Request) -> Response:
        """The response to a request."""
        ...


def complete_once(engine: Engine, request: Request, key_variable: str) -> Response:
    """What an engine answers; its errors as `LmFailed` or `TurnedAway`. `key_variable` is where its key comes from."""
    try:
        return engine.complete(request)
    except (LmFailed, TurnedAway):
        raise
    except Exception as error:
        raise _ours(error) or raised_by_engine(error, key_variable) from error


def _ours(error: BaseException | None) -> LmFailed | None:
    """The failure of ours that a client took for one of the connection; None where there was none."""
    for _ in range(CAUSES):
        if error is None or isinstance(error, LmFailed):
            return error
        error = error.__cause__ or error.__context__
    return None


class EngineModel:
    """Any engine as a model, for those that bring one of their own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def asked(self, question: Question) -> Try:
        """Each try asks the engine once."""
        return lambda: Answer(complete_once(self._engine, question.request, "the environment"))

    def close(self) -> None:
        """The engine is whose it was."""


_ENCODER = msgspec.json.Encoder(order="deterministic")


def load_dspy() -> Any:
    """The module dspy, told to ask nobody for prices. Raises `MissingExtra`."""
    # dspy fetches a list of prices from the network at its first call, unless this says that it has one.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    try:
        import dspy
        import dspy.lm15  # noqa: F401
    except ImportError as error:
        raise MissingExtra("agent", "calling a model") from error
    return dspy


def canonical(value: Any) -> str:
    """JSON of plain data, compact, its names in order: the same for the same content."""
    return _ENCODER.encode(value).decode()


def key_of(request_json: str) -> str:
    """The digest under which a rerun finds a request: SHA-256 of its canonical JSON, in hex."""
    return hashlib.sha256(request_json.encode()).hexdigest()


def request_data(request: Request) -> dict[str, Any]:
    """A request as plain data."""
    # dspy's public names read requests but don't write them; its vendored copy of lm15 does.
    from dspy._vendor.lm15.serde import request_to_dict

    data: dict[str, Any] = request_to_dict(request)
    return data


def response_data(response: Response) -> dict[str, Any]:
    """A response as plain data, without the provider's own envelope. Lone surrogates in it become U+FFFD."""
    # The same as for requests.
    from dspy._vendor.lm15.serde import response_to_dict

    data: dict[str, Any] = _encodable(response_to_dict(response))
    return data


def response_of(data: dict[str, Any]) -> Response:
    """The response that plain data stand for. Raises ValueError, TypeError, KeyError for others."""
    # The same as for requests.
    from dspy._vendor.lm15.serde import response_from_dict

    return response_from_dict(data)


def prompt_text(data: dict[str, Any]) -> str:
    """The words of a request that the model reads: of the system's part, then of each message."""
    return "\n\n".join(_texts([data.get("system"), data["messages"]]))


def answer_text(data: dict[str, Any]) -> str:
    """The words of a response that dspy hands on: neither what the model thought, nor why it refused."""
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
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _lone(value) else value
    if isinstance(value, dict):
        return {_encodable(name): _encodable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    return value


def _lone(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
