"""An OpenAI client whose exchanges are recorded: a copy of it, with a recording transport around each of its own.

The copy shares the client's pool, and the client is not changed. The library is never imported here: its HTTP client
says whether it is of httpx or of httpx2, whose names are the same.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import AsyncIterator, Iterator
from functools import cache
from types import ModuleType
from typing import Any

from rbank_es import limits
from rbank_es.agents.http_calls import CALLS, HttpExchange, call_of, json_object
from rbank_es.bank.model_calls import ModelCalls
from rbank_es.errors import BadInput
from rbank_es.events import LmCalled

_FAMILIES = ("httpx", "httpx2")
_RETRIES = "x-stainless-retry-count"
"""The header in which the library counts the tries before this one."""


def recorded_client(client: Any, calls: ModelCalls) -> Any:
    """Return a copy of an OpenAI client that records each exchange. Raises `BadInput` where its inside is unknown."""
    inner: Any = getattr(client, "_client", None)
    family = next((sys.modules[name] for name in map(_package, type(inner).__mro__) if name in _FAMILIES), None)
    if family is None or not hasattr(inner, "_transport") or not hasattr(inner, "_mounts"):
        raise BadInput(
            f"this {type(client).__name__} keeps its HTTP client where no known release has it; wrap its function "
            "instead: run.wrap(client.chat.completions.create)"
        )
    if isinstance(key := getattr(client, "api_key", None), str):
        calls.hide(key)
    wrapped = _transport_class(family, isinstance(inner, family.AsyncClient))
    # A copy instead of a new client: hooks, cookies, proxies, limits and subclasses stay.
    recording = copy.copy(inner)
    recording._transport = wrapped(inner._transport, calls)
    recording._mounts = {key: each and wrapped(each, calls) for key, each in inner._mounts.items()}
    return client.with_options(http_client=recording)


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


# ---------------------------------------------------------------- one exchange


class _Recording:
    """The record of one exchange, made once: when its body ends, breaks or is closed."""

    def __init__(self, family: ModuleType, calls: ModelCalls, request: Any, sent: bytes) -> None:
        self._family, self._calls = family, calls
        retries, asked = request.headers.get(_RETRIES, ""), json_object(sent)
        self._exchange = HttpExchange(
            run=calls.begin(asked, whole=bool(asked)),
            sent=sent,
            asked=asked,
            attempt=int(retries) + 1 if retries.isdecimal() and len(retries) <= limits.INTEGER_DIGITS else None,
        )
        self._body, self._encoding = bytearray(), ""
        self._recorded = False
        self._began = time.perf_counter()

    def answered(self, response: Any) -> None:
        """Note the head of the response."""
        self._exchange.status = response.status_code
        self._exchange.media = response.headers.get("content-type", "")
        self._encoding = response.headers.get("content-encoding", "")
        self._exchange.end = "closed"  # until the body ends
        if response.is_closed:  # a stand-in for a server, whose body is there already
            self._encoding = ""
            self.take(response.content)
            self.whole()

    def take(self, piece: bytes) -> None:
        """Keep a piece of the body, as far as there is room."""
        room = limits.LM_RESPONSE_BYTES - len(self._body)
        self._body += piece[:room]
        self._exchange.dropped |= len(piece) > room

    def broken(self, error: BaseException) -> None:
        """Note the failure of the exchange, and record it. A reader that stopped isn't one."""
        if not isinstance(error, GeneratorExit):
            self._exchange.end, self._exchange.error = "broken", (type(error).__name__, str(error))
            self.ended()

    def whole(self) -> None:
        """Note that the body is whole, and record the exchange."""
        self._exchange.end = "whole"
        self.ended()

    def ended(self, *, later: bool = False) -> None:
        """Record the exchange, unless it is; with `later`, leave that to the next call, because this is a finalizer."""
        if self._recorded:
            return
        self._recorded = True
        self._exchange.duration_s = time.perf_counter() - self._began
        (self._calls.leave if later else self._calls.record)(self._event)

    def _event(self) -> LmCalled:
        self._exchange.body = self._decoded()
        return call_of(self._exchange, self._calls)

    def _decoded(self) -> bytes:
        """Return the body without its content encoding, as far as it can be decoded."""
        if self._encoding in ("", "identity"):
            return bytes(self._body)
        pieces = _stream_class(self._family, False)(_Slices(self._body), None)
        response = self._family.Response(200, headers={"content-encoding": self._encoding}, stream=pieces)
        body = bytearray()
        try:
            for piece in response.iter_bytes():
                body += piece
                if len(body) > limits.LM_RESPONSE_BYTES:
                    self._exchange.dropped = True
                    break
        except self._family.HTTPError:  # a body that was cut ends in the middle of its encoding
            pass
        return bytes(body[: limits.LM_RESPONSE_BYTES])


class _Slices:
    """A body in small pieces, so that one piece can't decode to gigabytes."""

    def __init__(self, body: bytearray) -> None:
        self._body = bytes(body)

    def __iter__(self) -> Iterator[bytes]:
        return (self._body[at : at + 4 * limits.KIB] for at in range(0, len(self._body), 4 * limits.KIB))

    def close(self) -> None:
        """Do nothing."""


def _sent(request: Any, family: ModuleType) -> bytes | None:
    """Return the JSON of a request that calls a model; None for any other, which is passed on unrecorded."""
    media = request.headers.get("content-type", "")
    if request.method != "POST" or not request.url.path.endswith(CALLS) or "json" not in media:
        return None
    try:
        sent: bytes = request.content
    except family.RequestNotRead:  # a stream of the caller's own: reading it would change how it is sent
        return None
    return sent


# ---------------------------------------------------------------- transports and streams of either family


@cache
def _stream_class(family: ModuleType, asynchronous: bool) -> Any:
    base = family.AsyncByteStream if asynchronous else family.SyncByteStream

    class Stream(base):  # type: ignore[misc,valid-type]
        """A body that passes through, and is recorded."""

        def __init__(self, stream: Any, recording: _Recording | None) -> None:
            self._stream, self._recording = stream, recording

        def __iter__(self) -> Iterator[bytes]:
            recording = self._recording
            if recording is None:
                yield from self._stream
                return
            try:
                for piece in self._stream:
                    recording.take(piece)
                    yield piece
            except BaseException as error:
                recording.broken(error)
                raise
            recording.whole()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            recording = self._recording
            assert recording is not None
            try:
                async for piece in self._stream:
                    recording.take(piece)
                    yield piece
            except BaseException as error:
                recording.broken(error)
                raise
            recording.whole()

        def close(self) -> None:
            try:
                self._stream.close()
            finally:
                if self._recording is not None:
                    self._recording.ended()

        async def aclose(self) -> None:
            try:
                await self._stream.aclose()
            finally:
                if self._recording is not None:
                    self._recording.ended()

        def __del__(self) -> None:
            if self._recording is not None:
                self._recording.ended(later=True)

    return Stream


@cache
def _transport_class(family: ModuleType, asynchronous: bool) -> Any:
    base = family.AsyncBaseTransport if asynchronous else family.BaseTransport
    stream_class = _stream_class(family, asynchronous)

    class Transport(base):  # type: ignore[misc,valid-type]
        """A transport around that of the agent's client, which stays open when this one is closed."""

        def __init__(self, transport: Any, calls: ModelCalls) -> None:
            self._transport, self._calls = transport, calls

        def handle_request(self, request: Any) -> Any:
            sent = _sent(request, family)
            if sent is None:
                return self._transport.handle_request(request)
            recording = _Recording(family, self._calls, request, sent)
            try:
                response = self._transport.handle_request(request)
            except BaseException as error:
                recording.broken(error)
                raise
            return _answered(response, recording, stream_class)

        async def handle_async_request(self, request: Any) -> Any:
            sent = _sent(request, family)
            if sent is None:
                return await self._transport.handle_async_request(request)
            recording = _Recording(family, self._calls, request, sent)
            try:
                response = await self._transport.handle_async_request(request)
            except BaseException as error:
                recording.broken(error)
                raise
            return _answered(response, recording, stream_class)

        def close(self) -> None:
            """Do nothing: the pool is that of the agent's client."""

        async def aclose(self) -> None:
            """Do nothing: the pool is that of the agent's client."""

    return Transport


def _answered(response: Any, recording: _Recording, stream_class: Any) -> Any:
    if not response.is_redirect:  # the answer to the next request is recorded instead
        recording.answered(response)
        response.stream = stream_class(response.stream, recording)
    return response
