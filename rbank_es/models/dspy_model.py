"""The model over dspy's client: a provider that doesn't speak OpenAI's protocol, or one that only litellm knows.

Providers that dspy's own client knows are called through it; for all others litellm is loaded. Neither retries, caches
or streams. No other server is called: prices come from the list that dspy ships.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rbank_es import limits
from rbank_es.models.answer_bounds import AnswerDeadline, bounded, run_within
from rbank_es.models.dspy_calls import complete_once, load_dspy, price_of
from rbank_es.models.lm_request import LmRequest
from rbank_es.models.model_call import ModelAnswer, Question, Try, failed
from rbank_es.models.model_choice import LmChoice, on_this_machine

if TYPE_CHECKING:
    import httpx
    from dspy.lm15 import Resolution


class DspyModel:
    """A model of a provider, safe for several threads. Each call ends within the choice's timeout."""

    def __init__(self, choice: LmChoice, address: str | None, variable: str) -> None:
        """Find the provider; nothing is sent. `address` is that of a server of one's own, `variable` names the key.

        Raises `LmFailed` (unknown_model), `MissingExtra`.
        """
        self._choice, self._address, self._variable = choice, address, variable
        self._route = route_of(choice)
        self.client = _client_of(choice, self._route, address)

    def prepare(self, question: Question) -> Try:
        """Return a try that calls the provider once."""
        return lambda: self._once(question.request)

    def close(self) -> None:
        """Close the client's connections."""
        self.client.close()

    def _once(self, request: LmRequest) -> ModelAnswer:
        made = run_within(self._choice.timeout_s, lambda: complete_once(self.client, request, self._variable))
        if self._route is None or self._address:
            return made  # no list has prices for a server of one's own
        cost = price_of(request, made.response, self._route.provider, self._route.model)
        return made._replace(cost_usd=cost)


NO_KEY = "no-key-needed"
"""The key for a server on this machine where none is set; most need none."""

_LITELLM_ONLY = {"api_version", "organization", "project"}


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


def key_variables(choice: LmChoice) -> tuple[str, list[str]]:
    """Return the environment variable of the key, empty where litellm finds it, and those that are missing."""
    route = route_of(choice)
    if route is None:
        return "", _missing_for_litellm(choice)
    variable = route.env_key if route.credential_policy == "key" else None
    return variable or "", [variable] if variable and not os.environ.get(variable) else []


def _missing_for_litellm(choice: LmChoice) -> list[str]:
    litellm = load_litellm()
    try:
        # A warning of a module that litellm loads only now is no answer to the question.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
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
            return bounded(inner if isinstance(inner, httpx.SyncByteStream) else ())

        def close(self) -> None:
            if isinstance(inner, httpx.SyncByteStream):
                inner.close()

    response.stream = BoundedStream()


def _kind(choice: LmChoice) -> str:
    return str(choice.arguments.get("model_type", "chat"))


def _client_of(choice: LmChoice, route: Resolution | None, address: str | None) -> Any:
    """Return dspy's own client, or litellm behind the same interface. Nothing is sent."""
    from dspy.clients.engines import LiteLLMEngine, LM15Engine
    from dspy.lm15 import RouterConfig

    if route is None:
        load_litellm()
        given = {name: value for name, value in choice.arguments.items() if name in _LITELLM_ONLY}
        address_given = {"api_base": address} if address else {}
        return LiteLLMEngine(model_type=_kind(choice), timeout=choice.timeout_s, **address_given, **given)
    # dspy's client demands a key even for servers that need none.
    keyless = on_this_machine(address) and route.env_key and not os.environ.get(route.env_key)
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
        deadline = AnswerDeadline(self._timeout_s, "the answer didn't end in time")
        return BoundedResponse(self._inner.stream(request), deadline)

    def close(self) -> None:
        """Close all connections."""
        self._inner.close()


class BoundedResponse:
    """A streamed response. Iterating it raises `LmFailed` (response_too_long, timeout) beyond its limits."""

    def __init__(self, inner: Any, deadline: AnswerDeadline) -> None:
        self._inner, self._deadline = inner, deadline

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> BoundedResponse:
        return self

    def __exit__(self, *error: object) -> None:
        self._inner.close()

    def __iter__(self) -> Iterator[bytes]:
        return bounded(self._inner, self._deadline)

    def read(self) -> bytes:
        """Return all bytes. Raises `LmFailed` (response_too_long, timeout)."""
        return b"".join(self)
