"""The namespaces that an ontology defines, apart from those whose terms it only uses.

Only of a namespace that it defines can an ontology tell that a class or a property doesn't exist. Files use terms of
others (`dcterms:title` as a predicate), and OWL files declare again what they use of others
(`foaf:name a owl:DatatypeProperty`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from rbank_es.ontology.prefixes import WELL_KNOWN, namespace_of
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema

Term = ClassInfo | PropertyInfo


def defined_namespaces(schema: Schema) -> frozenset[str]:
    """Return the namespaces that an ontology defines.

    It declares a class or a property of each, and either one of its headers names the namespace, or the namespace is no
    well-known one. Where a header names one, any other also needs a term that is described: has a label, a comment, a
    superclass, a domain or the like. A bare declaration there repeats another ontology's.
    """
    declared: dict[str, list[Term]] = {}
    for term in _terms(schema):
        if term.declared:
            declared.setdefault(namespace_of(term.iri), []).append(term)
    named = {space for space in declared if _bare(space) in set(map(_bare, schema.headers))}
    known = set(map(_bare, WELL_KNOWN.values()))
    others = {space for space in declared if space not in named and _bare(space) not in known}
    return frozenset(named | {space for space in others if not named or any(map(_is_described, declared[space]))})


def is_settled(namespace: str, schema: Schema) -> bool:
    """Return whether an ontology defines a namespace, and no import that it lacks may define more of it.

    An import of another host brings a vocabulary of its own; one of the same host may be a part of this ontology.
    """
    imported = {urlsplit(each).hostname for each in schema.imports}
    return urlsplit(namespace).hostname not in imported and namespace in defined_namespaces(schema)


def _terms(schema: Schema) -> Iterator[Term]:
    yield from schema.classes
    yield from schema.properties


def _bare(iri: str) -> str:
    """Return an IRI as headers and namespaces share it: without scheme and closing mark."""
    return iri.partition("://")[2].rstrip("#/") or iri


def _is_described(term: Term) -> bool:
    told: list[Iterable[object]] = [term.label, term.comment, term.notes, term.parents]
    if isinstance(term, PropertyInfo):
        told += [term.domains, term.ranges, term.inverses]
    return any(told)
