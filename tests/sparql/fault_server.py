"""An endpoint on the loopback that does, path by path, what endpoints were seen to do; and notes what it was asked."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from rbank_es import limits

JSON = "application/sparql-results+json"
ROW = b'{"x":{"type":"literal","value":"one"}}'
HEAD = b'{"head":{"vars":["x"]},"results":{"bindings":['
GOOD = HEAD + ROW + b"]}}"


class Asked(NamedTuple):
    """One request as it came in."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def query(self) -> str:
        text = urlsplit(self.target).query if self.method == "GET" else self.body.decode()
        return parse_qs(text)["query"][0]


Behaviour = Callable[[socket.socket, Asked], None]


def head(status: str = "200 OK", media: str = JSON, *lines: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", f"Content-Type: {media}", *lines, "", "")).encode()


def whole(body: bytes, media: str = JSON, status: str = "200 OK", *lines: str) -> bytes:
    return head(status, media, f"Content-Length: {len(body)}", "Connection: close", *lines) + body


def says(body: bytes, media: str = JSON, status: str = "200 OK", *lines: str) -> Behaviour:
    """Answer with a whole body."""
    return lambda connection, asked: connection.sendall(whole(body, media, status, *lines))


def sends(data: bytes) -> Behaviour:
    """Send these bytes, then close."""
    return lambda connection, asked: connection.sendall(data)


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def drips(first: bytes, drop: bytes, pause_s: float) -> Behaviour:
    """Send something, then a little more for ever."""

    def behave(connection: socket.socket, asked: Asked) -> None:
        connection.sendall(first)
        while True:
            connection.sendall(drop)
            time.sleep(pause_s)

    return behave


def floods(first: bytes, block: bytes) -> Behaviour:
    return drips(first, block, 0)


def hangs(first: bytes = b"") -> Behaviour:
    """Send something, then nothing, until the other side is gone."""

    def behave(connection: socket.socket, asked: Asked) -> None:
        connection.sendall(first)
        while connection.recv(1024):
            pass

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Another behaviour with each request; the last one stays."""
    left = list(behaviours)

    def behave(connection: socket.socket, asked: Asked) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(connection, asked)

    return behave


def bomb(size: int) -> bytes:
    """Return an answer that begins with that many blanks (a MiB at least), compressed, and has no end.

    One piece again and again, so that neither time nor memory goes into it.
    """
    squeeze = zlib.compressobj(wbits=31)
    first = squeeze.compress(HEAD) + squeeze.flush(zlib.Z_FULL_FLUSH)
    piece = squeeze.compress(b" " * limits.MIB) + squeeze.flush(zlib.Z_FULL_FLUSH)
    return first + piece * max(size // limits.MIB, 1)


class FaultServer:
    """Serves behaviours by path: `at("/slow", drips(…))` gives the URL to ask. `asked` is what came in."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.behaviours: dict[str, Behaviour] = {}
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def at(self, path: str, behaviour: Behaviour) -> str:
        self.behaviours[path] = behaviour
        return self.url + path

    @contextmanager
    def running(self) -> Iterator[FaultServer]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def _handler(self) -> type[socketserver.BaseRequestHandler]:
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                asked = _read(self.request)
                if asked is None:
                    return
                outer.asked.append(asked)
                with suppress(OSError):  # the client had enough
                    outer.behaviours[urlsplit(asked.target).path](self.request, asked)

        return Handler


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


def _read(connection: socket.socket) -> Asked | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    top, _, body = data.partition(b"\r\n\r\n")
    first, *lines = top.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    method, target, _ = first.split(" ")
    return Asked(method, target, headers, body)


@contextmanager
def fault_server() -> Iterator[FaultServer]:
    """Run a server for the length of a `with`."""
    with FaultServer().running() as server:
        yield server
