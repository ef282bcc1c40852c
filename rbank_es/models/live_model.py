"""A provider's model, asked over the network: the only model that speaks to one.

Where dspy's own client knows the provider it is used, without litellm; else litellm is loaded. Neither retries, caches
or streams here, and nobody else is asked: prices come from the list that dspy brings.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from rbank_es import limits
from rbank_es.models.call_errors import failed
from rbank_es.models.choice import LmChoice
from rbank_es.models.model import Answer, Question, Try, complete_once, load_dspy

if TYPE_CHECKING:
    import httpx
    from dspy.lm15 import Request, Resolution, Response


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


NO_KEY = "no-key-needed"
"""What a server on this machine is given where there is no key; most ask for none."""

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def route_of(choice: LmChoice) -> Resolution | None:
    """The provider that dspy's own client knows under the model's name; None where litellm must be asked."""
    load_dspy()
    from dspy.clients.engines import LM15Engine
    from dspy.lm15 import RouterConfig, UnknownModelError, UnsupportedFeatureError

    if {"api_version", "organization", "project"} & choice.arguments.keys():
        return None
    try:
        return LM15Engine(RouterConfig(), model_type=_kind(choice)).resolve(choice.model)
    except (UnknownModelError, UnsupportedFeatureError):
        return None


def require_key(choice: LmChoice) -> str:
    """The environment variable that the key comes from; empty where none is needed, or the provider has its own ways.

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
    """The server's URL, where it is not the provider's own: as given, else from the provider's variable for it."""
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
    """The module litellm, told to print nothing: standard output is for what was asked.

    Where it speaks as OpenAI does, it is given connections that are led nowhere else and break off at
    `LM_RESPONSE_BYTES`. For other protocols it brings its own, which only the time of an answer bounds.
    """
    import httpx
    import litellm

    litellm.suppress_debug_info = True
    if litellm.client_session is None:
        hooks = {"response": [_bound]}
        # Compressed, a small answer may be a very large one.
        plain = {"Accept-Encoding": "identity"}
        litellm.client_session = httpx.Client(follow_redirects=False, headers=plain, event_hooks=hooks)
    return litellm


def _bound(response: httpx.Response) -> None:
    """Let an answer break off at the limit of its size; called before any of it is read."""
    import httpx

    inner = response.stream

    class Bounded(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            left = limits.LM_RESPONSE_BYTES
            for piece in inner if isinstance(inner, httpx.SyncByteStream) else ():
                left -= len(piece)
                if left < 0:
                    most = limits.LM_RESPONSE_BYTES
                    raise failed("response_too_long", f"the answer has more than {most:,} bytes")
                yield piece

        def close(self) -> None:
            if isinstance(inner, httpx.SyncByteStream):
                inner.close()

    response.stream = Bounded()


def _on_this_machine(address: str | None) -> bool:
    return address is not None and urlsplit(address).hostname in _LOOPBACK


def _kind(choice: LmChoice) -> str:
    return str(choice.arguments.get("model_type", "chat"))


def client_of(choice: LmChoice, route: Resolution | None) -> Any:
    """One try at a time: dspy's own client, or litellm behind the same interface. Nothing is sent yet."""
    from dspy.clients.engines import LiteLLMEngine, LM15Engine
    from dspy.lm15 import RouterConfig

    address = address_of(choice)
    if route is None:
        load_litellm()
        given = {
            name: choice.arguments[name]
            for name in ("api_version", "organization", "project")
            if name in choice.arguments
        }
        address_given = {"api_base": address} if address else {}
        return LiteLLMEngine(model_type=_kind(choice), timeout=choice.timeout_s, **address_given, **given)
    keyless = _on_this_machine(address) and route.env_key and not os.environ.get(route.env_key)
    config = RouterConfig(
        api_keys={route.provider: NO_KEY} if keyless else None,
        base_urls={route.provider: address} if address else None,
        transport=BoundedTransport(choice.timeout_s),
    )
    return LM15Engine(config, model_type=_kind(choice))


class BoundedTransport:
    """Connections of dspy's client that give no more than `LM_RESPONSE_BYTES` of an answer, and not for ever."""

    def __init__(self, timeout_s: float) -> None:
        """Connections on which an answer may take `timeout_s`."""
        # The client's own connections have no public name, and no limit of their own.
        from dspy._vendor.lm15.transports import StdlibTransport

        self._timeout_s = timeout_s
        self._inner = StdlibTransport(
            connect_timeout=min(limits.LM_CONNECT_S, timeout_s),
            read_timeout=timeout_s,
            write_timeout=timeout_s,
            pool_timeout=timeout_s,
        )

    def stream(self, request: Any) -> BoundedResponse:
        """Send a request; what comes back is read while it comes."""
        return BoundedResponse(self._inner.stream(request), time.monotonic() + self._timeout_s)

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


class BoundedResponse:
    """An answer that breaks off at the limit of its size, or of its time."""

    def __init__(self, inner: Any, deadline_s: float) -> None:
        """`deadline_s` is when it breaks off, by the monotonic clock."""
        self._inner, self._deadline_s = inner, deadline_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> BoundedResponse:
        return self

    def __exit__(self, *error: object) -> None:
        self._inner.close()

    def __iter__(self) -> Iterator[bytes]:
        left = limits.LM_RESPONSE_BYTES
        for piece in self._inner:
            left -= len(piece)
            if left < 0:
                most = limits.LM_RESPONSE_BYTES
                raise failed("response_too_long", f"the answer has more than {most:,} bytes")
            if time.monotonic() > self._deadline_s:
                # Nobody waits for it any more; the thread that reads it must not read for ever.
                raise failed("timeout", "the answer didn't end in time")
            yield piece

    def read(self) -> bytes:
        """All of it. Raises `LmFailed` (response_too_long, timeout)."""
        return b"".join(self)
