"""A proxy on the loopback before a model's server: it passes everything on, and counts the calls and their tokens."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

BOUNDS = ("max_tokens", "max_completion_tokens")
_PASSED = ("content-type", "authorization", "accept", "user-agent")


class Call(NamedTuple):
    """A call as it passed: the bound that the request had, whether it had a stop, and what came back."""

    bound: int | None
    stop: bool
    status: int
    tokens_in: int | None
    tokens_out: int | None

    @property
    def kept(self) -> bool:
        """Whether the request had a bound, and the reply kept it."""
        return self.bound is not None and (self.tokens_out is None or self.tokens_out <= self.bound)


class Proxy:
    """The proxy of one server; `calls` are those of the model that passed, `url` is its own address."""

    def __init__(self, upstream: str, timeout_s: float) -> None:
        self.calls: list[Call] = []
        self._upstream, self._timeout_s = urlsplit(upstream), timeout_s
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{self._upstream.path}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.passed(self)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        return Handler

    def passed(self, asked: BaseHTTPRequestHandler) -> None:
        """Pass a request on, and its reply back as it comes."""
        body = asked.rfile.read(int(asked.headers.get("content-length") or 0))
        kind = http.client.HTTPSConnection if self._upstream.scheme == "https" else http.client.HTTPConnection
        connection = kind(str(self._upstream.hostname), self._upstream.port, timeout=self._timeout_s)
        headers = {name: asked.headers[name] for name in _PASSED if asked.headers[name]}
        seen, status = bytearray(), 502
        try:
            connection.request(asked.command, asked.path, body or None, headers)
            given = connection.getresponse()
            status = given.status
            asked.send_response(status)
            asked.send_header("Content-Type", given.headers.get("Content-Type", "application/json"))
            asked.send_header("Connection", "close")
            asked.end_headers()
            while piece := given.read1(65_536):
                seen += piece
                asked.wfile.write(piece)
                asked.wfile.flush()
        except OSError:
            # One of both is gone. The call was made all the same.
            pass
        finally:
            connection.close()
            asked.close_connection = True
            if asked.command == "POST" and asked.path.endswith("/chat/completions"):
                self.calls.append(_call(body, status, bytes(seen)))

    @contextmanager
    def running(self) -> Iterator[Proxy]:
        """Serve while the block runs."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


def _call(body: bytes, status: int, seen: bytes) -> Call:
    sent = _plain(body)
    rows = [_plain(line[5:]) for line in seen.splitlines() if line.startswith(b"data:")] or [_plain(seen)]
    usage = next((row["usage"] for row in reversed(rows) if isinstance(row.get("usage"), dict)), {})
    bound = next((sent[name] for name in BOUNDS if isinstance(sent.get(name), int)), None)
    return Call(bound, bool(sent.get("stop")), status, usage.get("prompt_tokens"), usage.get("completion_tokens"))


def _plain(text: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        row = json.loads(text)
        return row if isinstance(row, dict) else {}
    return {}
