"""IRIs of the RDF vocabularies, the roles that their terms play in a description, and the terms of the closed ones."""

from __future__ import annotations

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
XSD = "http://www.w3.org/2001/XMLSchema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
SH = "http://www.w3.org/ns/shacl#"
DCTERMS = "http://purl.org/dc/terms/"
DC = "http://purl.org/dc/elements/1.1/"
DCAM = "http://purl.org/dc/dcam/"
FOAF = "http://xmlns.com/foaf/0.1/"
SCHEMA = ("http://schema.org/", "https://schema.org/")
VANN = "http://purl.org/vocab/vann/"
VOID = "http://rdfs.org/ns/void#"
VOID_EXT = "http://ldf.fi/void-ext#"
SD = "http://www.w3.org/ns/sparql-service-description#"


def within(namespace: str, local_names: str) -> frozenset[str]:
    """Return the IRIs of a namespace with these local names, given in one text with blanks between."""
    return frozenset(namespace + name for name in local_names.split())


WHOLE_NUMBERS = within(
    XSD,
    "integer long int short byte nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger "
    "unsignedLong unsignedInt unsignedShort unsignedByte",
)
FRACTIONS = within(XSD, "decimal double float")
NUMBERS = WHOLE_NUMBERS | FRACTIONS
"""Datatypes of numbers."""

TYPE = RDF + "type"
FIRST = RDF + "first"
REST = RDF + "rest"
NIL = RDF + "nil"
SUBCLASS = RDFS + "subClassOf"
SUBPROPERTY = RDFS + "subPropertyOf"
DOMAIN = RDFS + "domain"
RANGE = RDFS + "range"
LABEL = RDFS + "label"
COMMENT = RDFS + "comment"
EQUIVALENT_CLASS = OWL + "equivalentClass"
UNION = OWL + "unionOf"
INTERSECTION = OWL + "intersectionOf"

INVERSES = (OWL + "inverseOf", *(namespace + "inverseOf" for namespace in SCHEMA))
DOMAIN_INCLUDES = tuple(namespace + "domainIncludes" for namespace in (*SCHEMA, DCAM))
RANGE_INCLUDES = tuple(namespace + "rangeIncludes" for namespace in (*SCHEMA, DCAM))

BETWEEN_CLASSES = (SUBCLASS, EQUIVALENT_CLASS, OWL + "disjointWith")
"""Predicates both of whose ends are classes, unless an end is an instance."""

OF_CLASSES = (
    *(DOMAIN, RANGE, *DOMAIN_INCLUDES, *RANGE_INCLUDES),
    *(OWL + name for name in ("someValuesFrom", "allValuesFrom", "onClass")),
    *(SH + name for name in ("class", "targetClass")),
)
"""Predicates whose object is a class, if it is no datatype."""

LISTS_OF_CLASSES = (UNION, INTERSECTION, OWL + "disjointUnionOf")
"""Predicates whose object is a list of classes."""

OF_DATATYPES = (SH + "datatype", OWL + "onDataRange", OWL + "onDatatype")
"""Predicates whose object is a datatype."""

BY_PROPERTIES = (SUBPROPERTY, *INVERSES, DOMAIN, RANGE, *DOMAIN_INCLUDES, *RANGE_INCLUDES)
"""Predicates whose subject is a property."""

OF_PROPERTIES = (
    *(SUBPROPERTY, *INVERSES, OWL + "onProperty"),
    *(SH + name for name in ("path", "targetSubjectsOf", "targetObjectsOf")),
)
"""Predicates whose object is a property."""

CLASS_TYPES = frozenset({OWL + "Class", RDFS + "Class", OWL + "DeprecatedClass"})
DATATYPE_TYPES = frozenset({RDFS + "Datatype", OWL + "DataRange"})
PROPERTY_TYPES = (
    within(RDF, "Property")
    | within(RDFS, "ContainerMembershipProperty")
    | within(OWL, "ObjectProperty DatatypeProperty AnnotationProperty FunctionalProperty InverseFunctionalProperty")
    | within(OWL, "TransitiveProperty SymmetricProperty AsymmetricProperty ReflexiveProperty IrreflexiveProperty")
    | within(OWL, "OntologyProperty DeprecatedProperty")
)
SHAPE_TYPES = frozenset({SH + "NodeShape", SH + "PropertyShape", SH + "Shape"})

SHACL_REPORTS = within(
    SH,
    "AbstractResult ValidationReport ValidationResult conforms result detail focusNode resultMessage resultPath "
    "resultSeverity sourceConstraint sourceConstraintComponent sourceShape value",
)
"""Terms of SHACL for what a validation found."""

MODELLING = (
    CLASS_TYPES
    | DATATYPE_TYPES
    | PROPERTY_TYPES
    | within(OWL, "Ontology Restriction Axiom Annotation NegativePropertyAssertion")
    | within(OWL, "AllDifferent AllDisjointClasses AllDisjointProperties")
    | within(RDF, "List")
)
"""Types of the parts of an ontology (RDF Schema, OWL 2 in RDF). A thing with any other type is an instance."""

FORMAL = (RDF, RDFS, OWL, SH)
"""Namespaces of the languages in which schemas are written."""

ANYTHING = frozenset({OWL + "Thing", RDFS + "Resource"})
"""Classes without meaning as a domain or a range."""

UNTELLING = ANYTHING | {OWL + "NamedIndividual"}
"""Classes that say nothing of their instances: these count as instances, the class is listed nowhere."""

LITERAL_TYPES = (
    within(RDF, "langString dirLangString PlainLiteral HTML XMLLiteral JSON")
    | within(RDFS, "Literal")
    | within(OWL, "real rational")
)
"""Datatypes outside of XML Schema."""

LABELS = (
    LABEL,
    SKOS + "prefLabel",
    *(namespace + "name" for namespace in SCHEMA),
    FOAF + "name",
    DCTERMS + "title",
    DC + "title",
    SH + "name",
    SKOS + "altLabel",
)
"""Properties that name things, the best first."""

DEFINITIONS = (
    SKOS + "definition",
    COMMENT,
    DCTERMS + "description",
    DC + "description",
    *(namespace + "description" for namespace in SCHEMA),
    SH + "description",
    "http://purl.obolibrary.org/obo/IAO_0000115",
    SKOS + "scopeNote",
)
"""Properties that explain things, the best first."""

NOTES = (
    VANN + "usageNote",
    SKOS + "scopeNote",
    SKOS + "note",
    SKOS + "editorialNote",
    SKOS + "example",
    "http://purl.obolibrary.org/obo/IAO_0000116",
    "http://purl.obolibrary.org/obo/IAO_0000112",
)
"""Properties that say how to use a term, the most telling first; the last two are an editor's note and an
example. rdfs:seeAlso is left out, because no tool can open a link.
"""

NO_NOTES = frozenset(DEFINITIONS) - frozenset(NOTES) | within(SKOS, "changeNote historyNote")
"""Special notes of SKOS that are no notes here: definitions have their own place, and a history helps no query."""

ANNOTATIONS = (
    within(RDFS, "label comment seeAlso isDefinedBy")
    | within(OWL, "versionInfo deprecated priorVersion backwardCompatibleWith incompatibleWith")
    | within(SKOS, "prefLabel altLabel hiddenLabel note changeNote definition editorialNote example")
    | within(SKOS, "historyNote scopeNote")
)
"""Annotation properties by their own specifications (OWL 2 and SKOS), even where a file doesn't declare them."""

_CLOSED_CLASSES = {
    RDF: (
        "Alt Bag CompoundLiteral HTML JSON List PlainLiteral Property Seq Statement XMLLiteral dirLangString langString"
    ),
    RDFS: "Class Container ContainerMembershipProperty Datatype Literal Resource",
    OWL: (
        "AllDifferent AllDisjointClasses AllDisjointProperties Annotation AnnotationProperty AsymmetricProperty Axiom "
        "Class DataRange DatatypeProperty DeprecatedClass DeprecatedProperty FunctionalProperty "
        "InverseFunctionalProperty IrreflexiveProperty NamedIndividual NegativePropertyAssertion Nothing "
        "ObjectProperty Ontology OntologyProperty ReflexiveProperty Restriction SymmetricProperty Thing "
        "TransitiveProperty rational real"
    ),
    SKOS: "Collection Concept ConceptScheme OrderedCollection",
}
_CLOSED_PROPERTIES = {
    RDF: "direction first language object predicate reifies rest subject type value",
    RDFS: "comment domain isDefinedBy label member range seeAlso subClassOf subPropertyOf",
    OWL: (
        "allValuesFrom annotatedProperty annotatedSource annotatedTarget assertionProperty backwardCompatibleWith "
        "bottomDataProperty bottomObjectProperty cardinality complementOf datatypeComplementOf deprecated "
        "differentFrom disjointUnionOf disjointWith distinctMembers equivalentClass equivalentProperty hasKey hasSelf "
        "hasValue imports incompatibleWith intersectionOf inverseOf maxCardinality maxQualifiedCardinality members "
        "minCardinality minQualifiedCardinality onClass onDataRange onDatatype onProperties onProperty oneOf "
        "priorVersion propertyChainAxiom propertyDisjointWith qualifiedCardinality sameAs someValuesFrom "
        "sourceIndividual targetIndividual targetValue topDataProperty topObjectProperty unionOf versionIRI "
        "versionInfo withRestrictions"
    ),
    SKOS: (
        "altLabel broadMatch broader broaderTransitive changeNote closeMatch definition editorialNote exactMatch "
        "example hasTopConcept hiddenLabel historyNote inScheme mappingRelation member memberList narrowMatch "
        "narrower narrowerTransitive notation note prefLabel related relatedMatch scopeNote semanticRelation "
        "topConceptOf"
    ),
}

CLOSED = (RDF, RDFS, OWL, SKOS)
"""Vocabularies whose terms are fixed: another name in one of them is a mistake."""

CLOSED_CLASSES = frozenset().union(*(within(space, local) for space, local in _CLOSED_CLASSES.items()))
CLOSED_PROPERTIES = frozenset().union(*(within(space, local) for space, local in _CLOSED_PROPERTIES.items()))

OPEN = (XSD, SH, DCTERMS, DC, DCAM, VANN, VOID, SD, "http://www.w3.org/2008/05/skos-xl#")
"""Vocabularies that any data may use; their terms are not listed here."""


def is_datatype(iri: str) -> bool:
    """Return whether an IRI is a datatype by its name alone."""
    return iri.startswith(XSD) or iri in LITERAL_TYPES


def is_data_type(type_: str) -> bool:
    """Return whether things of a type are instances: the type is an IRI and no part of an ontology has it."""
    return type_ not in MODELLING and not type_.startswith("_:")
