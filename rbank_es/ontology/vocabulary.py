"""The vocabulary of an ontology: terms that a query may name, near ones, and their labels, definitions and notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property

from rbank_es import limits
from rbank_es.ontology import rdf_names
from rbank_es.ontology.prefixes import local_name, namespace_of
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema, TermKind
from rbank_es.ontology.statements import Literal, Statements, Term

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

    def nearest(self, iri: str, kind: TermKind, n: int = 3) -> tuple[str, ...]:
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
    """Return a name without the differences in writing: case, underscores, hyphens, blanks."""
    return re.sub(r"[\W_]+", "", name[: limits.ONTOLOGY_NAME_CHARS]).casefold()


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def best_text(terms: Iterable[Term], chars: int) -> str:
    """Return one text of several: English first, then no language, then the first language by name.

    White space is collapsed, controls are removed; a text longer than `chars` ends with `…`.
    """
    literals = [term for term in terms if isinstance(term, Literal) and clip(term.value, chars)]
    return clip(min(literals, key=_preference).value, chars) if literals else ""


def best_texts(terms: Iterable[Term], chars: int) -> list[str]:
    """Return all texts in the language that `best_text` chooses, cleaned likewise; each once, sorted."""
    literals = [term for term in terms if isinstance(term, Literal) and clip(term.value, chars)]
    ordered = sorted(literals, key=_preference)
    chosen = (literal for literal in ordered if _preference(literal)[:2] == _preference(ordered[0])[:2])
    return list(dict.fromkeys(clip(literal.value, chars) for literal in chosen))


def _preference(literal: Literal) -> tuple[int, str, str]:
    language = literal.lang.lower()
    rank = 0 if language == "en" else 1 if language.startswith("en-") else 2 if not language else 3
    return rank, language, literal.value


def clip(text: str, chars: int) -> str:
    """Return a text on one line, of at most `chars` characters, without controls."""
    # Four times the limit leaves enough after white space is collapsed, and bounds the work.
    text = " ".join(without_controls(text[: 4 * chars]).split())
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


def without_controls(text: str) -> str:
    """Return a text without characters that control a terminal or reverse the text that is shown.

    These are the C0 and C1 controls but line feed and tab, and the embeddings, overrides and isolates of bidirectional
    text. A carriage return becomes a line feed.
    """
    # The quick test first: nearly all texts are printable.
    return text if text.isprintable() else _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


class Wording:
    """The labels, definitions and notes of an ontology's terms."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self.label_properties = self._in_use(rdf_names.LABELS)
        own = sorted(name for name in statements.by_predicate if local_name(name) == "definition")
        self.definition_properties = self._in_use(tuple(dict.fromkeys((*rdf_names.DEFINITIONS, *own))))
        self._note_properties = self._notes_in_use()

    def label(self, iri: str) -> str:
        """Return the best label; an empty text if there is none."""
        return self._first(iri, self.label_properties, limits.ONTOLOGY_LABEL_CHARS)

    def definition(self, iri: str) -> str:
        """Return the best definition or comment; an empty text if there is none."""
        return self._first(iri, self.definition_properties, limits.ONTOLOGY_COMMENT_CHARS)

    def notes(self, iri: str) -> tuple[tuple[str, ...], int]:
        """Return the notes of a term beside its definition, the most telling first, and the number left out."""
        chars = limits.ONTOLOGY_COMMENT_CHARS
        found = dict.fromkeys(
            text for name in self._note_properties for text in best_texts(self._statements.values(iri, name), chars)
        )
        if found:
            found.pop(self.definition(iri), None)  # a scope note is the definition of what has no other
        notes = tuple(found)
        return notes[: limits.ONTOLOGY_NOTES], max(0, len(notes) - limits.ONTOLOGY_NOTES)

    def _first(self, iri: str, properties: Sequence[str], chars: int) -> str:
        for name in properties:
            if text := best_text(self._statements.values(iri, name), chars):
                return text
        return ""

    def _notes_in_use(self) -> tuple[str, ...]:
        """Return the known properties, the ontology's own of the same local names, and subproperties."""
        alike = set(map(local_name, rdf_names.NOTES))
        own = sorted(name for name in self._statements.by_predicate if local_name(name) in alike)
        in_use = self._in_use(tuple(dict.fromkeys((*rdf_names.NOTES, *own))))
        return tuple(name for name in in_use if name not in rdf_names.NO_NOTES)

    def _in_use(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return the known properties that occur, the best first, then their subproperties by name."""
        below = self._subproperties(known)
        return tuple(name for name in (*known, *sorted(below)) if name in self._statements.by_predicate)

    def _subproperties(self, known: Sequence[str]) -> set[str]:
        """Return the subproperties of known ones, transitively, without the known ones."""
        parents = list(self._statements.named_links(rdf_names.SUBPROPERTY))
        found: set[str] = set()
        while more := {child for child, parent in parents if parent in found or parent in known} - found - set(known):
            found |= more
        return found

    def count(self, properties: Sequence[str]) -> dict[str, int]:
        """Return properties with their number of triples, most used first, then by IRI."""
        counts = {name: len(self._statements.by_predicate[name]) for name in properties}
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
