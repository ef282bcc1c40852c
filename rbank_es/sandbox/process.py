"""A sandbox's process under its watchdog, its confinement, and the lines to and from it, each with a deadline."""

from __future__ import annotations

import contextlib
import math
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
from rbank_es.limits import sandbox_limits
from rbank_es.sandbox.deno import Deno
from rbank_es.system.forks import told_of_forks

WATCHDOG = Path(__file__).with_name("watchdog.py")
PIECE_BYTES = 64 * limits.KIB  # what a pipe holds on Linux

# Standard input, output and error are open already, so the process can open no file and no socket.
_DESCRIPTORS = 3
_DATA = re.compile(r"^VmData:\s*(\d+) kB", re.MULTILINE)


class DeadlinePassed(Exception):
    """The deadline of a line passed."""


class ProcessEnded(Exception):
    """The process closed its output or its input: it exited."""


class GuestCrashed(Exception):
    """The process runs, but Pyodide in it reported a fatal error."""


class LineTooLong(Exception):
    """A line exceeds `SANDBOX_MESSAGE_BYTES`."""


class Pipes(NamedTuple):
    """Descriptors of this side: the process's standard input, output and error.

    `life` hangs up when the watchdog exits.
    """

    input: int
    output: int
    error: int
    life: int


class Channel:
    """Lines in both directions, for one thread at a time; standard error is read on the side. Closes no descriptor."""

    def __init__(self, pipes: Pipes, fatal_mark: bytes) -> None:
        """Register the pipes; `fatal_mark` in standard error means `GuestCrashed`."""
        self._pipes = pipes
        self._fatal_mark = fatal_mark
        self._received = bytearray()
        self._searched = 0
        self._stderr = b""
        self._poll = select.poll()
        for descriptor in pipes:
            os.set_blocking(descriptor, False)
        self._poll.register(pipes.life, 0)  # no events requested, so it is ready only when it hangs up
        self._poll.register(pipes.output, select.POLLIN)
        self._poll.register(pipes.error, select.POLLIN)

    @property
    def stderr(self) -> str:
        """The end of the process's standard error."""
        return self._stderr.decode(errors="replace").strip()

    def send(self, line: bytes, deadline: float) -> None:
        """Write a line, and read meanwhile, because the process may block on its output before it reads.

        `deadline` is on the monotonic clock. Raises `DeadlinePassed`, `ProcessEnded`, `GuestCrashed`, `LineTooLong`.
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
        """Return the next line. Raises as `send`."""
        while (line := self._line()) is None:
            self._ready(deadline)
        return line

    def unasked(self, deadline: float) -> Iterator[bytes]:
        """Yield the lines that arrived unrequested. Raises as `send`."""
        while True:
            line = self._line()
            if line is not None:
                yield line
            elif time.monotonic() >= deadline:
                raise DeadlinePassed
            elif not self._read_ready(0):
                return

    def drain(self) -> None:
        """Read the rest of an ended process's standard error."""
        for _ in range(sandbox_limits.SANDBOX_DRAINED_BYTES // PIECE_BYTES):
            piece = _read(self._pipes.error)
            if not piece:
                return
            self._keep(piece)

    def _line(self) -> bytes | None:
        end = self._received.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._received)
            self._check_size(sandbox_limits.SANDBOX_MESSAGE_BYTES)
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self._searched = 0
        return line

    def _ready(self, deadline: float) -> set[int]:
        """Wait for a descriptor, read what arrived, and return the ready descriptors."""
        left_s = deadline - time.monotonic()
        # Checked before polling too, because a process that never stops writing is always ready.
        ready = self._read_ready(left_s) if left_s > 0 else set()
        if not ready:
            raise DeadlinePassed
        return ready

    def _read_ready(self, wait_s: float) -> set[int]:
        """Wait for a descriptor at most so long, read what arrived, and return the ready descriptors."""
        # Rounded up to milliseconds, which poll counts in: rounding down would make it return early.
        ready = {descriptor for descriptor, _ in self._poll.poll(math.ceil(wait_s * 1000))}
        if self._pipes.error in ready:
            self._read_stderr()
        if self._pipes.output in ready:
            self._read_output()
        elif self._pipes.life in ready:
            raise ProcessEnded
        return ready

    def _read_output(self) -> None:
        piece = _read(self._pipes.output)
        if not piece:
            raise ProcessEnded
        self._received += piece
        # Twice, because while this side writes, lines pile up.
        self._check_size(2 * sandbox_limits.SANDBOX_MESSAGE_BYTES)

    def _check_size(self, size_bytes: int) -> None:
        if len(self._received) > size_bytes:
            raise LineTooLong

    def _read_stderr(self) -> None:
        piece = _read(self._pipes.error)
        if not piece:
            self._poll.unregister(self._pipes.error)
        elif self._keep(piece):
            raise GuestCrashed

    def _keep(self, piece: bytes) -> bool:
        """Keep the end of standard error; return whether the fatal mark is in it."""
        text = self._stderr + piece
        self._stderr = text[-sandbox_limits.SANDBOX_STDERR_BYTES :]
        return self._fatal_mark in text

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


class SandboxProcess:
    """Deno and its watchdog. They end with `end`, with this object, or with this process."""

    def __init__(self, runtime: Deno, *, offline: bool) -> None:
        """Start both. Raises OSError."""
        ours, lifeline = socket.socketpair()
        with lifeline:
            try:
                self.watchdog = _start(runtime, offline, lifeline.fileno())
            except BaseException:
                ours.close()
                raise
        self._lifeline = ours
        self._end = weakref.finalize(self, _end, self.watchdog, ours, os.getpid())
        told_of_forks.add(self)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._end.alive and self.watchdog.poll() is None

    @property
    def pipes(self) -> Pipes:
        """Descriptors of its standard streams and of the lifeline."""
        watchdog = self.watchdog
        assert watchdog.stdin and watchdog.stdout and watchdog.stderr
        return Pipes(
            input=watchdog.stdin.fileno(),
            output=watchdog.stdout.fileno(),
            error=watchdog.stderr.fileno(),
            life=self._lifeline.fileno(),
        )

    def receive_pid(self, timeout_s: float) -> int:
        """Read Deno's process id from the lifeline, once. Raises OSError or ValueError if the watchdog sent none."""
        self._lifeline.settimeout(timeout_s)
        return int(self._lifeline.recv(20))

    def status(self) -> int | None:
        """Wait for the exit code, negative for a signal; None if the process still runs."""
        try:
            code = self.watchdog.wait(sandbox_limits.SANDBOX_EXIT_S)
        except subprocess.TimeoutExpired:
            return None
        # The watchdog exits with 128 and the signal's number, as a shell does.
        return 128 - code if code > 128 else code

    def end(self) -> None:
        """Kill the process and reap it. Idempotent."""
        self._end()

    def stop(self) -> None:
        """Have the process killed, from any thread. The thread that uses it sees that it ended, and must call `end`."""
        with contextlib.suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_RDWR)

    def forget_parent(self) -> None:
        """Close everything in a forked child, and kill nothing: the process belongs to the parent."""
        if self._end.detach():
            self._lifeline.close()
            _close_pipes(self.watchdog)
            self.watchdog.returncode = 0  # not ours to wait for


def confine(pid: int, memory_bytes: int) -> bool:
    """Limit a process's memory, and forbid it any further file and socket; what is open stays open.

    Deno's permissions refuse files and sockets too; this is the second line of defence. Returns False where the system
    can't limit other processes (only Linux can).
    """
    prlimit = getattr(resource, "prlimit", None)
    if prlimit is None:
        return False
    try:
        mapped = _DATA.search(Path(f"/proc/{pid}/status").read_text())
        if mapped is None:
            return False
        # Data instead of address space, because V8 reserves more of that than any limit, and uses little.
        most = int(mapped[1]) * limits.KIB + memory_bytes
        prlimit(pid, resource.RLIMIT_DATA, (most, most))
        prlimit(pid, resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
    except OSError:
        return False
    return True


def _start(runtime: Deno, offline: bool, lifeline: int) -> subprocess.Popen[bytes]:
    watchdog = [sys.executable, "-I", "-S", str(WATCHDOG), str(lifeline)]
    return subprocess.Popen(
        [*watchdog, *runtime.command(offline=offline)],
        cwd="/",
        env=runtime.environment(offline=offline),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pass_fds=(lifeline,),
        start_new_session=True,  # because Ctrl-C is for this process, which then ends the sandbox
    )


def _end(watchdog: subprocess.Popen[bytes], lifeline: socket.socket, owner: int) -> None:
    """End the watchdog, which ends the sandbox; if it does not exit in time, kill both."""
    if os.getpid() != owner:
        return
    # Shut down before closing, because a thread blocked in recv would keep a closed socket open.
    with contextlib.suppress(OSError):
        lifeline.shutdown(socket.SHUT_RDWR)
    lifeline.close()
    try:
        failed = watchdog.wait(sandbox_limits.SANDBOX_EXIT_S) < 0
    except subprocess.TimeoutExpired:
        failed = True
    if failed:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(watchdog.pid, signal.SIGKILL)
        watchdog.wait()
    _close_pipes(watchdog)


def _close_pipes(watchdog: subprocess.Popen[bytes]) -> None:
    for pipe in (watchdog.stdin, watchdog.stdout, watchdog.stderr):
        if pipe is not None:
            pipe.close()
