"""A provider's model, asked over the network: the only model that speaks to one.

Where dspy's own client knows the provider it is used, without litellm; else litellm is loaded. Neither retries, caches
or streams here, and nobody else is asked: prices come from the list that dspy brings.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from rbank_es.models.call_errors import failed
from rbank_es.models.choice import LmChoice
from rbank_es.models.model import Answer, Question, Try, complete_once
from rbank_es.models.providers import address_of, client_of, require_key, route_of
from rbank_es.models.serialization import load_dspy

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

Result = TypeVar("Result")


class LiveModel:
    """One model of one provider. Threads may ask at once; each call ends within the choice's time."""

    def __init__(self, choice: LmChoice) -> None:
        """Find the provider; nothing is sent. Raises `LmFailed` (unknown_model, missing_key), `MissingExtra`."""
        load_dspy()
        self._choice = choice
        self._route = route_of(choice)
        self._variable = require_key(choice)
        self._client = client_of(choice, self._route)

    def asked(self, question: Question) -> Try:
        """Each try is one call over the network."""
        return lambda: self._once(question.request)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _once(self, request: Request) -> Answer:
        response = within(self._choice.timeout_s, lambda: complete_once(self._client, request, self._variable))
        return Answer(response, self._cost(request, response))

    def _cost(self, request: Request, response: Response) -> float | None:
        if self._route is None or address_of(self._choice):
            return None  # nobody has a list of prices for a server of one's own
        # The public way to dspy's prices is the history of its LM, to which other threads write as well.
        from dspy.clients.costs import estimate_cost

        cost: float | None
        cost, _ = estimate_cost(
            response, provider=self._route.provider, requested_model=self._route.model, request=request
        )
        return cost


def within(seconds: float, work: Callable[[], Result]) -> Result:
    """The result of some work, or what it raises; `LmFailed('timeout')` once the time is over.

    The work is then left to itself, in a thread that keeps no process alive: a server that sends a byte now and then
    can't be told from one that thinks, and a connection that waits can't be ended from outside.
    """
    done: queue.SimpleQueue[tuple[Result | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((work(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=run, name="model call", daemon=True).start()
    try:
        result, error = done.get(timeout=seconds)
    except queue.Empty:
        raise failed("timeout", f"the model gave no answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
