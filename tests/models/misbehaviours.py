"""What servers of models do wrong for good: one table for every face that meets them.

The client (`test_real_server`), dspy's beside it (`test_openai_model`), each role of a run (`test_whole_runs`) and each
executor (`test_misbehaving_servers`).
"""

from __future__ import annotations

import json
import socket
import time
from typing import Any, NamedTuple

from rbank_es import limits
from tests.models import openai_server as says
from tests.models.openai_server import Reply
from tests.sparql.fault_server import Asked, chunk, head

LETTER = b'data: {"choices": [{"index": 0, "delta": {"content": "\xc3'
"""The begin of a stream, up to the middle of a letter."""


class Misbehaviour(NamedTuple):
    """A reply that is given as often as somebody asks, the code of the failure, and how often it is asked for."""

    reply: Reply
    code: str = "bad_response"
    tries: int = 3


def raw(*pieces: bytes, pause_s: float = 0.0, endless: bool = False) -> says.Behaviour:
    """A stream of these bytes, wherever they cut a letter or a line; an endless one begins again."""

    def behave(connection: socket.socket, asked: Asked) -> None:
        connection.sendall(head("200 OK", "text/event-stream", "Transfer-Encoding: chunked", "Connection: close"))
        while True:
            for each in pieces:
                connection.sendall(chunk(each))
                time.sleep(pause_s)
            if not endless:
                break
        connection.sendall(b"0\r\n\r\n")

    return behave


def events(*data: Any, pause_s: float = 0.0, endless: bool = False) -> says.Behaviour:
    """A stream of these chunks, or lines."""
    lines = (each if isinstance(each, str) else "data: " + json.dumps(each) for each in data)
    return raw(*(f"{line}\n\n".encode() for line in lines), pause_s=pause_s, endless=endless)


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c1", "model": "small", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def choosing(*choices: Any) -> says.Behaviour:
    """An answer with these choices."""
    return says.says(says.completion(None, choices=choices), says.JSON)


def ended(reason: str | None, words: str = "some words") -> says.Behaviour:
    message = {"role": "assistant", "content": words}
    return choosing({"index": 0, "message": message, "finish_reason": reason})


FAILING: dict[str, Misbehaviour] = {
    "busy": Misbehaviour(says.rate_limited(0), "rate_limited"),
    "500": Misbehaviour(says.error("500 Internal Server Error", "it broke", None, "Retry-After: 0"), "server_error"),
    "an error for an answer": Misbehaviour(says.error("200 OK", "it broke", "server_error"), "server_error"),
    "asked to wait too long": Misbehaviour(says.rate_limited(3600), "rate_limited", 1),
    "no credit": Misbehaviour(says.no_credit(), "no_credit", 1),
    "401": Misbehaviour(says.unauthorized(), "wrong_key", 1),
    "404": Misbehaviour(says.unknown_model(), "unknown_model", 1),
    "404 of another path": Misbehaviour(says.error("404 Not Found", "no such page"), "unknown_model", 1),
    "400": Misbehaviour(says.refused(), "refused", 1),
    "too much context": Misbehaviour(says.too_much_context(), "context_too_long", 1),
    "closed": Misbehaviour(says.closing()),
    "a page": Misbehaviour(says.not_json()),
    "a page as words": Misbehaviour("<html><head><title>502 Bad Gateway</title></head></html>"),
    "an error as words": Misbehaviour('{"error": {"message": "Rate limit reached", "code": 429}}'),
    "other JSON": Misbehaviour(says.other_json()),
    "half a body": Misbehaviour(says.half_a_body()),
    "half a letter": Misbehaviour(says.says(b'{"choices": "\xc3', says.JSON)),
    "no choices": Misbehaviour(choosing()),
    "no message": Misbehaviour(choosing({})),
    "a call of nothing": Misbehaviour(choosing({"message": {"tool_calls": [{"id": "x"}]}})),
    "nothing": Misbehaviour(says.empty()),
    "blank": Misbehaviour("  \n "),
    "an error as its end": Misbehaviour(ended("error")),
    "broken off": Misbehaviour(ended("abort")),
    "filtered": Misbehaviour(ended("content_filter")),
    "nothing within its bound": Misbehaviour(says.empty("length"), tries=1),
    "very long": Misbehaviour(says.very_long(limits.LM_RESPONSE_CHARS + 1), "response_too_long", 1),
    "a flood": Misbehaviour(says.flooding(), "response_too_long", 1),
    "a stream that stops": Misbehaviour(events(piece(content="half"))),
    "a stream that stops within a letter": Misbehaviour(raw(LETTER)),
    "a stream that breaks off": Misbehaviour(says.streamed("a", done=False, breaks=True)),
    "a stream of no JSON": Misbehaviour(events("data: {no JSON")),
    "a stream of another form": Misbehaviour(events("data: [3]")),
    "a stream of nothing": Misbehaviour(events("data: [DONE]")),
    "an error in a stream": Misbehaviour(events({"error": {"message": "no", "type": "server_error"}}), "server_error"),
    "a refusal in a stream": Misbehaviour(
        events('error: {"message": "no", "type": "exceed_context_size_error"}'), "context_too_long", 1
    ),
}


def replies(*names: str) -> dict[str, list[Reply]]:
    """The replies of these misbehaviours, as often as somebody asks."""
    return {name: [FAILING[name].reply] * FAILING[name].tries for name in names}
