"""What is refused before anything is read further: updates, several statements, calls to other endpoints, depth."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from rbank_es.sparql.parser.keywords import FORMS, UPDATES
from rbank_es.sparql.parser.tokens import Places, Token, refuse_at, shown
from rbank_es.sparql.parser.tree import Query

NESTING = 15
"""How deep brackets may stand within each other. The second parser recurses: it was seen to give up at 16 `!(`."""

TOKENS = 5_000
"""Names, words and marks of a query. The second parser takes up to a millisecond for each."""

NUMBER_DIGITS = 1_000
"""Digits of a number; more of them take long to read and mean nothing."""


def refuse_by_token(tokens: tuple[Token, ...]) -> None:
    """Raise `QueryRefused` for what no query may hold: `not_read_only`, `service_refused`, and what is too large.

    Only words count: the same letters in a string, a comment, an IRI, a variable or a prefixed name do not.
    """
    if len(tokens) > TOKENS:
        hint = "ask for less at a time, or replace long lists by a pattern"
        refuse_at(tokens[TOKENS], "too_long", f"the query has more than {TOKENS:,} names, words and marks", hint)
    form = _first_keyword(tokens)
    if form.keyword in UPDATES:
        refuse_at(form, "not_read_only", f"{form.keyword} changes data", "ask with SELECT, ASK, CONSTRUCT or DESCRIBE")
    depth = 0
    for token, after in zip(tokens, (*tokens[1:], tokens[-1]), strict=True):
        if token.keyword == "SERVICE":
            _refuse_service(token, after)
        depth += token.is_symbol("{", "(", "[") - token.is_symbol("}", ")", "]")
        if depth > NESTING:
            hint = "take out brackets that aren't needed, or ask in several steps"
            refuse_at(token, "syntax", f"brackets are more than {NESTING} deep", hint)
        if token.kind == "number" and len(token.text) > NUMBER_DIGITS:
            refuse_at(token, "syntax", f"a number of {len(token.text):,} digits", "write a shorter number")
    _refuse_second_statement(tokens, form)


def _refuse_service(token: Token, after: Token) -> NoReturn:
    """Raise for SERVICE, with what to do instead."""
    hint = "split it into two queries: ask here first, then ask the other endpoint with what came back"
    if after.text in ("wikibase:label", "<http://wikiba.se/ontology#label>"):
        hint = 'for labels add OPTIONAL { ?x rdfs:label ?label FILTER(LANG(?label) = "en") } instead'
    refuse_at(token, "service_refused", "SERVICE would send a request to another endpoint", hint)


def _first_keyword(tokens: tuple[Token, ...]) -> Token:
    """The word that says what a text does: the first one that is no part of the prologue."""
    return next(t for t in tokens if t.kind == "end" or (t.kind == "word" and t.keyword not in ("PREFIX", "BASE")))


def _refuse_second_statement(tokens: tuple[Token, ...], form: Token) -> None:
    """Raise where another statement follows a `;`."""
    depth = 0
    for token, after in zip(tokens, tokens[1:], strict=False):
        depth += token.is_symbol("{", "(", "[") - token.is_symbol("}", ")", "]")
        begins = after.keyword in UPDATES or after.keyword in (*FORMS, "PREFIX", "BASE")
        if depth <= 0 and token.is_symbol(";") and begins and token.offset > form.offset:
            hint = "send one query at a time, without ';'"
            refuse_at(token, "not_read_only", "several statements in one query", hint)


def refuse_sources(query: Query, graphs: Collection[str], places: Places) -> None:
    """Raise `from_refused` for a FROM that names anything but a graph of the data: engines may fetch or open it."""
    for iri, offset in query.sources:
        if iri not in graphs or iri.lower().startswith("file:"):
            token = places[offset]
            message = f"FROM {shown(token)} names no graph of this data"
            refuse_at(token, "from_refused", message, _graphs_hint(graphs))


def _graphs_hint(graphs: Collection[str]) -> str:
    """What to write instead of an unknown graph."""
    if not graphs:
        return "leave out FROM: all data is in the default graph"
    named = ", ".join(f"<{graph}>" for graph in sorted(graphs)[:3])
    return f"leave out FROM, or name one of the {len(graphs)} graphs here: {named}"
