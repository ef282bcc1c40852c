"""The provenance family: the bank's own history as one more local graph, offered where a run has a memory graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from rbank_es import limits
from rbank_es.errors import LimitExceeded
from rbank_es.limits import tool_limits
from rbank_es.tools.shared.tool_family import Reply, SessionTools, ToolError, ToolFamily
from rbank_es.tools.sparql_tools import QueryRequest, QueryRunner, SparqlTools

if TYPE_CHECKING:
    from rbank_es.sparql.data_source import Source


class ProvenanceTools(SessionTools):
    """Tools over the graph of what this bank did before the run: runs, verdicts, extractions, decisions, items."""

    @property
    def _source(self) -> Source:
        graph = self._session.memory_graph
        if graph is None:
            raise ToolError("no_memory_graph", "this run has no memory graph", "use the tools of memory")
        try:
            return graph.source
        except LimitExceeded as error:
            raise ToolError("too_large", str(error), "go on without the memory graph") from error

    @property
    def _tools(self) -> SparqlTools:
        # The same tools over another source: a graph is a graph, and has the same bounds.
        return SparqlTools(replace(self._session, source=self._source))

    def memory_schema(
        self,
        output_mode: Literal["overview", "classes", "properties"] = "overview",
        limit: int = tool_limits.PAGE_ROWS,
        offset: int = 0,
    ) -> Reply:
        """What the memory graph holds: the history of this bank before this run, in W3C PROV-O.

        Classes are rbank:Item, rbank:Run, rbank:Judgment, rbank:Extraction and more; properties lead from cause to
        effect, such as rbank:used_in (item to run), rbank:judged_by, rbank:drawn_from, rbank:drew.

        Args: output_mode: 'overview', 'classes' or 'properties'; limit, offset: which rows.
        Returns: as sparql_schema: class_count, top_classes; classes (uri, label, count) or properties (uri, label,
        triples).
        Example: memory_schema('properties', limit=10)['properties'][0]['uri']
        """
        reply = self._tools.sparql_schema(output_mode, None, limit, True, offset)
        if output_mode == "overview":
            query = "SELECT ?item { ?item a rbank:Item }"
            reply.body["next"] = f"memory_schema(output_mode='classes'), memory_query(query={query!r})"
        return reply

    def memory_query(self, query: str, limit: int = limits.QUERY_ROWS_DEFAULT) -> Reply:
        """Run a SPARQL query on the memory graph and get a handle to its result.

        The prefixes rbank: and prov: need no PREFIX line. rbank:verdict and rbank:outcome are of runs, rbank:state,
        rbank:uses and rbank:wins of items; prov:value is a title or a task.

        Args: query: SELECT, ASK, CONSTRUCT or DESCRIBE; limit: rows wanted (at most 10,000).
        Returns: a handle (key, alias, size, preview), rows, variables, truncated, limit, warnings, next, hint.
        Example: r = memory_query('SELECT ?t { ?i rbank:used_in ?r ; prov:value ?t . ?r rbank:verdict "failure" }')
        """
        runner = QueryRunner(self._session, self._source)
        reply = runner.run(QueryRequest.of(query, limit), by="memory_query", propose=False)
        # Advice is written for the run's own source, whose schema tool knows nothing of this graph.
        for told, key in [*((each, "alternative") for each in reply.body.get("warnings", ())), (reply.body, "hint")]:
            if key in told:
                told[key] = told[key].replace("sparql_schema", "memory_schema")
        return reply


# No query of it counts as one that answers a task: those are asked of the run's own source.
FAMILY = ToolFamily(ProvenanceTools, lambda session, tool: session.memory_graph is not None)
