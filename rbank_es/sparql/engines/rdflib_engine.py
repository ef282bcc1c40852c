"""The engine over rdflib, for comparison with the local one: slow, and only the end of its process stops a query."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es.errors import QueryFailed
from rbank_es.sparql.engines.query_engine import ALL_GRAPHS, CappedRows, Caps, Dataset, QueryEngine
from rbank_es.sparql.results import TRIPLE, Answer, Cell, Form, Row, literal
from rbank_es.system.error_messages import foreign_words

if TYPE_CHECKING:
    from rdflib import Dataset as LoadedDataset


class RdflibEngine(QueryEngine):
    """An engine over one N-Quads file in this process, one query at a time, within the caps on rows, bytes and cells.

    The time limit is not kept. FROM takes graphs of the file only, and reads nothing else.
    """

    def __init__(self, quads: Path) -> None:
        self._quads = quads
        self._lock = threading.Lock()
        self._dataset: LoadedDataset | None = None

    def run(self, query: str, form: Form, caps: Caps, dataset: Dataset = ALL_GRAPHS) -> Answer:
        """Return the answer within the caps. Raises `QueryFailed` with `bad_query`."""
        from rdflib.plugins import sparql

        with self._lock:
            loaded = self._loaded()
            began = time.perf_counter()
            loads, sparql.SPARQL_LOAD_GRAPHS = sparql.SPARQL_LOAD_GRAPHS, False
            try:
                answer = _answer(loaded.query(query), form, caps)
            except Exception as error:  # the library has no class of its own for what it can't run
                message = f"the query can't be run: {foreign_words(error)}"
                raise QueryFailed("bad_query", message, "correct the query and call again") from error
            finally:
                sparql.SPARQL_LOAD_GRAPHS = loads
            return msgspec.structs.replace(answer, duration_s=round(time.perf_counter() - began, 6))

    def close(self) -> None:
        """Drop the graph; the next query loads it again."""
        with self._lock:
            self._dataset = None

    def _loaded(self) -> LoadedDataset:
        from rdflib import Dataset as LoadedDataset

        if self._dataset is None:
            loaded = LoadedDataset(default_union=True)
            loaded.parse(self._quads, format="nquads")
            self._dataset = loaded  # now, because a load may be interrupted half way
        return self._dataset


def _answer(found: Any, form: Form, caps: Caps) -> Answer:
    if form == "ask":
        return Answer(form="ask", boolean=bool(found.askAnswer))
    keeper = CappedRows(tuple(map(str, found.vars)) if form == "select" else TRIPLE, caps)
    for values in found if form == "select" else found.graph:
        row: Row = tuple(map(_cell_of, values))
        if not keeper.add(row):
            break
    return keeper.answer(form)


def _cell_of(term: Any) -> Cell | None:
    from rdflib import BNode, URIRef

    if term is None:
        return None
    if isinstance(term, URIRef):
        return Cell("iri", str(term))
    if isinstance(term, BNode):
        return Cell("bnode", str(term))
    return literal(str(term), term.language or "", str(term.datatype or ""))
