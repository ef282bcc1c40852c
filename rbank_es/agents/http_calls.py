"""An HTTP exchange with an OpenAI-compatible server, as a recorded call of a model. Pure functions of its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from rbank_es.bank.model_calls import CallFacts, ModelCalls
from rbank_es.events import LmCalled
from rbank_es.models.model_call import code_of_refusal

CALLS = ("/chat/completions", "/completions", "/responses")
"""The ends of the paths that call a model; uploads, lists and embeddings are passed on unrecorded."""

End = Literal["whole", "closed", "broken"]
"""How a body ended: the server was done, the reader closed it before, or the connection broke."""

_TELLING = (b'"usage"', b'"error"', b'"response.')
"""What stands in the events of a stream that tell how it went."""

_LAST = ("response.completed", "response.incomplete", "response.failed")
"""Types of the last event of a stream of `/responses`; that of the others is `[DONE]`."""


class HttpExchange(msgspec.Struct, kw_only=True):
    """One request and what has come back so far. `asked` is its JSON, `attempt` the number of the try, from 1.

    `body` is decoded; `dropped` says that more came than is kept. `error` is set where the exchange failed: its class,
    and its message.
    """

    run: str | None
    sent: bytes
    asked: dict[str, Any]
    attempt: int | None = None
    status: int | None = None
    media: str = ""
    body: bytes = b""
    dropped: bool = False
    end: End = "whole"
    error: tuple[str, str] | None = None
    duration_s: float = 0.0


def call_of(exchange: HttpExchange, calls: ModelCalls) -> LmCalled:
    """Return the event of an exchange that has ended."""
    streamed = exchange.media.partition(";")[0].strip() == "text/event-stream"
    answers = list(_streamed(exchange.body)) if streamed else [json_object(exchange.body)]
    code, message = _failure(exchange, streamed, answers)
    return calls.event(
        CallFacts(
            run=exchange.run,
            asked=exchange.asked,
            request=exchange.sent.decode("utf-8", "replace"),
            response=exchange.body.decode("utf-8", "replace") if exchange.status is not None else None,
            whole=not exchange.dropped,
            usage=_usage(answers),
            attempt=exchange.attempt,
            duration_s=exchange.duration_s,
            error_code=code,
            error=message,
        )
    )


def _usage(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the last usage that the answers have: a stream tells it in a chunk near its end, or in several."""
    for answer in reversed(answers):
        inner = answer.get("response")
        for place in (answer, inner if isinstance(inner, dict) else {}):
            if isinstance(usage := place.get("usage"), dict):
                return usage
    return {}


def _streamed(body: bytes) -> Iterator[dict[str, Any]]:
    """Yield those of a stream's events that tell how it went, `{"done": True}` for its end: a stream has thousands."""
    for line in body.splitlines():
        data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
        if data == b"[DONE]":
            yield {"done": True}
        elif data and any(word in data for word in _TELLING):
            yield json_object(data)


def json_object(data: bytes) -> dict[str, Any]:
    """Return the object that some JSON is; an empty one for anything else."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _failure(exchange: HttpExchange, streamed: bool, answers: list[dict[str, Any]]) -> tuple[str | None, str | None]:
    """Return the code and the message of what failed; the message is the server's, or that of the exception."""
    refusal = next((each["error"] for each in answers if each.get("error")), None)
    said = refusal.get("message") if isinstance(refusal, dict) else refusal
    message = said if isinstance(said, str) else None
    if exchange.status is None:
        kind, text = exchange.error or ("", "")
        return code_of(kind), f"{kind}: {text}"
    if exchange.status >= 400:
        named = [str(refusal.get("code"))] if isinstance(refusal, dict) else []
        return code_of_refusal(exchange.status, named), message
    if streamed and any(each.get("done") or each.get("type") in _LAST for each in answers):
        return ("server_error", message) if message else (None, None)
    if exchange.end == "broken":
        kind, text = exchange.error or ("", "")
        lost = "stream_cut" if streamed else "bad_response"
        return ("interrupted" if code_of(kind) == "interrupted" else lost), f"{kind}: {text}"
    if exchange.end == "closed":
        return "closed_early", None
    if streamed and not exchange.dropped:
        return "stream_cut", message
    return (None if streamed or exchange.dropped or answers != [{}] else "bad_response"), None


def code_of(kind: str) -> str:
    """Return the code of a failed exchange by the name of its exception, which httpx and httpx2 share."""
    if "Timeout" in kind:
        return "timeout"
    if kind in ("CancelledError", "KeyboardInterrupt", "GeneratorExit", "SystemExit", "Cancelled"):
        return "interrupted"
    return "unreachable" if kind in ("ConnectError", "UnsupportedProtocol", "ProxyError") else "bad_response"
