"""Lines to and from a process over pipes, never waiting past a deadline; its standard error is drained on the side."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from typing import NamedTuple

from rbank_es import limits

PIECE_BYTES = 64 * limits.KIB


class OutOfTime(Exception):
    """The deadline passed."""


class Ended(Exception):
    """The process closed its output, or takes no more input: it is gone."""


class Fallen(Exception):
    """The process is there, but what runs in it has said that it can't go on."""


class TooLong(Exception):
    """A line is longer than a message may be."""


class Pipes(NamedTuple):
    """Descriptors of this side: what the process reads, its standard output, its standard error.

    `life` hangs up when nobody holds the process any more.
    """

    input: int
    output: int
    error: int
    life: int


class Channel:
    """Both directions of a conversation. For one thread at a time; it closes no descriptor."""

    def __init__(self, pipes: Pipes, last_words: bytes) -> None:
        """`last_words`: what the process writes to its standard error when nothing more will come of it."""
        self._pipes = pipes
        self._last_words = last_words
        self._received = bytearray()
        self._searched = 0
        self._complaints = b""
        self._poll = select.poll()
        for descriptor in pipes:
            os.set_blocking(descriptor, False)
        self._poll.register(pipes.life, 0)  # asks for nothing, so it is ready when it hangs up
        self._poll.register(pipes.output, select.POLLIN)
        self._poll.register(pipes.error, select.POLLIN)

    @property
    def complaints(self) -> str:
        """The end of what the process wrote to its standard error."""
        return self._complaints.decode(errors="replace").strip()

    def send(self, line: bytes, deadline: float) -> None:
        """Write a line. `deadline` is on the clock of `time.monotonic`.

        What the process says meanwhile is taken in: it may be waiting to be heard before it listens.

        Raises:
            OutOfTime, Ended, Fallen, TooLong: there is no going on.
        """
        rest = memoryview(line + b"\n")
        self._poll.register(self._pipes.input, select.POLLOUT)
        try:
            while rest:
                if self._pipes.input in self._ready(deadline):
                    rest = rest[self._write(rest) :]
        finally:
            self._poll.unregister(self._pipes.input)

    def receive(self, deadline: float) -> bytes:
        """The next line. Raises `OutOfTime`, `Ended`, `Fallen`, `TooLong`."""
        while (line := self._line()) is None:
            self._ready(deadline)
        return line

    def waiting(self) -> Iterator[bytes]:
        """The lines that have come without being asked for. Raises `Ended`, `Fallen`, `TooLong`."""
        now = time.monotonic()
        while True:
            line = self._line()
            if line is None:
                try:
                    self._ready(now)
                except OutOfTime:
                    return
            else:
                yield line

    def drain(self) -> None:
        """Take in what is left on standard error of a process that is gone."""
        while piece := _read(self._pipes.error):
            self._keep(piece)

    def _line(self) -> bytes | None:
        end = self._received.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._received)
            self._refuse_over(limits.SANDBOX_MESSAGE_BYTES)
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self._searched = 0
        return line

    def _ready(self, deadline: float) -> set[int]:
        """Wait until something can be read or written, and read. The descriptors that were ready."""
        found = self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not found:
            raise OutOfTime
        ready = {descriptor for descriptor, _ in found}
        if self._pipes.error in ready:
            self._hear_complaints()
        if self._pipes.output in ready:
            self._hear()
        elif self._pipes.life in ready:
            raise Ended
        return ready

    def _hear(self) -> None:
        piece = _read(self._pipes.output)
        if not piece:
            raise Ended
        self._received += piece
        # While this side writes nobody takes lines out, so there may be more than one.
        self._refuse_over(2 * limits.SANDBOX_MESSAGE_BYTES)

    def _refuse_over(self, size_bytes: int) -> None:
        if len(self._received) > size_bytes:
            raise TooLong

    def _hear_complaints(self) -> None:
        piece = _read(self._pipes.error)
        if not piece:
            self._poll.unregister(self._pipes.error)
        elif self._keep(piece):
            raise Fallen

    def _keep(self, piece: bytes) -> bool:
        """Keep the end; whether the last words are among it."""
        complaints = self._complaints + piece
        self._complaints = complaints[-limits.SANDBOX_COMPLAINT_BYTES :]
        return self._last_words in complaints

    def _write(self, rest: memoryview) -> int:
        try:
            return os.write(self._pipes.input, rest[:PIECE_BYTES])
        except BlockingIOError:
            return 0
        except OSError:
            raise Ended from None


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, PIECE_BYTES)
    except OSError:
        return b""
