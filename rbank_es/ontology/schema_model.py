"""The model of an ontology's schema: classes, properties, constraints, and counts of its data.

Every number in it is that of one SPARQL query over the data (`count_queries`); a VoID description's are as published.
A `Schema` holds nothing that depends on the order of triples, on blank node labels or on file names: the same
statements give the same schema, byte for byte. Everything in it is sorted by IRI unless it says otherwise.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from rbank_es.events.notebook_repr import Shown

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
    wider: tuple[str, ...] = ()
    """Further named classes that may hold its instances, by equivalence, or by a union or an intersection."""
    instances: int | None = 0
    """Things typed with this very class; None if unknown, as where an endpoint's description doesn't say."""
    below: int | None = 0
    """Things typed with a subclass at any depth and not with the class itself; None if unknown."""
    subclasses: int | None = 0
    """Subclasses with a name, at any depth; None if unknown."""
    listed: int = 0
    """Of the instances, those that belong to the vocabulary (see `schema_level`): they count less in rankings."""
    echoes: bool = False
    """Whether it is of a foreign taxonomy: no property shares its namespace, and each of its instances also has a class
    whose namespace has properties. DBpedia's yago: and wikidata: classes are such."""
    degree: int = 0
    """Number of properties that name it as domain or range."""
    mentions: int = 0
    """Triples with it as object: how many things are linked to it."""
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
    domain_stated: bool = False
    """Whether rdfs:domain gives classes, alone or as a union: a restriction or a shape is only a hint."""
    range_stated: bool = False
    """Likewise of rdfs:range."""
    parents: tuple[str, ...] = ()
    inverses: tuple[str, ...] = ()
    """Properties that are declared to be its inverse, in either direction."""
    triples: int | None = 0
    """Triples with it as predicate; None if unknown."""
    untyped: bool = False
    """Whether one of the triples is of something that is no instance of the schema's classes."""
    unlinked: bool = False
    """Whether one of the triples is no step from an instance of such a class to another."""
    listed: int = 0
    """Of the triples, those about parts of the vocabulary (see `schema_level`): they count less in rankings."""
    steps: int = 0
    """Of the triples, those from something with a name to something with a name that is described here too."""
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
    """Number of triples with a property on instances of a class; rdf:type is left out."""

    cls: str
    property: str
    uses: int


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Number of triples with a property from instances of one class to instances of another."""

    subject: str
    property: str
    object: str
    uses: int


class Schema(Shown, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The description of an ontology: the one source of cards, constraints and tools about it."""

    iri: str = ""
    """The ontology's own IRI, from its header; the first by name if there are several."""
    headers: tuple[str, ...] = ()
    """IRIs of all ontology headers, and the namespaces that these prefer (vann:preferredNamespaceUri)."""
    imports: tuple[str, ...] = ()
    """IRIs of owl:imports that no header here answers to: nothing is fetched."""
    title: str = ""
    triples: int | None = 0
    """Distinct triples of all graphs; None if unknown."""
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
    """Most used first, then by IRI; at most `TYPED_USES`: if there are fewer, it is complete."""
    links: tuple[Link, ...] = ()
    """Likewise. Both ends are individuals; each class of an end counts."""
    label_properties: dict[str, int] = {}
    """Properties that name things (rdfs:label, skos:prefLabel, …) with their number of triples, most used first."""
    definition_properties: dict[str, int] = {}
    """Properties that explain things (rdfs:comment, skos:definition, …), likewise."""
    modelling: dict[str, int] = {}
    """Types of the parts of an ontology (owl:Class, rdf:Property, …) with their numbers of things, most first."""
    individuals: int | None = 0
    """Instances: things with a type that isn't one of those; None if unknown."""
    classed: int | None = None
    """Of these, the instances of the classes above: others are typed owl:Thing alone, or as a datatype."""
    graphs: tuple[str, ...] = ()
    """IRIs of the named graphs."""
    shapes: int = 0
    """SHACL node shapes."""
    concepts: int = 0
    """Things typed skos:Concept."""
