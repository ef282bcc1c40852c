"""A server on the loopback that speaks as OpenAI does (/v1/chat/completions), and misbehaves where it is told to.

    with openai_server(["first answer", rate_limited(0), "second answer"]) as server:
        LmChoice(model="openai/stub", api_base=server.url)

Answers come from a list, in order, or from a function of the request; each is a text, or a behaviour from below.
"""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.sparql.fault_server import Asked, Behaviour, FaultServer, chunk, drips, floods, hangs, head, says, whole

JSON = "application/json"
Reply = str | Behaviour
Answers = Sequence[Reply] | Callable[[dict[str, Any]], Reply]


def completion(text: str | None, model: str = "stub", **more: Any) -> bytes:
    """The body of an answer. Tokens are counted as words."""
    words = len((text or "").split())
    message = {"role": "assistant", "content": text}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": words,
            "total_tokens": 10 + words,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }
    return json.dumps({**body, **more}).encode()


def calling(*calls: tuple[str, Any], words: str | None = None, ids: Sequence[str] | None = None) -> Behaviour:
    """An answer that calls tools: the name of each and its arguments, or their text; each has an id of its own."""
    made = [
        {
            "id": ids[number] if ids else f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for number, (name, given) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": words, "tool_calls": made}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return says(completion(words, choices=[choice]), JSON)


def error(status: str, message: str, code: str | None = None, *lines: str) -> Behaviour:
    body = {"error": {"message": message, "type": "error", "code": code}}
    return says(json.dumps(body).encode(), JSON, status, *lines)


def rate_limited(retry_after: str | int | None = None) -> Behaviour:
    lines = () if retry_after is None else (f"Retry-After: {retry_after}",)
    return error("429 Too Many Requests", "slow down", "rate_limit_exceeded", *lines)


def failing(status: str = "500 Internal Server Error") -> Behaviour:
    return error(status, "it broke")


def unauthorized(shown: str = "wrong key") -> Behaviour:
    return error("401 Unauthorized", shown, "invalid_api_key")


def no_credit() -> Behaviour:
    return error("429 Too Many Requests", "no credit", "insufficient_quota")


def unknown_model() -> Behaviour:
    return error("404 Not Found", "The model `stub` does not exist", "model_not_found")


def refused() -> Behaviour:
    return error("400 Bad Request", "temperature is too high")


def too_much_context() -> Behaviour:
    return error("400 Bad Request", "maximum context length is 8 tokens", "context_length_exceeded")


def half_a_body() -> Behaviour:
    body = completion("an answer that is cut")
    sent = whole(body, JSON)[: -len(body) // 2]
    return lambda connection, asked: connection.sendall(sent)


def not_json() -> Behaviour:
    return says(b"<html>a gateway's page</html>", "text/html")


def other_json() -> Behaviour:
    return says(b'{"hello": ["world"]}', JSON)


def wrong_type(text: str) -> Behaviour:
    """An answer that is right, in a wrapping that isn't."""
    return says(completion(text), "text/plain")


def empty(finish_reason: str = "stop") -> Behaviour:
    choice = {"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": finish_reason}
    return says(completion(None, choices=[choice]), JSON)


def very_long(chars: int) -> Behaviour:
    return says(completion("a" * chars), JSON)


def gzipped(text: str) -> Behaviour:
    return says(gzip.compress(completion(text)), JSON, "200 OK", "Content-Encoding: gzip")


def streamed(*words: str, done: bool = True, breaks: bool = False, pause_s: float = 0.0) -> Behaviour:
    """A stream of chunks, the last with the usage, then `[DONE]`; `breaks` ends it within its chunked encoding."""

    def behave(connection: socket.socket, asked: Asked) -> None:
        connection.sendall(head("200 OK", "text/event-stream", "Transfer-Encoding: chunked", "Connection: close"))
        for word in words:
            connection.sendall(chunk(_event({"choices": [{"index": 0, "delta": {"content": word}}]})))
            time.sleep(pause_s)
        if done:
            usage = {"prompt_tokens": 10, "completion_tokens": len(words), "total_tokens": 10 + len(words)}
            connection.sendall(chunk(_event({"choices": [], "usage": usage}) + b"data: [DONE]\n\n"))
        if not breaks:
            connection.sendall(b"0\r\n\r\n")

    return behave


def _event(data: dict[str, Any]) -> bytes:
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "stub", **data}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def closing() -> Behaviour:
    return lambda connection, asked: None


def hanging() -> Behaviour:
    return hangs()


def dripping(pause_s: float = 0.02) -> Behaviour:
    """A body that never ends, a byte at a time."""
    return drips(head("200 OK", JSON, "Content-Length: 1000000000"), b" ", pause_s)


def flooding() -> Behaviour:
    return floods(head("200 OK", JSON, "Content-Length: 100000000000"), b" " * 65_536)


class OpenAiServer:
    """What it was asked is in `requests` (bodies) and `headers`; it stands at `url`."""

    def __init__(self, answers: Answers, **pages: Any) -> None:
        """`pages`: `props` and `models`, the JSON or the behaviour of such a page; it has none unless given."""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._answers = answers
        self._mutex = threading.Lock()
        self._server = FaultServer()
        self.url = self._server.url + "/v1"
        self._server.at("/v1/chat/completions", lambda connection, asked: self._answer(asked)(connection, asked))
        for path, name in (("/props", "props"), ("/v1/models", "models")):
            self._server.at(path, _page(pages.get(name)))

    def _answer(self, asked: Asked) -> Behaviour:
        body = json.loads(asked.body)
        with self._mutex:
            self.requests.append(body)
            self.headers.append({name.lower(): value for name, value in asked.headers.items()})
            number = len(self.requests) - 1
        if callable(self._answers):
            reply = self._answers(body)
        else:
            reply = self._answers[number] if number < len(self._answers) else failing("500 No Further Answer")
        return says(completion(reply, str(body.get("model"))), JSON) if isinstance(reply, str) else reply

    def asked(self, path: str) -> list[Asked]:
        """The requests for a path."""
        return [each for each in self._server.asked if each.target == path]

    @contextmanager
    def running(self) -> Iterator[OpenAiServer]:
        with self._server.running():
            yield self


def _page(given: Any) -> Behaviour:
    if given is None:
        return error("404 Not Found", "no such page")
    return given if callable(given) else says(json.dumps(given).encode(), JSON)


@contextmanager
def openai_server(answers: Answers, **pages: Any) -> Iterator[OpenAiServer]:
    """A server that runs while the block does; `pages` as `OpenAiServer` takes them."""
    with OpenAiServer(answers, **pages).running() as server:
        yield server
