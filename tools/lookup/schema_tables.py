"""What is said of a schema, made once per ontology: ranked rows of classes and properties, and who has what.

Tables are kept in memory by the digest of the ontology's files, so every run of a process shares them; an answer that
came from there says so.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec

from rbank_es import limits
from rbank_es.ontology.rdf_names import TYPE
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
from rbank_es.tools.lookup.term_names import Names
from rbank_es.tools.runtime.reply import ToolError

if TYPE_CHECKING:
    from rbank_es.sparql.source import Source

Value = TypeVar("Value")

COMMON_PROPERTIES = 5
"""Properties that a row about a class names."""

BOUNDS = 3
"""Domains and ranges that a row about a property names."""

DIGEST_CHARS = 12
"""What is shown of a digest: enough to tell ontologies apart."""


class Has(NamedTuple):
    """That a class has a property: how often its instances do, and why it is thought so."""

    property: str
    uses: int
    how: Literal["used", "domain", "inherited"]


class Tables:
    """A schema as the tools tell it: `classes` and `properties` by IRI, the most telling first."""

    def __init__(self, schema: Schema, digest: str, names: Names) -> None:
        self.schema = schema
        self.digest = digest
        self.names = names
        self.classes = {each.iri: each for each in sorted(schema.classes, key=_class_rank)}
        self.properties = {each.iri: each for each in sorted(schema.properties, key=_property_rank)}
        self.places = {iri: place for place, iri in enumerate(self.properties)}
        self._parents = {iri: each.parents for iri, each in self.classes.items()}
        self._children = _gathered((parent, each.iri) for each in self.classes.values() for parent in each.parents)
        self._domains = _gathered((bound.iri, each.iri) for each in self.properties.values() for bound in each.domains)
        self._uses = _gathered((use.cls, (use.property, use.uses)) for use in schema.typed_uses)
        self._class_rows = {iri: self._made_of_class(each) for iri, each in self.classes.items()}
        self._property_rows = {iri: self._made_of_property(each) for iri, each in self.properties.items()}

    # ---------------------------------------------------------------- how classes hang together

    def children(self, cls: str) -> list[str]:
        """Direct subclasses, the most telling first."""
        return self._children.get(cls, [])

    def descendants(self, cls: str) -> list[str]:
        """All subclasses, near ones first, without the class itself."""
        return _reached(cls, self._children)

    def ancestors(self, cls: str) -> list[str]:
        """All superclasses, near ones first, without the class itself."""
        return _reached(cls, self._parents)

    def instances(self, cls: str) -> int:
        """Things typed with this very class."""
        known = self.classes.get(cls)
        return known.instances if known is not None else 0

    def uses(self, prop: str) -> int:
        """How often instances have a property."""
        known = self.properties.get(prop)
        return known.uses if known is not None else 0

    def label(self, iri: str) -> str:
        """The label of a class or a property; empty where there is none."""
        known = self.classes.get(iri) or self.properties.get(iri)
        return known.label if known is not None else ""

    def properties_of(self, cls: str) -> list[Has]:
        """The properties of a class: used by its instances (most used first), its own by domain, inherited ones."""
        found = {iri: Has(iri, uses, "used") for iri, uses in self._uses.get(cls, [])}
        for iri in self._domains.get(cls, []):
            found.setdefault(iri, Has(iri, 0, "domain"))
        for ancestor in self.ancestors(cls):
            for iri in self._domains.get(ancestor, []):
                found.setdefault(iri, Has(iri, 0, "inherited"))
        return [*found.values()]

    # ---------------------------------------------------------------- rows

    def shorten(self, iris: Iterable[str]) -> list[str]:
        """Names as they can stand in a query."""
        return [self.names.shorten(iri) for iri in iris]

    def class_row(self, iri: str) -> dict[str, Any]:
        """A row about a class of the schema."""
        return dict(self._class_rows[iri])

    def property_row(self, iri: str) -> dict[str, Any]:
        """A row about a property of the schema."""
        return dict(self._property_rows[iri])

    def _made_of_class(self, each: ClassInfo) -> dict[str, Any]:
        common = [has.property for has in self.properties_of(each.iri)[:COMMON_PROPERTIES]]
        row = {"uri": self.names.shorten(each.iri), "label": each.label, "count": each.instances}
        return {**row, "common_properties": self.shorten(common)}

    def _made_of_property(self, each: PropertyInfo) -> dict[str, Any]:
        row = {"uri": self.names.shorten(each.iri), "label": each.label, "kind": each.kind, "uses": each.uses}
        domains = self.shorten(bound.iri for bound in each.domains[:BOUNDS])
        ranges = self.shorten(bound.iri for bound in each.ranges[:BOUNDS])
        return {**row, "domains": domains, "ranges": ranges}

    def has_row(self, has: Has) -> dict[str, Any]:
        """A row about a property of a class."""
        known = self.properties.get(has.property)
        ranges = self.shorten(bound.iri for bound in known.ranges[:BOUNDS]) if known is not None else []
        return {"uri": self.names.shorten(has.property), "uses": has.uses, "how": has.how, "ranges": ranges}

    # ---------------------------------------------------------------- finding

    def within(self, iris: Iterable[str], namespace: str | None) -> list[str]:
        """Those that begin with the namespace; all for None."""
        return [iri for iri in iris if namespace is None or iri.startswith(namespace)]

    def named(self, name: str) -> list[str]:
        """Classes and properties whose local name or label is this, case ignored."""
        from rbank_es.ontology.prefixes import local_name

        wanted = name.strip().casefold()
        if not wanted:
            return []
        both: Iterator[ClassInfo | PropertyInfo] = (
            each for group in (self.classes, self.properties) for each in group.values()
        )
        return [each.iri for each in both if wanted in (local_name(each.iri).casefold(), each.label.casefold())]


_KEPT: OrderedDict[str, Tables] = OrderedDict()
_LOCK = Lock()


def tables_of(source: Source, *, use_cache: bool = True) -> tuple[Tables, bool]:
    """The tables of a source, and whether they were kept from before. Raises `ToolError` where nothing is known."""
    schema = source.schema
    if schema is None:
        raise ToolError(
            "no_schema",
            "nothing is known about this endpoint's schema",
            "open it with --void FILE; or look with a small query: "
            "SELECT ?class (COUNT(?s) AS ?n) WHERE { ?s a ?class } GROUP BY ?class LIMIT 20",
        )
    digest = source.ontology.digest if source.ontology is not None else _digest(source, schema)
    with _LOCK:
        kept = _KEPT.get(digest) if use_cache else None
        if kept is not None:
            _KEPT.move_to_end(digest)
            return kept, True
    made = Tables(schema, digest, Names.of(source))
    with _LOCK:
        _KEPT[digest] = made
        while len(_KEPT) > limits.GRAPH_CACHE_ENTRIES:
            _KEPT.popitem(last=False)
    return made, False


def _digest(source: Source, schema: Schema) -> str:
    return hashlib.sha256(msgspec.json.encode([schema, dict(source.surroundings.prefixes)])).hexdigest()


def _class_rank(each: ClassInfo) -> tuple[bool, int, int, str]:
    return each.deprecated, -each.instances, -each.degree, each.iri


def _property_rank(each: PropertyInfo) -> tuple[bool, bool, int, int, str]:
    # rdf:type is used most, and says least of an ontology.
    common = each.kind == "annotation" or each.iri == TYPE
    return each.deprecated, common, -each.uses, -len(each.domains) - len(each.ranges), each.iri


def _gathered(pairs: Iterable[tuple[str, Value]]) -> dict[str, list[Value]]:
    found: defaultdict[str, list[Value]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return dict(found)


def _reached(start: str, steps: Mapping[str, Sequence[str]]) -> list[str]:
    """Everything that steps lead to from a start, near ones first, the start itself left out."""
    found: dict[str, None] = {}
    edge = [start]
    while edge:
        edge = [iri for each in edge for iri in steps.get(each, ()) if iri not in found and iri != start]
        found.update(dict.fromkeys(edge))
    return [*found]
