"""The cursor over a query's tokens, and the parsers of property paths and of expressions.

Sources: SPARQL 1.1, productions 88 to 96 (paths) and 107 to 138 (expressions). Brackets may nest `QUERY_NESTING`
deep, so a level of them must cost few frames of Python's stack: operators are kept on a stack of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, NoReturn
from urllib.parse import urljoin

from rbank_es.ontology.rdf_names import NIL, TYPE
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.tokens import Token, is_iri_text, plain, refuse_at, shown

PREDICATE = "a predicate (a variable, an IRI, a prefixed name or 'a')"
FORMS = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
"""The words with which a query begins."""

_ANY = 1_000_000
_ARITIES = {
    (0, 0): "NOW RAND UUID STRUUID",
    (0, 1): "BNODE",
    (1, 1): "STR LANG DATATYPE BOUND IRI URI ABS CEIL FLOOR ROUND STRLEN UCASE LCASE ENCODE_FOR_URI YEAR MONTH DAY "
    "HOURS MINUTES SECONDS TIMEZONE TZ MD5 SHA1 SHA256 SHA384 SHA512 ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC",
    (2, 2): "LANGMATCHES CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER STRLANG STRDT SAMETERM",
    (2, 3): "REGEX SUBSTR",
    (3, 3): "IF",
    (3, 4): "REPLACE",
    (0, _ANY): "COALESCE CONCAT",
}
_FUNCTIONS = {name: arity for arity, names in _ARITIES.items() for name in names.split()}
"""Every built-in function in capitals, with the least and the largest number of its arguments."""

OPERAND_WORDS = frozenset(_FUNCTIONS) | tree.AGGREGATES | {"EXISTS", "NOT"}
"""Every word that an expression can begin with, apart from true and false."""

_RELATION = 3
_RANKS = {
    **{"||": 1, "&&": 2, "+": 4, "-": 4, "*": 5, "/": 5},
    **dict.fromkeys(("=", "!=", "<", ">", "<=", ">=", "IN", "NOT"), _RELATION),
}
"""How tightly each operator binds."""

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
    operands: int = 0
    """How many operands all expressions have together."""


class _Chain(NamedTuple):
    """Operators of one rank in a row, of which the last operand is still missing."""

    rank: int
    operator: Token
    operands: list[tree.Expression]

    def closed(self, last: tree.Expression) -> tree.FunctionCall:
        return tree.FunctionCall(self.operator.text, (*self.operands, last), self.operator.offset)


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
        hint = advice(self._tokens, self._index, expected)
        refuse_at(token, "syntax", f"expected {expected}, but {found}", hint)

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


class ExpressionParser(PathParser, ABC):
    """A parser of expressions and constraints."""

    @abstractmethod
    def group(self) -> tree.GroupPattern:
        """Parse a group in braces, as EXISTS has one."""

    def expression(self) -> tree.Expression:
        """Parse an expression. Operators of one rank in a row become one flat call."""
        open_chains: list[_Chain] = []
        left, after_list = self._operand(), False
        while rank := _RANKS.get(self.token.keyword or self.token.text, 0):
            if after_list and rank >= _RELATION:
                break  # A list ends its comparison: `?a IN (1) + 2` is no expression.
            while open_chains and open_chains[-1].rank > rank:
                left = open_chains.pop().closed(left)
            same = bool(open_chains) and open_chains[-1].rank == rank
            if same and rank == _RELATION:
                break  # Comparisons don't chain: `?a = ?b = ?c` ends before the second `=`.
            operator = self.take()
            after_list = operator.kind == "word"
            if after_list:
                left = self._in_list(left, operator)
                continue
            if same:
                open_chains[-1].operands.append(left)
            else:
                open_chains.append(_Chain(rank, operator, [left]))
            left = self._operand()
        while open_chains:
            left = open_chains.pop().closed(left)
        return left

    def _in_list(self, left: tree.Expression, word: Token) -> tree.FunctionCall:
        if word.keyword == "NOT":
            self.expect_word("IN")
        name = "NOT IN" if word.keyword == "NOT" else "IN"
        return tree.FunctionCall(name, (left, *self._arguments()), word.offset)

    def _operand(self) -> tree.Expression:
        self.notes.operands += 1
        sign = self.accept("!", "+", "-")
        if sign and sign.text != "!" and self.token.kind == "number" and not self.token.between:
            self.notes.idle.add(sign.offset)
        found = self.bracketed() if self.at("(") else self._unbracketed()
        return tree.FunctionCall(sign.text, (found,), sign.offset) if sign else found

    def _unbracketed(self) -> tree.Expression:
        if self.token.kind == "variable":
            return self.variable()
        if self.at_literal():
            return self.literal()
        return self._function_or_iri() if self.at_iri() else self._built_in()

    def bracketed(self) -> tree.Expression:
        """Parse an expression in brackets."""
        self.expect("(")
        inner = self.expression()
        self.expect(")", where=" to close the bracket")
        return inner

    def _function_or_iri(self) -> tree.Expression:
        token = self.token
        name = self.iri()
        if not self.at("("):
            return name
        self.note("function", token)
        return tree.FunctionCall(name.iri, self._arguments(distinct=True), name.offset)

    def _arguments(self, *, distinct: bool = False) -> tuple[tree.Expression, ...]:
        """Parse expressions in brackets with commas between them; there may be none."""
        self.expect("(")
        found: list[tree.Expression] = []
        if self.accept(")"):
            return ()
        if distinct:  # A function named by an IRI may be an aggregate.
            self.accept_word("DISTINCT")
        while True:
            found.append(self.expression())
            if self.accept(")"):
                return tuple(found)
            self.expect(",", where=" or ')' after an argument")

    def _built_in(self) -> tree.Expression:
        """Parse the call of a function that SPARQL has, an aggregate, or EXISTS."""
        token = self.token
        if token.keyword not in OPERAND_WORDS:
            self.fail("a variable, a value, a function or '('")
        self.take()
        if token.keyword in ("EXISTS", "NOT"):
            if token.keyword == "NOT":
                self.expect_word("EXISTS")
            return tree.Exists(self.group(), token.keyword == "NOT")
        if token.keyword in tree.AGGREGATES:
            return tree.FunctionCall(token.keyword, self._aggregated(token.keyword), token.offset)
        arguments = self._arguments()
        least, most = _FUNCTIONS[token.keyword]
        if not least <= len(arguments) <= most:
            number = f"{least}" if least == most else f"{least} to {most}"
            message = f"{token.text} takes {number} argument{'s' if most != 1 else ''}, not {len(arguments)}"
            refuse_at(token, "syntax", message, "give it as many as it takes, with commas between them")
        return tree.FunctionCall(token.keyword, arguments, token.offset)

    def _aggregated(self, name: str) -> tuple[tree.Expression, ...]:
        self.expect("(")
        self.accept_word("DISTINCT")
        if name == "COUNT" and self.accept("*"):
            self.expect(")")
            return ()
        inner = self.expression()
        if name == "GROUP_CONCAT" and self.accept(";"):
            self.expect_word("SEPARATOR")
            self.expect("=")
            self.literal() if self.token.kind == "string" else self.fail("a string after SEPARATOR=")
        self.expect(")", where=f" to close {name}(")
        return (inner,)

    def at_constraint(self) -> bool:
        """Return whether brackets or the call of a function come next."""
        return self.at("(") or self.token.keyword in OPERAND_WORDS or self.at_iri()

    def constraint(self) -> tree.Expression:
        """Parse what FILTER and HAVING take: an expression in brackets, or the call of a function."""
        if self.at("("):
            return self.bracketed()
        if not self.at_iri():
            return self._built_in()
        called = self._function_or_iri()
        return called if isinstance(called, tree.FunctionCall) else self.fail("'(' after the name of a function")
