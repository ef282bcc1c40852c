"""SPARQL as an agent reaches it, over a local ontology or an endpoint: the schema, a look, a query, its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from rbank_es import limits
from rbank_es.events import Event
from rbank_es.sparql.results import Answer
from rbank_es.tools.lookup.query_run import Asked, Querying
from rbank_es.tools.lookup.resource_queries import Kind, Looking
from rbank_es.tools.lookup.resource_summary import (
    describe_class,
    describe_property,
    peek_class,
    peek_individual,
    peek_property,
)
from rbank_es.tools.lookup.schema_tables import DIGEST_CHARS, Tables, tables_of
from rbank_es.tools.lookup.term_names import Names, words_of
from rbank_es.tools.memory.item_search import found
from rbank_es.tools.runtime.answer_budget import UNBOUNDED, Room, from_zero, within
from rbank_es.tools.runtime.reply import Reply, ToolError
from rbank_es.tools.runtime.row_pages import clip, slice_answer
from rbank_es.tools.runtime.tool_session import Desk

if TYPE_CHECKING:
    from rbank_es.sparql.source import Source

TOP_CLASSES = 10
"""Classes that an overview names at most."""

DETAIL_PROPERTIES = 8
"""Properties that a class shows in detail, where it has more."""

PEEKED = 20
"""Instances or triples that a look shows at most."""

RELATED = 2
"""Procedures that a look names (source: the unified tool design)."""

Mode = Literal["overview", "classes", "properties", "detail"]


class SparqlTools:
    """The `sparql_*` tools."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._room = Room(desk)
        self._last: tuple[str, Answer] | None = None

    @property
    def _source(self) -> Source:
        if self._desk.source is None:
            raise ToolError("no_source", "this run has no ontology and no endpoint", "work with what the context says")
        return self._desk.source

    # ---------------------------------------------------------------- phase 1: metadata

    def sparql_schema(
        self,
        output_mode: Mode = "overview",
        filter_prefix: str | None = None,
        limit: int = 50,
        use_cache: bool = True,
        offset: int = 0,
    ) -> Reply:
        """What classes and properties there are, with counts; look here before you write a query.

        Args: output_mode: 'overview', 'classes', 'properties', or 'detail' (classes with their superclasses and
        properties); filter_prefix: only names that begin with it, such as 'up:'; limit, offset: which rows;
        use_cache: False makes the tables anew.
        Returns: overview: class_count, property_count, top_classes (uri, count), prefixes. classes: classes (uri,
        label, count of direct instances, common_properties). properties: properties (uri, label, kind, uses, domains,
        ranges). Rows come with returned, total, has_more, next_offset; cached and digest tell whose tables they are.
        Example: sparql_schema('classes', filter_prefix='up:', limit=10)['classes'][0]['uri']
        """
        offset, limit = from_zero(offset), within("limit", limit, limits.QUERY_ROWS)
        tables, cached = tables_of(self._source, use_cache=use_cache)
        namespace = tables.names.namespace(filter_prefix) if filter_prefix else None
        beside = {"cached": cached, "digest": tables.digest[:DIGEST_CHARS]}
        if output_mode == "overview":
            return Reply(self._overview(tables, namespace, limit, beside))
        name = "properties" if output_mode == "properties" else "classes"
        iris = tables.within(tables.properties if name == "properties" else tables.classes, namespace)
        row_of = {"classes": tables.class_row, "properties": tables.property_row, "detail": self._detail_of(tables)}
        body = self._room.page(iris, offset, limit, name, beside, row_of[output_mode])
        return Reply(body, truncated=body["has_more"])

    def sparql_peek(
        self,
        resource: str,
        limit: int = 5,
        output_mode: Literal["sample", "schema"] = "sample",
        related_memories: bool = True,
    ) -> Reply:
        """A look at one class, property or individual: a few examples of it, or how it is described.

        Args: resource: 'up:Protein', '<http://…>' or an IRI; limit: examples (at most 20); output_mode: 'sample' for
        data, 'schema' for properties, domains, ranges, notes; related_memories: also ids of procedures about it.
        Returns: kind, uri, and for a class count, instances (uri, properties with one value each, more: further
        values); for a property uses, domains, ranges, examples (subject, object); for an individual properties (uri,
        n values, one value); related_procedures (id, title), to be read with mem_get or mem_quote.
        Example: sparql_peek('up:Protein', limit=2)['instances'][0]['properties']
        """
        look = Looking(self._source, **self._width)
        iri = look.resolve(resource)
        kind = look.kind(iri)
        if kind is None:
            raise look.unknown(resource, iri)
        body: dict[str, Any] = {"kind": kind, "uri": look.name(iri)}
        events, position = self._relate(body, look, iri) if related_memories else ((), None)
        self._peek(body, look, iri, kind, output_mode, self._room.most(limit, PEEKED))
        return Reply(body, truncated=self._room.cut(body), beside=events, position=position)

    # ---------------------------------------------------------------- phase 2: rows

    def sparql_query(
        self,
        query: str,
        limit: int = limits.QUERY_ROWS_DEFAULT,
        timeout_s: float = 30,
        explain: bool = False,
        store_pattern: bool = True,
    ) -> Reply:
        """Run a SPARQL query (SELECT, ASK, CONSTRUCT, DESCRIBE) and get a handle to its result, not its rows.

        Args: query: SPARQL; known prefixes need no PREFIX line; limit: rows wanted (at most 10,000; a smaller LIMIT
        of the query holds); timeout_s: seconds; explain: True checks the query and runs nothing; store_pattern: a
        query that finds something is proposed as a memory.
        Returns: a handle (key, alias, size, preview), rows, variables, truncated (there are more rows than limit),
        clipped (values that were cut, being too long), limit, warnings, next; boolean for ASK; hint where nothing was
        found.
        Example: r = sparql_query('SELECT ?p WHERE { ?p a up:Protein }', limit=20); sparql_slice(r, 0, 5)['rows']
        """
        asked = Asked.of(query, limit, timeout_s)
        querying = Querying(self._desk, self._source)
        if explain:
            return querying.explain(asked)
        return querying.run(asked, by="sparql_query", propose=store_pattern and self._desk.policy.propose)

    def sparql_slice(self, result: str | dict[str, Any], offset: int = 0, limit: int = 50) -> Reply:
        """Rows of a result that sparql_query or g_query returned, a page at a time.

        Args: result: the handle, its key, or its alias such as 'results_0'; offset: first row, from 0; limit: rows
        wanted (at most 100; fewer where they are long).
        Returns: rows (variable to value; an unbound variable is absent; a graph has subject, predicate, object),
        kinds (what each variable holds: iri, number, text, text@en, boolean, bnode, xsd:date, mixed), returned,
        total, offset, has_more, next_offset, clipped (values shown short; hint tells how to read them), lost (values
        of the result cut when the query ran), truncated (the query itself was cut).
        Example: page = sparql_slice(r, 0, 50); more = sparql_slice(r, page['next_offset']) if page['has_more'] else {}
        """
        ref = self._desk.store.resolve(result)
        offset, rows = from_zero(offset), within("limit", limit, limits.SLICE_ROWS)
        answer = self._answer(ref.key, ref.dtype)
        if answer.form == "ask":
            return Reply({"boolean": bool(answer.boolean), "rows": [], "returned": 0, "total": 0, "has_more": False})
        if self._desk.naive:
            rows = max(1, len(answer.rows))
        shorten = Names.of(self._source).shorten
        hint = f"values ending in … are shown short: ctx_find('{ref.key}', regex) says where, ctx_slice reads there"
        body = slice_answer(answer, offset, rows, self._room.slice_chars, shorten=shorten, hint=hint)
        if limit > rows:
            body.setdefault("note", f"limit is at most {rows}")
        return Reply(body, truncated=body["has_more"] and body["returned"] < rows)

    def _answer(self, key: str, dtype: str) -> Answer:
        """The answer behind a key; the last one is kept, for it is paged through. Raises `ToolError`."""
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        from rbank_es.sparql.results import from_json

        wrong = ToolError(
            "not_results",
            f"this handle holds {dtype}, not rows of a query",
            "give the handle that sparql_query returned; ctx_slice(ref, start, end) reads any text",
        )
        if dtype not in ("results", "graph"):
            raise wrong
        try:
            self._last = key, from_json(self._desk.store.get(key))
        except ValueError:
            raise wrong from None
        return self._last[1]

    # ---------------------------------------------------------------- the schema

    def _overview(self, tables: Tables, namespace: str | None, limit: int, beside: dict[str, Any]) -> dict[str, Any]:
        classes = tables.within(tables.classes, namespace)
        properties = tables.within(tables.properties, namespace)
        body: dict[str, Any] = {"class_count": len(classes), "property_count": len(properties), **beside}
        body["triples"] = tables.schema.triples
        body["next"] = "sparql_schema('classes'), sparql_peek(uri)"
        wanted = len(classes) if self._room.naive else min(limit, TOP_CLASSES)
        top = [{"uri": tables.names.shorten(iri), "count": tables.instances(iri)} for iri in classes[:wanted]]
        self._room.put(body, "top_classes", top, share=60)
        body.pop("top_classes_total", None)
        body["prefixes"] = self._prefixes(tables, body)
        return body

    def _prefixes(self, tables: Tables, body: dict[str, Any]) -> dict[str, str]:
        """Prefixes of the classes that are shown, then others, as far as there is room."""
        used = {row["uri"].partition(":")[0] for row in body["top_classes"]}
        known = tables.names.prefixes
        order = sorted(known, key=lambda prefix: (prefix not in used, prefix))
        left = self._room.left({**body, "prefixes": {}})
        shown: dict[str, str] = {}
        for prefix in order:
            left -= len(prefix) + len(known[prefix]) + 6
            if left < 0:
                break
            shown[prefix] = known[prefix]
        return shown

    def _detail_of(self, tables: Tables) -> Callable[[str], dict[str, Any]]:
        most = None if self._room.naive else DETAIL_PROPERTIES

        def detail(iri: str) -> dict[str, Any]:
            known, row, has = tables.classes[iri], tables.class_row(iri), tables.properties_of(iri)
            del row["common_properties"]
            row |= {"comment": known.comment, "parents": tables.shorten(known.parents)}
            row |= {"subclasses": len(tables.descendants(iri)), "properties_total": len(has)}
            return {**row, "properties": tables.shorten(each.property for each in has[:most])}

        return detail

    # ---------------------------------------------------------------- a look

    @property
    def _width(self) -> dict[str, int]:
        return {"width": UNBOUNDED} if self._room.naive else {}

    def _peek(self, body: dict[str, Any], look: Looking, iri: str, kind: Kind, mode: str, n: int) -> None:
        if kind == "class":
            describe_class(body, look, self._room, iri) if mode == "schema" else peek_class(
                body, look, self._room, iri, n
            )
        elif kind == "property" and mode == "schema":
            describe_property(body, look, self._room, iri)
        elif kind == "property":
            peek_property(body, look, self._room, iri, n)
        else:
            peek_individual(body, look, self._room, iri)

    def _relate(self, body: dict[str, Any], look: Looking, iri: str) -> tuple[tuple[Event, ...], int | None]:
        """Name the procedures of the bank that are about this thing; with the event that tells of the search."""
        if self._desk.policy.mode == "auto":  # memory reaches the agent by its context alone
            return (), None
        from rbank_es.ontology.labels import without_controls
        from rbank_es.ontology.prefixes import local_name

        label = look.tables.label(iri) if look.tables is not None else ""
        words = dict.fromkeys([*words_of(local_name(iri)), *words_of(label)])
        seen = found(self._desk, " ".join(words), RELATED)
        body["related_procedures"] = [
            {"id": hit.id, "title": clip(without_controls(hit.title), 80)} for hit in seen.hits
        ]
        return (seen.event,), seen.position
