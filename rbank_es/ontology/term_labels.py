"""The texts of an ontology's terms: their labels, definitions and notes, the best of each, cleaned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rbank_es import limits
from rbank_es.events.items import one_line
from rbank_es.ontology import rdf_names
from rbank_es.ontology.prefixes import local_name
from rbank_es.ontology.statements import Literal, Statements, Term


def best_text(terms: Iterable[Term], chars: int) -> str:
    """Return one text of several: English first, then no language, then the first language by name.

    White space is collapsed, controls are removed; a text longer than `chars` ends with `…`.
    """
    literals = [term for term in terms if isinstance(term, Literal) and one_line(term.value, chars)]
    return one_line(min(literals, key=_preference).value, chars) if literals else ""


def best_texts(terms: Iterable[Term], chars: int) -> list[str]:
    """Return all texts in the language that `best_text` chooses, cleaned likewise; each once, sorted."""
    literals = [term for term in terms if isinstance(term, Literal) and one_line(term.value, chars)]
    ordered = sorted(literals, key=_preference)
    chosen = (literal for literal in ordered if _preference(literal)[:2] == _preference(ordered[0])[:2])
    return list(dict.fromkeys(one_line(literal.value, chars) for literal in chosen))


def _preference(literal: Literal) -> tuple[int, str, str]:
    language = literal.lang.lower()
    rank = 0 if language == "en" else 1 if language.startswith("en-") else 2 if not language else 3
    return rank, language, literal.value


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
