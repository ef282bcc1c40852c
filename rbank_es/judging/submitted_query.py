"""Reading a submitted query: its tree, the IRIs that it names anywhere, and what makes two texts the same query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from rbank_es.ontology.prefixes import WELL_KNOWN
from rbank_es.sparql.guard.forbidden import refuse_by_token
from rbank_es.sparql.parser.cursor import RDF, Cursor
from rbank_es.sparql.parser.grammar import read
from rbank_es.sparql.parser.tokens import Token, plain, tokenise
from rbank_es.sparql.parser.tree import Query

RDF_TYPE = RDF + "type"


class ReadQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query that could be read."""

    text: str
    tree: Query
    tokens: tuple[Token, ...]
    prefixes: Mapping[str, str]
    """Its own, and those that are known where it is judged."""

    @property
    def limit(self) -> int | None:
        """Its outer LIMIT."""
        return int(self.tree.body.limit.text) if self.tree.body.limit else None


def read_query(text: str, prefixes: Mapping[str, str] | None = None) -> ReadQuery:
    """Read a query; `prefixes` and the well-known ones need no declaration.

    Raises `QueryRefused`: `syntax` and `too_long` for what can't be read, other codes for what no query may do.
    """
    tokens = tokenise(text)
    refuse_by_token(tokens)
    known = {**WELL_KNOWN, **(prefixes or {})}
    tree, _ = read(tokens, known)
    return ReadQuery(text=text, tree=tree, tokens=tokens, prefixes={**known, **tree.prefixes})


def terms_of(query: ReadQuery) -> dict[str, str]:
    """The IRIs that a query names as things, anywhere in it, each with how it is written; in order.

    Left out are those of its prologue, datatypes, functions, and the graphs that it asks.
    """
    found: dict[str, str] = {}
    before = ""
    for at, token in _body(query):
        after = query.tokens[at + 1]
        names_thing = token.kind in ("iri", "name") and before not in ("^^", "FROM", "NAMED", "GRAPH")
        if names_thing and not (after.is_symbol("(") and not after.between):
            iri = _iri(query, token)
            if iri is not None:
                found.setdefault(iri, token.text)
        before = token.keyword or token.text
    return found


def _body(query: ReadQuery) -> Iterator[tuple[int, Token]]:
    """The tokens after the prologue, each with its index."""
    at = 0
    while query.tokens[at].keyword in ("PREFIX", "BASE"):
        at += 3 if query.tokens[at].keyword == "PREFIX" else 2
    return ((index, token) for index, token in enumerate(query.tokens) if index >= at and token.kind != "end")


def _iri(query: ReadQuery, token: Token) -> str | None:
    """The IRI of a token; None for a prefixed name that nobody can expand."""
    cursor = Cursor((token,), query.prefixes)
    cursor.base = next((plain(after.text[1:-1]) for word, after in _pairs(query) if word.keyword == "BASE"), "")
    iri = cursor.iri().iri
    return None if cursor.unknown else iri


def _pairs(query: ReadQuery) -> Iterator[tuple[Token, Token]]:
    return zip(query.tokens, query.tokens[1:], strict=False)


def inside(token: Token) -> str:
    """What stands between the quotes of a string, code points as characters."""
    quotes = 3 if token.text[:3] in ('"""', "'''") else 1
    return plain(token.text[quotes:-quotes])


# ---------------------------------------------------------------- the same query


def fingerprint(query: ReadQuery) -> str:
    """A text that two queries share if they differ only in layout, prefixes, names of variables, and outer LIMIT.

    The outer LIMIT is left out, because the tools put in one of their own.
    """
    names: dict[str, str] = {}
    number = query.tree.body.limit
    words: list[str] = []
    for _, token in _body(query):
        if number is not None and token.offset == number.offset:
            words.pop()  # the word LIMIT before it
        elif token.keyword != "WHERE":
            if token.is_symbol("}") and words[-1] == ".":
                words.pop()
            words.append(_canonical(query, token, names))
    return " ".join(words)


def _canonical(query: ReadQuery, token: Token, names: dict[str, str]) -> str:
    if token.kind in ("iri", "name"):
        return f"<{_iri(query, token) or token.text}>"
    if token.kind == "variable":
        return names.setdefault(token.text[1:], f"?{len(names)}")
    if token.kind == "string":
        return repr(inside(token))
    if token.kind == "word":
        return f"<{RDF_TYPE}>" if token.text == "a" else token.keyword
    return token.text
