"""The SPARQL query that each number of a schema equals, over all graphs of the data as one.

A number is shown under the name that it has here. The engine answers such a query on the loaded data, so anybody
can check a card: `rbank-es ontology PATH --queries` prints them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rbank_es import limits
from rbank_es.ontology import rdf_names
from rbank_es.ontology.schema_model import Schema


class CountQuery(NamedTuple):
    """A number with its name and the SPARQL query whose one cell it equals."""

    name: str
    number: int
    query: str


def _iris(iris: Iterable[str]) -> str:
    return ", ".join(f"<{iri}>" for iri in sorted(iris))


def _path(iris: Iterable[str]) -> str:
    return "|".join(f"<{iri}>" for iri in iris)


def _count(what: str, pattern: str) -> str:
    return f"SELECT (COUNT({what}) AS ?n) WHERE {{ {pattern} }}"


_TYPE, _SUBCLASS = f"<{rdf_names.TYPE}>", f"<{rdf_names.SUBCLASS}>"
_SHORT = f"STRLEN(STR(?x)) <= {limits.ONTOLOGY_IRI_CHARS}"
_IS_INSTANCE = f"?x {_TYPE} ?type FILTER(isIRI(?type) && ?type NOT IN ({_iris(rdf_names.MODELLING)}))"

# The IRIs of a schema language are classes of its own ontology only.
_OWN = " || ".join(
    f"STRSTARTS(STR(?x), '{space}') && ?header IN (<{space}>, <{space.rstrip('#')}>)" for space in rdf_names.FORMAL
)
_FORMAL = " || ".join(f"STRSTARTS(STR(?x), '{space}')" for space in rdf_names.FORMAL)
_DATATYPE = (
    f"STRSTARTS(STR(?x), '{rdf_names.XSD}') || ?x IN ({_iris(rdf_names.LITERAL_TYPES)}) "
    f"|| EXISTS {{ ?x {_TYPE} ?other FILTER(?other IN ({_iris(rdf_names.DATATYPE_TYPES)})) }} "
    f"|| EXISTS {{ ?of {_path(rdf_names.OF_DATATYPES)} ?x }}"
)
_IS_CLASS = (
    f"FILTER(isIRI(?x) && {_SHORT} && !({_DATATYPE}) && (!({_FORMAL}) "
    f"|| EXISTS {{ ?header {_TYPE} <{rdf_names.OWL}Ontology> FILTER({_OWN}) }} "
    f"|| (EXISTS {{ ?of {_TYPE} ?x }} && ?x NOT IN ({_iris(rdf_names.MODELLING | rdf_names.UNTELLING)}))))"
)
_DECLARED = f"?x {_TYPE} ?kind FILTER(?kind IN ({_iris(rdf_names.CLASS_TYPES)}))"
_HIERARCHIES = _path(rdf_names.BETWEEN_CLASSES)
_NAMED = (
    f"{{ {{ ?x {_HIERARCHIES} ?y FILTER(!isLiteral(?y)) }} UNION {{ ?y {_HIERARCHIES} ?x }} "
    f"FILTER(EXISTS {{ {_DECLARED} }} || NOT EXISTS {{ {_IS_INSTANCE} }}) }} "
    f"UNION {{ ?y {_path(rdf_names.OF_CLASSES)} ?x }} "
    f"UNION {{ ?y ({_path(rdf_names.LISTS_OF_CLASSES)})/<{rdf_names.REST}>*/<{rdf_names.FIRST}> ?x }}"
)
_IS_PROPERTY = f"FILTER(isIRI(?x) && {_SHORT})"
_DECLARED_PROPERTY = f"?x {_TYPE} ?kind FILTER(?kind IN ({_iris(rdf_names.PROPERTY_TYPES)}))"

_OF_GRAPH = {
    "triples": _count("*", "?s ?p ?o"),
    "instances": _count("DISTINCT ?x", _IS_INSTANCE),
    "classes": _count("DISTINCT ?x", f"{{ {_DECLARED} }} UNION {{ ?s {_TYPE} ?x }} UNION {_NAMED} {_IS_CLASS}"),
    "classes declared": _count("DISTINCT ?x", f"{_DECLARED} {_IS_CLASS}"),
    "classes with instances": _count("DISTINCT ?x", f"?s {_TYPE} ?x {_IS_CLASS}"),
    "instances of classes": _count("DISTINCT ?s", f"?s {_TYPE} ?x {_IS_CLASS}"),
    "properties": _count(
        "DISTINCT ?x",
        f"{{ {_DECLARED_PROPERTY} }} UNION {{ ?s ?x ?o }} UNION {{ ?x {_path(rdf_names.BY_PROPERTIES)} ?y }} "
        f"UNION {{ ?y {_path(rdf_names.OF_PROPERTIES)} ?x }} {_IS_PROPERTY}",
    ),
    "properties declared": _count("DISTINCT ?x", f"{_DECLARED_PROPERTY} {_IS_PROPERTY}"),
    "properties in use": _count("DISTINCT ?x", f"?s ?x ?o {_IS_PROPERTY}"),
    "named graphs": _count("DISTINCT ?g", "GRAPH ?g { ?s ?p ?o } FILTER(isIRI(?g))"),
    "concepts": _count("DISTINCT ?x", f"?x {_TYPE} <{rdf_names.SKOS}Concept>"),
    "shapes": _count(
        "DISTINCT ?x",
        f"{{ ?x {_TYPE} <{rdf_names.SH}NodeShape> }} UNION {{ ?x <{rdf_names.SH}property> ?y FILTER(!isLiteral(?y)) }} "
        f"UNION {{ ?y <{rdf_names.SH}node> ?x FILTER(!isLiteral(?x)) }} "
        f"FILTER NOT EXISTS {{ ?x <{rdf_names.SH}path> ?z }}",
    ),
}


def sizes(schema: Schema) -> dict[str, int | None]:
    """Return the numbers of a whole schema by name; None for those that are unknown.

    `classes` are those that are declared, are the type of something, or are named by a hierarchy or a constraint;
    `properties` likewise. Types of the parts of an ontology (owl:Class, …) are no classes of it.
    """
    known = [info.instances for info in schema.classes if info.instances is not None]
    used = [info.triples for info in schema.properties if info.triples is not None]
    return {
        "triples": schema.triples,
        "instances": schema.individuals,
        "classes": len(schema.classes),
        "classes declared": sum(info.declared for info in schema.classes),
        "classes with instances": sum(map(bool, known)) if known or not schema.classes else None,
        "instances of classes": schema.classed,
        "properties": len(schema.properties),
        "properties declared": sum(info.declared for info in schema.properties),
        "properties in use": sum(map(bool, used)) if used or not schema.properties else None,
        "named graphs": len(schema.graphs),
        "concepts": schema.concepts,
        "shapes": schema.shapes,
    }


def count_queries(schema: Schema) -> Iterator[CountQuery]:
    """Yield every number that is known of a schema, with its query: of the whole, of classes, properties and steps."""
    for name, number in sizes(schema).items():
        if number is not None:
            yield CountQuery(name, number, _OF_GRAPH[name])
    for iri, number in schema.modelling.items():
        yield CountQuery(f"instances of {iri}", number, instances_query(iri))
    for info in schema.classes:
        if info.instances is not None:
            yield CountQuery(f"instances of {info.iri}", info.instances, instances_query(info.iri))
        if info.below is not None:
            query = _count(
                "DISTINCT ?s", f"?s {_TYPE}/{_SUBCLASS}+ <{info.iri}> FILTER NOT EXISTS {{ ?s a <{info.iri}> }}"
            )
            yield CountQuery(f"instances of subclasses of {info.iri} alone", info.below, query)
        if info.subclasses is not None:
            query = _count("DISTINCT ?x", f"?x {_SUBCLASS}+ <{info.iri}> FILTER(isIRI(?x) && ?x != <{info.iri}>)")
            yield CountQuery(f"subclasses of {info.iri}", info.subclasses, query)
    for found in schema.properties:
        if found.triples is not None:
            yield CountQuery(f"triples with {found.iri}", found.triples, _count("*", f"?s <{found.iri}> ?o"))
    for use in schema.typed_uses:
        query = _count("*", f"?s a <{use.cls}> ; <{use.property}> ?o")
        yield CountQuery(f"triples with {use.property} of instances of {use.cls}", use.uses, query)
    for link in schema.links:
        query = _count("*", f"?s a <{link.subject}> ; <{link.property}> ?o . ?o a <{link.object}>")
        yield CountQuery(f"triples with {link.property} from {link.subject} to {link.object}", link.uses, query)


def instances_query(cls: str) -> str:
    """Return the query that counts the things typed with a class itself, whether or not an ontology knows it."""
    # By VALUES, where the guard takes a class that the ontology doesn't know.
    return _count("DISTINCT ?s", f"VALUES ?class {{ <{cls}> }} ?s a ?class")
