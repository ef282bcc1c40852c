"""Clients of models whose calls are recorded in a run: what `run.wrap` returns.

The client that was given is not changed, and its answers arrive as they are, whatever happens to their record.
"""

from __future__ import annotations

from typing import Any, TypeVar

# Here, because a call must import nothing: a child that is forked in another thread's import waits for ever.
import rbank_es.models.lm_request  # noqa: F401
from rbank_es.agents.wrapped_functions import recorded_function
from rbank_es.agents.wrapped_http import recorded_client
from rbank_es.agents.wrapped_lm import recorded_lm
from rbank_es.bank.model_calls import ModelCalls
from rbank_es.errors import BadInput

Client = TypeVar("Client")


def wrapped(client: Client, calls: ModelCalls) -> Client:
    """Return the client, recorded: an OpenAI client, a `dspy.LM`, or any function that calls a model.

    Nothing is imported for it: a library's class is known by its name and module. Raises `BadInput` for anything else.
    """
    kind: Any = type(client)
    recorded: Any
    if isinstance(client, type):
        raise BadInput(f"{client.__qualname__} is a class: make a client of it and wrap that")
    if _derives(kind, "openai", {"OpenAI", "AsyncOpenAI"}):
        recorded = recorded_client(client, calls)
    elif _derives(kind, "dspy", {"BaseLM"}):
        recorded = recorded_lm(client, calls)
    elif callable(client):
        recorded = recorded_function(client, calls)
    else:
        raise BadInput(
            f"a value of the type {kind.__qualname__} can't be wrapped: give an OpenAI client, a dspy.LM, or a "
            "function that asks a model"
        )
    wrapped_client: Client = recorded
    return wrapped_client


def _derives(kind: type, package: str, names: set[str]) -> bool:
    return any(each.__module__.partition(".")[0] == package and each.__name__ in names for each in kind.__mro__)
