"""The schema as tools show it: ranked rows of classes and properties.

Tables are made once per ontology, and cached in memory by the digest of its files. All runs of a process share them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec

from rbank_es import limits
from rbank_es.limits import tool_limits
from rbank_es.ontology.prefixes import local_name
from rbank_es.ontology.rdf_names import TYPE
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
from rbank_es.system.forks import undivided
from rbank_es.text.spelled_words import plain_name
from rbank_es.tools.graph.term_names import TermNames
from rbank_es.tools.graph.term_words import TermWords
from rbank_es.tools.shared.tool_family import ToolError

if TYPE_CHECKING:
    from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo
    from rbank_es.sparql.data_source import Source

Value = TypeVar("Value")

DIGEST_CHARS = 12
"""Characters of a digest that are shown: enough to tell ontologies apart."""


class ClassProperty(NamedTuple):
    """A property of a class: triples of its direct instances with it (None if unknown), and why it is the class's."""

    property: str
    triples: int | None
    how: Literal["used", "domain", "inherited"]


class SchemaTables:
    """A schema in rows: `classes` and `properties` by IRI, the most telling first."""

    def __init__(self, schema: Schema, digest: str, names: TermNames) -> None:
        self.schema = schema
        self.digest = digest
        self.names = names
        self.complete = len(schema.typed_uses) < limits.TYPED_USES > len(schema.links)
        """Whether a property or a step of a class that isn't in the schema is not in the data either."""
        self.classes = {each.iri: each for each in sorted(schema.classes, key=_class_rank)}
        self.properties = {each.iri: each for each in sorted(schema.properties, key=_property_rank)}
        self.places = {iri: place for place, iri in enumerate(self.properties)}
        self._parents = {iri: each.parents for iri, each in self.classes.items()}
        self._children = _gathered((parent, each.iri) for each in self.classes.values() for parent in each.parents)
        self._domains = _gathered((bound.iri, each.iri) for each in self.properties.values() for bound in each.domains)
        self._uses = _gathered((use.cls, (use.property, use.uses)) for use in schema.typed_uses)
        # Made once, because every page of every run shows them.
        self._class_rows = {iri: self._made_of_class(each) for iri, each in self.classes.items()}
        self._property_rows = {iri: self._made_of_property(each) for iri, each in self.properties.items()}

    def descendants(self, cls: str) -> list[str]:
        """Return all subclasses, near ones first, without the class itself."""
        return _reached(cls, self._children)

    def ancestors(self, cls: str) -> list[str]:
        """Return all superclasses, near ones first, without the class itself."""
        return _reached(cls, self._parents)

    def instances(self, cls: str) -> int | None:
        """Return the number of things typed with this very class, not with a subclass; None if unknown."""
        known = self.classes.get(cls)
        return known.instances if known is not None else None

    def triples(self, prop: str) -> int | None:
        """Return the number of triples with a property; None if unknown."""
        known = self.properties.get(prop)
        return known.triples if known is not None else None

    def label(self, iri: str) -> str:
        """Return the label of a class or a property; an empty text if it has none."""
        known = self.classes.get(iri) or self.properties.get(iri)
        return known.label if known is not None else ""

    def properties_of(self, cls: str) -> list[ClassProperty]:
        """Return the properties of a class: used by its instances (most used first), by domain, inherited."""
        found = {iri: ClassProperty(iri, triples, "used") for iri, triples in self._uses.get(cls, [])}
        none = 0 if self.complete else None
        for iri in self._domains.get(cls, []):
            found.setdefault(iri, ClassProperty(iri, none, "domain"))
        for ancestor in self.ancestors(cls):
            for iri in self._domains.get(ancestor, []):
                found.setdefault(iri, ClassProperty(iri, none, "inherited"))
        return [*found.values()]

    def shorten(self, iris: Iterable[str]) -> list[str]:
        """Return names that can stand in a query."""
        return [self.names.shorten(iri) for iri in iris]

    def class_row(self, iri: str) -> dict[str, Any]:
        """Return a row about a class of the schema."""
        # A copy, because callers add to their row.
        return dict(self._class_rows[iri])

    def property_row(self, iri: str) -> dict[str, Any]:
        """Return a row about a property of the schema."""
        return dict(self._property_rows[iri])

    def _made_of_class(self, each: ClassInfo) -> dict[str, Any]:
        common = [has.property for has in self.properties_of(each.iri)[: tool_limits.LISTED_PROPERTIES]]
        row = {"uri": self.names.shorten(each.iri), "label": each.label, **known_number("count", each.instances)}
        return {**row, "common_properties": self.shorten(common)}

    def _made_of_property(self, each: PropertyInfo) -> dict[str, Any]:
        row: dict[str, Any] = {"uri": self.names.shorten(each.iri), "label": each.label, "kind": each.kind}
        row |= known_number("triples", each.triples)
        domains = self.shorten(bound.iri for bound in each.domains[: tool_limits.LISTED_BOUNDS])
        ranges = self.shorten(bound.iri for bound in each.ranges[: tool_limits.LISTED_BOUNDS])
        return {**row, "domains": domains, "ranges": ranges}

    def has_row(self, has: ClassProperty) -> dict[str, Any]:
        """Return a row about a property of a class."""
        known = self.properties.get(has.property)
        ranges = (
            self.shorten(bound.iri for bound in known.ranges[: tool_limits.LISTED_BOUNDS]) if known is not None else []
        )
        row = {"uri": self.names.shorten(has.property), **known_number("triples", has.triples)}
        return {**row, "how": has.how, "ranges": ranges}

    def within(self, iris: Iterable[str], namespace: str | None) -> list[str]:
        """Return the IRIs that begin with the namespace; all for None."""
        return [iri for iri in iris if namespace is None or iri.startswith(namespace)]

    def named(self, name: str) -> list[str]:
        """Return classes and properties whose local name or label is the name but for case; else but for accents, too,
        and signs between its words.
        """
        wanted, meant = name.strip().casefold(), self._by_name.get(plain_name(name), [])
        exact = (iri for iri in meant if wanted in (local_name(iri).casefold(), self.label(iri).casefold()))
        return [*exact] or meant

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        both: list[ClassInfo | PropertyInfo] = [*self.classes.values(), *self.properties.values()]
        names = ((each.iri, {plain_name(local_name(each.iri)), plain_name(each.label)}) for each in both)
        return _gathered((name, iri) for iri, some in names for name in some if name)

    @cached_property
    def words(self) -> TermWords:
        """The words of the terms, for searches."""
        return TermWords(self.classes.values(), self.properties.values())


def known_number(name: str, number: int | None) -> dict[str, int]:
    """Return a number under its name; nothing if it is unknown."""
    return {} if number is None else {name: number}


_KEPT: OrderedDict[str, SchemaTables] = OrderedDict()


def tables_of(source: Source, *, use_cache: bool = True) -> SchemaTables:
    """Return the tables of a source. Raises `ToolError` if it has no schema."""
    schema = source.schema
    if schema is None:
        raise ToolError(
            "no_schema",
            "nothing is known about this endpoint's schema",
            "look with a small query: SELECT ?class (COUNT(?s) AS ?n) WHERE { ?s a ?class } GROUP BY ?class LIMIT 20",
        )
    digest = source.ontology.digest if source.ontology is not None else _digest(source, schema)
    with undivided:
        kept = _KEPT.get(digest) if use_cache else None
        if kept is not None:
            _KEPT.move_to_end(digest)
            return kept
    # Outside of it: two threads may make the same tables, but nobody waits for another ontology.
    made = SchemaTables(schema, digest, TermNames.of(source))
    with undivided:
        _KEPT[digest] = made
        while len(_KEPT) > limits.GRAPH_CACHE_ENTRIES:
            _KEPT.popitem(last=False)
    return made


def _digest(source: Source, schema: Schema) -> str:
    # The prefixes count too, because rows show short names.
    return hashlib.sha256(msgspec.json.encode([schema, dict(source.surroundings.prefixes)])).hexdigest()


def _class_rank(each: ClassInfo) -> tuple[bool, int, int, str]:
    return each.deprecated, -(each.instances or 0), -each.degree, each.iri


def _property_rank(each: PropertyInfo) -> tuple[bool, bool, int, int, str]:
    # rdf:type last: every ontology uses it most.
    common = each.kind == "annotation" or each.iri == TYPE
    return each.deprecated, common, -(each.triples or 0), -len(each.domains) - len(each.ranges), each.iri


def _gathered(pairs: Iterable[tuple[str, Value]]) -> dict[str, list[Value]]:
    found: defaultdict[str, list[Value]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return dict(found)


def _reached(start: str, steps: Mapping[str, Sequence[str]]) -> list[str]:
    """Return everything that steps lead to from a start, near ones first, without the start itself."""
    found: dict[str, None] = {}
    edge = [start]
    while edge:
        edge = [iri for each in edge for iri in steps.get(each, ()) if iri not in found and iri != start]
        found.update(dict.fromkeys(edge))
    return [*found]
