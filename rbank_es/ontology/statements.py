"""Statements: terms and triples in their simplest form, whichever library parsed them, found by predicate and subject.

An IRI is a `str`, a blank node a `str` that begins with `_:`, and a literal a `Literal`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from rbank_es.ontology import rdf_names


class Literal(NamedTuple):
    """A literal: its lexical form, and its language or datatype (an IRI; empty for plain strings).

    Of a text that was truncated, `digest` identifies the whole, so that two long texts stay two literals.
    """

    value: str
    lang: str = ""
    datatype: str = ""
    digest: str = ""


Term = str | Literal
Triple = tuple[str, str, Term]
Pair = tuple[str, Term]

BLANK = "_:"
"""The beginning of a blank node."""


def closure(start: Iterable[str], steps: Callable[[str], Iterable[str]]) -> set[str]:
    """Return the nodes that steps lead to from a start, which is included. Circles are walked once."""
    found = set(start)
    waiting = list(found)
    while waiting:
        new = set(steps(waiting.pop())) - found
        found |= new
        waiting += new
    return found


def is_iri(term: Term) -> bool:
    """Return whether a term is an IRI."""
    return isinstance(term, str) and not term.startswith(BLANK)


class Statements:
    """A set of triples, each once, with the indexes that a description needs. Its iterables have no order."""

    def __init__(self, triples: Iterable[Triple]) -> None:
        pairs: defaultdict[str, set[Pair]] = defaultdict(set)
        for subject, predicate, value in triples:
            pairs[predicate].add((subject, value))
        self.by_predicate: dict[str, set[Pair]] = dict(pairs)
        self._by_subject: dict[str, dict[str, list[Term]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.by_predicate.values()))

    def pairs(self, predicate: str) -> Iterable[Pair]:
        """Return subjects and objects of a predicate."""
        return self.by_predicate.get(predicate, ())

    def links(self, predicate: str) -> Iterator[tuple[str, str]]:
        """Yield subjects and objects of a predicate where the object is no literal."""
        return ((subject, value) for subject, value in self.pairs(predicate) if isinstance(value, str))

    def named_links(self, predicate: str) -> Iterator[tuple[str, str]]:
        """Yield subjects and objects of a predicate where both are IRIs."""
        return ((subject, value) for subject, value in self.links(predicate) if is_iri(subject) and is_iri(value))

    def by_subject(self, predicate: str) -> Mapping[str, list[Term]]:
        """Return the objects of a predicate, by subject."""
        # Indexed on first use, because few predicates are ever read by subject.
        index = self._by_subject.get(predicate)
        if index is None:
            index = {}
            for subject, value in self.pairs(predicate):
                index.setdefault(subject, []).append(value)
            self._by_subject[predicate] = index
        return index

    def values(self, subject: str, predicate: str) -> list[Term]:
        """Return the objects of a subject and a predicate."""
        return self.by_subject(predicate).get(subject, [])

    def nodes(self, subject: str, predicate: str) -> list[str]:
        """Return the objects of a subject and a predicate that are no literals."""
        return [value for value in self.values(subject, predicate) if isinstance(value, str)]

    def mentions(self) -> Counter[str]:
        """Return the number of triples that each IRI or blank node is the object of."""
        return Counter(value for pairs in self.by_predicate.values() for _, value in pairs if type(value) is str)

    def members(self, node: str) -> set[str]:
        """Return the IRIs and blank nodes of an RDF list, also of one that is circular or branches."""
        cells = closure([node], lambda cell: [] if cell == rdf_names.NIL else self.nodes(cell, rdf_names.REST))
        return {member for cell in cells - {rdf_names.NIL} for member in self.nodes(cell, rdf_names.FIRST)}

    def listed(self, subject: str, predicate: str) -> set[str]:
        """Return the members of all lists that a subject has under a predicate."""
        return {member for node in self.nodes(subject, predicate) for member in self.members(node)}

    def iris(self) -> set[str]:
        """Return every IRI that occurs, datatypes included."""
        found = set(self.by_predicate)
        for pairs in self.by_predicate.values():
            found.update(subject for subject, _ in pairs)
            found.update(value if isinstance(value, str) else value.datatype for _, value in pairs)
        return {iri for iri in found if iri and not iri.startswith(BLANK)}


def integer_of(term: Term) -> int | None:
    """Return the non-negative integer that a literal holds, None for another term."""
    if isinstance(term, Literal) and term.value.strip().isascii() and term.value.strip().isdigit():
        # Longer digits are no count of anything, and slow to convert.
        return int(term.value) if len(term.value) < 20 else None
    return None
