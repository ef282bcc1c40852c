"""The vocabulary of an ontology: the terms that a query may name, and those that come near an unknown name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property

from rbank_es import limits
from rbank_es.ontology import rdf_names
from rbank_es.ontology.prefixes import local_name, namespace_of
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema, TermKind
from rbank_es.text.spelled_words import plain_name

_LIKENESS = 0.6
"""The least ratio of difflib that counts as near (its own default)."""


class Vocabulary:
    """The terms of an ontology, and those of the vocabularies that any ontology may use."""

    def __init__(
        self, classes: Iterable[str], properties: Iterable[str], labels: Mapping[str, str] | None = None
    ) -> None:
        """Take classes and properties (IRIs), and labels by which their terms may be found."""
        self.classes = frozenset(classes)
        self.properties = frozenset(properties)
        self._labels = dict(labels or {})

    @classmethod
    def from_schema(cls, schema: Schema) -> Vocabulary:
        """Return everything that an ontology declares, names in a constraint, or uses in its data."""
        terms: tuple[ClassInfo | PropertyInfo, ...] = (*schema.classes, *schema.properties)
        labels = {term.iri: term.label for term in terms if term.label}
        return cls((term.iri for term in schema.classes), (term.iri for term in schema.properties), labels)

    def knows_class(self, iri: str) -> bool:
        """Return whether a query may name this class."""
        return iri in self.classes or self._is_common(iri, rdf_names.CLOSED_CLASSES)

    def knows_property(self, iri: str) -> bool:
        """Return whether a query may name this property. rdf:_1, rdf:_2 and so on are properties."""
        member = iri.startswith(rdf_names.RDF + "_") and iri[len(rdf_names.RDF) + 1 :].isdigit()
        return iri in self.properties or member or self._is_common(iri, rdf_names.CLOSED_PROPERTIES)

    def nearest(self, iri: str, kind: TermKind, n: int = limits.NEAREST_NAMES) -> tuple[str, ...]:
        """Return the known terms that come nearest to an IRI, the nearest first; at most `n`, perhaps none.

        First come terms with the same local name but for case, `_`, `-` and blanks; then those with that label; then
        those with a similar local name (difflib), or one that contains it or is contained in it. Among equals, those of
        the same namespace come first, then by IRI. Terms of the closed vocabularies are offered for an IRI of one of
        these, else only for the same local name.
        """
        own, every = self._indexes[kind]
        index = every if iri.startswith(rdf_names.CLOSED) else own
        return tuple(dict.fromkeys((*every.same_name(iri), *index.nearest(iri, n))))[:n]

    def named(self, name: str) -> list[str]:
        """Return its own classes and properties with this local name, but for case and punctuation; by IRI."""
        found = {iri for own, _ in self._indexes.values() for iri in own.same_name(name)}
        return sorted(found)

    def _is_common(self, iri: str, closed: frozenset[str]) -> bool:
        """Return whether a term is of a vocabulary that any ontology may use, and not the ontology's own."""
        return iri in closed or (iri.startswith(rdf_names.OPEN) and not iri.startswith(self._own))

    @cached_property
    def _own(self) -> tuple[str, ...]:
        """The open vocabularies that the ontology itself defines: most of its classes and properties are theirs."""
        terms = self.classes | self.properties
        return tuple(
            space for space in rdf_names.OPEN if 2 * sum(term.startswith(space) for term in terms) > len(terms)
        )

    @cached_property
    def _indexes(self) -> dict[TermKind, tuple[_Index, _Index]]:
        """For each kind its own terms, and these with those of the closed vocabularies."""
        terms: dict[TermKind, tuple[frozenset[str], frozenset[str]]] = {
            "class": (self.classes, rdf_names.CLOSED_CLASSES),
            "property": (self.properties, rdf_names.CLOSED_PROPERTIES),
        }
        return {
            kind: (_Index(own, self._labels), _Index(own | closed, self._labels))
            for kind, (own, closed) in terms.items()
        }


class _Index:
    """Terms by their normalised local names and labels."""

    def __init__(self, terms: Iterable[str], labels: Mapping[str, str]) -> None:
        self._by_name: dict[str, list[str]] = {}
        self._by_label: dict[str, list[str]] = {}
        for term in sorted(terms):
            self._by_name.setdefault(_normal(local_name(term)), []).append(term)
            if term in labels:
                self._by_label.setdefault(_normal(labels[term]), []).append(term)

    def same_name(self, iri: str) -> list[str]:
        """Return terms with the local name of an IRI, those of its namespace first."""
        return _sorted(self._by_name.get(_normal(local_name(iri)), ()), iri)

    def nearest(self, iri: str, n: int) -> tuple[str, ...]:
        """Return the nearest terms, as `Vocabulary.nearest` does."""
        found: dict[str, None] = {}
        for group in self._groups(_normal(local_name(iri))):
            if len(found) >= n:
                break
            found.update(dict.fromkeys(_sorted(group, iri)))
        return tuple(found)

    def _groups(self, name: str) -> Iterable[list[str]]:
        """Yield groups of terms, ever less near. difflib runs only if the others are not enough."""
        yield self._by_name.get(name, [])
        yield self._by_label.get(name, [])
        for close in get_close_matches(name, self._by_name, n=8, cutoff=_LIKENESS):
            yield self._by_name[close]
        # Shorter names are parts of too many others.
        if len(name) >= 4:
            parts = [other for other in self._by_name if len(other) >= 4 and (name in other or other in name)]
            for other in sorted(parts, key=lambda other: (abs(len(other) - len(name)), other)):
                yield self._by_name[other]


def _sorted(terms: Iterable[str], iri: str) -> list[str]:
    """Return terms, those of the namespace of an IRI first, then by IRI."""
    return sorted(terms, key=lambda term: (namespace_of(term) != namespace_of(iri), term))


def _normal(name: str) -> str:
    """Return a name without the differences in writing: case, accents, underscores, hyphens, blanks."""
    return plain_name(name[: limits.ONTOLOGY_NAME_CHARS])
