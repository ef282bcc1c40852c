"""A function that calls a model, recorded: the same function, whose arguments and replies are events of the run."""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from functools import wraps
from typing import Any

from msgspec import json, structs

from rbank_es import limits
from rbank_es.agents.http_calls import code_of
from rbank_es.bank.model_calls import CallFacts, ModelCalls
from rbank_es.bank.recorded_values import PlainValues
from rbank_es.events import LmCalled


def recorded_function(function: Callable[..., Any], calls: ModelCalls) -> Callable[..., Any]:
    """Return a function of the same signature that records each call, and returns or raises what `function` does."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):

        @wraps(function)
        async def call_later(*arguments: Any, **named: Any) -> Any:
            call = BegunCall(calls, arguments, named)
            return await _awaited(function(*arguments, **named), call)

        return call_later

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        call = BegunCall(calls, arguments, named)
        try:
            reply = function(*arguments, **named)
        except BaseException as error:
            call.failed(error)
            raise
        if inspect.isawaitable(reply):
            return _awaited(reply, call)
        return call.returned(reply)

    return call


async def _awaited(reply: Awaitable[Any], call: BegunCall) -> Any:
    try:
        result = await reply
    except BaseException as error:
        call.failed(error)
        raise
    return call.returned(result)


class BegunCall:
    """One call of a function from its start: what it was given, and the run that it belongs to."""

    def __init__(self, calls: ModelCalls, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Begin a call. A prompt alone is the request; several arguments are in order, or by name."""
        self._calls, values = calls, PlainValues(limits.LM_REQUEST_BYTES)
        if len(arguments) == 1 and not named:
            self._request = values.of(arguments[0])
        else:
            self._request = values.of({"arguments": arguments, **named} if arguments else named)
        self._whole = values.whole
        self._run = calls.begin(self._request, whole=self._whole)
        self._began = time.perf_counter()

    def returned(self, reply: Any) -> Any:
        """Return the reply, and record it; a generator's when it ends, as far as the caller took it."""
        if inspect.isgenerator(reply):
            return RecordedGenerator(reply, self)
        if inspect.isasyncgen(reply):
            return RecordedAsyncGenerator(reply, self)
        self.replied(reply)
        return reply

    def replied(self, reply: Any, usage: Mapping[str, Any] | None = None) -> None:
        """Record the reply, with the usage that it names itself if none is given."""
        took_s, values = time.perf_counter() - self._began, PlainValues(limits.LM_RESPONSE_CHARS)

        def made() -> LmCalled:
            plain = values.of(reply)
            told = usage if usage is not None else plain.get("usage") if isinstance(plain, dict) else None
            facts = self._facts(took_s)
            found = told if isinstance(told, dict) else {}
            return self._calls.event(structs.replace(facts, response=_json(plain), whole=values.whole, usage=found))

        self._calls.record(made)

    def yielded(self, pieces: Any, *, whole: bool, error: BaseException | None = None, later: bool = False) -> None:
        """Record what a generator yielded, and the exception that ended it; `later`: at the next `flush`."""
        facts = structs.replace(self._facts(time.perf_counter() - self._began), response=_json(pieces), whole=whole)
        if error is not None:
            facts = structs.replace(facts, error_code=_code(error), error=_message(error))
        (self._calls.leave if later else self._calls.record)(lambda: self._calls.event(facts))

    def failed(self, error: BaseException) -> None:
        """Record the exception in place of a reply."""
        took_s = time.perf_counter() - self._began
        told = {"error_code": _code(error), "error": _message(error)}
        self._calls.record(lambda: self._calls.event(structs.replace(self._facts(took_s), **told)))

    def _facts(self, took_s: float) -> CallFacts:
        return CallFacts(
            run=self._run,
            asked=self._request if isinstance(self._request, dict) else {},
            request=_json(self._request),
            response=None,
            request_whole=self._whole,
            duration_s=took_s,
        )


class _Pieces:
    """What a generator yielded to the caller, within the bound of a reply. It is asked for nothing more."""

    def __init__(self, reply: Any, call: BegunCall) -> None:
        self._reply, self._call = reply, call
        self._values, self._pieces = PlainValues(limits.LM_RESPONSE_CHARS), list[Any]()
        self._is_recorded = False

    def _taken(self, piece: Any) -> Any:
        if self._values.whole:
            self._pieces.append(self._values.of(piece))
        return piece

    def _ended(self, error: BaseException | None = None, *, later: bool = False) -> None:
        if self._is_recorded:
            return
        self._is_recorded = True
        is_text = bool(self._pieces) and all(isinstance(piece, str) for piece in self._pieces)
        pieces: Any = "".join(self._pieces) if is_text else self._pieces
        ended = isinstance(error, StopIteration | StopAsyncIteration)
        # A caller may close a generator when it has enough: nothing failed then.
        failure = None if ended or isinstance(error, GeneratorExit) else error
        self._call.yielded(pieces, whole=ended and self._values.whole, error=failure, later=later)

    def __del__(self) -> None:
        self._ended(later=True)


class RecordedGenerator(_Pieces, Generator[Any, Any, Any]):
    """A generator that passes everything on, and is recorded when it ends, is closed or is dropped."""

    def send(self, value: Any) -> Any:
        """See `Generator.send`."""
        return self._passed(self._reply.send, value)

    def throw(self, *given: Any) -> Any:
        """See `Generator.throw`."""
        return self._passed(self._reply.throw, *given)

    def _passed(self, act: Callable[..., Any], *given: Any) -> Any:
        try:
            return self._taken(act(*given))
        except BaseException as error:
            self._ended(error)
            raise


class RecordedAsyncGenerator(_Pieces, AsyncGenerator[Any, Any]):
    """The same of an asynchronous generator."""

    async def asend(self, value: Any) -> Any:
        """See `AsyncGenerator.asend`."""
        return await self._passed(self._reply.asend, value)

    async def athrow(self, *given: Any) -> Any:
        """See `AsyncGenerator.athrow`."""
        return await self._passed(self._reply.athrow, *given)

    async def _passed(self, act: Callable[..., Any], *given: Any) -> Any:
        try:
            return self._taken(await act(*given))
        except BaseException as error:
            self._ended(error)
            raise


def _json(value: Any) -> str:
    return json.encode(value).decode()


def _code(error: BaseException) -> str:
    code = code_of(type(error).__name__)
    # Of a function nothing says that a connection broke.
    return "unexpected" if code == "bad_response" else code


def _message(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # an exception whose own text fails
        return type(error).__name__
