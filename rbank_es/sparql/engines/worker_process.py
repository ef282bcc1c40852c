"""The local engine's side of its worker: starting it, asking it, ending it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import msgspec

import rbank_es.sparql
from rbank_es import limits
from rbank_es.errors import QueryFailed
from rbank_es.sparql.engines.worker_protocol import Ended, OutOfTime, Request, Response, receive, send

_RESPONSE = msgspec.msgpack.Decoder(Response)


class WorkerProcess:
    """A worker that has loaded its graph. It ends with this object, with this process, or when it is told to."""

    def __init__(self, quads: Path) -> None:
        """Start it. Raises `QueryFailed` if it isn't ready within `ENGINE_START_S`."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rbank_es.sparql.engines.worker", str(quads)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # a Ctrl-C in the terminal is for us, and we end it
        )
        self._end = weakref.finalize(self, _end, self._process, os.getpid())
        try:
            self._expect_ready()
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it is still there."""
        return self._process.poll() is None

    def ask(self, request: Request) -> Response:
        """Its response. Raises `OutOfTime` after the time limit, `Ended` if it died; it must be ended then."""
        deadline = time.monotonic() + request.caps.timeout_s
        send(_fd(self._process.stdin), request, deadline)
        return _RESPONSE.decode(receive(_fd(self._process.stdout), deadline))

    def end(self) -> None:
        """Kill it, and wait until it is gone."""
        self._end()

    def cause_of_death(self) -> tuple[str, str]:
        """For a worker that died amid a query: the code of `QueryFailed`, and what happened."""
        status = self._process.wait()
        if status in (-signal.SIGABRT, -signal.SIGKILL):
            memory = f"{limits.QUERY_MEMORY_BYTES // limits.MIB:,} MiB"
            return "out_of_memory", f"the query needs more than the {memory} of memory that one may take"
        return "engine_failed", f"the query brought the engine down ({_name_of(status)})"

    def disown(self) -> None:
        """In a forked child: let go of the pipes; the worker belongs to the process that started it."""
        self._end.detach()
        _close_pipes(self._process)
        self._process.returncode = 0  # not ours to wait for

    def _expect_ready(self) -> None:
        deadline = time.monotonic() + limits.ENGINE_START_S
        try:
            response = _RESPONSE.decode(receive(_fd(self._process.stdout), deadline))
        except OutOfTime:
            response = Response(code="engine_failed", message=f"not ready after {limits.ENGINE_START_S:.0f} s")
        except Ended:
            response = Response(code="engine_failed", message=_name_of(self._process.wait()))
        if response.code:
            message = f"the engine could not load its graph ({response.message})"
            raise QueryFailed(response.code, message, "load the ontology again; if that fails too, go on without it")


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() == owner:
        process.kill()
        process.wait()
        _close_pipes(process)


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _fd(pipe: object) -> int:
    return pipe.fileno()  # type: ignore[attr-defined, no-any-return]


def _name_of(status: int) -> str:
    return signal.Signals(-status).name if -status in set(signal.Signals) else f"exit code {status}"


def _import_path() -> list[str]:
    """Where this process finds modules, so that the worker finds the same; never the current folder by accident."""
    home = str(Path(rbank_es.sparql.__file__).parents[2])
    known = [entry for entry in sys.path if entry]
    return known if home in known else [*known, home]
