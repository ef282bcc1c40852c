"""The local engine: pyoxigraph in a worker process, because only killing a process stops a query that takes too
long. The two exchange messages over pipes: msgpack in frames with a length."""

from __future__ import annotations

import os
import re
import select
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Literal

import msgspec

import rbank_es.sparql
from rbank_es import limits
from rbank_es.errors import QueryFailed
from rbank_es.sparql.engines.query_engine import ALL_GRAPHS, Caps, Dataset, QueryEngine
from rbank_es.sparql.results import Answer, Form
from rbank_es.system.error_messages import status_in_words
from rbank_es.system.forks import told_of_forks

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


def send(fd: int, message: msgspec.Struct, deadline: float | None = None) -> None:
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


HINTS = {
    "timeout": "make it cheaper: name the properties and classes, join on shared variables, filter early, count first",
    "out_of_memory": "ask for less: no ORDER BY or DISTINCT over a cross product; join on shared variables, filter",
    "engine_failed": "write the query more simply, with less nesting; the engine is ready again",
    "bad_query": "correct the query there and call again",
}
"""The hint for each failure."""

_PLACE = re.compile(r"error at (\d+):(\d+): ")


class LocalEngine(QueryEngine):
    """An engine over one N-Quads file, which runs one query at a time in a warm worker process.

    The worker may take `QUERY_MEMORY_BYTES` beside the graph, and opens no file and no socket; it is killed at the time
    limit, and the next query gets a new one. A query of another thread is waited for; a query's own time begins when it
    goes to the worker, so neither that wait nor loading the graph counts. After a fork, the child gets its own worker.

    The default graph is the merge of all graphs of the file, each triple once; where the query says with FROM which it
    wants, the merge of those.
    """

    def __init__(self, quads: Path, library: Literal["pyoxigraph", "rdflib"] = "pyoxigraph") -> None:
        """Take a file; `library` runs the queries: rdflib is for a second opinion, and up to 60,000 times slower."""
        self._quads, self._library = quads, library
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        told_of_forks.add(self)

    def run(self, query: str, form: Form, caps: Caps, dataset: Dataset = ALL_GRAPHS) -> Answer:
        """Return the answer within the caps. Raises `QueryFailed`, and is ready for the next query then."""
        request = Request(query, form, caps, dataset)
        with self._lock:
            worker = self._ready()
            began = time.perf_counter()
            response = self._ask(worker, request)
            duration_s = time.perf_counter() - began
        if response.answer is None:
            raise _failure(response)
        return msgspec.structs.replace(response.answer, duration_s=round(duration_s, 6))

    def start(self) -> None:
        """Load the graph now, rather than with the first query. Raises `QueryFailed`."""
        with self._lock:
            self._ready()

    def close(self) -> None:
        """End the worker, when the query that it runs is done. The next query starts another."""
        with self._lock:
            self._drop()

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id, where one is running."""
        worker = self._worker
        return worker.pid if worker is not None and worker.alive else None

    def _ask(self, worker: WorkerProcess, request: Request) -> Response:
        try:
            return _RESPONSE.decode(worker.ask(request, request.caps.timeout_s - request.caps.spent_s))
        except WorkerTimeout:
            self._drop()
            return Response(code="timeout", message=f"the query took longer than {request.caps.timeout_s:g} s")
        except WorkerGone:
            code, message = worker.cause_of_death()
            self._drop()
            return Response(code=code, message=message)
        except BaseException:
            self._drop()  # its late answer would be taken for the next query's
            raise

    def _ready(self) -> WorkerProcess:
        if self._worker is not None and not self._worker.alive:
            self._drop()
        if self._worker is None:
            self._worker = WorkerProcess("rbank_es.sparql.engines.worker", str(self._quads), self._library)
        return self._worker

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()

    def forget_parent(self) -> None:
        """Drop the lock and the worker in a forked child: their owners are in the parent."""
        self._lock = threading.Lock()
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.disown()


def _failure(response: Response) -> QueryFailed:
    message = response.message
    if response.code == "bad_query":
        message = _PLACE.sub(r"line \1, column \2: ", " ".join(message.split()))
        message = f"the query can't be run: {message[: limits.ENDPOINT_MESSAGE_CHARS]}"
    return QueryFailed(response.code, message, HINTS[response.code])


_RESPONSE = msgspec.msgpack.Decoder(Response)


class WorkerProcess:
    """A worker that is ready for queries. It ends with this object, with this process, or by `end`."""

    def __init__(self, module: str, *arguments: str) -> None:
        """Start the module as a program. Raises `QueryFailed` if it isn't ready within `ENGINE_START_S`."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            # -P and this path: the worker must not import whatever lies in the current folder.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C in the terminal reaches us alone, and we end it
        )
        self._end = weakref.finalize(self, _end, self._process, os.getpid())
        try:
            self._expect_ready()
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def tell(self, message: msgspec.Struct, timeout_s: float) -> float:
        """Send a message that may take so long; return the deadline. Raises as `ask`."""
        deadline = time.monotonic() + timeout_s
        send(_fd(self._process.stdin), message, deadline)
        return deadline

    def ask(self, message: msgspec.Struct, timeout_s: float) -> bytes:
        """Return the response to a message. Raises `WorkerTimeout`, or `WorkerGone` if it died: it must be ended."""
        deadline = self.tell(message, timeout_s)
        return receive(_fd(self._process.stdout), deadline)

    def end(self) -> None:
        """Kill the process, and wait for it."""
        self._end()

    def cause_of_death(self) -> tuple[str, str]:
        """Return the code of `QueryFailed` and a message for a worker that died amid a query."""
        status = self._process.wait()
        # Rust aborts when an allocation fails; the system kills when all memory is gone.
        if status in (-signal.SIGABRT, -signal.SIGKILL):
            memory = f"{limits.QUERY_MEMORY_BYTES // limits.MIB:,} MiB"
            return "out_of_memory", f"the query needs more than the {memory} of memory that one may take"
        return "engine_failed", f"the query brought the engine down ({status_in_words(status)})"

    def disown(self) -> None:
        """Close the pipes in a forked child: the worker belongs to the process that started it."""
        self._end.detach()
        _close_pipes(self._process)
        self._process.returncode = 0  # not ours to wait for

    def _expect_ready(self) -> None:
        deadline = time.monotonic() + limits.ENGINE_START_S
        try:
            response = _RESPONSE.decode(receive(_fd(self._process.stdout), deadline))
        except WorkerTimeout:
            response = Response(code="engine_failed", message=f"not ready after {limits.ENGINE_START_S:.0f} s")
        except WorkerGone:
            response = Response(code="engine_failed", message=status_in_words(self._process.wait()))
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


def _import_path() -> list[str]:
    """Return the folders of this process's modules for the worker, never the current folder by accident."""
    home = str(Path(rbank_es.sparql.__file__).parents[2])
    known = [entry for entry in sys.path if entry]
    return known if home in known else [*known, home]
