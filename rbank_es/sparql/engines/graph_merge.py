"""Graphs of which each triple counts once, however many of them it stands in: an RDF merge (SPARQL 1.1, 13.2).

The engine's own union of graphs gives a triple once for each graph, so that counts and sums come out too large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbank_es.sparql.engines.worker_protocol import Sources

if TYPE_CHECKING:
    from pyoxigraph import QueryBoolean, QuerySolutions, QueryTriples, Store

_MERGE = "INSERT { ?s ?p ?o } WHERE { GRAPH ?g { ?s ?p ?o } }"


class Graphs:
    """The graphs of one file: the default graph holds every triple, beside the named graphs that the file has.

    The last set of graphs that a query named is kept, merged likewise; its size counts as memory of that query.
    """

    def __init__(self, store: Store) -> None:
        """Merge all graphs of a store into its default graph."""
        self._store = store
        self._named: tuple[Sources, Store] | None = None
        store.update(_MERGE)

    @classmethod
    def of_file(cls, quads: str) -> Graphs:
        """The graphs of an N-Quads file; blank nodes keep the labels that they have there."""
        from pyoxigraph import RdfFormat, Store, parse

        store = Store()
        # `bulk_load`, no faster, gives blank nodes other names each time: the same query would never get the same
        # answer.
        store.bulk_extend(parse(path=quads, format=RdfFormat.N_QUADS))
        return cls(store)

    def query(self, query: str, sources: Sources) -> QuerySolutions | QueryBoolean | QueryTriples:
        """What the engine finds, where FROM and FROM NAMED of the query name these sources."""
        if len(sources.merged) < 2:
            return self._store.query(query)
        from pyoxigraph import DefaultGraph

        return self._merge_of(sources).query(query, default_graph=[DefaultGraph()])

    def _merge_of(self, sources: Sources) -> Store:
        """A store of what a query names: its default graph merged, and its named graphs."""
        from pyoxigraph import NamedNode, Quad, Store

        if self._named is not None and self._named[0] == sources:
            return self._named[1]
        self._named = None
        store = Store()
        for iri in sources.merged:
            found = self._store.quads_for_pattern(None, None, None, NamedNode(iri))
            store.bulk_extend(Quad(each.subject, each.predicate, each.object) for each in found)
        for iri in sources.named:
            store.bulk_extend(self._store.quads_for_pattern(None, None, None, NamedNode(iri)))
        self._named = sources, store
        return store
