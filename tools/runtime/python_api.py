"""What a Python program calls where an agent calls tools: the answer is a `Ref`, and the call is recorded alike."""

from __future__ import annotations

import msgspec

from rbank_es import limits
from rbank_es.tools.runtime.tool_session import Reply, ToolError, ToolSession


class PythonTools:
    """Stands behind `Toolbox.load_graph`, `execute_query` and `retrieve_memories`."""

    def __init__(self, session: ToolSession) -> None:
        self._session = session

    def load_graph(self, path: str) -> Reply:
        """A handle to a graph, as N-Quads; a graph that is too large for a payload is refused: query it instead."""
        from rbank_es.ontology.loader import load_ontology

        ontology = load_ontology(path)
        content = ontology.quads.read_text(encoding="utf-8")
        return Reply({"triples": ontology.schema.triples, "digest": ontology.digest}, content, "graph")

    def execute_query(self, query: str, limit: int = limits.QUERY_ROWS_DEFAULT) -> Reply:
        """A handle to the result of a query."""
        if self._session.source is None:
            raise ToolError("no_source", "this run has no ontology and no endpoint", "build its tools with one")
        from rbank_es.tools.sparql_tools import SparqlTools

        return SparqlTools(self._session).sparql_query(query, limit, store_pattern=False)

    def retrieve_memories(self, query: str, k: int = 1) -> Reply:
        """A handle to the items that fit a query best, in full."""
        from rbank_es.tools.memory.item_search import search_items

        seen = search_items(self._session, query, k)
        items = self._session.bank.get([hit.id for hit in seen.hits], max_n=len(seen.hits), point=seen.position)
        payload = msgspec.json.encode(items).decode()
        return Reply({"items": len(items)}, payload, "mem", beside=(seen.event,), position=seen.position)
