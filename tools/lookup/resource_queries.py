"""Looking at one thing by small queries: instances of a class, uses of a property, what an individual says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rbank_es import limits
from rbank_es.errors import QueryRefused
from rbank_es.ontology.rdf_names import SUBCLASS, TYPE
from rbank_es.sparql.results import Cell, Row
from rbank_es.tools.lookup.schema_tables import Tables, tables_of
from rbank_es.tools.lookup.term_names import Names, reference, words_of
from rbank_es.tools.runtime.reply import ToolError
from rbank_es.tools.runtime.row_pages import clip, value_of

if TYPE_CHECKING:
    from rbank_es.sparql.source import Source

Kind = Literal["class", "property", "individual"]

LOOK_S = 10.0
"""How long one small query may take, in seconds."""

LOOKED_AT = 1_000
"""Triples of one thing that are counted on an endpoint: popular things have millions of them there."""

VALUE_CHARS = 80
"""What is shown of a value."""

NAME_CHARS = 300
"""What is shown of the name of a thing that was asked for: the asker knows it."""

NEAREST = 3
"""Names that are suggested for one that is not known."""


class Looking:
    """Small queries about one thing of a source. `width` is what is shown of a value, in characters."""

    def __init__(self, source: Source, width: int = VALUE_CHARS) -> None:
        self._source = source
        self._width = width
        self.names = Names.of(source)
        self.tables: Tables | None = tables_of(source)[0] if source.schema is not None else None

    # ---------------------------------------------------------------- what is meant

    def resolve(self, resource: str) -> str:
        """The IRI of a thing: a prefixed name, an IRI, or the name or label of one class or property.

        Raises `ToolError` for a name that is unknown or that several have.
        """
        iri = self.names.expand(resource)
        if iri is not None:
            return iri
        named = self.tables.named(resource) if self.tables is not None else []
        if len(named) == 1:
            return named[0]
        if named:
            several = ", ".join(self.names.shorten(each) for each in named[:NEAREST])
            raise ToolError("ambiguous_name", f"several things are called {resource[:80]!r}", f"say which: {several}")
        raise self.unknown(resource, "")

    def name(self, iri: str) -> str:
        """What a thing is called in an answer about it."""
        return clip(self.names.shorten(iri), NAME_CHARS)

    def kind(self, iri: str) -> Kind | None:
        """What a thing is; None where neither the schema nor the data know it."""
        if self.tables is not None and iri in self.tables.classes:
            return "class"
        if self.tables is not None and iri in self.tables.properties:
            return "property"
        name = reference(iri)
        patterns: list[tuple[Kind, str]] = [("individual", f"{name} ?p ?o")]
        if self.tables is None:
            patterns = [("class", f"?s a {name}"), ("property", f"?s {name} ?o"), *patterns]
        return next((kind for kind, pattern in patterns if self._ask(pattern)), None)

    def unknown(self, name: str, iri: str) -> ToolError:
        """The error for a thing that nobody knows, with the nearest names."""
        near = ", ".join(self.names.shorten(each) for each in self.nearest(name, iri))
        hint = f"did you mean {near}?" if near else "sparql_schema('classes') lists what there is"
        return ToolError("unknown_resource", f"nothing is known of {name[:80]!r}", hint)

    def nearest(self, name: str, iri: str) -> list[str]:
        """Classes and properties of the schema with a similar name, the most similar first."""
        if self.tables is None:
            return []
        from rbank_es.ontology.vocabulary import Vocabulary

        known = self._source.surroundings.vocabulary or Vocabulary.from_schema(self.tables.schema)
        kinds: tuple[Literal["class", "property"], ...] = ("class", "property")
        near = [each for kind in kinds for each in known.nearest(iri or name, kind, NEAREST)]
        wanted = set(words_of(name))
        near.sort(key=lambda each: -len(wanted & set(words_of(self.names.shorten(each)))))
        return [each for each in near if each in self.tables.classes or each in self.tables.properties][:NEAREST]

    # ---------------------------------------------------------------- what is there

    def instances(self, cls: str, n: int, *, subclasses: bool = False) -> list[dict[str, Any]]:
        """Instances with one value per property: rows of `uri` and `properties`; `more` counts further values."""
        path = f"a/<{SUBCLASS}>*" if subclasses else "a"
        some = f"SELECT DISTINCT ?s WHERE {{ ?s {path} {reference(cls)} }}{self._order('?s')} LIMIT {n}"
        try:
            rows = self._rows(
                f"SELECT ?s ?p ({self._one}(?o) AS ?value) (COUNT(?o) AS ?n) "
                f"WHERE {{ {{ {some} }} ?s ?p ?o }} GROUP BY ?s ?p",
                min(n * LOOKED_AT, limits.QUERY_ROWS),
            )
        except QueryRefused:  # the endpoint is known to be slow at that
            return [{"uri": self.shown(row[0]), "properties": {}} for row in self._rows(some, n)]
        return self._grouped([row for row in rows if subclasses or row[1] is None or row[1].value != TYPE])

    def examples(self, prop: str, n: int) -> list[dict[str, Any]]:
        """Triples with a property: rows of `subject` and `object`."""
        order = self._order("?subject ?object")
        query = f"SELECT ?subject ?object WHERE {{ ?subject {reference(prop)} ?object }}{order} LIMIT {n}"
        return [{"subject": self.shown(row[0]), "object": self.shown(row[1])} for row in self._rows(query, n)]

    def outgoing(self, iri: str) -> list[dict[str, Any]]:
        """What a thing says: rows of `uri` (the property), `n` (its values) and one `value`."""
        return self._counted(f"{reference(iri)} ?p ?o", "value")

    def incoming(self, iri: str) -> list[dict[str, Any]]:
        """What leads to a thing: rows of `uri` (the property), `n` (its subjects) and one `subject`."""
        return self._counted(f"?o ?p {reference(iri)}", "subject")

    def used_by(self, cls: str) -> list[dict[str, Any]]:
        """Properties of a class by looking at its first instances: rows of `uri` and `uses`."""
        some = f"SELECT ?s WHERE {{ ?s a {reference(cls)} }} LIMIT 100"
        rows = self._rows(f"SELECT ?p (COUNT(*) AS ?n) WHERE {{ {{ {some} }} ?s ?p ?o }} GROUP BY ?p", LOOKED_AT)
        found = [{"uri": self.shown(row[0]), "uses": _number(row[1])} for row in rows]
        return sorted(found, key=lambda row: (-row["uses"], row["uri"]))

    def shown(self, cell: Cell | None) -> Any:
        """A cell as it is shown: IRIs by their short names, long texts clipped."""
        if cell is None:
            return ""
        value = self.names.shorten(cell.value) if cell.kind == "iri" else value_of(cell)
        return clip(value, self._width) if isinstance(value, str) and cell.kind != "iri" else value

    # ---------------------------------------------------------------- queries

    @property
    def _local(self) -> bool:
        return self._source.kind == "local"

    @property
    def _one(self) -> str:
        """How one of many values is chosen: always the same one, where that costs little."""
        return "MIN" if self._local else "SAMPLE"

    def _order(self, variables: str) -> str:
        """An order that makes the first ones always the same, where that costs little."""
        return f" ORDER BY {variables}" if self._local else ""

    def _counted(self, pattern: str, example: str) -> list[dict[str, Any]]:
        some = pattern if self._local else f"{{ SELECT ?p ?o WHERE {{ {pattern} }} LIMIT {LOOKED_AT} }}"
        query = f"SELECT ?p (COUNT(*) AS ?n) ({self._one}(?o) AS ?value) WHERE {{ {some} }} GROUP BY ?p"
        rows = [row for row in self._rows(query, LOOKED_AT) if row[0] is not None]
        rows.sort(key=lambda row: self._place(row[0].value if row[0] is not None else ""))
        return [{"uri": self.shown(row[0]), "n": _number(row[1]), example: self.shown(row[2])} for row in rows]

    def _grouped(self, rows: list[Row]) -> list[dict[str, Any]]:
        found: dict[Cell, dict[str, Any]] = {}
        for subject, prop, value, number in sorted(rows, key=lambda row: self._place(row[1].value if row[1] else "")):
            if subject is None or prop is None:
                continue
            row = found.setdefault(subject, {"uri": self.shown(subject), "properties": {}})
            name = self.names.shorten(prop.value)
            row["properties"][name] = self.shown(value)
            if _number(number) > 1:
                row.setdefault("more", {})[name] = _number(number) - 1
        return sorted(found.values(), key=lambda row: str(row["uri"]))

    def _place(self, prop: str) -> tuple[int, int, str]:
        """Where a property stands among others: what names things first, types last, else the most used first."""
        if self.tables is None or prop == TYPE:
            return (int(prop == TYPE) + 1, 0, prop)
        if prop in self.tables.schema.label_properties:
            return (0, 0, prop)
        return (1, self.tables.places.get(prop, len(self.tables.places)), prop)

    def _rows(self, query: str, rows: int) -> list[Row]:
        return [*self._source.query(query, rows=rows, timeout_s=LOOK_S)[1].rows]

    def _ask(self, pattern: str) -> bool:
        return bool(self._source.query(f"ASK {{ {pattern} }}", timeout_s=LOOK_S)[1].boolean)


def _number(cell: Cell | None) -> int:
    value = value_of(cell) if cell is not None else 0
    return value if isinstance(value, int) else 0
