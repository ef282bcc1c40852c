"""The parser of triples: the cursor over a query's tokens, terms, property paths, and what is made of them.

Sources: SPARQL 1.1, productions 75 to 106.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NoReturn
from urllib.parse import urljoin

from rbank_es.ontology.rdf_names import FIRST, NIL, REST, TYPE
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.tokens import Token, is_iri_text, plain, refuse_at, shown

PREDICATE = "a predicate (a variable, an IRI, a prefixed name or 'a')"

Role = Literal["property", "path", "function", "datatype", "graph", "value", "slice"]
"""The part of a token in its query: `path` is an operator of a property path, `value` belongs to the rows of VALUES,
`graph` is an IRI after FROM, GRAPH or SERVICE, `slice` a LIMIT or OFFSET of the whole query."""


@dataclass(slots=True)
class TokenNotes:
    """Facts about single tokens that the tree leaves out, by the tokens' offsets."""

    iris: dict[int, str] = field(default_factory=dict)
    """The IRI of every IRI and prefixed name, resolved; those of unknown prefixes are missing."""
    roles: dict[int, Role] = field(default_factory=dict)
    breaks: set[int] = field(default_factory=set)
    """Where a statement of a group follows other triples: a dot belongs before it."""
    idle: set[int] = field(default_factory=set)
    """Dots and semicolons that separate, and the signs of numbers."""


class Cursor:
    """A position in a query's tokens, with the prologue's declarations so far.

    With `lenient`, a group that can't be parsed keeps what could be, and parsing goes on behind it.
    """

    def __init__(self, tokens: tuple[Token, ...], known: Mapping[str, str], *, lenient: bool = False) -> None:
        self._tokens = tokens
        self._known = known
        self._index = 0
        self._base = ""
        self._lenient = lenient
        self.declared: dict[str, str] = {}
        self.added: set[str] = set()
        self.unknown: dict[str, Token] = {}
        """Prefixes that neither the query nor `known` declares, each with its first use."""
        self.notes = TokenNotes()

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._index]

    def take(self) -> Token:
        """Return the next token and step over it."""
        token = self.token
        if token.kind != "end":
            self._index += 1
        return token

    def at(self, *texts: str) -> bool:
        """Return whether the next token is one of these symbols."""
        return self.token.is_symbol(*texts)

    def at_word(self, *words: str) -> bool:
        """Return whether the next token is one of these keywords, given in capitals."""
        return self.token.keyword in words if self.token.kind == "word" else False

    def accept(self, *texts: str) -> Token | None:
        """Take the next token if it is one of these symbols."""
        return self.take() if self.at(*texts) else None

    def accept_word(self, *words: str) -> Token | None:
        """Take the next token if it is one of these keywords."""
        return self.take() if self.at_word(*words) else None

    def expect(self, text: str, *, where: str = "") -> Token:
        """Take the next token, which must be this symbol."""
        return self.accept(text) or self.fail(f"{text!r}{where}")

    def expect_word(self, word: str) -> Token:
        """Take the next token, which must be this keyword."""
        return self.accept_word(word) or self.fail(word)

    def fail(self, expected: str) -> NoReturn:
        """Raise `QueryRefused('syntax')` for the next token, with a hint at what was probably meant."""
        # Loaded here, because most queries are well-formed, and its words come from this module.
        from rbank_es.sparql.parser.syntax_hints import advice

        token = self.token
        found = "the query ends" if token.kind == "end" else f"found {shown(token)}"
        mistake, hint = advice(self._tokens, self._index, expected)
        refuse_at(token, "syntax", mistake or f"expected {expected}, but {found}", hint)

    def note(self, role: Role, token: Token | None) -> None:
        """Record the role of a token, if there is one."""
        if token is not None:
            self.notes.roles[token.offset] = role

    def at_iri(self) -> bool:
        """Return whether the next token is an IRI or a prefixed name."""
        return self.token.kind in ("iri", "name")

    def iri(self, expected: str = "an IRI or a prefixed name", role: Role | None = None) -> tree.Iri:
        """Take the next token as an IRI, and record its role."""
        if not self.at_iri():
            self.fail(expected)
        token = self.take()
        if role is not None:
            self.note(role, token)
        value = self.resolve(token.text) if token.kind == "iri" else self._expand(token)
        if value is None:
            return tree.Iri(token.text, token.offset)
        self.notes.iris[token.offset] = value
        return tree.Iri(value, token.offset)

    def resolve(self, written: str) -> str:
        """Return an IRI in angle brackets, resolved against the BASE."""
        iri = plain(written[1:-1])
        try:
            return urljoin(self._base, iri) if self._base else iri
        except ValueError:  # a host that urljoin can't read: the engine reports it with the query
            return iri

    def _expand(self, token: Token) -> str | None:
        """Return the IRI of a prefixed name; None for a prefix that nobody declares, which is added to `unknown`."""
        prefix, _, local = token.text.partition(":")
        namespace = self.declared.get(prefix)
        # A namespace that is no IRI could break out of the declaration that the guard writes for it.
        if namespace is None and is_iri_text(self._known.get(prefix, ">")):
            namespace = self._known[prefix]
            self.added.add(prefix)
        if namespace is None:
            self.unknown.setdefault(prefix, token)
            return None
        # `\-` in a local name is `-`; `%xx` stays, because IRIs keep it.
        return namespace + local.replace("\\", "")

    def variable(self) -> tree.Variable:
        """Take the next token as a variable."""
        if self.token.kind != "variable":
            self.fail("a variable")
        token = self.take()
        return tree.Variable(token.text[1:], token.offset)

    def variable_or_iri(self, role: Role | None = None) -> tree.Variable | tree.Iri:
        """Take the next token as a variable or an IRI of this role."""
        return self.variable() if self.token.kind == "variable" else self.iri("a variable or an IRI", role)

    def at_literal(self) -> bool:
        """Return whether a literal comes next."""
        return (
            self.token.kind in ("string", "number")
            or self.at_word("TRUE", "FALSE")
            or (self.at("+", "-") and self._tokens[self._index + 1].kind == "number")
        )

    def literal(self) -> tree.Value:
        """Take the next tokens as a literal: a sign, a language and a datatype belong to it."""
        token = self.take()
        if token.is_symbol("+", "-"):
            self.notes.idle.add(token.offset)
            return tree.Value(token.text + self.take().text, token.offset)
        if token.kind == "string" and self.token.kind == "language":
            self.take()
        elif token.kind == "string" and self.accept("^^"):
            self.iri("a datatype", "datatype")
        return tree.Value(token.text, token.offset)

    def at_term(self) -> bool:
        """Return whether a variable, an IRI, a literal, a labelled blank node, `[]` or `()` comes next."""
        return self.token.kind in ("variable", "blank") or self.at_iri() or self.at_literal() or self.at_empty()

    def at_empty(self) -> bool:
        """Return whether `[]` or `()` comes next."""
        after = self._tokens[min(self._index + 1, len(self._tokens) - 1)]
        return (self.at("[") and after.is_symbol("]")) or (self.at("(") and after.is_symbol(")"))

    def term(self) -> tree.Node:
        """Take the next tokens as a term."""
        token = self.token
        if token.kind == "variable":
            return self.variable()
        if token.kind == "blank":
            return tree.Blank(self.take().text, token.offset)
        if self.at_iri():
            return self.iri()
        if self.at_empty():
            closed = (self.take(), self.take())[1]
            return tree.Blank(str(token.offset), token.offset) if closed.text == "]" else tree.Iri(NIL, token.offset)
        return self.literal() if self.at_literal() else self.fail("a variable, an IRI or a value")


class PathParser(Cursor):
    """A parser of property paths."""

    def path(self) -> tree.Path:
        """Parse a property path."""
        ways: list[tree.Path] = []
        while True:
            parts = [self._path_part()]
            while self._path_mark("/"):
                parts.append(self._path_part())
            ways.append(parts[0] if len(parts) == 1 else tree.Sequence(tuple(parts)))
            if not self._path_mark("|"):
                return ways[0] if len(ways) == 1 else tree.Alternative(tuple(ways))

    def _path_mark(self, *texts: str) -> Token | None:
        mark = self.accept(*texts)
        self.note("path", mark)
        return mark

    def _path_part(self) -> tree.Path:
        inverse = self._path_mark("^")
        if self.accept("("):
            path = self.path()
            self.expect(")", where=" to close the path")
        else:
            path = self._negation() if self._path_mark("!") else self._step()
        if sign := self._path_mark("*", "+", "?"):
            path = tree.Repeat(path, sign.text)
        return tree.Inverse(path) if inverse else path

    def _negation(self) -> tree.Path:
        if not self.accept("("):
            return tree.Negation((self._negated(),))
        parts: list[tree.Path] = []
        while not self.accept(")"):
            parts.append(self._negated())
            if not self.at(")"):
                self.note("path", self.expect("|", where=" or ')' in a negated path"))
        return tree.Negation(tuple(parts))

    def _negated(self) -> tree.Path:
        return tree.Inverse(self._step()) if self._path_mark("^") else self._step()

    def _step(self) -> tree.PathStep:
        self.note("property", self.token)
        # `a` is the one keyword that only counts in lower case.
        if self.token.kind == "word" and self.token.text == "a":
            return tree.PathStep(tree.Iri(TYPE, self.take().offset))
        return tree.PathStep(self.iri(PREDICATE))


class TripleParser(PathParser):
    """A parser of triples: terms, property paths, `;` and `,`, nested blank nodes and lists."""

    def at_subject(self) -> bool:
        """Return whether a triple begins here."""
        return self.at_term() or self.at("[", "(")

    def triples(self, found: list[tree.Element], *, paths: bool = True) -> bool:
        """Parse triples into `found` until something else comes; templates have no paths. Return whether any came."""
        first = True
        while self.at_subject():
            if not first:
                self.notes.breaks.add(self.token.offset)
            first = False
            self._statement(found, paths)
            if not (stop := self.accept(".")):
                break
            self.notes.idle.add(stop.offset)
        return not first

    def _statement(self, found: list[tree.Element], paths: bool) -> None:
        """Parse a subject with its properties. `[ … ]` and `( … )` may stand alone."""
        alone = self.at("[", "(") and not self.at_empty()
        subject = self._node(found, paths)
        if not alone or self._at_verb():
            self._properties(subject, found, paths)

    def _at_verb(self) -> bool:
        return self.token.kind == "variable" or self.at_iri() or self.token.text == "a" or self.at("^", "!", "(")

    def _properties(self, subject: tree.Node, found: list[tree.Element], paths: bool) -> None:
        """Parse predicates and their objects, separated by `;`."""
        self._property(subject, found, paths)
        while separator := self.accept(";"):
            if self._at_verb():
                self._property(subject, found, paths)
            else:  # `;` may end a list of properties, and several may follow each other.
                self.notes.idle.add(separator.offset)

    def _property(self, subject: tree.Node, found: list[tree.Element], paths: bool) -> None:
        """Parse a predicate and its objects, separated by `,`."""
        predicate = self._verb(paths)
        while True:
            if not self.at_subject():
                self.fail("an object (a variable, an IRI, a prefixed name or a value)")
            found.append(tree.Triple(subject, predicate, self._node(found, paths)))
            if not self.accept(","):
                return

    def _node(self, found: list[tree.Element], paths: bool) -> tree.Node:
        """Parse a term, or `[ … ]` or `( … )`, whose own triples are added to `found`."""
        if self.at_empty() or not self.at("[", "("):
            return self.term()
        opening = self.take()
        if opening.text == "[":
            node = tree.Blank(str(opening.offset), opening.offset)
            self._properties(node, found, paths)
            self.expect("]", where=" to close the '['")
            return node
        return self._list(opening.offset, found, paths)

    def _list(self, offset: int, found: list[tree.Element], paths: bool) -> tree.Node:
        """Parse the rest of a list as triples of rdf:first and rdf:rest."""
        cells: list[tree.Blank] = []  # Their labels have a dot, which no label in a text begins with.
        while not self.accept(")"):
            if not self.at_subject():
                self.fail("a term, or ')' to close the list")
            cell = tree.Blank(f"{offset}.{len(cells)}", offset)
            found.append(tree.Triple(cell, tree.PathStep(tree.Iri(FIRST, offset)), self._node(found, paths)))
            cells.append(cell)
        rests: list[tree.Node] = [*cells[1:], tree.Iri(NIL, offset)]
        for cell, rest in zip(cells, rests, strict=True):
            found.append(tree.Triple(cell, tree.PathStep(tree.Iri(REST, offset)), rest))
        return cells[0]

    def _verb(self, paths: bool) -> tree.Variable | tree.Path:
        if self.token.kind == "variable":
            return self.variable()
        if not self._at_verb():
            self.fail(PREDICATE)
        return self.path() if paths else self._step()
