"""The HTTP server of a bank's pages: sockets of this machine, bounded threads, bounded time for every step.

Each connection has a thread and carries one request. A client that is slow to ask or to read costs its own thread, and
that for a bounded time; all others go on. Viewers that wait for new positions are counted apart.
"""

from __future__ import annotations

import select
import socket
import sys
from contextlib import suppress
from errno import EACCES, EADDRINUSE
from threading import BoundedSemaphore, Condition, Thread
from threading import Event as Signal
from time import monotonic

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, RBankError
from rbank_es.limits import otlp_limits, page_limits
from rbank_es.page.http_request import END, PageRequest, Refused, parse_request
from rbank_es.page.http_response import PageResponse, refusal
from rbank_es.page.page_handler import PageHandler
from rbank_es.page.request_body import read_body

LOOPBACK = "127.0.0.1"
_PIECE_BYTES = 8 * limits.KIB
# The longest between two looks at whether the server is to stop, or its client is gone.
_LOOK_S = 0.2


def listen(port: int, option: str = "--port") -> socket.socket:
    """Return a socket that listens at a port of this machine, the value of `option`; 0 is any free one.

    Raises `BadInput`.
    """
    try:
        return socket.create_server((LOOPBACK, port), backlog=page_limits.SERVER_THREADS)
    except OSError as error:
        why = {EADDRINUSE: "is in use by another program", EACCES: "is reserved for the administrator"}
        reason = why.get(error.errno or 0, f"can't be used ({error.strerror})")
        raise BadInput(
            f"port {port} {reason}: choose another with {option}, or any free one with {option} 0"
        ) from error


class PageServer:
    """A server at a listening socket, until it is stopped."""

    def __init__(self, handler: PageHandler, listening: socket.socket) -> None:
        self._handler, self._listening = handler, listening
        self._threads = BoundedSemaphore(page_limits.SERVER_THREADS)
        self._viewers = BoundedSemaphore(page_limits.LIVE_VIEWERS)
        self._bodies = BoundedSemaphore(otlp_limits.OTLP_BODIES)
        self._stop = Signal()
        self._watch = PositionWatch(handler.bank)
        self._running: list[Thread] = []

    def stop(self) -> None:
        """Ask the server to stop; it does so within a fraction of a second. May be called from a signal handler."""
        self._stop.set()

    def serve(self) -> None:
        """Answer requests until `stop`; then close every connection, and take in what agents sent."""
        receiver, received = self._handler.receiver, Signal()
        taking = Thread(target=receiver.take_in, args=(received,), daemon=True) if receiver is not None else None
        if taking is not None:
            taking.start()
        self._listening.settimeout(_LOOK_S)
        with self._listening:
            while not self._stop.is_set():
                with suppress(TimeoutError, ConnectionError):
                    self._accept(self._listening.accept()[0])
        self._watch.close()
        end = monotonic() + page_limits.STOP_S
        for thread in self._running:
            thread.join(max(0.0, end - monotonic()))
        received.set()
        if taking is not None:
            taking.join()

    def _accept(self, client: socket.socket) -> None:
        if not self._threads.acquire(blocking=False):
            with client, suppress(OSError):
                # Don't wait for this client: the thread accepts all others.
                client.setblocking(False)
                client.send(_whole(refusal(503, "too many requests at once; try again")))
            return
        thread = Thread(target=self._handle, args=(client,), daemon=True)
        thread.start()
        # Only the thread that accepts touches the list, because others would change it while it is read.
        self._running = [each for each in (*self._running, thread) if each.is_alive()]

    def _handle(self, client: socket.socket) -> None:
        holding = [self._threads]
        try:
            with client, suppress(OSError):  # a client that is gone, or reads too slowly
                self._converse(client, holding)
        except Exception as error:  # report a fault of ours to whoever runs the server, and end nothing else
            print(f"rbank-es serve: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            for each in holding:
                each.release()

    def _converse(self, client: socket.socket, holding: list[BoundedSemaphore]) -> None:
        method = "GET"
        try:
            head, begun = _received(client)
            request = parse_request(head, self._handler.takes)
            method = request.method
            response = self._handler.respond(request) if method != "POST" else self._take(client, request, begun)
        except Refused as refused:
            response = refusal(refused.status, str(refused))
        if response.live_after is None or method == "HEAD":
            _send(client, response.head() if method == "HEAD" else _whole(response))
            _part(client, otlp_limits.OTLP_BODY_BYTES if method == "POST" else page_limits.REQUEST_HEAD_BYTES)
        elif self._viewers.acquire(blocking=False):
            # A viewer waits for hours: it must not take a thread from those who ask.
            holding.remove(self._threads)
            self._threads.release()
            holding.append(self._viewers)
            self._follow(client, response)
        else:
            _send(client, _whole(refusal(503, f"{page_limits.LIVE_VIEWERS} pages follow this bank already; close one")))

    def _take(self, client: socket.socket, request: PageRequest, begun: bytes) -> PageResponse:
        """Return the response to a request with a body, which is read only if its sender may send it."""
        receiver = self._handler.check_sender(request)
        if not self._bodies.acquire(timeout=otlp_limits.OTLP_LOCK_S):
            raise Refused(503, "too many bodies at once; try again")
        try:
            return receiver.receive(request, read_body(client, request, begun))
        finally:
            self._bodies.release()

    def _follow(self, client: socket.socket, response: PageResponse) -> None:
        _send(client, response.head() + b": following\n\n")
        seen, sent_at = response.live_after or 0, monotonic()
        while not self._stop.is_set() and _is_there(client):
            position = self._watch.beyond(seen, _LOOK_S)
            if position is not None:
                seen = position
                _send(client, b"data: %d\n\n" % position)
                sent_at = monotonic()
            elif monotonic() - sent_at > page_limits.HEARTBEAT_S:
                _send(client, b": still here\n\n")
                sent_at = monotonic()


def _received(client: socket.socket) -> tuple[bytes, bytes]:
    """Return the request line and headers that a client sends, and what of a body came with them.

    Raises `Refused`, TimeoutError for a slow one.
    """
    head, end = bytearray(), monotonic() + page_limits.REQUEST_S
    while (found := head.find(END)) < 0 and len(head) <= page_limits.REQUEST_HEAD_BYTES:
        if b"\r\n" not in head and len(head) > page_limits.REQUEST_LINE_BYTES:
            raise Refused(414, "the address is too long")
        # Above 0, because a timeout of 0 makes the socket non-blocking, which raises another error.
        client.settimeout(max(0.001, end - monotonic()))
        piece = client.recv(_PIECE_BYTES)
        if not piece:
            raise ConnectionError("it went away before it asked")
        head += piece
    # However the head arrived: its end may have come with the piece that exceeds the limit.
    if not 0 <= found <= page_limits.REQUEST_HEAD_BYTES - len(END):
        raise Refused(431, "the headers are too long")
    return bytes(head[: found + len(END)]), bytes(head[found + len(END) :])


def _send(client: socket.socket, data: bytes) -> None:
    """Send all of it. Raises TimeoutError for a client that takes longer than it may."""
    # `sendall` counts its timeout over the whole.
    client.settimeout(page_limits.RESPONSE_S)
    client.sendall(data)


def _part(client: socket.socket, most_bytes: int) -> None:
    """Close the connection after what was sent has arrived: unread bytes of a refused request would cut it off."""
    client.shutdown(socket.SHUT_WR)
    client.settimeout(_LOOK_S)
    end, left = monotonic() + page_limits.REQUEST_S, most_bytes
    with suppress(OSError):
        while left > 0 and monotonic() < end and (piece := client.recv(_PIECE_BYTES)):
            left -= len(piece)


def _whole(response: PageResponse) -> bytes:
    return response.head() + response.body


def _is_there(client: socket.socket) -> bool:
    """Return whether a client still waits: one that went away has sent its end."""
    readable, _, _ = select.select([client], [], [], 0)
    return not readable or bool(client.recv(1, socket.MSG_PEEK))


class PositionWatch:
    """The newest known position of a bank, for many who wait: the log is looked at once for all of them."""

    def __init__(self, bank: Bank) -> None:
        self._bank, self._stop = bank, Signal()
        self._changed = Condition()
        self._position = 0
        self._thread: Thread | None = None

    def beyond(self, seen: int, timeout_s: float) -> int | None:
        """Return the position once it is another one than `seen`; None where it is not within the time.

        It may be a lower one: a bank may be replaced by an older copy.
        """
        with self._changed:
            if self._thread is None:
                self._thread = Thread(target=self._look, daemon=True)
                self._thread.start()
            # 0 stands for a position that was not looked up yet.
            changed = self._changed.wait_for(lambda: self._position not in (0, seen), timeout_s)
            return self._position if changed else None

    def close(self) -> None:
        """Look no longer."""
        self._stop.set()

    def _look(self) -> None:
        while not self._stop.is_set():
            # A bank that is gone or damaged keeps its last position: a request for its pages reports why.
            with suppress(RBankError, OSError):
                position = self._bank.position
                with self._changed:
                    if position != self._position:
                        self._position = position
                        self._changed.notify_all()
            self._stop.wait(limits.POLL_S)
