"""Triples for tests: from Turtle by way of pyoxigraph, and from rdflib's graphs, each in a few lines of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyoxigraph
import rdflib

from rbank_es.ontology.description import describe
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
from rbank_es.ontology.statements import Literal, Term, Triple

PREFIXES: Mapping[str, str] = {
    "": "http://example.org/zoo#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "sh": "http://www.w3.org/ns/shacl#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "schema": "http://schema.org/",
    "vann": "http://purl.org/vocab/vann/",
    "dcterms": "http://purl.org/dc/terms/",
}
HEAD = "\n".join(f"PREFIX {prefix}: <{namespace}>" for prefix, namespace in PREFIXES.items()) + "\n"
ZOO = PREFIXES[""]
XSD_STRING = PREFIXES["xsd"] + "string"


def triples_of(turtle: str) -> list[Triple]:
    """The triples of a Turtle text that may use `PREFIXES`."""
    quads = pyoxigraph.parse(input=HEAD + turtle, format=pyoxigraph.RdfFormat.TRIG)
    return [(_of_pyoxigraph(s), _of_pyoxigraph(p), _of_pyoxigraph(o)) for s, p, o, _ in quads]


def _of_pyoxigraph(node: Any) -> Any:
    if isinstance(node, pyoxigraph.Literal):
        plain = node.language or node.datatype.value == XSD_STRING
        return Literal(node.value, node.language or "", "" if plain else node.datatype.value)
    return node.value if isinstance(node, pyoxigraph.NamedNode) else str(node)


def triples_of_rdflib(graph: Iterable[tuple[Any, Any, Any]]) -> list[Triple]:
    """The triples of a graph of rdflib."""
    return [(str(_of_rdflib(s)), str(_of_rdflib(p)), _of_rdflib(o)) for s, p, o in graph]


def _of_rdflib(node: Any) -> Term:
    if isinstance(node, rdflib.Literal):
        datatype = str(node.datatype or "")
        return Literal(str(node), (node.language or "").lower(), "" if datatype == XSD_STRING else datatype)
    return f"_:{node}" if isinstance(node, rdflib.BNode) else str(node)


def described(turtle: str) -> Schema:
    """The schema of a Turtle text."""
    return describe(triples_of(turtle), PREFIXES.items())


def classes(schema: Schema) -> dict[str, ClassInfo]:
    """Classes by the name that they have in Turtle, those of the zoo bare."""
    return {found.iri.removeprefix(ZOO): found for found in schema.classes}


def properties(schema: Schema) -> dict[str, PropertyInfo]:
    """Properties likewise."""
    return {found.iri.removeprefix(ZOO): found for found in schema.properties}


def domains(found: PropertyInfo) -> set[tuple[str, str]]:
    """Domains of a property, with their sources."""
    return {(bound.iri.removeprefix(ZOO), bound.source) for bound in found.domains}


def ranges(found: PropertyInfo) -> set[tuple[str, str]]:
    """Ranges of a property, with their sources."""
    return {(bound.iri.removeprefix(ZOO).removeprefix(PREFIXES["xsd"]), bound.source) for bound in found.ranges}
