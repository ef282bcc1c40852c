"""The SPARQL family, over a local ontology or an endpoint: the schema, one resource, a query, rows of its result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rbank_es import limits
from rbank_es.events import Event, MemoryProposed
from rbank_es.events.items import without_controls
from rbank_es.limits import tool_limits
from rbank_es.ontology.prefixes import local_name
from rbank_es.sparql.example_query import class_named, is_modelling
from rbank_es.sparql.results import Answer, from_json, to_json
from rbank_es.system.text_cuts import cut
from rbank_es.text.spelled_words import apart, runs_of
from rbank_es.tools.graph.empty_results import hint_for
from rbank_es.tools.graph.resource_summary import Kind, ResourceQueries, ResourceSummary
from rbank_es.tools.graph.schema_tables import DIGEST_CHARS, SchemaTables, known_number, tables_of
from rbank_es.tools.graph.term_names import TermNames
from rbank_es.tools.memory.item_search import related_items
from rbank_es.tools.memory.query_extractor import ProposalEvidence, proposal
from rbank_es.tools.shared.result_page import slice_answer, value_of
from rbank_es.tools.shared.tool_answers import (
    HANDLE,
    UNBOUNDED,
    AnswerBudget,
    from_zero,
    leading,
    shown_names,
    size,
    within,
)
from rbank_es.tools.shared.tool_family import Reply, ToolError, ToolFamily, ToolSession

if TYPE_CHECKING:
    from rbank_es.sparql.data_source import Source
    from rbank_es.sparql.guard import Checked
    from rbank_es.sparql.lint import LintFinding

Mode = Literal["overview", "classes", "properties", "detail"]


class SparqlTools:
    """Tools over the schema and the data of the run's source."""

    def __init__(self, session: ToolSession) -> None:
        self._session = session
        self._room = AnswerBudget(session)
        self._last: tuple[str, Answer] | None = None

    @property
    def _source(self) -> Source:
        if self._session.source is None:
            raise ToolError("no_source", "this run has no ontology and no endpoint", "work with what the context says")
        return self._session.source

    def sparql_schema(
        self,
        output_mode: Mode = "overview",
        filter_prefix: str | None = None,
        limit: int = tool_limits.PAGE_ROWS,
        use_cache: bool = True,
        offset: int = 0,
    ) -> Reply:
        """What classes and properties there are, with counts; look here before you write a query.

        Args: output_mode: 'overview', 'classes', 'properties', or 'detail' (classes with their superclasses and
        properties); filter_prefix: only names that begin with it, such as 'up:'; limit, offset: which rows;
        use_cache: False makes the tables anew.
        Returns: overview: class_count, property_count (those listed), top_classes (uri, count of direct instances),
        prefixes. classes: classes (uri, label, count, common_properties). properties: properties (uri, label, kind,
        triples with it, domains, ranges). Rows come with returned, total, has_more, next_offset; digest tells whose
        they are.
        Example: sparql_schema('classes', filter_prefix='up:', limit=10)['classes'][0]['uri']
        """
        offset, limit = from_zero(offset), within("limit", limit, limits.QUERY_ROWS)
        tables = tables_of(self._source, use_cache=use_cache)
        namespace = tables.names.namespace(filter_prefix) if filter_prefix else None
        if filter_prefix and not any(tables.within(each, namespace) for each in (tables.classes, tables.properties)):
            raise tables.names.none_begins_with(filter_prefix)
        beside = {"digest": tables.digest[:DIGEST_CHARS]}
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
        limit: int = tool_limits.EXAMPLES_DEFAULT,
        output_mode: Literal["sample", "schema"] = "sample",
        related_memories: bool = True,
    ) -> Reply:
        """A look at one class, property or individual: a few examples of it, or how it is described.

        Args: resource: 'up:Protein', '<http://…>' or an IRI; limit: examples (at most 20); output_mode: 'sample' for
        data, 'schema' for properties, domains, ranges, notes; related_memories: also ids of procedures about it.
        Returns: kind, uri, and for a class count (direct instances), instances (uri, properties with one value each,
        more: further values; where there are none, as for 'schema'); for a property triples (with it), domains,
        ranges, examples (subject, object); for an individual properties (uri, n values, one value);
        related_procedures (id, title, desc) of earlier runs.
        Example: sparql_peek('up:Protein', limit=2)['instances'][0]['properties']
        """
        look = ResourceQueries(self._source, self._room.value_chars)
        iri = look.resolve(resource)
        kind = look.kind(iri)
        if kind is None:
            raise look.unknown(resource, iri)
        body: dict[str, Any] = {"kind": kind, "uri": look.name(iri)}
        # First the procedures, which are few; examples then fill what is left.
        events, position = self._relate(body, look, iri) if related_memories else ((), None)
        self._peek(body, look, iri, kind, output_mode, self._room.most(limit, tool_limits.PEEK_ROWS))
        return Reply(body, truncated=self._room.was_truncated(body), beside=events, position=position)

    def sparql_query(
        self,
        query: str,
        limit: int = limits.QUERY_ROWS_DEFAULT,
        timeout_s: float = int(limits.QUERY_TIME_S),  # an agent is shown 30, not 30.0
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
        asked = QueryRequest.of(query, limit, timeout_s)
        querying = QueryRunner(self._session, self._source)
        if explain:
            return querying.explain(asked)
        return querying.run(asked, by="sparql_query", propose=store_pattern and self._session.policy.propose)

    def sparql_slice(self, result: str | dict[str, Any], offset: int = 0, limit: int = tool_limits.PAGE_ROWS) -> Reply:
        """Rows of a result that sparql_query or g_query returned, a page at a time.

        Args: result: the handle, its key, or its alias such as 'results_0'; offset: first row, from 0; limit: rows
        wanted (at most 100; fewer where they are long).
        Returns: rows (variable to value; an unbound variable is absent; a graph has subject, predicate, object),
        kinds (what each variable holds: iri, number, text, text@en, boolean, bnode, xsd:date, mixed), returned,
        total, offset, has_more, next_offset, clipped (values shown short; hint tells how to read them), lost (values
        of the result cut when the query ran), truncated (the query itself was cut).
        Example: page = sparql_slice(r, 0, 50); more = sparql_slice(r, page['next_offset']) if page['has_more'] else {}
        """
        ref = self._session.store.resolve(result)
        offset, rows = from_zero(offset), within("limit", limit, tool_limits.SLICE_ROWS)
        answer = self._answer(ref.key, ref.dtype)
        if answer.form == "ask":
            return Reply({"boolean": bool(answer.boolean), "rows": [], "returned": 0, "total": 0, "has_more": False})
        if self._session.naive:
            rows = max(1, len(answer.rows))
        shorten = TermNames.of(self._source).shorten
        hint = f"values ending in … are shown short: ctx_find('{ref.key}', regex) says where, ctx_slice reads there"
        body = slice_answer(answer, offset, rows, self._room.slice_chars, shorten=shorten, hint=hint)
        if limit > rows:
            body.setdefault("note", f"limit is at most {rows}")
        return Reply(body, truncated=body["has_more"] and body["returned"] < rows)

    def _answer(self, key: str, dtype: str) -> Answer:
        """Return the answer behind a key, decoded once while it is paged through. Raises `ToolError`."""
        # Paging decodes a result (up to 4 MiB) once, not once a page.
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        wrong = ToolError(
            "not_results",
            f"this handle holds {dtype}, not rows of a query",
            "give the handle that sparql_query returned; ctx_slice(ref, start, end) reads any text",
        )
        if dtype not in ("results", "graph"):
            raise wrong
        try:
            self._last = key, from_json(self._session.store.get(key))
        except ValueError:
            raise wrong from None
        return self._last[1]

    def _overview(
        self, tables: SchemaTables, namespace: str | None, limit: int, beside: dict[str, Any]
    ) -> dict[str, Any]:
        classes = tables.within(tables.classes, namespace)
        properties = tables.within(tables.properties, namespace)
        body: dict[str, Any] = {"class_count": len(classes), "property_count": len(properties), **beside}
        body |= known_number("triples", tables.schema.triples)
        # Among the most frequent are parts of the model itself.
        first = class_named(classes, self._session.question) or min(classes, key=is_modelling, default=None)
        peek = f", sparql_peek(resource={tables.names.shorten(first)!r})" if first is not None else ""
        body["next"] = f"sparql_schema(output_mode='classes'){peek}"
        wanted = len(classes) if self._room.naive else min(limit, tool_limits.OVERVIEW_CLASSES)
        top = [
            {"uri": tables.names.shorten(iri), **known_number("count", tables.instances(iri))}
            for iri in classes[:wanted]
        ]
        # The rest is for prefixes: without them the names can't be used in a query.
        self._room.put(body, "top_classes", top, share=60)
        # `class_count` states it already.
        body.pop("top_classes_total", None)
        body["prefixes"] = self._prefixes(tables, body)
        return body

    def _prefixes(self, tables: SchemaTables, body: dict[str, Any]) -> dict[str, str]:
        """Return prefixes as far as they fit: those of the classes in the body first."""
        used = {row["uri"].partition(":")[0] for row in body["top_classes"]}
        known = tables.names.prefixes
        order = sorted(known, key=lambda prefix: (prefix not in used, prefix))
        left = self._room.left({**body, "prefixes": {}})
        return {name: known[name] for name in leading(order, left, lambda name: len(name) + len(known[name]) + 6)}

    def _detail_of(self, tables: SchemaTables) -> Callable[[str], dict[str, Any]]:
        most = None if self._room.naive else tool_limits.DETAIL_PROPERTIES

        def detail(iri: str) -> dict[str, Any]:
            known, row, has = tables.classes[iri], tables.class_row(iri), tables.properties_of(iri)
            del row["common_properties"]
            row |= {"comment": known.comment, "parents": tables.shorten(known.parents)}
            row |= {**known_number("subclasses", known.subclasses), "properties_total": len(has)}
            return {**row, "properties": tables.shorten(each.property for each in has[:most])}

        return detail

    def _peek(self, body: dict[str, Any], look: ResourceQueries, iri: str, kind: Kind, mode: str, n: int) -> None:
        summary = ResourceSummary(body, look, self._room)
        if kind == "individual":
            summary.peek_individual(iri)
        elif mode == "schema":
            (summary.describe_class if kind == "class" else summary.describe_property)(iri)
        else:
            (summary.peek_class if kind == "class" else summary.peek_property)(iri, n)

    def _relate(self, body: dict[str, Any], look: ResourceQueries, iri: str) -> tuple[tuple[Event, ...], int | None]:
        """Add procedures of the bank about this thing. Return the event of the search, and its position."""
        if not self._session.policy.related:
            return (), None
        label = look.tables.label(iri) if look.tables is not None else ""
        words = dict.fromkeys([*runs_of(apart(local_name(iri))), *runs_of(apart(label))])
        seen = related_items(self._session, " ".join(words))
        # With the description, because not every run has a tool that reads the rest.
        shown = [
            {
                "id": hit.id,
                "title": cut(without_controls(hit.title), tool_limits.RELATED_TITLE_CHARS),
                "desc": cut(without_controls(hit.desc), tool_limits.RELATED_DESC_CHARS),
            }
            for hit in seen.hits
        ]
        # Half of the room, because the policy may give many, and examples come after them.
        room = self._room.left({**body, "related_procedures": []}) // 2
        body["related_procedures"] = leading(shown, room, size)
        return seen.events, seen.position


DOUBTFUL = frozenset(("cross_product", "unknown_graph", "unbound_variable"))
"""Codes of warnings that mean a mistake: a query with one of them is no pattern to follow."""


FAMILY = ToolFamily(
    SparqlTools,
    lambda session, tool: session.source is not None,
    {"sparql_slice": tool_limits.SLICE_RETURN_CHARS},
    queries=frozenset({"sparql_query"}),
    looks=frozenset({"sparql_peek"}),
    proposers=frozenset({"sparql_query"}),
)


class QueryRequest(NamedTuple):
    """A query with its bounds, which are within the limits; `notes` name the bounds that were lowered."""

    query: str
    rows: int
    timeout_s: float
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: str, limit: int, timeout_s: float = limits.QUERY_TIME_S) -> QueryRequest:
        """Return the request of a call. Raises `ToolError` for a limit or a timeout that is not positive."""
        # Lowered in silence it would look like a complete result: the notes report it.
        rows = within("limit", limit, limits.QUERY_ROWS)
        if math.isnan(timeout_s) or timeout_s <= 0:
            most = f"{limits.QUERY_TIME_MOST_S:g}"
            raise ToolError("bad_timeout", f"timeout_s is {timeout_s:g}", f"give seconds, above 0 and up to {most}")
        seconds = min(timeout_s, limits.QUERY_TIME_MOST_S)
        notes = [f"limit is at most {rows:,}"] if rows < limit else []
        notes += [f"timeout_s is at most {seconds:g}"] if seconds < timeout_s else []
        return cls(query, rows, seconds, tuple(notes))


class QueryRunner:
    """Runner of the queries of a run's tools."""

    def __init__(self, session: ToolSession, source: Source) -> None:
        self._session = session
        self._source = source
        self._room = AnswerBudget(session)

    def run(self, asked: QueryRequest, *, by: str, propose: bool) -> Reply:
        """Run a query; reply with a handle to its result, its counts, and the next step.

        Raises `QueryRefused`, `QueryFailed`.
        """
        checked, answer = self._source.query(asked.query, rows=asked.rows, timeout_s=asked.timeout_s)
        if self._source is self._session.source and found_something(answer):
            self._session.last_query = asked.query
        doubtful = any(each.code in DOUBTFUL for each in checked.warnings)
        # A query with a suspected mistake is no pattern to follow, even if it found rows.
        events = self._proposed(checked, answer, by) if propose and not doubtful else ()
        body: dict[str, Any] = {"rows": len(answer.rows), "truncated": bool(answer.truncated), "limit": checked.rows}
        if answer.form == "ask":
            body = {"boolean": bool(answer.boolean)}
        if answer.clipped:
            body["clipped"] = answer.clipped
        if events:
            body["proposed"] = events[0].head.id
        self._describe(body, checked, answer, asked)
        dtype = "graph" if answer.form in ("construct", "describe") else "results"
        return Reply(body, to_json(answer), dtype, truncated=bool(answer.truncated or answer.clipped), beside=events)

    def explain(self, asked: QueryRequest) -> Reply:
        """Reply with the checks of a query and the limit it would run with. Nothing runs."""
        from rbank_es.sparql.guard import explain

        explanation = explain(asked.query, self._source.surroundings, asked.rows)
        body: dict[str, Any] = {"form": explanation.form, "refused": bool(explanation.refused_by)}
        if explanation.limit is not None:
            body["limit"] = min(explanation.limit, asked.rows)  # one more is asked for, to know whether there are more
        self._variables(body, explanation.variables, handle=False)
        self._findings(body, "refused_by", explanation.refused_by, handle=False)
        self._findings(body, "warnings", explanation.warnings, handle=False)
        return Reply(body)

    def _describe(self, body: dict[str, Any], checked: Checked, answer: Answer, asked: QueryRequest) -> None:
        """Add, as far as there is room: the next step, the hint, variables, notes, warnings."""
        if answer.form != "ask":
            body["next"] = f"sparql_slice(result={HANDLE})" if answer.rows else "change the query"
        if answer.truncated:
            body["next"] += _MORE[answer.truncated]
        if not found_something(answer):
            hint = hint_for(checked.parsed, self._source)
            self._room.say(body, "hint", hint, handle=True)
        if answer.form == "select":
            self._variables(body, shown_names(answer.variables), handle=True)
        notes = [*([_TRUNCATED_VALUES] if answer.clipped else []), *asked.notes]
        if notes:
            self._room.say(body, "note", "; ".join(notes), handle=True)
        self._findings(body, "warnings", checked.warnings, handle=True)

    def _variables(self, body: dict[str, Any], names: tuple[str, ...], *, handle: bool) -> None:
        left = self._room.left({**body, "variables": [], "variables_total": len(names)}, handle=handle)
        left = left if self._room.naive else min(left, tool_limits.VARIABLES_CHARS)
        kept = leading(names, left, lambda name: len(name) + 3)
        body |= {"variables_total": len(names)} if len(kept) < len(names) else {}
        body["variables"] = kept

    def _findings(self, body: dict[str, Any], name: str, findings: tuple[LintFinding, ...], *, handle: bool) -> None:
        if not findings:
            return
        width = UNBOUNDED if self._room.naive else tool_limits.FINDING_CHARS
        rows = [
            {"code": each.code, "message": cut(each.message, width), "alternative": cut(each.alternative, width)}
            for each in findings
        ]
        self._room.put(body, name, rows, handle=handle)

    def _proposed(self, checked: Checked, answer: Answer, by: str) -> tuple[MemoryProposed, ...]:
        if not found_something(answer):
            return ()
        session = self._session
        rows = None if answer.form == "ask" else len(answer.rows)
        evidence = ProposalEvidence.on(
            session.source, checked.parsed, domain=session.domain, variables=answer.variables, rows=rows
        )
        item = session.extractor.from_success(evidence)
        if item is None or (item.id, by) in session.proposed:
            return ()
        return (proposal(item, run=session.run, call=session.call, by=by, why="the query found something"),)


_TRUNCATED_VALUES = f"values over {limits.RESULT_CELL_CHARS:,} characters were cut"

_MORE = {"rows": "; there are more rows than limit", "bytes": "; the result was too large: select less"}


def found_something(answer: Answer) -> bool:
    """Return whether an answer holds a row that isn't a lone count of 0, or a yes."""
    if answer.form == "ask":
        return bool(answer.boolean)
    if len(answer.rows) != 1:
        return bool(answer.rows)
    # A lone row of zeros is how COUNT reports nothing.
    return any(cell is not None and value_of(cell) != 0 for cell in answer.rows[0])
