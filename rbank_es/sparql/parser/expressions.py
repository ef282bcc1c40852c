"""The parser of expressions and constraints.

Source: SPARQL 1.1, productions 107 to 138. Brackets may nest `QUERY_NESTING` deep, so a level of them must cost few
frames of Python's stack: operators are kept on a stack of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.tokens import Token, refuse_at
from rbank_es.sparql.parser.triples import TripleParser

_RELATION = 3
_RANKS = {
    **{"||": 1, "&&": 2, "+": 4, "-": 4, "*": 5, "/": 5},
    **dict.fromkeys(("=", "!=", "<", ">", "<=", ">=", "IN", "NOT"), _RELATION),
}
"""How tightly each operator binds."""


class _Chain(NamedTuple):
    """Operators of one rank in a row, of which the last operand is still missing."""

    rank: int
    operator: Token
    operands: list[tree.Expression]

    def closed(self, last: tree.Expression) -> tree.FunctionCall:
        return tree.FunctionCall(self.operator.text, (*self.operands, last), self.operator.offset)


class ExpressionParser(TripleParser, ABC):
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
        if token.keyword not in tree.OPERAND_WORDS:
            self.fail("a variable, a value, a function or '('")
        self.take()
        if token.keyword in ("EXISTS", "NOT"):
            if token.keyword == "NOT":
                self.expect_word("EXISTS")
            return tree.Exists(self.group(), token.keyword == "NOT")
        if token.keyword in tree.AGGREGATES:
            return tree.FunctionCall(token.keyword, self._aggregated(token.keyword), token.offset)
        arguments = self._arguments()
        least, most = tree.FUNCTIONS[token.keyword]
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
        return self.at("(") or self.token.keyword in tree.OPERAND_WORDS or self.at_iri()

    def constraint(self) -> tree.Expression:
        """Parse what FILTER and HAVING take: an expression in brackets, or the call of a function."""
        if self.at("("):
            return self.bracketed()
        if not self.at_iri():
            return self._built_in()
        called = self._function_or_iri()
        return called if isinstance(called, tree.FunctionCall) else self.fail("'(' after the name of a function")
