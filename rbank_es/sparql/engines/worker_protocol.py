"""The messages between the local engine and its worker over pipes: msgpack in frames with a length."""

from __future__ import annotations

import os
import select
import struct
import time

import msgspec

from rbank_es.sparql.engines.query_engine import ALL_GRAPHS, Caps, Dataset
from rbank_es.sparql.results import Answer, Form

_LENGTH = struct.Struct(">I")


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A query for the worker. A query that names no graph is asked of all graphs together."""

    query: str
    form: Form
    caps: Caps
    dataset: Dataset = ALL_GRAPHS


class Response(msgspec.Struct, frozen=True, array_like=True):
    """An answer of the worker, or a code of `QueryFailed` with a message. Neither of them means: it is ready."""

    answer: Answer | None = None
    code: str = ""
    message: str = ""


class WorkerTimeout(Exception):
    """The deadline passed before the other side was ready."""


class WorkerGone(Exception):
    """The other side is gone."""


def send(fd: int, message: Request | Response, deadline: float | None = None) -> None:
    """Write one frame. `deadline` is on the clock of `time.monotonic`. Raises `WorkerTimeout`, `WorkerGone`."""
    data = msgspec.msgpack.encode(message)
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        _wait(fd, select.POLLOUT, deadline)
        try:
            # A pipe that polls as writable takes this much without blocking.
            view = view[os.write(fd, view[: select.PIPE_BUF]) :]
        except BrokenPipeError:
            raise WorkerGone from None


def receive(fd: int, deadline: float | None = None) -> bytes:
    """Read one frame's content. Raises as `send` does."""
    (length,) = _LENGTH.unpack(_read(fd, _LENGTH.size, deadline))
    return _read(fd, length, deadline)


def _read(fd: int, size: int, deadline: float | None) -> bytes:
    pieces = bytearray()
    while len(pieces) < size:
        _wait(fd, select.POLLIN, deadline)
        piece = os.read(fd, size - len(pieces))
        if not piece:
            raise WorkerGone
        pieces += piece
    return bytes(pieces)


def _wait(fd: int, event: int, deadline: float | None) -> None:
    """Wait until the pipe is ready, or its other end is closed."""
    if deadline is None:  # the worker, which has nothing else to do
        return
    poll = select.poll()
    poll.register(fd, event)
    left_s = deadline - time.monotonic()
    if left_s <= 0 or not poll.poll(left_s * 1000):
        raise WorkerTimeout
