"""What is known about an ontology: its classes, properties and constraints, and what its data make of them.

A `Schema` holds only what doesn't depend on the order of triples, on blank node labels or on file names: the same
statements give the same schema, byte for byte. Everything in it is sorted by IRI unless it says otherwise.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["object", "datatype", "annotation", "property"]
"""What a property is declared to be; `property` where nothing says, or only that it is an rdf:Property."""

TermKind = Literal["class", "property"]

ConstraintSource = Literal["rdfs", "owl", "includes", "shacl", "void"]
"""Where a domain, a range or a cardinality was found: rdfs:domain and range, OWL restrictions and unions, schema.org's
domainIncludes and rangeIncludes, SHACL shapes, or a VoID description of an endpoint."""


class ClassInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A class: one that is declared, used as a type, or named in a hierarchy or by a constraint."""

    iri: str
    label: str = ""
    comment: str = ""
    notes: tuple[str, ...] = ()
    """What is said of it beside the comment: usage notes, scope notes, examples; at most `ONTOLOGY_NOTES`."""
    notes_left_out: int = 0
    """How many more notes there are."""
    parents: tuple[str, ...] = ()
    """Named superclasses, direct ones."""
    instances: int = 0
    """Things typed with this very class, not with a subclass, that belong to the data (see `levels`)."""
    values: int = 0
    """Likewise those that belong to the vocabulary itself: tags, ranks, units, to which its classes point."""
    degree: int = 0
    """How many properties name it as domain or range: how much hangs on it."""
    declared: bool = False
    deprecated: bool = False


class Bound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A class that a property starts from (domain) or leads to (range), and where that was said."""

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
    """Triples with it as predicate whose subject belongs to the data: neither a class, a property, a shape, an ontology
    header or a value of the vocabulary, nor a blank node that only serves one of these (see `levels`)."""
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
    """How many values of a property each instance of a class has."""

    cls: str
    property: str
    least: int | None = None
    most: int | None = None
    source: ConstraintSource


class TypedUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How often instances of a class have a property."""

    cls: str
    property: str
    uses: int


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How often instances of one class lead to instances of another by a property: the steps of paths in the data."""

    subject: str
    property: str
    object: str
    uses: int


class Schema(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that a card, a constraint list or a tool says about an ontology comes from here."""

    iri: str = ""
    """The ontology's own IRI, where its header names one; the first by name where there are several."""
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
    """Likewise. Both ends are individuals; each class that an end has counts."""
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
