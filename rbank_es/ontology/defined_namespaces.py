"""The namespaces that an ontology defines, apart from those whose terms it only uses.

Only of a namespace that it defines can an ontology tell that a class or a property doesn't exist. Files use terms of
others (`dcterms:title` as a predicate), and OWL files declare again what they use of others
(`foaf:name a owl:DatatypeProperty`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from rbank_es.ontology.prefixes import WELL_KNOWN, namespace_of
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema

Term = ClassInfo | PropertyInfo

_OBO = WELL_KNOWN["obo"]


def defined_namespaces(schema: Schema) -> frozenset[str]:
    """Return the namespaces that an ontology defines. It declares a class or a property of each, and

    - a header of it names the namespace; or
    - the namespace is no well-known one, or has most of the terms that are described (a label, a comment, a superclass,
      a domain or the like). Where a header names another namespace, a term of this one must be described too: a bare
      declaration beside it repeats another ontology's.
    """
    declared: dict[str, list[Term]] = {}
    for term in _terms(schema):
        if term.declared:
            declared.setdefault(space_of(term.iri), []).append(term)
    headers, known = set(map(_named_by, schema.headers)), set(map(_bare, WELL_KNOWN.values()))
    named = {space for space in declared if _bare(space) in headers}
    described = {space: sum(map(_is_described, terms)) for space, terms in declared.items()}
    most = sum(described.values()) / 2
    # Ontologies of OBO repeat each other's terms with all that is said of them, so there only headers tell.
    own = {space for space in declared if _bare(space) not in known or described[space] > most}
    own = {space for space in own if not space.startswith(_OBO)}
    return frozenset(named | {space for space in own if described[space] or not named})


def space_of(iri: str) -> str:
    """Return the namespace of a term; of OBO, with the part of the name before `_`, which is that of one ontology."""
    space = namespace_of(iri)
    return space + iri[len(space) :].partition("_")[0] + "_" if space == _OBO else space


def is_settled(iri: str, schema: Schema) -> bool:
    """Return whether an ontology defines a term's namespace, and no import that it lacks may define more of it.

    An import of another host brings a vocabulary of its own, and so does one that is named as another namespace here;
    any other of the same host may be a part of this ontology.
    """
    namespace = space_of(iri)
    others = {_bare(space) for space in schema.prefixes.values()} - {_bare(namespace)}
    host = urlsplit(namespace).hostname
    missing = any(urlsplit(each).hostname == host and _bare(each) not in others for each in schema.imports)
    return not missing and namespace in defined_namespaces(schema)


def _terms(schema: Schema) -> Iterator[Term]:
    yield from schema.classes
    yield from schema.properties


def _named_by(header: str) -> str:
    """Return the namespace that a header names, as `_bare` has it: `obo/go.owl` is that of `obo/GO_…`."""
    if not header.startswith(_OBO):
        return _bare(header)
    return _bare(f"{_OBO}{PurePosixPath(header).stem.upper()}_")


def _bare(iri: str) -> str:
    """Return an IRI as headers and namespaces share it: without scheme and closing mark."""
    return iri.partition("://")[2].rstrip("#/") or iri


def _is_described(term: Term) -> bool:
    told: list[Iterable[object]] = [term.label, term.comment, term.notes, term.parents]
    if isinstance(term, PropertyInfo):
        told += [term.domains, term.ranges, term.inverses]
    return any(told)
