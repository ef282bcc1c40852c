"""Reading a whole query: its tokens as a tree, by the grammar of SPARQL 1.1 (productions 1 to 28 and 53 to 69)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from rbank_es.sparql.parser.expressions import ExpressionReader
from rbank_es.sparql.parser.keywords import FORMS
from rbank_es.sparql.parser.tokens import Token, refuse_at
from rbank_es.sparql.parser.tree import (
    Bind,
    Call,
    Column,
    Element,
    Expression,
    Filter,
    Group,
    Iri,
    Nested,
    Query,
    Selection,
    Values,
    Variable,
)
from rbank_es.sparql.results import Form

COUNT_DIGITS = 15
"""Digits of a LIMIT or an OFFSET: what fits into every engine's integers, and into JSON."""


def read(tokens: tuple[Token, ...], known: Mapping[str, str]) -> tuple[Query, dict[str, Token]]:
    """The query, and the prefixes that neither it nor `known` declares, each with its first use.

    Raises `QueryRefused('syntax')` with the place, what was expected there and what may have been meant.
    """
    reader = _QueryReader(tokens, known)
    return reader.query(), reader.unknown


class _Head(NamedTuple):
    """What a SELECT or DESCRIBE asks for."""

    star: bool = False
    columns: tuple[Column, ...] = ()


class _Modifiers(NamedTuple):
    """What follows the pattern."""

    grouping: tuple[Expression, ...]
    conditions: tuple[Expression, ...]
    ordered: bool
    limit: Token | None


class PatternReader(ExpressionReader):
    """Reads groups and all that can stand in them."""

    def group(self) -> Group:
        """What stands between the next two braces."""
        opening = self.expect("{")
        if self.at_word("SELECT"):
            elements: list[Element] = [self.selection(self.take())]
        else:
            elements = self._elements()
        self.expect("}", where=" to close the '{' of line " + str(opening.line))
        return Group(tuple(elements), opening.offset)

    def _elements(self) -> list[Element]:
        """Triples, and what isn't triples, in turns."""
        found: list[Element] = []
        while True:
            found += self.triples()
            element = self._other_element()
            if element is None:
                return found
            found.append(element)
            self.accept(".")

    def _other_element(self) -> Element | None:
        """What isn't a triple, if it begins here."""
        token = self.token
        if self.at("{"):
            return self._union()
        if self.accept_word("OPTIONAL"):
            return Nested("optional", (self.group(),), token.offset)
        if self.accept_word("MINUS"):
            return Nested("minus", (self.group(),), token.offset)
        if self.accept_word("GRAPH"):
            graph = self.variable_or_iri()
            return Nested("graph", (self.group(),), token.offset, graph)
        if self.accept_word("FILTER"):
            return Filter(self.constraint())
        if self.accept_word("BIND"):
            return self._bind()
        return self.values() if self.at_word("VALUES") else None

    def _union(self) -> Nested:
        """A group, or several with UNION between them."""
        offset = self.token.offset
        groups = [self.group()]
        while self.accept_word("UNION"):
            groups.append(self.group())
        return Nested("union" if len(groups) > 1 else "group", tuple(groups), offset)

    def _bind(self) -> Bind:
        """What follows BIND."""
        self.expect("(", where=" after BIND")
        expression, variable = self._named()
        return Bind(expression, variable)

    def _named(self) -> tuple[Expression, Variable]:
        """An expression AS a variable, and the closing bracket."""
        expression = self.expression()
        self.expect_word("AS")
        variable = self.variable()
        self.expect(")")
        return expression, variable

    def values(self) -> Values:
        """VALUES with its variables and its rows."""
        self.expect_word("VALUES")
        if self.token.kind == "variable":
            variables = [self.variable()]
            self.expect("{")
            while not self.accept("}"):
                self._data_value("'}' to close the list of values")
            return Values(tuple(variables))
        return self._table()

    def _table(self) -> Values:
        """VALUES of several variables."""
        self.expect("(", where=" or a variable after VALUES")
        variables: list[Variable] = []
        while not self.accept(")"):
            variables.append(self.variable())
        self.expect("{")
        while not self.accept("}"):
            opening = self.expect("(", where=" before a row of values, or '}'")
            count = 0
            while not self.accept(")"):
                self._data_value("')' to close the row")
                count += 1
            if count != len(variables):
                message = f"this row has {count} values for {len(variables)} variables"
                refuse_at(opening, "syntax", message, "give each row as many values as there are variables, or UNDEF")
        return Values(tuple(variables))

    def _data_value(self, otherwise: str) -> None:
        """One value of VALUES."""
        if self.at_iri():
            self.iri()
        elif self.at_literal():
            self.literal()
        elif not self.accept_word("UNDEF"):
            self.fail(f"an IRI, a literal, UNDEF, or {otherwise}")

    def selection(self, word: Token) -> Selection:
        """A SELECT within a group, after that word."""
        head = self.projection()
        self.accept_word("WHERE")
        where = self.group()
        modifiers = self.modifiers()
        values = self.values() if self.at_word("VALUES") else None
        return _selected(word, head, where, modifiers, values)

    def projection(self) -> _Head:
        """What follows the word SELECT."""
        self.accept_word("DISTINCT", "REDUCED")
        if self.accept("*"):
            return _Head(star=True)
        columns: list[Column] = []
        while self.token.kind == "variable" or self.at("("):
            if self.accept("("):
                expression, variable = self._named()
                columns.append(Column(variable, expression))
            else:
                columns.append(Column(self.variable()))
        if not columns:
            self.fail("variables, (expression AS ?name), or *")
        return _Head(columns=tuple(columns))

    def modifiers(self) -> _Modifiers:
        """GROUP BY, HAVING, ORDER BY, LIMIT and OFFSET, in this order; LIMIT and OFFSET in either."""
        grouping = self._grouping()
        having = self._conditions() if self.accept_word("HAVING") else []
        ordering = self._ordering()
        return _Modifiers(tuple(grouping), (*having, *ordering), bool(ordering), self._slice())

    def _grouping(self) -> list[Expression]:
        """What follows GROUP BY."""
        found: list[Expression] = []
        if not self.accept_word("GROUP"):
            return found
        self.expect_word("BY")
        while self.token.kind == "variable" or self.at_constraint():
            found.append(self._group_condition())
        return found or self.fail("variables after GROUP BY")

    def _group_condition(self) -> Expression:
        """One condition of GROUP BY."""
        if self.token.kind == "variable":
            return self.variable()
        if not self.accept("("):
            return self.constraint()
        expression = self.expression()
        if self.accept_word("AS"):
            expression = Call("AS", (expression, self.variable()), self.token.offset)
        self.expect(")")
        return expression

    def _conditions(self) -> list[Expression]:
        """What follows HAVING."""
        found = [self.constraint()]
        while self.at_constraint():
            found.append(self.constraint())
        return found

    def _ordering(self) -> list[Expression]:
        """What follows ORDER BY."""
        found: list[Expression] = []
        if not self.accept_word("ORDER"):
            return found
        self.expect_word("BY")
        while True:
            if self.accept_word("ASC", "DESC"):
                found.append(self._bracketed())
            elif self.token.kind == "variable":
                found.append(self.variable())
            elif self.at_constraint():
                found.append(self.constraint())
            else:
                return found or self.fail("variables after ORDER BY, or DESC(?name)")

    def _slice(self) -> Token | None:
        """LIMIT and OFFSET; the token of the limit's number."""
        found: dict[str, Token] = {}
        while self.token.keyword in {"LIMIT", "OFFSET"} - found.keys():
            word = self.take().keyword
            if self.token.kind != "number" or not self.token.text.isdigit():
                self.fail(f"a whole number after {word}")
            if len(self.token.text.lstrip("0")) > COUNT_DIGITS:
                self.fail(f"a number of at most {COUNT_DIGITS} digits after {word}")
            found[word] = self.take()
        return found.get("LIMIT")


class _QueryReader(PatternReader):
    """Reads the prologue and the four forms of a query."""

    def query(self) -> Query:
        """The whole query."""
        self._prologue()
        form = self.accept_word(*FORMS) or self.fail("SELECT, ASK, CONSTRUCT or DESCRIBE")
        head, where, sources = self._before_modifiers(form.keyword)
        modifiers = self.modifiers()
        values_offset = self.token.offset if self.at_word("VALUES") else None
        values = self.values() if values_offset is not None else None
        if self.token.kind != "end":
            self.fail("the end of the query")
        return Query(
            form=cast(Form, form.keyword.lower()),
            body=_selected(form, head, where, modifiers, values),
            sources=sources,
            prefixes=self.declared,
            added_prefixes=tuple(sorted(self.added)),
            values_offset=values_offset,
        )

    def _prologue(self) -> None:
        """BASE and PREFIX."""
        while word := self.accept_word("BASE", "PREFIX"):
            if word.keyword == "PREFIX":
                self._declaration()
            else:
                self.base = self._namespace("an IRI in <…> after BASE")

    def _declaration(self) -> None:
        """A prefix and its namespace."""
        prefix, colon, local = self.token.text.partition(":")
        if self.token.kind != "name" or local or not colon:
            self.fail("a prefix that ends with ':'")
        self.take()
        self.declared[prefix] = self._namespace("the namespace's IRI in <…>")

    def _namespace(self, expected: str) -> str:
        """The next token, an IRI in angle brackets."""
        if self.token.kind != "iri":
            self.fail(expected)
        return self.resolve(self.take().text)

    def _before_modifiers(self, form: str) -> tuple[_Head, Group | None, tuple[Iri, ...]]:
        """What is asked for, the pattern, and the graphs after FROM."""
        if form == "CONSTRUCT":
            return self._construct()
        head = _Head()
        if form == "SELECT":
            head = self.projection()
        elif form == "DESCRIBE":
            head = self._described()
        sources = self._sources()
        has_pattern = self.accept_word("WHERE") or self.at("{")
        where = self.group() if has_pattern or form != "DESCRIBE" else None
        return head, where, sources

    def _described(self) -> _Head:
        """What follows the word DESCRIBE."""
        if self.accept("*"):
            return _Head(star=True)
        if self.token.kind != "variable" and not self.at_iri():
            self.fail("IRIs or variables after DESCRIBE, or *")
        found: list[Variable] = []
        while self.token.kind == "variable" or self.at_iri():
            term = self.variable_or_iri()
            found += [term] if isinstance(term, Variable) else []
        return _Head(columns=tuple(Column(variable) for variable in found))

    def _construct(self) -> tuple[_Head, Group | None, tuple[Iri, ...]]:
        """A template and a pattern, or (`CONSTRUCT WHERE`) triples that are both."""
        if not self.at("{"):
            sources = self._sources()
            self.expect_word("WHERE")
            return _Head(), self._template(), sources
        self._template()
        sources = self._sources()
        self.accept_word("WHERE")
        return _Head(), self.group(), sources

    def _template(self) -> Group:
        """Triples without paths, in braces."""
        opening = self.expect("{")
        triples = self.triples(paths=False)
        self.expect("}", where=f" to close the '{{' of line {opening.line}")
        return Group(tuple(triples), opening.offset)

    def _sources(self) -> tuple[Iri, ...]:
        """The graphs after FROM and FROM NAMED."""
        found: list[Iri] = []
        while self.accept_word("FROM"):
            self.accept_word("NAMED")
            found.append(self.iri("a graph's IRI after FROM"))
        return tuple(found)


def _selected(word: Token, head: _Head, where: Group | None, modifiers: _Modifiers, values: Values | None) -> Selection:
    """What was read of a SELECT, or of a query's body, as one."""
    return Selection(
        offset=word.offset,
        star=head.star,
        columns=head.columns,
        where=where,
        grouping=modifiers.grouping,
        conditions=modifiers.conditions,
        ordered=modifiers.ordered,
        limit=modifiers.limit,
        values=values,
    )
