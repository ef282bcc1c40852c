"""Going through the tokens of a query, one ahead, and telling what was expected where it isn't there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn
from urllib.parse import urljoin

from rbank_es.sparql.parser.syntax_hints import advice
from rbank_es.sparql.parser.tokens import Token, is_iri_text, plain, refuse_at, shown
from rbank_es.sparql.parser.tree import Blank, Iri, Node, Value, Variable

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


class Cursor:
    """A place in a query's tokens, and what its prologue has declared so far."""

    def __init__(self, tokens: tuple[Token, ...], known: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._known = known
        self._index = 0
        self.base = ""
        self.declared: dict[str, str] = {}
        self.added: set[str] = set()
        self.unknown: dict[str, Token] = {}
        """Prefixes that nobody knows, and where each is used first."""

    @property
    def token(self) -> Token:
        """The token that comes next."""
        return self._tokens[self._index]

    def take(self) -> Token:
        """The next token, which is then behind."""
        token = self.token
        if token.kind != "end":
            self._index += 1
        return token

    def at(self, *texts: str) -> bool:
        """Whether one of these marks comes next."""
        return self.token.is_symbol(*texts)

    def at_word(self, *words: str) -> bool:
        """Whether one of these keywords (in capitals) comes next."""
        return self.token.keyword in words if self.token.kind == "word" else False

    def accept(self, *texts: str) -> Token | None:
        """The next token if it is one of these marks."""
        return self.take() if self.at(*texts) else None

    def accept_word(self, *words: str) -> Token | None:
        """The next token if it is one of these keywords."""
        return self.take() if self.at_word(*words) else None

    def expect(self, text: str, *, where: str = "") -> Token:
        """The next token, which must be this mark."""
        return self.accept(text) or self.fail(f"{text!r}{where}")

    def expect_word(self, word: str) -> Token:
        """The next token, which must be this keyword."""
        return self.accept_word(word) or self.fail(word)

    def fail(self, expected: str) -> NoReturn:
        """Refuse the query: something else was expected here."""
        token = self.token
        found = "the query ends" if token.kind == "end" else f"found {shown(token)}"
        hint = advice(self._tokens, self._index, expected)
        refuse_at(token, "syntax", f"expected {expected}, but {found}", hint)

    def at_iri(self) -> bool:
        """Whether an IRI or a prefixed name comes next."""
        return self.token.kind in ("iri", "name")

    def iri(self, expected: str = "an IRI or a prefixed name") -> Iri:
        """The next token as an IRI."""
        if not self.at_iri():
            self.fail(expected)
        token = self.take()
        value = self.resolve(token.text) if token.kind == "iri" else self._expand(token)
        return Iri(value, token.offset)

    def resolve(self, written: str) -> str:
        """An IRI in angle brackets, resolved against the BASE."""
        iri = plain(written[1:-1])
        try:
            return urljoin(self.base, iri) if self.base else iri
        except ValueError:
            return iri

    def _expand(self, token: Token) -> str:
        """A prefixed name as an IRI; what can't be expanded is noted, and told when the whole query is read."""
        prefix, _, local = token.text.partition(":")
        namespace = self.declared.get(prefix)
        if namespace is None and is_iri_text(self._known.get(prefix, ">")):
            namespace = self._known[prefix]
            self.added.add(prefix)
        if namespace is None:
            self.unknown.setdefault(prefix, token)
            return token.text
        return namespace + unescaped(local)

    def variable(self) -> Variable:
        """The next token as a variable."""
        if self.token.kind != "variable":
            self.fail("a variable")
        token = self.take()
        return Variable(token.text[1:], token.offset)

    def variable_or_iri(self) -> Variable | Iri:
        """The next token as either."""
        return self.variable() if self.token.kind == "variable" else self.iri("a variable or an IRI")

    def at_literal(self) -> bool:
        """Whether a literal comes next."""
        return (
            self.token.kind in ("string", "number")
            or self.at_word("TRUE", "FALSE")
            or (self.at("+", "-") and self._tokens[self._index + 1].kind == "number")
        )

    def literal(self) -> Value:
        """The next tokens as a literal."""
        token = self.take()
        if token.is_symbol("+", "-"):
            return Value(token.text + self.take().text, token.offset)
        if token.kind == "string" and self.token.kind == "language":
            self.take()
        elif token.kind == "string" and self.accept("^^"):
            self.iri("a datatype")
        return Value(token.text, token.offset)

    def at_term(self) -> bool:
        """Whether a variable, an IRI, a literal, a labelled blank node, `[]` or `()` comes next."""
        return self.token.kind in ("variable", "blank") or self.at_iri() or self.at_literal() or self.at_empty()

    def at_empty(self) -> bool:
        """Whether `[]` or `()` comes next."""
        after = self._tokens[min(self._index + 1, len(self._tokens) - 1)]
        return (self.at("[") and after.is_symbol("]")) or (self.at("(") and after.is_symbol(")"))

    def term(self) -> Node:
        """The next tokens as a term."""
        token = self.token
        if token.kind == "variable":
            return self.variable()
        if token.kind == "blank":
            return Blank(self.take().text, token.offset)
        if self.at_iri():
            return self.iri()
        if self.at_empty():
            closed = (self.take(), self.take())[1]
            return Blank(str(token.offset), token.offset) if closed.text == "]" else Iri(RDF + "nil", token.offset)
        return self.literal() if self.at_literal() else self.fail("a variable, an IRI or a value")


def unescaped(local: str) -> str:
    r"""The local part of a prefixed name without its backslashes (`\-` is `-`); `%xx` stays, as IRIs keep it."""
    return local.replace("\\", "")
