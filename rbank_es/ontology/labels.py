"""Labels, definitions and notes: which of many, in which language, and how much of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rbank_es import limits
from rbank_es.ontology import rdf_names
from rbank_es.ontology.prefixes import local_name
from rbank_es.ontology.rdf_terms import Literal, Term
from rbank_es.ontology.statements import Statements

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def best_text(terms: Iterable[Term], chars: int) -> str:
    """One text of several: English first, then none, then the first language by name; of equals the first by text.

    White space is made single, `without_controls`; a text longer than `chars` ends with `…`.
    """
    literals = [term for term in terms if isinstance(term, Literal) and clip(term.value, chars)]
    return clip(min(literals, key=_preference).value, chars) if literals else ""


def best_texts(terms: Iterable[Term], chars: int) -> list[str]:
    """All texts in the language that `best_text` would choose, cleaned and clipped as there; each once, by text."""
    literals = [term for term in terms if isinstance(term, Literal) and clip(term.value, chars)]
    ordered = sorted(literals, key=_preference)
    chosen = (literal for literal in ordered if _preference(literal)[:2] == _preference(ordered[0])[:2])
    return list(dict.fromkeys(clip(literal.value, chars) for literal in chosen))


def _preference(literal: Literal) -> tuple[int, str, str]:
    language = literal.lang.lower()
    rank = 0 if language == "en" else 1 if language.startswith("en-") else 2 if not language else 3
    return rank, language, literal.value


def clip(text: str, chars: int) -> str:
    """A text on one line, of at most `chars` characters, without controls."""
    text = " ".join(without_controls(text[: 4 * chars]).split())
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


def without_controls(text: str) -> str:
    """A text without the characters that would make a terminal do something, or turn round what is shown.

    These are the C0 and C1 controls but line feed and tab, which a carriage return becomes, and the embeddings,
    overrides and isolates of bidirectional text.
    """
    return text if text.isprintable() else _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


class Wording:
    """What names and explains the things of an ontology."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self.label_properties = self._in_use(rdf_names.LABELS)
        own = sorted(name for name in statements.by_predicate if local_name(name) == "definition")
        self.definition_properties = self._in_use(tuple(dict.fromkeys((*rdf_names.DEFINITIONS, *own))))
        self._note_properties = self._notes_in_use()

    def label(self, iri: str) -> str:
        """The best label, or nothing."""
        return self._first(iri, self.label_properties, limits.ONTOLOGY_LABEL_CHARS)

    def definition(self, iri: str) -> str:
        """The best definition or comment, or nothing."""
        return self._first(iri, self.definition_properties, limits.ONTOLOGY_COMMENT_CHARS)

    def notes(self, iri: str) -> tuple[tuple[str, ...], int]:
        """What is noted of a thing beside its definition, the most telling first, and how many more there are."""
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
        """The known properties, those of the ontology's own that are called alike, and subproperties."""
        alike = set(map(local_name, rdf_names.NOTES))
        own = sorted(name for name in self._statements.by_predicate if local_name(name) in alike)
        in_use = self._in_use(tuple(dict.fromkeys((*rdf_names.NOTES, *own))))
        return tuple(name for name in in_use if name not in rdf_names.NO_NOTES)

    def _in_use(self, known: Sequence[str]) -> tuple[str, ...]:
        """The known properties that occur, the best first, then their subproperties by name."""
        below = self._subproperties(known)
        return tuple(name for name in (*known, *sorted(below)) if name in self._statements.by_predicate)

    def _subproperties(self, known: Sequence[str]) -> set[str]:
        """Properties that are declared to be special cases of known ones, also by steps; not the known ones."""
        parents = list(self._statements.named_links(rdf_names.SUBPROPERTY))
        found: set[str] = set()
        while more := {child for child, parent in parents if parent in found or parent in known} - found - set(known):
            found |= more
        return found

    def count(self, properties: Sequence[str]) -> dict[str, int]:
        """Properties with their number of triples, most used first, then by IRI."""
        counts = {name: len(self._statements.by_predicate[name]) for name in properties}
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
