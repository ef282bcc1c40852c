"""The tools as calls for a Python program: each returns a handle, and is recorded like an agent's call."""

from __future__ import annotations

import msgspec

from rbank_es import limits
from rbank_es.tools.shared.tool_family import Reply, SessionTools, ToolError, ToolFamily


class PythonApi(SessionTools):
    """The calls behind `Toolbox.load_graph`, `execute_query` and `retrieve_memories`. No agent is offered them."""

    def load_graph(self, path: str) -> Reply:
        """Reply with a handle to a graph as N-Quads. A graph that is larger than a payload is refused."""
        from rbank_es.ontology.loader import load_ontology

        ontology = load_ontology(path)
        content = ontology.quads.read_text(encoding="utf-8")
        return Reply({"triples": ontology.schema.triples, "digest": ontology.digest}, content, "graph")

    def execute_query(self, query: str, limit: int = limits.QUERY_ROWS_DEFAULT) -> Reply:
        """Reply with a handle to the result of a query."""
        if self._session.source is None:
            raise ToolError("no_source", "this run has no ontology and no endpoint", "build its tools with one")
        from rbank_es.tools.sparql_tools import SparqlTools

        return SparqlTools(self._session).sparql_query(query, limit, store_pattern=False)

    def retrieve_memories(self, query: str, k: int | None = None) -> Reply:
        """Reply with a handle to the items that fit a query best, in full; without `k`, as many as by the policy."""
        from rbank_es.tools.memory.item_search import search_items

        seen = search_items(self._session, query, k)
        items = self._session.bank.get([hit.id for hit in seen.hits], max_n=len(seen.hits), point=seen.position)
        payload = msgspec.json.encode(items).decode()
        return Reply({"items": len(items)}, payload, "mem", beside=seen.events, position=seen.position)


# Offered to no agent: a program calls them through `Toolbox`.
FAMILY = ToolFamily(PythonApi, lambda session, tool: False, queries=frozenset({"execute_query"}))
