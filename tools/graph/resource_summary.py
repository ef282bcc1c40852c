"""One resource of a source: its kind, examples, properties and notes, by the schema and by small queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rbank_es import limits
from rbank_es.errors import QueryRefused
from rbank_es.limits import tool_limits
from rbank_es.ontology.count_queries import instances_query
from rbank_es.ontology.rdf_names import SUBCLASS, TYPE
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.sparql.results import Cell, Row
from rbank_es.system.text_cuts import cut
from rbank_es.text.stems import stems_in
from rbank_es.tools.graph.schema_tables import SchemaTables, known_number, tables_of
from rbank_es.tools.graph.term_names import TermNames, reference
from rbank_es.tools.shared.result_page import value_of
from rbank_es.tools.shared.tool_answers import AnswerBudget
from rbank_es.tools.shared.tool_family import ToolError

if TYPE_CHECKING:
    from rbank_es.sparql.data_source import Source


NOTE_CHARS = 90
"""Characters that a note may take beside the instances."""

TRAITS = ("functional", "inverse_functional", "transitive", "symmetric", "deprecated")

Kind = Literal["class", "property", "individual"]


class ResourceSummary:
    """The body of an answer about one resource, filled within its budget."""

    def __init__(self, body: dict[str, Any], look: ResourceQueries, room: AnswerBudget) -> None:
        self._body = body
        self._look = look
        self._room = room

    def peek_class(self, iri: str, n: int) -> None:
        """Add instances of a class with a few of their properties; of its subclasses if it has none of its own.

        Of a class without any, what is declared is added: an agent would ask for it next.
        """
        self.describe_class(iri, brief=True)
        deep = self._look.tables is not None and self._look.tables.instances(iri) == 0
        self.add_instances(iri, n, subclasses=deep)
        if deep and self._body["instances"]:
            note = "instances of subclasses only: query ?x a/rdfs:subClassOf* "
            name = self._body["uri"]
            self._body["note"] = note + (name if len(note + name) <= NOTE_CHARS else "this class")
        elif not self._body["instances"]:
            if self._look.tables is None:
                self._body["note"] = "no instances here"
                return
            self._body["note"] = "no instances here: this is what is declared"
            self.describe_class(iri)

    def add_instances(self, iri: str, n: int, *, subclasses: bool) -> None:
        """Add instances, each with as many properties as leave room for all of them."""
        rows = self._look.instances(iri, n, subclasses=subclasses)
        # Reserve room for the note that the caller adds afterwards.
        self._body["note"] = "x" * NOTE_CHARS
        width = tool_limits.DETAIL_PROPERTIES if not self._room.naive else 10**6
        narrow = [_narrow(row, width) for row in rows]
        while width > 1 and not self._room.holds(self._body, "instances", narrow):
            width -= 1
            narrow = [_narrow(row, width) for row in rows]
        self._room.put(self._body, "instances", narrow)
        del self._body["note"]

    def describe_class(self, iri: str, *, brief: bool = False) -> None:
        """Add the description of a class by the schema; if `brief`, its label and count only."""
        tables = self._look.tables
        if tables is None or iri not in tables.classes:
            self._body |= known_number("count", self._look.count_of(iri))
            if not brief:
                self._room.put(self._body, "properties", self._look.used_by(iri))
            return
        known = tables.classes[iri]
        self._body |= known_number("count", known.instances)
        if not brief:
            self._body |= known_number("subclasses", known.subclasses)
            self._body |= known_number("subclass_instances", known.below)
        self._room.say(self._body, "label", known.label, tool_limits.SHOWN_LABEL_CHARS)
        if not brief:
            self._explain(tables, known)
            self._room.put(self._body, "properties", [tables.has_row(has) for has in tables.properties_of(iri)])

    def describe_property(self, iri: str, *, brief: bool = False) -> None:
        """Add the description of a property by the schema; if `brief`, no comment and no notes."""
        tables = self._look.tables
        if tables is None or iri not in tables.properties:
            return
        known = tables.properties[iri]
        self._body |= known_number("triples", known.triples)
        if not brief:
            self._body |= {"property_kind": known.kind, "traits": [trait for trait in TRAITS if getattr(known, trait)]}
        self._room.say(self._body, "label", known.label, tool_limits.SHOWN_LABEL_CHARS)
        self._room.list(self._body, "domains", tables.shorten(bound.iri for bound in known.domains))
        self._room.list(self._body, "ranges", tables.shorten(bound.iri for bound in known.ranges))
        if known.inverses:
            inverses = [
                {"uri": tables.names.shorten(each), **known_number("triples", tables.triples(each))}
                for each in known.inverses
            ]
            self._room.put(self._body, "inverses", inverses, share=50)
        if not brief:
            self._explain(tables, known)

    def _explain(self, tables: SchemaTables, known: ClassInfo | PropertyInfo) -> None:
        self._room.list(self._body, "parents", tables.shorten(known.parents))
        self._room.say(self._body, "comment", known.comment, tool_limits.SHOWN_COMMENT_CHARS)
        self._room.texts(
            self._body, "notes", known.notes, tool_limits.SHOWN_NOTE_CHARS, len(known.notes) + known.notes_left_out
        )

    def peek_property(self, iri: str, n: int) -> None:
        """Add triples with a property."""
        self.describe_property(iri, brief=True)
        self._room.put(self._body, "examples", self._look.examples(iri, n))

    def peek_individual(self, iri: str, *, both: bool = False) -> None:
        """Add the properties of an individual; with `both`, also those that lead to it."""
        self._room.put(self._body, "properties", self._look.outgoing(iri), share=60 if both else 100)
        if both:
            self._room.put(self._body, "incoming", self._look.incoming(iri))


def _narrow(row: dict[str, Any], width: int) -> dict[str, Any]:
    kept = dict([*row["properties"].items()][:width])
    more = {name: count for name, count in row.get("more", {}).items() if name in kept}
    return {"uri": row["uri"], "properties": kept, **({"more": more} if more else {})}


class ResourceQueries:
    """Small queries about one thing of a source. `width` is the characters that are shown of a value."""

    def __init__(self, source: Source, width: int = tool_limits.SHOWN_VALUE_CHARS) -> None:
        self._source = source
        self._width = width
        self.names = TermNames.of(source)
        self.tables: SchemaTables | None = tables_of(source) if source.schema is not None else None

    def resolve(self, resource: str) -> str:
        """Return the IRI of a prefixed name, an IRI, or the local name or label of one class or property.

        Raises `ToolError` for a name that is unknown or ambiguous.
        """
        try:
            iri = self.names.expand(resource)
        except ToolError as error:
            meant = self.tables.named(resource.partition(":")[2]) if self.tables is not None else []
            if error.code != "unknown_prefix" or not meant:
                raise
            # A prefix that is usual elsewhere seldom resembles the one in use here, but the local name is the same.
            near = ", ".join(self.names.shorten(each) for each in meant[: limits.NEAREST_NAMES])
            raise ToolError(error.code, error.message, f"did you mean {near}?") from None
        if iri is not None:
            return iri
        named = self.tables.named(resource) if self.tables is not None else []
        if len(named) == 1:
            return named[0]
        if named:
            several = ", ".join(self.names.shorten(each) for each in named[: limits.NEAREST_NAMES])
            raise ToolError(
                "ambiguous_name",
                f"several things are called {resource[: limits.GIVEN_CHARS]!r}",
                f"say which: {several}",
            )
        raise self.unknown(resource, "")

    def name(self, iri: str) -> str:
        """Return the short name of an IRI, as an answer about it shows it."""
        return cut(self.names.shorten(iri), tool_limits.SHOWN_NAME_CHARS)

    def kind(self, iri: str) -> Kind | None:
        """Return the kind of a thing; None if neither the schema nor the data know it."""
        if self.tables is not None and iri in self.tables.classes:
            return "class"
        if self.tables is not None and iri in self.tables.properties:
            return "property"
        name = reference(iri)
        patterns: list[tuple[Kind, str]] = [("individual", f"{name} ?p ?o")]
        if self.tables is None:
            # Without a schema, only the data can tell what is a class or a property.
            patterns = [("class", f"?s a {name}"), ("property", f"?s {name} ?o"), *patterns]
        elif self._local:
            # A schema leaves out the classes of its own parts, such as owl:Class.
            patterns = [("class", f"VALUES ?class {{ {name} }} ?s a ?class"), *patterns]
        return next((kind for kind, pattern in patterns if self._ask(pattern)), None)

    def unknown(self, name: str, iri: str) -> ToolError:
        """Return the error for a thing that nothing is known of, with the nearest names."""
        near = ", ".join(self.names.shorten(each) for each in self.nearest(name, iri))
        hint = f"did you mean {near}?" if near else "sparql_schema('classes') lists what there is"
        return ToolError("unknown_resource", f"nothing is known of {name[: limits.GIVEN_CHARS]!r}", hint)

    def nearest(self, name: str, iri: str) -> list[str]:
        """Return classes and properties of the schema with a similar name, the most similar first."""
        if self.tables is None:
            return []
        known = self._source.surroundings.vocabulary or Vocabulary.from_schema(self.tables.schema)
        kinds: tuple[Literal["class", "property"], ...] = ("class", "property")
        near = [each for kind in kinds for each in known.nearest(iri or name, kind, limits.NEAREST_NAMES)]
        # The vocabulary ranks by spelling; among its suggestions, shared words are better evidence.
        language = self.tables.words.language
        wanted = set(stems_in(name, language))
        near.sort(key=lambda each: -len(wanted.intersection(stems_in(self.names.shorten(each), language))))
        return [each for each in near if each in self.tables.classes or each in self.tables.properties][
            : limits.NEAREST_NAMES
        ]

    def instances(self, cls: str, n: int, *, subclasses: bool = False) -> list[dict[str, Any]]:
        """Return instances with one value per property: rows of `uri` and `properties`.

        `more` of a row counts further values by property.
        """
        path = f"a/<{SUBCLASS}>*" if subclasses else "a"
        # Things are limited first: a LIMIT outside would count rows of things and properties.
        some = f"SELECT DISTINCT ?s WHERE {{ ?s {path} {reference(cls)} }}{self._order('?s')} LIMIT {n}"
        try:
            rows = self._rows(
                f"SELECT ?s ?p ({self._one}(?o) AS ?value) (COUNT(?o) AS ?n) "
                f"WHERE {{ {{ {some} }} ?s ?p ?o }} GROUP BY ?s ?p",
                min(n * tool_limits.PEEK_TRIPLES, limits.QUERY_ROWS),
            )
        except QueryRefused:  # the endpoint is known to be slow at that
            return [{"uri": self.shown(row[0]), "properties": {}} for row in self._rows(some, n)]
        return self._grouped(rows, types=subclasses)

    def examples(self, prop: str, n: int) -> list[dict[str, Any]]:
        """Return triples with a property: rows of `subject` and `object`."""
        order = self._order("?subject ?object")
        query = f"SELECT ?subject ?object WHERE {{ ?subject {reference(prop)} ?object }}{order} LIMIT {n}"
        return [{"subject": self.shown(row[0]), "object": self.shown(row[1])} for row in self._rows(query, n)]

    def outgoing(self, iri: str) -> list[dict[str, Any]]:
        """Return the properties of a thing: rows of `uri`, `n` (its values) and one `value`."""
        return self._counted(f"{reference(iri)} ?p ?o", "value")

    def incoming(self, iri: str) -> list[dict[str, Any]]:
        """Return the properties that lead to a thing: rows of `uri`, `n` (its subjects) and one `subject`."""
        return self._counted(f"?o ?p {reference(iri)}", "subject")

    def count_of(self, cls: str) -> int | None:
        """Return the number of things typed with a class that the schema doesn't list; None at an endpoint."""
        if not self._local:
            return None
        return _number(self._rows(instances_query(cls), 1)[0][0])

    def used_by(self, cls: str) -> list[dict[str, Any]]:
        """Return properties of a class, by its first 100 instances: rows of `uri` and `of_100` (triples of these)."""
        # A sample, because popular classes have millions of instances at an endpoint.
        some = f"SELECT ?s WHERE {{ ?s a {reference(cls)} }} LIMIT {tool_limits.SAMPLED_INSTANCES}"
        rows = self._rows(
            f"SELECT ?p (COUNT(*) AS ?n) WHERE {{ {{ {some} }} ?s ?p ?o }} GROUP BY ?p", tool_limits.PEEK_TRIPLES
        )
        found = [{"uri": self.shown(row[0]), "of_100": _number(row[1])} for row in rows]
        return sorted(found, key=lambda row: (-row["of_100"], row["uri"]))

    def shown(self, cell: Cell | None) -> Any:
        """Return a cell as it is shown: an IRI by its short name, a long text truncated."""
        if cell is None:
            return ""
        value = self.names.shorten(cell.value) if cell.kind == "iri" else value_of(cell)
        return cut(value, self._width) if isinstance(value, str) and cell.kind != "iri" else value

    @property
    def _local(self) -> bool:
        return self._source.kind == "local"

    @property
    def _one(self) -> str:
        """The aggregate that picks one of many values: a deterministic one where that costs little."""
        return "MIN" if self._local else "SAMPLE"

    def _order(self, variables: str) -> str:
        """Return an ORDER BY that makes the first rows deterministic, where that costs little."""
        return f" ORDER BY {variables}" if self._local else ""

    def _counted(self, pattern: str, example: str) -> list[dict[str, Any]]:
        # The inner LIMIT bounds the work of the endpoint, not just its answer.
        some = pattern if self._local else f"{{ SELECT ?p ?o WHERE {{ {pattern} }} LIMIT {tool_limits.PEEK_TRIPLES} }}"
        query = f"SELECT ?p (COUNT(*) AS ?n) ({self._one}(?o) AS ?value) WHERE {{ {some} }} GROUP BY ?p"
        # Some endpoints answer a group of nothing with a row of nothing.
        found = {row[0].value: row for row in self._rows(query, tool_limits.PEEK_TRIPLES) if row[0] is not None}
        rows = [found[prop] for prop in sorted(found, key=self._place)]
        return [{"uri": self.shown(row[0]), "n": _number(row[1]), example: self.shown(row[2])} for row in rows]

    def _grouped(self, rows: list[Row], *, types: bool) -> list[dict[str, Any]]:
        """Return a row for each thing, also for one that has nothing but a type; `types` says whether to show types."""
        found: dict[Cell, dict[str, Any]] = {}
        for subject, prop, value, number in sorted(rows, key=lambda row: self._place(row[1].value if row[1] else "")):
            if subject is None or prop is None:
                continue
            row = found.setdefault(subject, {"uri": self.shown(subject), "properties": {}})
            if prop.value == TYPE and not types:
                continue
            name = self.names.shorten(prop.value)
            row["properties"][name] = self.shown(value)
            if _number(number) > 1:
                row.setdefault("more", {})[name] = _number(number) - 1
        return sorted(found.values(), key=lambda row: str(row["uri"]))

    def _place(self, prop: str) -> tuple[int, int, str]:
        """Return the sort key of a property: names first, then the most used, types last."""
        if self.tables is None or prop == TYPE:
            return (int(prop == TYPE) + 1, 0, prop)
        if prop in self.tables.schema.label_properties:
            return (0, 0, prop)
        return (1, self.tables.places.get(prop, len(self.tables.places)), prop)

    def _rows(self, query: str, rows: int) -> list[Row]:
        return [*self._source.query(query, rows=rows, timeout_s=tool_limits.LOOK_TIME_S)[1].rows]

    def _ask(self, pattern: str) -> bool:
        return bool(self._source.query(f"ASK {{ {pattern} }}", timeout_s=tool_limits.LOOK_TIME_S)[1].boolean)


def _number(cell: Cell | None) -> int:
    value = value_of(cell) if cell is not None else 0
    return value if isinstance(value, int) else 0
