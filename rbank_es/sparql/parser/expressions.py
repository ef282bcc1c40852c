"""Reading expressions: operators by their precedence, functions with the number of arguments that they take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from rbank_es.sparql.parser.keywords import AGGREGATES, FUNCTIONS, NAMES
from rbank_es.sparql.parser.tokens import refuse_at
from rbank_es.sparql.parser.tree import Call, Exists, Expression, Group
from rbank_es.sparql.parser.triples import TripleReader


class ExpressionReader(TripleReader, ABC):
    """Reads expressions and constraints."""

    @abstractmethod
    def group(self) -> Group:
        """What stands between the next two braces: expressions ask whether it EXISTS."""

    def expression(self) -> Expression:
        """An expression."""
        return self._chain(self._conjunction, "||")

    def _conjunction(self) -> Expression:
        """What `||` joins."""
        return self._chain(self._relation, "&&")

    def _chain(self, read: Callable[[], Expression], *marks: str) -> Expression:
        """Expressions with any of these marks between them; one alone is itself."""
        operands = [read()]
        first = self.token
        while self.accept(*marks):
            operands.append(read())
        return operands[0] if len(operands) == 1 else Call(first.text, tuple(operands), first.offset)

    def _relation(self) -> Expression:
        """A comparison, or a test whether something is IN a list."""
        left = self._sum()
        token = self.token
        if mark := self.accept("=", "!=", "<", ">", "<=", ">="):
            return Call(mark.text, (left, self._sum()), mark.offset)
        if negated := self.accept_word("NOT"):
            self.expect_word("IN")
        elif not self.accept_word("IN"):
            return left
        return Call("NOT IN" if negated else "IN", (left, *self._list_of_expressions()), token.offset)

    def _sum(self) -> Expression:
        """Addition and subtraction."""
        return self._chain(self._product, "+", "-")

    def _product(self) -> Expression:
        """Multiplication and division."""
        return self._chain(self._unary, "*", "/")

    def _unary(self) -> Expression:
        """Something that may be negated."""
        if mark := self.accept("!", "+", "-"):
            return Call(mark.text, (self._primary_expression(),), mark.offset)
        return self._primary_expression()

    def _primary_expression(self) -> Expression:
        """Brackets, a function, a variable, an IRI or a value."""
        if self.at("("):
            return self._bracketed()
        if self.token.kind == "variable":
            return self.variable()
        if self.at_literal():
            return self.literal()
        if self.at_iri():
            return self._function_or_iri()
        return self._built_in()

    def _bracketed(self) -> Expression:
        """An expression in brackets."""
        self.expect("(")
        inner = self.expression()
        self.expect(")", where=" to close the bracket")
        return inner

    def _function_or_iri(self) -> Expression:
        """An IRI, or the call of the function that it names."""
        name = self.iri()
        if not self.at("("):
            return name
        return Call(name.iri, self._list_of_expressions(distinct=True), name.offset)

    def _list_of_expressions(self, *, distinct: bool = False) -> tuple[Expression, ...]:
        """Expressions in brackets, parted by commas; there may be none."""
        self.expect("(")
        found: list[Expression] = []
        if self.accept(")"):
            return ()
        if distinct:
            self.accept_word("DISTINCT")
        while True:
            found.append(self.expression())
            if self.accept(")"):
                return tuple(found)
            self.expect(",", where=" or ')' after an argument")

    def _built_in(self) -> Expression:
        """The call of a function that SPARQL has."""
        token = self.token
        if token.keyword not in NAMES:
            self.fail("a variable, a value, a function or '('")
        self.take()
        if token.keyword in ("EXISTS", "NOT"):
            return self._exists(token.keyword == "NOT")
        if token.keyword in AGGREGATES:
            return Call(token.keyword, self._aggregated(token.keyword), token.offset)
        arguments = self._list_of_expressions()
        least, most = FUNCTIONS[token.keyword]
        if not least <= len(arguments) <= most:
            message = f"{token.text} takes {_count(least, most)}, not {len(arguments)}"
            refuse_at(token, "syntax", message, "give it as many as it takes, with commas between them")
        return Call(token.keyword, arguments, token.offset)

    def _exists(self, negated: bool) -> Exists:
        """What follows EXISTS, or NOT."""
        if negated:
            self.expect_word("EXISTS")
        return Exists(self.group(), negated)

    def _aggregated(self, name: str) -> tuple[Expression, ...]:
        """What an aggregate counts, sums or joins."""
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
        """Whether brackets or the call of a function come next."""
        return self.at("(") or self.token.keyword in NAMES or self.at_iri()

    def constraint(self) -> Expression:
        """An expression in brackets, or the call of a function: what FILTER and HAVING take."""
        if self.at("("):
            return self._bracketed()
        if not self.at_iri():
            return self._built_in()
        called = self._function_or_iri()
        return called if isinstance(called, Call) else self.fail("'(' after the name of a function")


def _count(least: int, most: int) -> str:
    """A number of arguments in words."""
    number = f"{least}" if least == most else f"{least} to {most}"
    return f"{number} argument{'s' if most != 1 else ''}"
