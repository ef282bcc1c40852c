"""The command many times over, each time in a process of its own, without the price of starting one.

To start an interpreter and load the command takes a quarter of a second, and there are hundreds of calls. So one server
loads it once, and forks for each call: the arguments, the working directory, the environment, the standard streams and
the exit are those of a process that was started. That the command also starts from nothing is shown by all that
`cli_runner` starts for real: on terminals, in shells, in the background.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parents[1]
AGENTS = frozenset({"run", "guide", "judge", "rerun", "doctor", "demo"})
"""Commands that load dspy."""
OF_AGENTS = ("executors", "extraction", "judging", "loop", "models", "rerun", "sandbox")
"""Packages that load dspy."""
FACES = {
    f"rbank_es.agents.{name}"
    for name in ("agents_sdk", "dspy_program", "langchain_middleware", "pytest_plugin", "verdicts_of_tests")
}
"""Modules that load a framework, and that no command uses."""
ON_USE = ("pyoxigraph", "rdflib.plugins.stores.memory")
"""Modules that many commands load when they have a query: a quarter of a second."""
AT_START = ("PYTHON", "LC_", "LANG")
"""Beginnings of the variables that an interpreter heeds when it starts: under such a one it must be started."""


class Call(NamedTuple):
    """What came of a call."""

    code: int
    out: bytes
    err: bytes


def call(arguments: Sequence[str], *, cwd: Path, stdin: bytes, env: Mapping[str, str], timeout_s: float) -> Call:
    """Run `rbank-es` to its end. Raises subprocess.TimeoutExpired after killing it."""
    server = _server(agents=bool(arguments) and arguments[0] in AGENTS)
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        code = server.run({"argv": list(arguments), "cwd": str(cwd), "env": dict(env)}, (given, out, err), timeout_s)
        out.seek(0)
        err.seek(0)
        return Call(code, out.read(), err.read())


@cache
def _server(*, agents: bool) -> Server:
    return Server(agents=agents)


class Server:
    """A process that forks for each call. It ends with this one."""

    def __init__(self, *, agents: bool) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # A module by its place: what is called `tests` elsewhere must not be in the way.
            command = [sys.executable, __file__, str(theirs.fileno()), "agents" if agents else ""]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            self._process = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()])
        self._socket, self._asking = ours, threading.Lock()
        atexit.register(self._end)

    def _end(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._process.wait(60)

    def run(self, request: dict[str, Any], streams: Sequence[IO[bytes]], timeout_s: float) -> int:
        """The exit code of a call, negative for a signal."""
        told, status = os.pipe()
        try:
            payload = json.dumps(request).encode()
            fds = [*(stream.fileno() for stream in streams), status]
            with self._asking:
                socket.send_fds(self._socket, [len(payload).to_bytes(4)], fds)
                self._socket.sendall(payload)
            os.close(status)
            return _outcome(told, request["argv"], timeout_s)
        finally:
            os.close(told)


def _outcome(told: int, arguments: list[str], timeout_s: float) -> int:
    """What the server tells: first the call's process id, at last its exit code.

    The time of a call begins with its process: a busy machine may take a minute to load the server.
    """
    poller, words, deadline = select.poll(), b"", 0.0
    poller.register(told, select.POLLIN)
    while words.count(b"\n") < 2:
        if words and not poller.poll(max(deadline - time.monotonic(), 0) * 1000):
            os.kill(int(words.split()[0]), signal.SIGKILL)
            raise subprocess.TimeoutExpired(arguments, timeout_s)
        piece = os.read(told, 64)
        assert piece, (arguments, "the server of commands went away")
        deadline = deadline or time.monotonic() + timeout_s
        words += piece
    return int(words.split()[1])


# ---------------------------------------------------------------- in the server


def main(fd: int, agents: bool) -> NoReturn:
    """Load the command, serve calls until nobody can ask any more; in a fork for a call, be the command."""
    before = dict(os.environ)
    _load(agents)
    loaded = {name: value for name, value in os.environ.items() if before.get(name) != value}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.fsync = os.fdatasync = lambda descriptor: None  # as in `conftest.py`
    gc.collect()
    gc.freeze()
    if _serve(socket.socket(fileno=fd), loaded):
        from rbank_es.cli import main as command

        _exit(command())
    sys.exit()


def _exit(code: int) -> NoReturn:
    """Exit as an interpreter does, but free nothing: to free all modules takes twice as long as most commands do."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # `main` has flushed and reported already; what failed there fails again.
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _load(agents: bool) -> None:
    import rbank_es

    for found in pkgutil.walk_packages(rbank_es.__path__, "rbank_es."):
        part = found.name.split(".")[1]
        if part != "__main__" and found.name not in FACES and (agents or part not in OF_AGENTS):
            importlib.import_module(found.name)
    for name in ON_USE:
        importlib.import_module(name)


def _serve(asked: socket.socket, loaded: Mapping[str, str]) -> bool:
    """Whether this is a fork that has become a call; else, nobody asks any more."""
    ended, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([asked, ended], [], [])
        if ended in ready:
            os.read(ended, 1_000)
            _tell_of_ends(running)
        if asked not in ready:
            continue
        size, fds, _, _ = socket.recv_fds(asked, 4, 4)
        if not size:
            return False
        # To its end and no further: there the next call begins.
        payload = asked.recv(int.from_bytes(size), socket.MSG_WAITALL)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asked.close()
            for fd in (ended, woken, *running.values()):
                os.close(fd)
            _become(json.loads(payload), fds, loaded)
            return True
        with suppress(BrokenPipeError):  # who asked may have given up; the next calls have nothing to do with that
            os.write(fds[3], b"%d\n" % pid)
        running[pid] = fds[3]
        for fd in fds[:3]:
            os.close(fd)


def _tell_of_ends(running: dict[int, int]) -> None:
    """Tell how each call ended that has; nobody may listen any more."""
    for pid, status in [*running.items()]:
        done, code = os.waitpid(pid, os.WNOHANG)
        if done:
            with suppress(BrokenPipeError):
                os.write(status, b"%d\n" % os.waitstatus_to_exitcode(code))
            os.close(running.pop(pid))


def _become(request: dict[str, Any], fds: Sequence[int], loaded: Mapping[str, str]) -> None:
    for target, fd in enumerate(fds[:3]):
        os.dup2(fd, target)
    for fd in fds:
        os.close(fd)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(loaded | request["env"])
    sys.argv[1:] = request["argv"]
    signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    main(int(sys.argv[1]), bool(sys.argv[2]))
