"""The local engine: pyoxigraph in a process of its own, for nothing less stops a query that takes too long."""

from __future__ import annotations

import re
import threading
import time
from itertools import pairwise
from pathlib import Path

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryFailed, QueryRefused
from rbank_es.sparql.answers import Answer, Form
from rbank_es.sparql.engines.fork_safety import tell_of_forks
from rbank_es.sparql.engines.query_engine import Caps, Engine
from rbank_es.sparql.engines.worker_process import WorkerProcess
from rbank_es.sparql.engines.worker_protocol import Ended, OutOfTime, Request, Response, Sources
from rbank_es.sparql.parser.grammar import read
from rbank_es.sparql.parser.tokens import tokenise

HINTS = {
    "timeout": "make it cheaper: name the properties and classes, join on shared variables, filter early, count first",
    "out_of_memory": "ask for less: no ORDER BY or DISTINCT over a cross product; join on shared variables, filter",
    "engine_failed": "write the query more simply, with less nesting; the engine is ready again",
    "bad_query": "correct the query there and call again",
}
"""What to do after each way to fail."""

_PLACE = re.compile(r"error at (\d+):(\d+): ")


class LocalEngine(Engine):
    """Runs queries over one N-Quads file, one at a time, in a worker process that stays warm between them.

    The worker may take `QUERY_MEMORY_BYTES` beside the graph, and opens no file and no socket; it is killed at the time
    limit, and the next query gets a new one. A query of another thread is waited for; a query's own time begins when it
    goes to the worker, so neither that wait nor loading the graph counts. After a fork, the child gets its own worker.

    The default graph is the merge of all graphs of the file, each triple once; where the query says with FROM which it
    wants, the merge of those.
    """

    def __init__(self, quads: Path) -> None:
        self._quads = quads
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        tell_of_forks(self)

    def run(self, query: str, form: Form, caps: Caps) -> Answer:
        """The answer, within the caps. Raises `QueryFailed`; the engine is ready for the next query then."""
        request = Request(query, form, caps, sources_of(query))
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
            return worker.ask(request)
        except OutOfTime:
            self._drop()
            return Response(code="timeout", message=f"the query took longer than {request.caps.timeout_s:g} s")
        except Ended:
            code, message = worker.cause_of_death()
            self._drop()
            return Response(code=code, message=message)
        except BaseException:
            self._drop()  # what it answers now would be taken for the answer to the next query
            raise

    def _ready(self) -> WorkerProcess:
        if self._worker is not None and not self._worker.alive:
            self._drop()
        if self._worker is None:
            self._worker = WorkerProcess(self._quads)
        return self._worker

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()

    def forked(self) -> None:
        """In the child of a fork: whoever held the lock isn't here, and the worker is not ours."""
        self._lock = threading.Lock()
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.disown()


def sources_of(query: str) -> Sources:
    """The graphs that a query names with FROM and FROM NAMED; none of text that can't be read as SPARQL."""
    try:
        tokens = tokenise(query)
        after = {following.offset for token, following in pairwise(tokens) if token.keyword == "FROM"}
        graphs = read(tokens, {})[0].sources if after else ()
    except QueryRefused:
        return Sources()  # the engine says what is wrong with it
    return Sources(
        tuple(graph.iri for graph in graphs if graph.offset in after),
        tuple(graph.iri for graph in graphs if graph.offset not in after),
    )


def _failure(response: Response) -> QueryFailed:
    message = response.message
    if response.code == "bad_query":
        message = _PLACE.sub(r"line \1, column \2: ", " ".join(message.split()))
        message = f"the query can't be run: {message[: limits.ENDPOINT_MESSAGE_CHARS]}"
    return QueryFailed(response.code, message, HINTS[response.code])
