"""The process that runs queries for the local engine: `python -m rbank_es.sparql.engines.worker FILE.nq [LIBRARY]`.

LIBRARY is pyoxigraph, or rdflib for a second opinion.

The process loads its graph, then drops the permissions that a query might misuse: memory beyond its share, further
files or sockets, core dumps. It reads requests from standard input and writes responses to standard output. When the
engine's side is closed, the process ends at once, even during a query. No query outlives its time limit, even if the
engine dies.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryFailed
from rbank_es.sparql.engines.local import Request, Response, WorkerGone, receive, send
from rbank_es.sparql.engines.query_engine import CappedRows, Caps, Dataset
from rbank_es.sparql.results import TRIPLE, Answer, Row, cell_of_term
from rbank_es.system.error_messages import foreign_words

if TYPE_CHECKING:
    from pyoxigraph import QueryBoolean, QuerySolutions, QueryTriples, Store


INPUT, OUTPUT, DESCRIPTORS = 0, 1, 3
"""The two pipes, and how many descriptors there may be: these, and standard error."""


Respond = Callable[[Request], Response]


def main(quads: str, library: str = "pyoxigraph") -> None:
    """Load the graph, then answer until the engine is gone."""
    # A process that the system kills at this signal needs no Python to be stopped amid a query.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    threading.Thread(target=end_with_owner, daemon=True).start()
    try:
        answering = _LIBRARIES[library](quads)
        confine()
    except Exception as error:
        send(OUTPUT, Response(code="engine_failed", message=foreign_words(error)))
        return
    send(OUTPUT, Response())
    decoder = msgspec.msgpack.Decoder(Request)
    while True:
        request = decoder.decode(receive(INPUT))
        signal.setitimer(signal.ITIMER_REAL, request.caps.timeout_s - request.caps.spent_s + limits.QUERY_GRACE_S)
        response = answering(request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        send(OUTPUT, response)


def end_with_owner() -> None:
    """Wait until nobody holds the other end of standard input any more, and end this process."""
    poll = select.poll()
    poll.register(INPUT, 0)  # asks for nothing, so it returns for a hang-up only
    poll.poll()
    os._exit(0)


def confine() -> None:
    """Give up further memory, files and sockets: three descriptors are open, and a fourth is refused."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    address_space_bytes = _address_space_bytes()
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    if address_space_bytes:
        most = address_space_bytes + limits.QUERY_MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _address_space_bytes() -> int:
    """Return the bytes that this process has mapped; 0 where the system doesn't report them."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _pyoxigraph(quads: str) -> Respond:
    graphs = Graphs.of_file(quads)
    return lambda request: respond(graphs, request)


def _rdflib(quads: str) -> Respond:
    from rbank_es.sparql.engines.rdflib_engine import RdflibEngine

    engine = RdflibEngine(Path(quads))

    def answering(request: Request) -> Response:
        try:
            return Response(answer=engine.run(request.query, request.form, request.caps, request.dataset))
        except QueryFailed as failed:
            return Response(code=failed.code, message=failed.message)
        except MemoryError:
            return Response(code="out_of_memory", message="the query needs too much memory")

    # Now, because afterwards no file can be opened: neither the graph nor a module that the library imports when used.
    answering(Request(_WARMING, "select", Caps()))
    return answering


_WARMING = """SELECT ?p (COUNT(DISTINCT ?o) AS ?n) WHERE { ?s ?p ?o . ?s a/<p:q>* ?c OPTIONAL { ?o <p:q> ?q }
  FILTER(REGEX(STR(?o), "^x") || YEAR(?o) > 1 || NOT EXISTS { ?o ?p ?s }) BIND(UCASE(MD5(STR(?o))) AS ?b)
  VALUES ?c { <p:c> } } GROUP BY ?p HAVING(COUNT(?o) > 1) ORDER BY ?n LIMIT 1"""
"""A query of many parts, for a library that imports some of them at their first use."""

_LIBRARIES = {"pyoxigraph": _pyoxigraph, "rdflib": _rdflib}


def respond(graphs: Graphs, request: Request) -> Response:
    """Run one query."""
    try:
        return Response(answer=_answer(graphs, request))
    except SyntaxError as error:
        return Response(code="bad_query", message=str(error))
    except MemoryError:
        return Response(code="out_of_memory", message="the query needs too much memory")
    except (RuntimeError, ValueError, OSError) as error:
        return Response(code="bad_query", message=str(error))
    except BaseException as error:  # a panic in the engine is no Exception
        return Response(code="engine_failed", message=foreign_words(error))


def _answer(graphs: Graphs, request: Request) -> Answer:
    from pyoxigraph import QueryBoolean, QuerySolutions

    found = graphs.query(request.query, request.dataset)
    if isinstance(found, QueryBoolean):
        return Answer(form="ask", boolean=bool(found))
    if isinstance(found, QuerySolutions):
        keeper = CappedRows([variable.value for variable in found.variables], request.caps)
        rows: Iterable[Row] = (tuple(map(cell_of_term, solution)) for solution in found)
    else:
        keeper, rows = CappedRows(TRIPLE, request.caps), _triples(found)
    for row in rows:
        if not keeper.add(row):
            break
    return keeper.answer(request.form)


def _triples(found: QueryTriples) -> Iterator[Row]:
    for triple in found:
        yield tuple(map(cell_of_term, (triple.subject, triple.predicate, triple.object)))


_MERGE = "INSERT { ?s ?p ?o } WHERE { GRAPH ?g { ?s ?p ?o } }"


class Graphs:
    """The graphs of one file: the default graph holds every triple, beside the named graphs that the file has.

    The last set of graphs that a query named is kept, merged likewise; its size counts as memory of that query.
    """

    def __init__(self, store: Store) -> None:
        """Merge all graphs of a store into its default graph."""
        self._store = store
        self._named: tuple[Dataset, Store] | None = None
        store.update(_MERGE)

    @classmethod
    def of_file(cls, quads: str) -> Graphs:
        """Return the graphs of an N-Quads file; blank nodes keep their labels."""
        from pyoxigraph import RdfFormat, Store, parse

        store = Store()
        # `bulk_load`, no faster, renames blank nodes each time: the same query would never get the same answer.
        store.bulk_extend(parse(path=quads, format=RdfFormat.N_QUADS))
        return cls(store)

    def query(self, query: str, dataset: Dataset) -> QuerySolutions | QueryBoolean | QueryTriples:
        """Run a query whose FROM and FROM NAMED name this dataset."""
        if len(dataset.merged) < 2:
            return self._store.query(query)
        from pyoxigraph import DefaultGraph

        return self._merge_of(dataset).query(query, default_graph=[DefaultGraph()])

    def _merge_of(self, dataset: Dataset) -> Store:
        """Return a store of a dataset: its default graph merged, and its named graphs."""
        from pyoxigraph import NamedNode, Quad, Store

        if self._named is not None and self._named[0] == dataset:
            return self._named[1]
        self._named = None  # Free the old merge before the next one: both may not fit into memory.
        store = Store()
        for iri in dataset.merged:
            found = self._store.quads_for_pattern(None, None, None, NamedNode(iri))
            store.bulk_extend(Quad(each.subject, each.predicate, each.object) for each in found)
        for iri in dataset.named:
            store.bulk_extend(self._store.quads_for_pattern(None, None, None, NamedNode(iri)))
        self._named = dataset, store
        return store


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except WorkerGone:
        sys.exit(0)
