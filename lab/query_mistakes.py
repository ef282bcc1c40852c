"""Plausible mistakes: queries that differ from a right one as those of people and models do.

A task whose right answer is also that of every such query measures nothing: whoever falls into the trap is right too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rbank_es.ontology.rdf_names import SUBCLASS, TYPE
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.parsed_query import ParsedQuery
from rbank_es.sparql.parser.tokens import Edit, Token, rewritten


class Mistake(NamedTuple):
    """A query with one mistake, and the name of the mistake in a few words."""

    name: str
    query: str


def plausible_mistakes(query: ParsedQuery) -> Iterator[Mistake]:
    """Yield the query with one mistake at a time, those first that are the easiest to overlook.

    Left out: subclasses, one side of a relation, the repetition of a step, a language, DISTINCT, a condition. Changed:
    an optional part is required, the order is reversed, a property is turned around.
    """
    edits = [
        ("subclasses left out", _subclass_paths),
        ("one side of a relation", _other_sides),
        ("one step of a path", _repetitions),
        ("no language", _languages),
        ("rows counted twice", _distincts),
        ("a condition left out", _conditions),
        ("an optional part required", _optionals),
        ("sorted the other way", _orders),
        ("a property turned around", _directions),
    ]
    for name, find in edits:
        for edit in find(query):
            yield Mistake(name, rewritten(query.text, [edit]))


def _cut(first: Token, last: Token) -> Edit:
    return Edit(first.offset, last.end, " ")


def _is_name(token: Token) -> bool:
    return token.kind in ("iri", "name") or token.text == "a"


def _windows(query: ParsedQuery, size: int) -> Iterator[Sequence[Token]]:
    tokens = query.words
    return (tokens[at : at + size] for at in range(len(tokens) - size + 1))


def _subclass_paths(query: ParsedQuery) -> Iterator[Edit]:
    """Yield edits of `a/rdfs:subClassOf*` to `a`."""
    for slash, name, sign in _windows(query, 3):
        if slash.is_symbol("/") and query.notes.iris.get(name.offset) == SUBCLASS and sign.is_symbol("*", "+"):
            yield _cut(slash, sign)


def _other_sides(query: ParsedQuery) -> Iterator[Edit]:
    """Yield edits of `p|^q` to `p`."""
    for bar, turned, name in _windows(query, 3):
        if bar.is_symbol("|") and turned.is_symbol("^") and _is_name(name):
            yield _cut(bar, name)


def _repetitions(query: ParsedQuery) -> Iterator[Edit]:
    """Yield edits of `p*` and `p+` to `p`: after a predicate, neither is arithmetic."""
    for name, sign in _windows(query, 2):
        if sign.is_symbol("*", "+") and query.notes.roles.get(name.offset) in ("path", "property"):
            yield _cut(sign, sign)


def _languages(query: ParsedQuery) -> Iterator[Edit]:
    yield from (_cut(token, token) for token in query.words if token.kind == "language")


def _distincts(query: ParsedQuery) -> Iterator[Edit]:
    yield from (_cut(token, token) for token in query.words if token.keyword == "DISTINCT")


def _conditions(query: ParsedQuery) -> Iterator[Edit]:
    """Yield edits without one FILTER."""
    for at, token in enumerate(query.words):
        if token.keyword == "FILTER":
            yield _cut(token, _end_of_brackets(query.words[at:]))


def _end_of_brackets(tokens: Sequence[Token]) -> Token:
    """Return the token that closes the first bracket of a query's text."""
    depth = 0
    for token in tokens:
        depth += token.is_symbol("{", "(") - token.is_symbol("}", ")")
        if depth == 0 and token.is_symbol("}", ")"):
            return token
    return tokens[0]


def _optionals(query: ParsedQuery) -> Iterator[Edit]:
    yield from (_cut(token, token) for token in query.words if token.keyword == "OPTIONAL")


def _orders(query: ParsedQuery) -> Iterator[Edit]:
    """Yield edits that turn the first sort key of a query around."""
    for word, by, key in _windows(query, 3):
        if word.keyword == "ORDER" and by.keyword == "BY":
            if key.keyword in ("ASC", "DESC"):
                yield Edit(key.offset, key.end, {"ASC": "DESC", "DESC": "ASC"}[key.keyword])
            elif key.kind == "variable":
                yield Edit(key.offset, key.end, f"DESC({key.text})")


def _directions(query: ParsedQuery) -> Iterator[Edit]:
    """Yield edits that walk one plain property backwards."""
    for triple in tree.triples(query.tree):
        step = triple.predicate
        # A literal can't be a subject, so a pattern that ends in one finds nothing when turned around.
        if isinstance(step, tree.PathStep) and step.iri.iri != TYPE and not isinstance(triple.object, tree.Value):
            yield Edit(step.iri.offset, step.iri.offset, "^")
