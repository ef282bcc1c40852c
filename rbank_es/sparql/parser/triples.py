"""Reading triples: terms, property paths, `;` and `,`, nested blank nodes and lists."""

from __future__ import annotations

from collections.abc import Callable

from rbank_es.sparql.parser.cursor import RDF, Cursor
from rbank_es.sparql.parser.tree import (
    Alternative,
    Blank,
    Inverse,
    Iri,
    Negation,
    Node,
    Path,
    Repeat,
    Sequence,
    Step,
    Triple,
    Variable,
)

PREDICATE = "a predicate (a variable, an IRI, a prefixed name or 'a')"


class TripleReader(Cursor):
    """Reads triple patterns, and the triples of a template."""

    def at_subject(self) -> bool:
        """Whether a triple begins here."""
        return self.at_term() or self.at("[", "(")

    def triples(self, *, paths: bool = True) -> list[Triple]:
        """Triples until something else comes; between two subjects a dot. Templates have no paths."""
        found: list[Triple] = []
        while self.at_subject():
            self._statement(found, paths)
            if not self.accept("."):
                break
        return found

    def _statement(self, found: list[Triple], paths: bool) -> None:
        """A subject with all that is said of it. `[ … ]` and `( … )` may stand alone."""
        alone = self.at("[", "(") and not self.at_empty()
        subject = self._node(found, paths)
        if not alone or self._at_verb():
            self._properties(subject, found, paths)

    def _at_verb(self) -> bool:
        """Whether a predicate begins here."""
        return self.token.kind == "variable" or self.at_iri() or self.token.text == "a" or self.at("^", "!", "(")

    def _properties(self, subject: Node, found: list[Triple], paths: bool) -> None:
        """Predicates and their objects, parted by `;`."""
        self._property(subject, found, paths)
        while self.accept(";"):
            if self._at_verb():
                self._property(subject, found, paths)

    def _property(self, subject: Node, found: list[Triple], paths: bool) -> None:
        """A predicate and its objects, parted by `,`."""
        predicate = self._verb(paths)
        while True:
            if not self.at_subject():
                self.fail("an object (a variable, an IRI, a prefixed name or a value)")
            found.append(Triple(subject, predicate, self._node(found, paths)))
            if not self.accept(","):
                return

    def _node(self, found: list[Triple], paths: bool) -> Node:
        """A term, or what stands for `[ … ]` or `( … )`, whose own triples are added."""
        if self.at_empty() or not self.at("[", "("):
            return self.term()
        opening = self.take()
        if opening.text == "[":
            node = Blank(str(opening.offset), opening.offset)
            self._properties(node, found, paths)
            self.expect("]", where=" to close the '['")
            return node
        return self._list(opening.offset, found, paths)

    def _list(self, offset: int, found: list[Triple], paths: bool) -> Node:
        """A list as its triples of rdf:first and rdf:rest."""
        cells: list[Blank] = []
        while not self.accept(")"):
            if not self.at_subject():
                self.fail("a term, or ')' to close the list")
            cell = Blank(f"{offset}.{len(cells)}", offset)
            found.append(Triple(cell, Step(Iri(RDF + "first", offset)), self._node(found, paths)))
            cells.append(cell)
        rests: list[Node] = [*cells[1:], Iri(RDF + "nil", offset)]
        for cell, rest in zip(cells, rests, strict=True):
            found.append(Triple(cell, Step(Iri(RDF + "rest", offset)), rest))
        return cells[0]

    def _verb(self, paths: bool) -> Variable | Path:
        """A predicate: a variable, or a path."""
        if self.token.kind == "variable":
            return self.variable()
        if not self._at_verb():
            self.fail(PREDICATE)
        return self.path() if paths else self._step()

    def path(self) -> Path:
        """A property path."""
        return self._parts(lambda: self._parts(self._inverted, "/"), "|")

    def _parts(self, read: Callable[[], Path], mark: str) -> Path:
        """Paths with a mark between them; one alone is itself."""
        parts = [read()]
        while self.accept(mark):
            parts.append(read())
        if len(parts) == 1:
            return parts[0]
        return Alternative(tuple(parts)) if mark == "|" else Sequence(tuple(parts))

    def _inverted(self) -> Path:
        """A path that may be walked backwards."""
        return Inverse(self._repeated()) if self.accept("^") else self._repeated()

    def _repeated(self) -> Path:
        """A path that may be walked several times."""
        path = self._primary()
        sign = self.accept("*", "+", "?")
        return Repeat(path, sign.text) if sign else path

    def _primary(self) -> Path:
        """A step, a path in brackets, or a negation."""
        if self.accept("("):
            path = self.path()
            self.expect(")", where=" to close the path")
            return path
        return self._negation() if self.accept("!") else self._step()

    def _negation(self) -> Path:
        """What follows a `!`."""
        if not self.accept("("):
            return Negation((self._negated(),))
        parts: list[Path] = []
        while not self.accept(")"):
            parts.append(self._negated())
            if not self.at(")"):
                self.expect("|", where=" or ')' in a negated path")
        return Negation(tuple(parts))

    def _negated(self) -> Path:
        """A step or an inverse step."""
        return Inverse(self._step()) if self.accept("^") else self._step()

    def _step(self) -> Step:
        """One predicate."""
        if self.token.kind == "word" and self.token.text == "a":
            return Step(Iri(RDF + "type", self.take().offset))
        return Step(self.iri(PREDICATE))
