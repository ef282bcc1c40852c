"""What stands behind a role: something that answers requests, one try at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rbank_es.errors import LmFailed
from rbank_es.events.run_events import Role
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
