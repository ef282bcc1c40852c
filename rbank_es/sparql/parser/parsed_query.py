"""The parser of patterns and whole queries, and `ParsedQuery`: a text that was tokenised once and parsed once.

All checks and edits of queries use that one value. Sources: SPARQL 1.1, productions 1 to 28 (queries) and 53 to 69
(patterns).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryRefused
from rbank_es.ontology.prefixes import WELL_KNOWN
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.expressions import ExpressionParser
from rbank_es.sparql.parser.tokens import FORMS, Lines, Token, read_tokens, refuse_at, refuse_by_token, tokenise
from rbank_es.sparql.parser.tree import Query
from rbank_es.sparql.parser.triples import TokenNotes
from rbank_es.sparql.results import Form


class ParsedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query that could be parsed."""

    text: str
    tokens: tuple[Token, ...]
    """With an `end` token last."""
    tree: Query
    notes: TokenNotes
    prefixes: Mapping[str, str]
    """Namespaces by prefix: the query's own, and those known where it was parsed."""
    unknown: Mapping[str, Token]
    """Prefixes that nobody declares, each with its first use."""
    places: Mapping[int, int]
    """The index of each token by its offset."""

    @property
    def limit(self) -> int | None:
        """The outer LIMIT."""
        return int(self.tree.body.limit.text) if self.tree.body.limit else None

    @property
    def words(self) -> tuple[Token, ...]:
        """The tokens behind the prologue, without the `end` token."""
        return self.tokens[self.places[self.tree.body.offset] : -1]

    def token_at(self, offset: int) -> Token:
        """Return the token that begins at an offset."""
        return self.tokens[self.places[offset]]


def parse_query(text: str, prefixes: Mapping[str, str] | None = None) -> ParsedQuery:
    """Parse a query that only reads data; `prefixes` and the well-known ones need no declaration.

    Raises `QueryRefused`: `syntax` and `too_long` for text that can't be parsed, `not_read_only` and `service_refused`
    for text that no query may hold. Prefixes that nobody declares are in `unknown`.
    """
    tokens = tokenise(text)
    # Before parsing, because the parser recurses: brackets must be known to be few.
    refuse_by_token(tokens)
    try:
        return _parsed(text, tokens, prefixes)
    except RecursionError:  # The caller's own stack is nearly full: `QUERY_NESTING` takes half of an empty one.
        raise QueryRefused("syntax", "brackets are too deep here", "ask in several steps") from None


def form_and_limit(text: str, prefixes: Mapping[str, str]) -> tuple[Form, int | None]:
    """Return the form and the outer LIMIT of a text of any size, made of a query that was parsed.

    Raises `QueryRefused` where it can't be read.
    """
    parsed = _parsed(text, tuple(read_tokens(text)), prefixes)
    return parsed.tree.form, parsed.limit


def parse_leniently(text: str, prefixes: Mapping[str, str] | None = None) -> ParsedQuery | None:
    """Parse as much of a query as can be parsed; None for text that is no query, or that only an engine could follow.

    A group that can't be parsed keeps the elements before the fault, and parsing goes on behind it.
    """
    try:
        tokens = tokenise(text)
    except QueryRefused as error:
        if error.line is None or error.column is None:
            return None
        # The end of the text that can be tokenised; nothing after it is looked at.
        return parse_leniently(text[: Lines(text).offset_of(error.line, error.column)], prefixes)
    try:
        return _parsed(text, tokens, prefixes, lenient=True)
    except (QueryRefused, RecursionError):
        return None


def _parsed(
    text: str, tokens: tuple[Token, ...], prefixes: Mapping[str, str] | None, *, lenient: bool = False
) -> ParsedQuery:
    known = {**WELL_KNOWN, **(prefixes or {})}
    parser = QueryParser(tokens, known, lenient=lenient)
    tree = parser.query()
    return ParsedQuery(
        text=text,
        tokens=tokens,
        tree=tree,
        notes=parser.notes,
        prefixes={**known, **tree.prefixes},
        unknown=parser.unknown,
        places={token.offset: index for index, token in enumerate(tokens)},
    )


# ---------------------------------------------------------------- the grammar


class _Head(NamedTuple):
    """The columns of a SELECT or DESCRIBE."""

    star: bool = False
    columns: tuple[tree.ProjectedColumn, ...] = ()


class _Modifiers(NamedTuple):
    """The clauses behind a pattern."""

    grouping: tuple[tree.Expression, ...] = ()
    conditions: tuple[tree.Expression, ...] = ()
    ordered: bool = False
    limit: Token | None = None


class PatternParser(ExpressionParser):
    """A parser of groups, and of everything that may stand in them."""

    _faults = 0

    def group(self) -> tree.GroupPattern:
        """Parse a group in braces."""
        opening, start = self.expect("{"), self._index
        elements: list[tree.Element] = []
        while True:
            try:
                if self.at_word("SELECT"):
                    elements.append(self.selection(self.take()))
                else:
                    self._elements(elements)
                self.expect("}", where=f" to close the '{{' of line {opening.line}")
                break
            except QueryRefused:
                if not self._lenient:
                    raise
                if not self._resume(start):
                    break
        return tree.GroupPattern(tuple(elements), opening.offset)

    def _resume(self, start: int) -> bool:
        """Step behind the next dot of the group whose first token is at index `start`; return False at its end."""
        self._faults += 1  # Bounds the work: each fault walks the group again, from its first token.
        depth = 1
        for index, token in enumerate(self._tokens[start:], start):
            depth += token.is_symbol("{") - token.is_symbol("}")
            ends = depth == 0 or token.kind == "end"
            if ends or (
                depth == 1 and index >= self._index and token.text == "." and self._faults <= limits.QUERY_FAULTS
            ):
                self._index = index
                self.accept("}", ".")
                return not ends
        return False

    def _elements(self, found: list[tree.Element]) -> None:
        while True:
            after_triples = self.triples(found)
            beginning = self.token
            element = self._other_element()
            if element is None:
                return
            if after_triples:
                self.notes.breaks.add(beginning.offset)
            found.append(element)
            if stop := self.accept("."):
                self.notes.idle.add(stop.offset)

    def _other_element(self) -> tree.Element | None:
        """Parse an element that is no triple, if one begins here."""
        token = self.token
        if self.at("{"):
            groups = [self.group()]
            while self.accept_word("UNION"):
                groups.append(self.group())
            return tree.Nested("union" if len(groups) > 1 else "group", tuple(groups), token.offset)
        if self.accept_word("OPTIONAL"):
            return tree.Nested("optional", (self.group(),), token.offset)
        if self.accept_word("MINUS"):
            return tree.Nested("minus", (self.group(),), token.offset)
        if self.accept_word("GRAPH"):
            graph = self.variable_or_iri("graph")
            return tree.Nested("graph", (self.group(),), token.offset, graph)
        if self.accept_word("FILTER"):
            return tree.Filter(self.constraint())
        if self.accept_word("BIND"):
            self.expect("(", where=" after BIND")
            return tree.Bind(*self._named())
        # A strict parser never gets here with SERVICE: `refuse_by_token` refuses it first, with a hint of its own.
        if self._lenient and self.accept_word("SERVICE"):
            self.accept_word("SILENT")
            return tree.Nested("service", (), token.offset, self.variable_or_iri("graph"))
        return self.values() if self.at_word("VALUES") else None

    def _named(self) -> tuple[tree.Expression, tree.Variable]:
        """Parse an expression AS a variable, and the closing bracket."""
        expression = self.expression()
        self.expect_word("AS")
        variable = self.variable()
        self.expect(")")
        return expression, variable

    def values(self) -> tree.Values:
        """Parse VALUES with its variables and its rows."""
        self.expect_word("VALUES")
        if self.token.kind == "variable":
            variables = [self.variable()]
            start = self._index
            self.expect("{")
            while not self.accept("}"):
                self._data_value("'}' to close the list of values")
        else:
            self.expect("(", where=" or a variable after VALUES")
            variables = []
            while not self.accept(")"):
                variables.append(self.variable())
            start = self._index
            self.expect("{")
            while not self.accept("}"):
                self._row(len(variables))
        for token in self._tokens[start : self._index]:
            self.note("value", token)
        return tree.Values(tuple(variables))

    def _row(self, width: int) -> None:
        opening = self.expect("(", where=" before a row of values, or '}'")
        count = 0
        while not self.accept(")"):
            self._data_value("')' to close the row")
            count += 1
        if count != width:
            message = f"this row has {count} values for {width} variables"
            refuse_at(opening, "syntax", message, "give each row as many values as there are variables, or UNDEF")

    def _data_value(self, otherwise: str) -> None:
        if self.at_iri():
            self.iri()
        elif self.at_literal():
            self.literal()
        elif not self.accept_word("UNDEF"):
            self.fail(f"an IRI, a literal, UNDEF, or {otherwise}")

    def selection(self, word: Token) -> tree.Selection:
        """Parse a SELECT within a group, behind that word."""
        head = self.projection()
        self.accept_word("WHERE")
        where = self.group()
        modifiers = self.modifiers()
        return _selection(word, head, where, modifiers, self.values() if self.at_word("VALUES") else None)

    def projection(self) -> _Head:
        """Parse the columns of a SELECT."""
        self.accept_word("DISTINCT", "REDUCED")
        if self.accept("*"):
            return _Head(star=True)
        columns: list[tree.ProjectedColumn] = []
        while self.token.kind == "variable" or self.at("("):
            if self.accept("("):
                expression, variable = self._named()
                columns.append(tree.ProjectedColumn(variable, expression))
            else:
                columns.append(tree.ProjectedColumn(self.variable()))
        if not columns:
            self.fail("variables, (expression AS ?name), or *")
        return _Head(columns=tuple(columns))

    def modifiers(self, *, outer: bool = False) -> _Modifiers:
        """Parse GROUP BY, HAVING, ORDER BY, LIMIT and OFFSET, in this order; LIMIT and OFFSET in either."""
        grouping = self._grouping()
        having = self._conditions() if self.accept_word("HAVING") else []
        ordering = self._ordering()
        return _Modifiers(tuple(grouping), (*having, *ordering), bool(ordering), self._slice(outer))

    def _grouping(self) -> list[tree.Expression]:
        found: list[tree.Expression] = []
        if not self.accept_word("GROUP"):
            return found
        self.expect_word("BY")
        while self.token.kind == "variable" or self.at_constraint():
            found.append(self._group_condition())
        return found or self.fail("variables after GROUP BY")

    def _group_condition(self) -> tree.Expression:
        if self.token.kind == "variable":
            return self.variable()
        if not self.accept("("):
            return self.constraint()
        expression = self.expression()
        if self.accept_word("AS"):
            expression = tree.FunctionCall("AS", (expression, self.variable()), self.token.offset)
        self.expect(")")
        return expression

    def _conditions(self) -> list[tree.Expression]:
        found = [self.constraint()]
        while self.at_constraint():
            found.append(self.constraint())
        return found

    def _ordering(self) -> list[tree.Expression]:
        found: list[tree.Expression] = []
        if not self.accept_word("ORDER"):
            return found
        self.expect_word("BY")
        while True:
            if self.accept_word("ASC", "DESC"):
                found.append(self.bracketed())
            elif self.token.kind == "variable":
                found.append(self.variable())
            elif self.at_constraint():
                found.append(self.constraint())
            else:
                return found or self.fail("variables after ORDER BY, or DESC(?name)")

    def _slice(self, outer: bool) -> Token | None:
        """Parse LIMIT and OFFSET. Return the token of the limit's number."""
        found: dict[str, Token] = {}
        while self.token.keyword in {"LIMIT", "OFFSET"} - found.keys():
            word = self.take()
            if self.token.kind != "number" or not self.token.text.isdigit():
                self.fail(f"a whole number after {word.keyword}")
            if len(self.token.text.lstrip("0")) > limits.QUERY_COUNT_DIGITS:
                self.fail(f"a number of at most {limits.QUERY_COUNT_DIGITS} digits after {word.keyword}")
            found[word.keyword] = self.take()
            if outer:
                self.note("slice", word)
                self.note("slice", found[word.keyword])
        return found.get("LIMIT")


class QueryParser(PatternParser):
    """A parser of whole queries: the prologue and the four forms."""

    _constructed: tree.GroupPattern | None = None

    def query(self) -> Query:
        """Parse the whole query."""
        try:
            self._prologue()
            form = self.accept_word(*FORMS) or self.fail("SELECT, ASK, CONSTRUCT or DESCRIBE")
        except QueryRefused:
            if not self._lenient:
                raise
            while not self.at_word(*FORMS):
                if self.take().kind == "end":
                    raise
            form = self.take()
        try:
            return self._after_form(form)
        except QueryRefused:
            if not self._lenient:
                raise
            return self._pattern_alone(form)

    def _after_form(self, form: Token) -> Query:
        head, where, sources = self._before_modifiers(form.keyword)
        try:
            modifiers = self.modifiers(outer=True)
            values_offset = self.token.offset if self.at_word("VALUES") else None
            values = self.values() if values_offset is not None else None
            if self.token.kind != "end":
                self.fail("the end of the query")
        except QueryRefused:
            if not self._lenient:
                raise
            modifiers, values_offset, values = _Modifiers(), None, None
        return self._finished(form, _selection(form, head, where, modifiers, values), sources, values_offset)

    def _finished(
        self, form: Token, body: tree.Selection, sources: tuple[tree.SourceGraph, ...], values_offset: int | None
    ) -> Query:
        return Query(
            form=cast(Form, form.keyword.lower()),
            body=body,
            sources=sources,
            template=self._constructed,
            prefixes=self.declared,
            added_prefixes=tuple(sorted(self.added)),
            values_offset=values_offset,
        )

    def _pattern_alone(self, form: Token) -> Query:
        """Parse the pattern of a query whose head can't be parsed."""
        while self.token.kind != "end" and not self.at("{"):
            self.take()
        where = self.group() if self.at("{") else None
        return self._finished(form, tree.Selection(offset=form.offset, where=where), (), None)

    def _prologue(self) -> None:
        while word := self.accept_word("BASE", "PREFIX"):
            if word.keyword == "PREFIX":
                self._declaration()
            else:
                self._base = self._namespace("an IRI in <…> after BASE")

    def _declaration(self) -> None:
        prefix, colon, local = self.token.text.partition(":")
        if self.token.kind != "name" or local or not colon:
            self.fail("a prefix that ends with ':'")
        self.take()
        self.declared[prefix] = self._namespace("the namespace's IRI in <…>")

    def _namespace(self, expected: str) -> str:
        if self.token.kind != "iri":
            self.fail(expected)
        return self.resolve(self.take().text)

    def _before_modifiers(self, form: str) -> tuple[_Head, tree.GroupPattern | None, tuple[tree.SourceGraph, ...]]:
        """Parse the columns, the pattern, and the graphs after FROM."""
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
        if self.accept("*"):
            return _Head(star=True)
        if self.token.kind != "variable" and not self.at_iri():
            self.fail("IRIs or variables after DESCRIBE, or *")
        found: list[tree.Variable] = []
        while self.token.kind == "variable" or self.at_iri():
            term = self.variable_or_iri()
            found += [term] if isinstance(term, tree.Variable) else []
        return _Head(columns=tuple(tree.ProjectedColumn(variable) for variable in found))

    def _construct(self) -> tuple[_Head, tree.GroupPattern | None, tuple[tree.SourceGraph, ...]]:
        """Parse a template and a pattern, or (`CONSTRUCT WHERE`) triples that are both."""
        if not self.at("{"):
            sources = self._sources()
            self.expect_word("WHERE")
            return _Head(), self._template(), sources
        self._constructed = self._template()
        sources = self._sources()
        self.accept_word("WHERE")
        return _Head(), self.group(), sources

    def _template(self) -> tree.GroupPattern:
        """Parse triples without paths, in braces."""
        opening = self.expect("{")
        triples: list[tree.Element] = []
        self.triples(triples, paths=False)
        self.expect("}", where=f" to close the '{{' of line {opening.line}")
        return tree.GroupPattern(tuple(triples), opening.offset)

    def _sources(self) -> tuple[tree.SourceGraph, ...]:
        found: list[tree.SourceGraph] = []
        while self.accept_word("FROM"):
            named = self.accept_word("NAMED") is not None
            found.append(tree.SourceGraph(*self.iri("a graph's IRI after FROM", "graph"), named))
        return tuple(found)


def _selection(
    word: Token, head: _Head, where: tree.GroupPattern | None, modifiers: _Modifiers, values: tree.Values | None
) -> tree.Selection:
    return tree.Selection(
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
