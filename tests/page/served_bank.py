"""A served bank for tests: a server in this process, and a client that says exactly what a test wants."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Thread
from threading import enumerate as enumerate_threads
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from rbank_es import Bank
from rbank_es.page.page_handler import PageHandler
from rbank_es.page.page_server import PageServer, listen


class Reply(NamedTuple):
    """Status, headers by name in lower case, and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """A server that runs, and a browser that was let in."""

    def __init__(self, handler: PageHandler, server: PageServer) -> None:
        self.handler, self.server, self.port = handler, server, handler.port
        self.token = handler.address.partition("token=")[2]
        self.place = self.cookie = ""
        let_in = self.get(path_of(handler.address))
        self.place, self.cookie = let_in.headers["location"], let_in.headers["set-cookie"].partition(";")[0]

    def connect(self, timeout_s: float = 60) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s)

    def send(self, data: bytes) -> Reply:
        """The reply to some bytes."""
        with self.connect() as client:
            client.sendall(data)
            return read_reply(client)

    def get(self, path: str, *, method: str = "GET", drop: str = "", **headers: str) -> Reply:
        """The reply to a request for a path: in the place of the page, or the one that lets a browser in."""
        return self.send(self.head(path, method=method, drop=drop, **headers))

    def head(self, path: str, *, method: str = "GET", drop: str = "", **headers: str) -> bytes:
        given = {"host": f"127.0.0.1:{self.port}", "cookie": self.cookie}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}" for name, value in given.items() if name != drop]
        whole = path if path.startswith("/?token=") else self.place + path.removeprefix("/")
        return "\r\n".join([f"{method} {whole} HTTP/1.1", *lines, "", ""]).encode()

    def ask(self, name: str, **given: Any) -> Any:
        """The answer to a question."""
        reply = self.get(f"/api/v1/{name}?{urlencode(given)}")
        assert reply.status == 200, reply
        return reply.json()

    def wait_until_idle(self) -> None:
        """Wait until no thread has a connection: one ends a moment after its client has read all of the reply."""
        ended = time.monotonic() + 60
        while any(thread.name.endswith("(_handle)") for thread in enumerate_threads()):
            assert time.monotonic() < ended, "a connection is still held"
            time.sleep(0.01)

    def follow(self, after: int) -> socket.socket:
        """A connection that follows the bank, its head read."""
        client = self.connect()
        client.sendall(self.head(f"/api/v1/live?after={after}"))
        data = b""
        while b": following\n\n" not in data:
            piece = client.recv(4096)
            assert piece, data
            data += piece
        return client


def read_reply(client: socket.socket) -> Reply:
    data = b""
    # Whoever sent more than is read may be cut off behind the reply.
    with suppress(ConnectionResetError):
        while piece := client.recv(65536):
            data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Reply(int(status.split()[1]), headers, body)


@contextmanager
def served(bank: Bank, *, prompts: bool = True) -> Iterator[Served]:
    """Serve a bank at a free port until the context ends."""
    listening = listen(0)
    handler = PageHandler(bank, listening.getsockname()[1], prompts=prompts)
    server = PageServer(handler, listening)
    thread = Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield Served(handler, server)
    finally:
        server.stop()
        thread.join(60)
        assert not thread.is_alive()


def path_of(address: str) -> str:
    """Path and query of an address."""
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}"
