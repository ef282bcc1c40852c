"""The classes and properties that a query names, and those of them that a vocabulary doesn't know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from rbank_es.ontology.prefixes import Prefixes
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.sparql.parser.cursor import RDF
from rbank_es.sparql.parser.tokens import Places, clipped, refuse_at
from rbank_es.sparql.parser.tree import (
    Alternative,
    Inverse,
    Iri,
    Negation,
    Path,
    Query,
    Repeat,
    Sequence,
    Step,
    Variable,
    steps,
    triples,
)

RDFS = "http://www.w3.org/2000/01/rdf-schema#"

Kind = Literal["class", "property"]

_OBJECTS: dict[str, Kind] = {
    RDF + "type": "class",
    RDFS + "subClassOf": "class",
    RDFS + "domain": "class",
    RDFS + "range": "class",
    RDFS + "subPropertyOf": "property",
}
"""Predicates that lead to a class or a property."""

TOLD = 5
"""Unknown terms that a refusal names; how many more there are, it counts."""

NEAREST = 3
"""Known terms that are suggested for an unknown one."""


class Use(NamedTuple):
    """A term where a query needs a class, or a property."""

    kind: Kind
    iri: str
    offset: int


def uses(query: Query, *, whole: bool) -> Iterator[Use]:
    """The terms that stand as predicates, also within paths, and the classes and properties that these lead to.

    What VALUES, BIND or a filter names, and the template of a CONSTRUCT, is not looked at. Unless the vocabulary is
    the `whole` of what there is, only rdf:type leads to a class: a description of an endpoint lists the classes that
    have instances, and knows nothing of their superclasses.
    """
    leads: dict[str, Kind] = _OBJECTS if whole else {RDF + "type": "class"}
    for triple in triples(query):
        if isinstance(triple.predicate, Variable):
            continue
        yield from (Use("property", step.iri, step.offset) for step in steps(triple.predicate))
        kinds: set[Kind | None] = {leads.get(last) for last in _lasts(triple.predicate)}
        if isinstance(triple.object, Iri) and len(kinds) == 1 and (kind := kinds.pop()):
            yield Use(kind, triple.object.iri, triple.object.offset)


def _lasts(path: Path) -> set[str]:
    """The predicates that a path may end with; an empty name for an end that says nothing of the object."""
    match path:
        case Step():
            return {path.iri.iri}
        case Repeat():
            return _lasts(path.path)
        case Alternative():
            return set().union(*(_lasts(part) for part in path.parts))
        case Sequence():
            return _lasts_of_sequence(path)
        case Inverse(Step(Iri(iri))) if iri in (RDFS + "subClassOf", RDFS + "subPropertyOf"):
            return {iri}
        case Inverse(Repeat(inner)):
            return _lasts(Inverse(inner))
        case Inverse() | Negation():
            return {""}


def _lasts_of_sequence(path: Sequence) -> set[str]:
    """The predicates that a sequence may end with: a last part that may be left out lets the one before it end."""
    found: set[str] = set()
    for part in reversed(path.parts):
        found |= _lasts(part)
        if not (isinstance(part, Repeat) and part.sign in "*?"):
            break
    return found


def refuse_unknown(
    query: Query, vocabulary: Vocabulary, prefixes: Mapping[str, str], places: Places, *, whole: bool
) -> None:
    """Raise `QueryRefused('unknown_term')` that names the unknown terms of a query, each with the nearest known ones.

    These are shown by the query's own prefixes and by `prefixes`. For `whole` see `uses`.
    """
    unknown: dict[tuple[Kind, str], Use] = {}
    for use in uses(query, whole=whole):
        if not _knows(vocabulary, use):
            unknown.setdefault((use.kind, use.iri), use)
    if not unknown:
        return
    shorten = Prefixes({**prefixes, **query.prefixes}).shorten
    told = [(use, clipped(places[use.offset].text)) for use in list(unknown.values())[:TOLD]]
    more = f" and {len(unknown) - TOLD} more" if len(unknown) > TOLD else ""
    refuse_at(
        places[told[0][0].offset],
        "unknown_term",
        f"unknown: {', '.join(f'{written} (no {use.kind} here)' for use, written in told)}{more}",
        "; ".join(_suggestion(use, written, vocabulary, shorten) for use, written in told),
    )


def _knows(vocabulary: Vocabulary, use: Use) -> bool:
    """Whether a term is known as what it is used for."""
    return vocabulary.knows_class(use.iri) if use.kind == "class" else vocabulary.knows_property(use.iri)


def _suggestion(use: Use, written: str, vocabulary: Vocabulary, shorten: Callable[[str], str]) -> str:
    """What to write instead of an unknown term."""
    if use.kind == "property" and use.iri in vocabulary.classes:
        return f"{written} is a class: ?x a {written}"
    if use.kind == "class" and use.iri in vocabulary.properties:
        return f"{written} is a property: ?x {written} ?y"
    nearest = vocabulary.nearest(use.iri, use.kind, NEAREST)
    if nearest:
        return f"instead of {written} try {' or '.join(map(shorten, nearest))}"
    return f"nothing here has a name like {written}: look at the schema"
