"""The class `ParsedQuery`: a query's text, tokenised once and parsed once, for all checks and edits of queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryRefused
from rbank_es.ontology.prefixes import WELL_KNOWN
from rbank_es.sparql.parser.expressions import FORMS, TokenNotes
from rbank_es.sparql.parser.grammar import QueryParser
from rbank_es.sparql.parser.tokens import Lines, Token, refuse_at, tokenise
from rbank_es.sparql.parser.tree import Query

UPDATES = frozenset({"INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "COPY", "MOVE", "ADD", "WITH"})
"""The words with which an update begins."""


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


# ---------------------------------------------------------------- what no query may hold


def refuse_by_token(tokens: tuple[Token, ...]) -> None:
    """Raise `QueryRefused` for updates, several statements, SERVICE, and queries that are too large or too deep.

    Only words count: the same letters in a string, a comment, an IRI, a variable or a prefixed name do not.
    """
    if len(tokens) - 1 > limits.QUERY_TOKENS:  # the last token is the end
        most = f"{limits.QUERY_TOKENS:,}"
        hint = "ask for less at a time, or replace long lists by a pattern"
        refuse_at(
            tokens[limits.QUERY_TOKENS], "too_long", f"the query has more than {most} names, words and marks", hint
        )
    form = _first_keyword(tokens)
    if form.keyword in UPDATES:
        refuse_at(form, "not_read_only", f"{form.keyword} changes data", "ask with SELECT, ASK, CONSTRUCT or DESCRIBE")
    depth, second = 0, None
    for token, after in zip(tokens, (*tokens[1:], tokens[-1]), strict=True):
        if token.keyword == "SERVICE":
            _refuse_service(token, after)
        depth += token.is_symbol("{", "(", "[") - token.is_symbol("}", ")", "]")
        if depth > limits.QUERY_NESTING:
            hint = "take out brackets that aren't needed, or ask in several steps"
            refuse_at(token, "syntax", f"brackets are more than {limits.QUERY_NESTING} deep", hint)
        if token.kind == "number" and len(token.text) > limits.QUERY_NUMBER_DIGITS:
            refuse_at(token, "syntax", f"a number of {len(token.text):,} digits", "write a shorter number")
        if depth <= 0 and token.is_symbol(";") and _begins_statement(after) and token.offset > form.offset:
            second = second or token
    if second is not None:
        refuse_at(second, "not_read_only", "several statements in one query", "send one query at a time, without ';'")


def _first_keyword(tokens: tuple[Token, ...]) -> Token:
    """Return the first word that is no part of the prologue, or the `end` token."""
    return next(t for t in tokens if t.kind == "end" or (t.kind == "word" and t.keyword not in ("PREFIX", "BASE")))


def _begins_statement(token: Token) -> bool:
    return token.keyword in UPDATES or token.keyword in (*FORMS, "PREFIX", "BASE")


def _refuse_service(token: Token, after: Token) -> NoReturn:
    hint = "split it into two queries: ask here first, then ask the other endpoint with what came back"
    if after.text in ("wikibase:label", "<http://wikiba.se/ontology#label>"):
        hint = 'for labels add OPTIONAL { ?x rdfs:label ?label FILTER(LANG(?label) = "en") } instead'
    refuse_at(token, "service_refused", "SERVICE would send a request to another endpoint", hint)
