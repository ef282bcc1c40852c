"""Registrations: what a bank knows of the ontologies that its runs asked, and by which id it knows each.

The id of an ontology is the domain of what is learned on it. An id that somebody gives (`--id`) is kept. Any other is
the name of the first file, which says little: two projects may both have a `model.ttl`. So within a bank an ontology
goes by the id of that name under which *it* is registered: with the same content, or as another version, which shares
at least half of the smaller one's terms. If the name is taken by another ontology, a digest is put behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from rbank_es import limits
from rbank_es.events import OntologyRegistered
from rbank_es.ontology.defined_namespaces import defined_namespaces, space_of
from rbank_es.ontology.rdf_names import CLOSED
from rbank_es.ontology.schema_model import Schema

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.ontology.loader import Ontology
    from rbank_es.sparql.data_source import Source

# Hex digits of a term's digest, and of the digest behind a name: two terms of a million share one in 10,000 ontologies.
_DIGITS = 8


def registration(source: Source, ontology: Ontology) -> OntologyRegistered:
    """Return the event that registers the ontology of a source in a bank."""
    formats = {file.format for file in ontology.files}
    names = ", ".join(file.path.name for file in ontology.files)
    # An event holds short names only, and a longer prefix is of no use to anyone who writes a query.
    short = (pair for pair in ontology.prefixes.items() if pair[0] and max(map(len, pair)) <= limits.NAME_CHARS)
    return OntologyRegistered(
        ontology=source.id,
        sha256=ontology.digest,
        format=formats.pop() if len(formats) == 1 else None,
        triples=ontology.schema.triples,
        namespaces=dict(short),
        whole=source.whole,
        # The shipped one is known by its namespace, and its name is nobody's file.
        terms=() if source.is_shipped else sketch(ontology.schema),
        source=names,
    )


def registrations(bank: Bank, upto: int | None = None) -> Iterator[OntologyRegistered]:
    """Yield the registrations of a bank up to a position, the first ones first."""
    for event in bank.rare_events("ontology_registered", upto):
        if isinstance(event, OntologyRegistered):
            yield event


def registered_digest(bank: Bank, ontology: str | None, upto: int | None = None) -> str | None:
    """Return the SHA-256 under which an ontology was registered last, up to a position; None if it never was."""
    digest = None
    for event in registrations(bank, upto):
        digest = event.sha256 if event.ontology == ontology else digest
    return digest


def is_registered(bank: Bank, source: Source) -> bool:
    """Return whether the last registration of a source's id has its content, and what was declared of it."""
    last = None
    for event in registrations(bank):
        last = event if event.ontology == source.id else last
    same = last is not None and source.ontology is not None and last.sha256 == source.ontology.digest
    return same and (source.whole is None or source.whole == (last and last.whole))


def as_registered(bank: Bank, source: Source) -> Source:
    """Return a source by the id that a bank has for it, whole if it was declared so there and now by nobody."""
    ontology = source.ontology
    if ontology is None:
        return source
    known = tuple(registrations(bank))
    # What was declared is declared of the content, whatever it is called.
    same = [event.whole for event in known if event.sha256 == ontology.digest]
    whole = same[-1] if same and source.whole is None else source.whole
    id = registered_id(known, ontology) if source.id == ontology.id else source.id
    return msgspec.structs.replace(source, id=id, whole=whole)


def registered_id(known: Sequence[OntologyRegistered], ontology: Ontology) -> str:
    """Return the id by which an ontology goes among those that are registered."""
    if ontology.id_given:
        return ontology.id
    name = ontology.id
    like = re.compile(rf"{re.escape(name)}(-[0-9a-f]{{{_DIGITS}}})?")
    namesakes = [event for event in known if like.fullmatch(event.ontology)]
    same = [event for event in namesakes if event.sha256 == ontology.digest]
    same = same or [event for event in namesakes if _is_version(event, ontology.schema)]
    if same:
        return same[-1].ontology
    if not any(event.ontology == name for event in namesakes):
        return name
    return f"{name[: limits.NAME_CHARS - _DIGITS - 1]}-{sketch(ontology.schema)[0]}"


def confused_ids(*banks: Bank) -> list[str]:
    """Return the ids under which banks have registered ontologies that are no versions of each other, sorted.

    In one bank only somebody who gives ids makes such; of two, each may have its own `model`.
    """
    known: dict[str, OntologyRegistered] = {}
    found = set()
    for event in (each for bank in banks for each in registrations(bank)):
        before = known.setdefault(event.ontology, event)
        if before.sha256 != event.sha256 and before.terms and event.terms and not _share(before.terms, event.terms):
            found.add(event.ontology)
        known[event.ontology] = event
    return sorted(found)


def _is_version(known: OntologyRegistered, schema: Schema) -> bool:
    """Return whether a registration is of another version of an ontology; where nothing tells, the name decides."""
    ours = sketch(schema)
    if known.terms and ours:
        return _share(known.terms, ours)
    # A registration without terms has at least its namespaces.
    spaces = defined_namespaces(schema)
    return not ours or not spaces or not known.namespaces or not spaces.isdisjoint(known.namespaces.values())


def _share(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two sketches have half of the smaller one in common."""
    # Of two sets of which only the smallest digests are known, those below both ends are a fair sample.
    ends = [max(each) for each in (one, other) if len(each) == limits.ONTOLOGY_SKETCH]
    first, second = ({digest for digest in each if not ends or digest <= min(ends)} for each in (one, other))
    return 2 * len(first & second) >= min(len(first), len(second)) > 0


def sketch(schema: Schema) -> tuple[str, ...]:
    """Return the smallest digests of an ontology's classes and properties, sorted: all, up to `ONTOLOGY_SKETCH`.

    They are the terms of the namespaces that it defines, else all that it uses but those of RDF's own vocabularies.
    """
    spaces = defined_namespaces(schema)
    terms = {term.iri for term in schema.classes} | {term.iri for term in schema.properties}
    own = {iri for iri in terms if space_of(iri) in spaces} or {iri for iri in terms if not iri.startswith(CLOSED)}
    digests = {sha256(iri.encode()).hexdigest()[:_DIGITS] for iri in own}
    return tuple(sorted(digests)[: limits.ONTOLOGY_SKETCH])
