"""Providers: which one a model's name means, which variable its key comes from, and the client that asks it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rbank_es import limits
from rbank_es.models.call_errors import failed
from rbank_es.models.choice import LmChoice
from rbank_es.models.serialization import load_dspy

if TYPE_CHECKING:
    import httpx
    from dspy.lm15 import Resolution

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
