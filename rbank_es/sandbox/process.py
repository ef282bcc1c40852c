"""A sandbox's process: started under a keeper, confined when it is ready, and ended with whoever started it."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import weakref
from pathlib import Path

from rbank_es import limits
from rbank_es.sandbox.channel import Pipes
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
