"""A sandbox's process: started under a keeper, confined when it is ready, and ended with whoever started it."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rbank_es import limits
from rbank_es.sandbox.deno import Deno

WATCHDOG = Path(__file__).with_name("watchdog.py")
LAST_BREATH_S = 2.0
"""How long a process that is gone may take to be told of, or one that is to go, before it is killed otherwise."""

_DESCRIPTORS = 3
_DATA = re.compile(r"^VmData:\s*(\d+) kB", re.MULTILINE)


class SandboxProcess:
    """Deno and its keeper. They end with this object, with this process, or when they are told to."""

    def __init__(self, runtime: Deno, *, offline: bool) -> None:
        """Start both. Raises OSError if that can't be done."""
        ours, lifeline = socket.socketpair()
        with lifeline:
            self._keeper = _start(runtime, offline, lifeline.fileno())
        self._lifeline = ours
        self._end = weakref.finalize(self, _end, self._keeper, ours, os.getpid())
        _processes.add(self)

    @property
    def alive(self) -> bool:
        """Whether it is there."""
        return self._end.alive and self._keeper.poll() is None

    @property
    def pipes(self) -> Pipes:
        """Its standard streams, and the lifeline."""
        keeper = self._keeper
        assert keeper.stdin and keeper.stdout and keeper.stderr
        return Pipes(
            input=keeper.stdin.fileno(),
            output=keeper.stdout.fileno(),
            error=keeper.stderr.fileno(),
            life=self._lifeline.fileno(),
        )

    def learn_pid(self, timeout_s: float) -> int:
        """Deno's process id, as the keeper tells it, once. Raises OSError or ValueError if it tells none."""
        self._lifeline.settimeout(timeout_s)
        return int(self._lifeline.recv(20))

    def status(self) -> int | None:
        """For a process that seems to be gone: its exit code, negative for a signal; None if it is there after all."""
        try:
            code = self._keeper.wait(LAST_BREATH_S)
        except subprocess.TimeoutExpired:
            return None
        return 128 - code if code > 128 else code

    def end(self) -> None:
        """Kill it, and wait until it is gone. May be called again."""
        self._end()

    def stop(self) -> None:
        """Have it killed, from any thread; whoever talks to it learns that it is gone, and must end it."""
        with contextlib.suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_RDWR)

    def disown(self) -> None:
        """In a forked child: let go of everything; it belongs to the process that started it."""
        if self._end.detach():
            self._lifeline.close()
            _close_pipes(self._keeper)
            self._keeper.returncode = 0  # not ours to wait for


_processes: weakref.WeakSet[SandboxProcess] = weakref.WeakSet()


def _after_fork() -> None:
    for process in list(_processes):
        process.disown()


os.register_at_fork(after_in_child=_after_fork)


def confine(pid: int, memory_bytes: int) -> bool:
    """Take away what steps don't need: memory beyond their share, and every further file and socket.

    What the process has open stays open. Deno's permissions refuse files and sockets as well; this holds even where
    they should fail. False where the system knows no limits of other processes (it is Linux that does).
    """
    prlimit = getattr(resource, "prlimit", None)
    if prlimit is None:
        return False
    try:
        mapped = _DATA.search(Path(f"/proc/{pid}/status").read_text())
        if mapped is None:
            return False
        # Address space would not do: V8 sets aside more than any limit, and uses little of it.
        most = int(mapped[1]) * limits.KIB + memory_bytes
        prlimit(pid, resource.RLIMIT_DATA, (most, most))
        prlimit(pid, resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
    except OSError:
        return False
    return True


def name_of(status: int) -> str:
    """A status in words."""
    return signal.Signals(-status).name if -status in set(signal.Signals) else f"exit code {status}"


def _start(runtime: Deno, offline: bool, lifeline: int) -> subprocess.Popen[bytes]:
    keeper = [sys.executable, "-I", "-S", str(WATCHDOG), str(lifeline)]
    return subprocess.Popen(
        [*keeper, *runtime.command(offline=offline)],
        cwd="/",
        env=runtime.environment(offline=offline),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pass_fds=(lifeline,),
        start_new_session=True,  # a Ctrl-C in the terminal is for us, and we end it
    )


def _end(keeper: subprocess.Popen[bytes], lifeline: socket.socket, owner: int) -> None:
    """Let the keeper go, which takes the sandbox with it; should it not, kill both."""
    if os.getpid() != owner:
        return
    # A thread that still waits for word over it would keep a socket open that is only closed.
    with contextlib.suppress(OSError):
        lifeline.shutdown(socket.SHUT_RDWR)
    lifeline.close()
    try:
        failed = keeper.wait(LAST_BREATH_S) < 0
    except subprocess.TimeoutExpired:
        failed = True
    if failed:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(keeper.pid, signal.SIGKILL)
        keeper.wait()
    _close_pipes(keeper)


def _close_pipes(keeper: subprocess.Popen[bytes]) -> None:
    for pipe in (keeper.stdin, keeper.stdout, keeper.stderr):
        if pipe is not None:
            pipe.close()


PIECE_BYTES = 64 * limits.KIB


class DeadlinePassed(Exception):
    """The deadline passed."""


class ProcessEnded(Exception):
    """The process closed its output, or takes no more input: it is gone."""


class GuestCrashed(Exception):
    """The process is there, but what runs in it has said that it can't go on."""


class LineTooLong(Exception):
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
        """The next line. Raises `DeadlinePassed`, `ProcessEnded`, `GuestCrashed`, `LineTooLong`."""
        while (line := self._line()) is None:
            self._ready(deadline)
        return line

    def waiting(self) -> Iterator[bytes]:
        """The lines that have come without being asked for. Raises `ProcessEnded`, `GuestCrashed`, `LineTooLong`."""
        now = time.monotonic()
        while True:
            line = self._line()
            if line is None:
                try:
                    self._ready(now)
                except DeadlinePassed:
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
            raise DeadlinePassed
        ready = {descriptor for descriptor, _ in found}
        if self._pipes.error in ready:
            self._hear_complaints()
        if self._pipes.output in ready:
            self._hear()
        elif self._pipes.life in ready:
            raise ProcessEnded
        return ready

    def _hear(self) -> None:
        piece = _read(self._pipes.output)
        if not piece:
            raise ProcessEnded
        self._received += piece
        # While this side writes nobody takes lines out, so there may be more than one.
        self._refuse_over(2 * limits.SANDBOX_MESSAGE_BYTES)

    def _refuse_over(self, size_bytes: int) -> None:
        if len(self._received) > size_bytes:
            raise LineTooLong

    def _hear_complaints(self) -> None:
        piece = _read(self._pipes.error)
        if not piece:
            self._poll.unregister(self._pipes.error)
        elif self._keep(piece):
            raise GuestCrashed

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
            raise ProcessEnded from None


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, PIECE_BYTES)
    except OSError:
        return b""
