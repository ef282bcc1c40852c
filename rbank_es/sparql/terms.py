"""The classes and properties that a query names, and those of them that a vocabulary doesn't know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol

from rbank_es.errors import QueryRefused
from rbank_es.sparql.cursor import RDF
from rbank_es.sparql.lexing import Token
from rbank_es.sparql.tree import (
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
)
from rbank_es.sparql.walking import steps, triples

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


class Vocabulary(Protocol):
    """What a query may name."""

    def knows_class(self, iri: str, /) -> bool:
        """Whether it is a class here, or of a well-known vocabulary."""
        ...

    def knows_property(self, iri: str, /) -> bool:
        """Whether it is a property here, or of a well-known vocabulary."""
        ...

    def nearest(self, iri: str, kind: Kind, n: int = 3) -> tuple[str, ...]:
        """The known terms that it may have been meant for, the best first, as prefixed names."""
        ...


class Use(NamedTuple):
    """A term where a query needs a class, or a property."""

    kind: Kind
    iri: Iri


def uses(query: Query) -> Iterator[Use]:
    """The terms that stand as predicates, also within paths, and the classes and properties that these lead to.

    What VALUES, BIND or a filter names, and the template of a CONSTRUCT, is not looked at.
    """
    for triple in triples(query):
        if isinstance(triple.predicate, Variable):
            continue
        yield from (Use("property", step) for step in steps(triple.predicate))
        kinds = {_OBJECTS.get(last) for last in _lasts(triple.predicate)}
        if isinstance(triple.object, Iri) and len(kinds) == 1 and (kind := kinds.pop()):
            yield Use(kind, triple.object)


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


def refuse_unknown(query: Query, vocabulary: Vocabulary, places: dict[int, Token]) -> None:
    """Raise `QueryRefused('unknown_term')` that names the unknown terms of a query, each with the nearest known ones.

    `places` are the query's tokens by their offsets.
    """
    unknown = list(dict.fromkeys(_unknown(query, vocabulary, places)))
    if not unknown:
        return
    first = places[min(use.iri.offset for use, _ in unknown)]
    by_name = dict.fromkeys((use.kind, use.iri.iri, written) for use, written in unknown)
    told = [f"{written} (no {kind} here)" for kind, _, written in list(by_name)[:TOLD]]
    more = f" and {len(by_name) - TOLD} more" if len(by_name) > TOLD else ""
    hints = [_suggestion(kind, iri, written, vocabulary) for kind, iri, written in list(by_name)[:TOLD]]
    raise QueryRefused(
        "unknown_term",
        f"unknown: {', '.join(told)}{more}",
        "; ".join(hints),
        line=first.line,
        column=first.column,
    )


def _unknown(query: Query, vocabulary: Vocabulary, places: dict[int, Token]) -> Iterator[tuple[Use, str]]:
    """The uses of unknown terms, each with how the query writes it."""
    for use in uses(query):
        knows = vocabulary.knows_class if use.kind == "class" else vocabulary.knows_property
        if not knows(use.iri.iri):
            yield use, places[use.iri.offset].text


def _suggestion(kind: Kind, iri: str, written: str, vocabulary: Vocabulary) -> str:
    """What to write instead of an unknown term."""
    nearest = vocabulary.nearest(iri, kind, NEAREST)
    if nearest:
        return f"instead of {written} try {' or '.join(nearest)}"
    return f"for {written} nothing here has a similar name: look at the schema"
