"""The live model: a provider's, called over the network, with its key, its client and the bounds of its answers.

Providers that dspy's own client knows are called through it; for all others litellm is loaded. Neither retries, caches
or streams. No other server is called: prices come from the list that dspy ships.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from rbank_es import limits
from rbank_es.models.choice import LmChoice
from rbank_es.models.model_call import ModelAnswer, Question, Try, complete_once, failed, load_dspy

if TYPE_CHECKING:
    import httpx
    from dspy.lm15 import Request, Resolution, Response


Result = TypeVar("Result")


class LiveModel:
    """A model of a provider, safe for several threads. Each call ends within the choice's timeout."""

    def __init__(self, choice: LmChoice) -> None:
        """Find the provider; nothing is sent. Raises `LmFailed` (unknown_model, missing_key), `MissingExtra`."""
        load_dspy()
        self._choice = choice
        self._route = route_of(choice)
        self._variable = require_key(choice)
        self.client = client_of(choice, self._route)

    def prepare(self, question: Question) -> Try:
        """Return a try that calls the provider once."""
        return lambda: self._once(question.request)

    def close(self) -> None:
        """Close the client's connections."""
        self.client.close()

    def _once(self, request: Request) -> ModelAnswer:
        response = run_within(self._choice.timeout_s, lambda: complete_once(self.client, request, self._variable))
        return ModelAnswer(response, self._cost(request, response))

    def _cost(self, request: Request, response: Response) -> float | None:
        if self._route is None or address_of(self._choice):
            return None  # no list has prices for a server of one's own
        # Private, because dspy's public way to prices is the LM's history, which other threads append to.
        from dspy.clients.costs import estimate_cost

        cost: float | None
        cost, _ = estimate_cost(
            response, provider=self._route.provider, requested_model=self._route.model, request=request
        )
        return cost


def run_within(seconds: float, work: Callable[[], Result]) -> Result:
    """Return the result of `work`, or raise its error; `LmFailed('timeout')` after so many seconds.

    After a timeout the work goes on in a daemon thread, because a connection that waits can't be closed from outside.
    """
    # A queue instead of a future, because an executor's threads would block the exit of the process.
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


NO_KEY = "no-key-needed"
"""The key for a server on this machine where none is set; most need none."""

_LITELLM_ONLY = {"api_version", "organization", "project"}
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of this machine: what is sent there stays on it."""


def route_of(choice: LmChoice) -> Resolution | None:
    """Return the provider that dspy's own client finds by the model's name; None where litellm is needed."""
    load_dspy()
    from dspy.clients.engines import LM15Engine
    from dspy.lm15 import RouterConfig, UnknownModelError, UnsupportedFeatureError

    # dspy's own client knows no arguments for these.
    if _LITELLM_ONLY & choice.arguments.keys():
        return None
    try:
        return LM15Engine(RouterConfig(), model_type=_kind(choice)).resolve(choice.model)
    except (UnknownModelError, UnsupportedFeatureError):
        return None


def require_key(choice: LmChoice) -> str:
    """Return the key's environment variable; empty where none is needed, or where litellm finds it.

    Raises `LmFailed('missing_key')`, naming the variable, if it is not set. A server on this machine needs none.
    """
    route = route_of(choice)
    if route is not None:
        variable = route.env_key if route.credential_policy == "key" else None
        missing = [variable] if variable and not os.environ.get(variable) else []
    else:
        variable, missing = None, _missing_for_litellm(choice)
    if missing and not _on_this_machine(address_of(choice)):
        names = " and ".join(missing)
        raise failed("missing_key", f"{choice.model} needs a key in the environment variable {names}")
    return variable or ""


def address_of(choice: LmChoice) -> str | None:
    """Return the URL of a server of one's own: the choice's, else that of the provider's variable; else None."""
    prefix = choice.model.partition("/")[0].upper().replace("-", "_")
    named = (os.environ.get(f"{prefix}_{end}") for end in ("API_BASE", "BASE_URL"))
    return choice.api_base or next(filter(None, named), None)


def _missing_for_litellm(choice: LmChoice) -> list[str]:
    litellm = load_litellm()
    try:
        litellm.get_llm_provider(choice.model)
    except Exception:
        raise failed("unknown_model", f"no provider is known for the model {choice.model!r}") from None
    return list(litellm.validate_environment(choice.model)["missing_keys"])


def load_litellm() -> Any:
    """Return the module litellm, silenced, because standard output belongs to the command's result.

    For OpenAI's protocol it gets a client that follows no redirects and stops at `LM_RESPONSE_BYTES`. For other
    protocols it brings its own, which only the timeout bounds.
    """
    import httpx
    import litellm

    litellm.suppress_debug_info = True
    if litellm.client_session is None:
        hooks = {"response": [_bound]}
        # Refuse compression: a few bytes could expand to gigabytes.
        plain = {"Accept-Encoding": "identity"}
        litellm.client_session = httpx.Client(follow_redirects=False, headers=plain, event_hooks=hooks)
    return litellm


def _bound(response: httpx.Response) -> None:
    """Replace the response's stream by a bounded one, before any of it is read."""
    import httpx

    inner = response.stream

    class BoundedStream(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return _bounded(inner if isinstance(inner, httpx.SyncByteStream) else ())

        def close(self) -> None:
            if isinstance(inner, httpx.SyncByteStream):
                inner.close()

    response.stream = BoundedStream()


def _bounded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of an answer. Raises `LmFailed` (response_too_long) once they exceed `LM_RESPONSE_BYTES`."""
    left = limits.LM_RESPONSE_BYTES
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise failed("response_too_long", f"the answer has more than {limits.LM_RESPONSE_BYTES:,} bytes")
        yield piece


def _on_this_machine(address: str | None) -> bool:
    return address is not None and urlsplit(address).hostname in LOOPBACK


def _kind(choice: LmChoice) -> str:
    return str(choice.arguments.get("model_type", "chat"))


def client_of(choice: LmChoice, route: Resolution | None) -> Any:
    """Return dspy's own client, or litellm behind the same interface. Nothing is sent."""
    from dspy.clients.engines import LiteLLMEngine, LM15Engine
    from dspy.lm15 import RouterConfig

    address = address_of(choice)
    if route is None:
        load_litellm()
        given = {name: value for name, value in choice.arguments.items() if name in _LITELLM_ONLY}
        address_given = {"api_base": address} if address else {}
        return LiteLLMEngine(model_type=_kind(choice), timeout=choice.timeout_s, **address_given, **given)
    # dspy's client demands a key even for servers that need none.
    keyless = _on_this_machine(address) and route.env_key and not os.environ.get(route.env_key)
    config = RouterConfig(
        api_keys={route.provider: NO_KEY} if keyless else None,
        base_urls={route.provider: address} if address else None,
        transport=BoundedTransport(choice.timeout_s),
    )
    return LM15Engine(config, model_type=_kind(choice))


class BoundedTransport:
    """Connections of dspy's client that bound the size and the time of an answer."""

    def __init__(self, timeout_s: float) -> None:
        # Private, because the client's transport has no public name; it has no limit of its own.
        from dspy._vendor.lm15.transports import StdlibTransport

        self._timeout_s = timeout_s
        self._inner = StdlibTransport(
            connect_timeout=min(limits.LM_CONNECT_S, timeout_s),
            read_timeout=timeout_s,
            write_timeout=timeout_s,
            pool_timeout=timeout_s,
        )

    def stream(self, request: Any) -> BoundedResponse:
        """Send a request, and return its response as a bounded stream."""
        return BoundedResponse(self._inner.stream(request), time.monotonic() + self._timeout_s)

    def close(self) -> None:
        """Close all connections."""
        self._inner.close()


class BoundedResponse:
    """A streamed response. Iterating it raises `LmFailed` (response_too_long, timeout) beyond its limits."""

    def __init__(self, inner: Any, deadline_s: float) -> None:
        """Wrap a response; `deadline_s` is on the monotonic clock."""
        self._inner, self._deadline_s = inner, deadline_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> BoundedResponse:
        return self

    def __exit__(self, *error: object) -> None:
        self._inner.close()

    def __iter__(self) -> Iterator[bytes]:
        for piece in _bounded(self._inner):
            # `run_within` gave up at the deadline too, but its thread would go on to read.
            if time.monotonic() > self._deadline_s:
                raise failed("timeout", "the answer didn't end in time")
            yield piece

    def read(self) -> bytes:
        """Return all bytes. Raises `LmFailed` (response_too_long, timeout)."""
        return b"".join(self)
