"""The model of an ontology's schema: classes, properties, constraints, and counts of its data.

A `Schema` holds nothing that depends on the order of triples, on blank node labels or on file names: the same
statements give the same schema, byte for byte. Everything in it is sorted by IRI unless it says otherwise.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["object", "datatype", "annotation", "property"]
"""The declared kind of a property; `property` if none is declared, or only rdf:Property."""

TermKind = Literal["class", "property"]

ConstraintSource = Literal["rdfs", "owl", "includes", "shacl", "void"]
"""Origin of a domain, a range or a cardinality: rdfs:domain and range, OWL restrictions and unions, schema.org's
domainIncludes and rangeIncludes, SHACL shapes, or a VoID description of an endpoint.
"""


class ClassInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A class: one that is declared, used as a type, or named in a hierarchy or by a constraint."""

    iri: str
    label: str = ""
    comment: str = ""
    notes: tuple[str, ...] = ()
    """Usage notes, scope notes and examples beside the comment; at most `ONTOLOGY_NOTES`."""
    notes_left_out: int = 0
    """Number of further notes."""
    parents: tuple[str, ...] = ()
    """Named superclasses, direct ones."""
    instances: int = 0
    """Things of the data typed with this very class, not with a subclass (see `schema_level`)."""
    values: int = 0
    """Likewise things of the vocabulary itself: tags, ranks, units, to which its classes point."""
    degree: int = 0
    """Number of properties that name it as domain or range."""
    declared: bool = False
    deprecated: bool = False


class Bound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A class that a property starts from (domain) or leads to (range), and the source of that statement."""

    iri: str
    source: ConstraintSource


class PropertyInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A property: one that is declared, used as a predicate, or named by a constraint or a hierarchy."""

    iri: str
    kind: Kind = "property"
    label: str = ""
    comment: str = ""
    notes: tuple[str, ...] = ()
    notes_left_out: int = 0
    """Both as those of a class."""
    domains: tuple[Bound, ...] = ()
    ranges: tuple[Bound, ...] = ()
    parents: tuple[str, ...] = ()
    inverses: tuple[str, ...] = ()
    """Properties that are declared to be its inverse, in either direction."""
    uses: int = 0
    """Triples with it as predicate whose subject belongs to the data (see `schema_level`)."""
    triples: int = 0
    """All triples with it as predicate."""
    mentions: int = 0
    """Triples with it as object: how often other terms refer to it."""
    functional: bool = False
    inverse_functional: bool = False
    transitive: bool = False
    symmetric: bool = False
    declared: bool = False
    deprecated: bool = False


class Cardinality(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Number of values of a property that each instance of a class has."""

    cls: str
    property: str
    least: int | None = None
    most: int | None = None
    source: ConstraintSource


class TypedUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Number of triples with a property on instances of a class."""

    cls: str
    property: str
    uses: int


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Number of triples with a property from instances of one class to instances of another."""

    subject: str
    property: str
    object: str
    uses: int


class Schema(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The description of an ontology: the one source of cards, constraints and tools about it."""

    iri: str = ""
    """The ontology's own IRI, from its header; the first by name if there are several."""
    title: str = ""
    triples: int = 0
    prefixes: dict[str, str] = {}
    """Prefix to namespace IRI, of the namespaces that occur, sorted by prefix. Never an empty prefix."""
    formalisms: tuple[str, ...] = ()
    """Of RDFS, OWL, SKOS, SHACL, those in use, in this order."""
    classes: tuple[ClassInfo, ...] = ()
    properties: tuple[PropertyInfo, ...] = ()
    disjoint: tuple[tuple[str, str], ...] = ()
    """Pairs of classes that share no instance, the smaller IRI first."""
    cardinalities: tuple[Cardinality, ...] = ()
    typed_uses: tuple[TypedUse, ...] = ()
    """Most used first, then by IRI; at most `TYPED_USES`."""
    links: tuple[Link, ...] = ()
    """Likewise. Both ends are individuals; each class of an end counts."""
    label_properties: dict[str, int] = {}
    """Properties that name things (rdfs:label, skos:prefLabel, …) with their number of triples, most used first."""
    definition_properties: dict[str, int] = {}
    """Properties that explain things (rdfs:comment, skos:definition, …), likewise."""
    individuals: int = 0
    """Typed things that belong to the data: neither to the schema nor to the values of its vocabulary."""
    graphs: tuple[str, ...] = ()
    """IRIs of the named graphs."""
    shapes: int = 0
    """SHACL node shapes."""
    concepts: int = 0
    """Things typed skos:Concept."""
