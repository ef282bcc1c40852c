"""The graph family: lookups in a local graph, one call each. Endpoints have the `sparql` family only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rbank_es import limits
from rbank_es.limits import tool_limits
from rbank_es.tools.graph.resource_summary import ResourceQueries, ResourceSummary
from rbank_es.tools.graph.schema_tables import SchemaTables, known_number, tables_of
from rbank_es.tools.graph.term_search import search
from rbank_es.tools.shared.tool_answers import AnswerBudget, Thing, from_zero, within
from rbank_es.tools.shared.tool_family import Reply, SessionTools, ToolError, ToolFamily
from rbank_es.tools.sparql_tools import QueryRequest, QueryRunner

if TYPE_CHECKING:
    from rbank_es.sparql.data_source import Source


class GraphTools(SessionTools):
    """Tools over the classes, properties and individuals of a local graph."""

    @property
    def _source(self) -> Source:
        source = self._session.source
        # Checked again, because a Python program can build the family for any source.
        if source is None or source.kind != "local":
            raise ToolError("not_local", "there is no local graph", "use sparql_schema, sparql_peek and sparql_query")
        return source

    @property
    def _room(self) -> AnswerBudget:
        return AnswerBudget(self._session)

    @property
    def _look(self) -> ResourceQueries:
        return ResourceQueries(self._source, self._room.value_chars)

    @property
    def _tables(self) -> SchemaTables:
        return tables_of(self._source)

    def g_stats(self) -> Reply:
        """How large the loaded graph is, and how it is described.

        Args: none.
        Returns: title, triples, instances (things whose type is no owl:Class, rdf:Property or the like), classes and
        properties (declared, used or named in constraints), graphs (named ones), formalisms (RDFS, OWL, SKOS, SHACL),
        label_properties (what names things, with triples).
        Example: g_stats()['instances'] > 0 tells whether there is more than classes and properties
        """
        schema, tables = self._tables.schema, self._tables
        body: dict[str, Any] = {"triples": schema.triples, "classes": len(schema.classes)}
        body |= {"properties": len(schema.properties), "instances": schema.individuals}
        body |= {"graphs": len(schema.graphs), "formalisms": [*schema.formalisms], "digest": tables.digest[:12]}
        self._room.say(body, "title", schema.title, limits.ONTOLOGY_LABEL_CHARS)
        rows = [{"uri": tables.names.shorten(iri), "triples": n} for iri, n in schema.label_properties.items()]
        self._room.put(body, "label_properties", rows)
        return Reply(body, truncated=self._room.was_truncated(body))

    def g_classes(self, limit: int = tool_limits.PAGE_ROWS, offset: int = 0) -> Reply:
        """The classes of the graph, those with most instances first.

        Args: limit, offset: which rows.
        Returns: classes (uri, label, count of direct instances, common_properties), returned, total, has_more,
        next_offset.
        Example: [row['uri'] for row in g_classes(10)['classes'] if row['count']]
        """
        tables = self._tables
        return self._page([*tables.classes], offset, limit, tables.class_row, "classes")

    def g_props(self, cls: str | None = None, limit: int = tool_limits.PAGE_ROWS, offset: int = 0) -> Reply:
        """The properties of a class, used, declared and inherited; without a class, all properties.

        Args: cls: a class such as 'up:Protein'; limit, offset: which rows.
        Returns: properties (with cls: uri, triples of its direct instances, how: used, domain or inherited, ranges;
        without: uri, label, kind, triples with it, domains, ranges), returned, total, has_more, next_offset.
        Example: [row['uri'] for row in g_props('up:Protein')['properties'] if row.get('triples')]
        """
        tables = self._tables
        if not cls:
            return self._page([*tables.properties], offset, limit, tables.property_row, "properties")
        return self._page(tables.properties_of(self._class(cls)), offset, limit, tables.has_row, "properties")

    def g_search(self, text: str, k: int = tool_limits.FOUND_TERMS_DEFAULT) -> Reply:
        """Find classes, properties and individuals by words of their names, labels, comments and notes.

        Args: text: words, in any order; k: hits (at most 50).
        Returns: hits (uri, kind: class, property or individual, label), best first; hits_total where there are more.
        Example: g_search('zone temperature sensor', 5)['hits'][0]['uri']
        """
        wanted = within("k", k, tool_limits.FOUND_TERMS)
        hits = [hit.row for hit in search(self._source, self._tables, text, wanted)]
        body: dict[str, Any] = {}
        if not hits:
            body["hint"] = "try fewer or other words; g_classes() lists the classes"
        self._room.put(body, "hits", hits if self._room.naive else hits[:wanted])
        if len(body["hits"]) < len(hits):
            body["hits_total"] = len(hits)
        return Reply(body, truncated=self._room.was_truncated(body))

    def g_describe(self, resource: str) -> Reply:
        """Everything about one thing in brief: what it is, what it says, what leads to it.

        Args: resource: 'up:Protein', '<http://…>' or an IRI.
        Returns: kind, uri; for a class or property label, comment, notes (on its use, where the ontology has any); for
        a class parents, subclasses (their number), count (direct instances), subclass_instances (those of subclasses
        alone), properties; for a property domains, ranges, inverses, triples (with it), examples; for an individual
        properties and incoming (uri, n triples, an example).
        Example: g_describe('up:Protein')['parents']
        """
        look, room = self._look, self._room
        iri = look.resolve(resource)
        kind = look.kind(iri)
        body: dict[str, Any] = {"kind": kind or "unknown", "uri": look.name(iri)}
        summary = ResourceSummary(body, look, room)
        if kind == "class":
            summary.describe_class(iri)
        elif kind == "property":
            summary.describe_property(iri)
            summary.peek_property(iri, tool_limits.DESCRIBED_EXAMPLES)
        else:
            summary.peek_individual(iri, both=True)
            # An individual is known by its triples alone, so only now it is known to be missing.
            if not body["properties"] and not body["incoming"]:
                raise look.unknown(resource, iri)
        return Reply(body, truncated=self._room.was_truncated(body))

    def g_sample(self, cls: str, n: int = tool_limits.EXAMPLES_DEFAULT, subclasses: bool = True) -> Reply:
        """A few instances of a class with some of their properties.

        Args: cls: a class such as 'up:Protein'; n: instances (at most 20); subclasses: also instances of subclasses.
        Returns: uri, count (direct instances), instances (uri, properties with one value each, more: further values).
        Example: g_sample('up:Protein', 3)['instances'][0]['properties']
        """
        look = self._look
        iri = self._class(cls)
        body: dict[str, Any] = {"uri": look.name(iri), **known_number("count", self._tables.instances(iri))}
        ResourceSummary(body, look, self._room).add_instances(
            iri, self._room.most(n, tool_limits.SAMPLE_ROWS), subclasses=subclasses
        )
        return Reply(body, truncated=self._room.was_truncated(body))

    def g_query(self, query: str, limit: int = limits.QUERY_ROWS_DEFAULT) -> Reply:
        """Run a SPARQL query on the loaded graph and get a handle; nothing is proposed as a memory.

        The same as sparql_query without its memory: use it to explore, and sparql_query for the query that answers.

        Args: query: SELECT, ASK, CONSTRUCT or DESCRIBE; limit: rows wanted (at most 10,000).
        Returns: a handle (key, alias, size, preview), rows, variables, truncated, limit, warnings, next, hint.
        Example: r = g_query('SELECT ?c (COUNT(?s) AS ?n) WHERE { ?s a ?c } GROUP BY ?c'); sparql_slice(r)['rows']
        """
        return QueryRunner(self._session, self._source).run(QueryRequest.of(query, limit), by="g_query", propose=False)

    def _class(self, name: str) -> str:
        look = self._look
        iri = look.resolve(name)
        if iri not in self._tables.classes:
            raise look.unknown(name, iri)
        return iri

    def _page(
        self, things: Sequence[Thing], offset: int, limit: int, row_of: Callable[[Thing], dict[str, Any]], name: str
    ) -> Reply:
        wanted = within("limit", limit, limits.QUERY_ROWS)
        body = self._room.page(things, from_zero(offset), wanted, name, {}, row_of)
        return Reply(body, truncated=body["has_more"])


# Local graphs only: some of these lookups count every triple of a thing.
FAMILY = ToolFamily(
    GraphTools,
    lambda session, tool: session.source is not None and session.source.kind == "local",
    queries=frozenset({"g_query"}),
    looks=frozenset({"g_classes", "g_props", "g_search", "g_describe", "g_sample", "g_stats"}),
    rare=frozenset({"g_stats", "g_classes", "g_props", "g_sample", "g_query"}),
)
