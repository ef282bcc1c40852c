"""Comparison of two queries by their text, for lack of data to run them on.

Layout, prefixes, names of variables, the order of triples, and `a/b` against two triples make no difference. Queries of
triples alone can be recognised as equal; other queries, only if they differ in layout alone. So equality is certain,
and a difference may be one of wording only.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rbank_es.ontology import rdf_names
from rbank_es.ontology.prefixes import Prefixes
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.parsed_query import ParsedQuery
from rbank_es.sparql.parser.tokens import Token, plain

_PLAIN = frozenset({"PREFIX", "BASE", "SELECT", "DISTINCT", "FROM", "WHERE", "A", ""})
"""Words of queries whose triples, columns and graphs are all that they say."""


class Pattern(NamedTuple):
    """A triple as it is compared: each part a variable (`?name`), or what is written there, prefixes resolved."""

    subject: str
    predicate: str
    object: str

    def renamed(self, names: dict[str, str]) -> Pattern:
        """Return the pattern under other names of variables; those without one get a name that no query has."""
        return Pattern(*(names.get(part, f"?+{part[1:]}") if part.startswith("?") else part for part in self))

    def __str__(self) -> str:
        return " ".join(self)


def fingerprint(query: ParsedQuery) -> str:
    """Return a text that queries share if they differ only in layout, prefixes, names of variables and outer LIMIT.

    The outer LIMIT is left out, because the tools put in one of their own.
    """
    names: dict[str, str] = {}
    number = query.tree.body.limit
    words: list[str] = []
    for token in query.words:
        if number is not None and token.offset == number.offset:
            words.pop()  # the word LIMIT before it
        elif token.keyword != "WHERE":  # it may be left out, as a dot before a brace may
            if token.is_symbol("}") and words[-1] == ".":
                words.pop()
            words.append(_canonical(query, token, names))
    return " ".join(words)


def _canonical(query: ParsedQuery, token: Token, names: dict[str, str]) -> str:
    if token.kind in ("iri", "name"):
        return f"<{query.notes.iris.get(token.offset, token.text)}>"
    if token.kind == "variable":
        return names.setdefault(token.text[1:], f"?{len(names)}")
    if token.kind == "string":
        return repr(_inside(token))
    if token.kind == "word":
        return f"<{rdf_names.TYPE}>" if token.text == "a" else token.keyword
    return token.text


def _inside(token: Token) -> str:
    """Return the text between the quotes of a string, code points as characters."""
    quotes = 3 if token.text[:3] in ('"""', "'''") else 1
    return plain(token.text[quotes:-quotes])


def differences_of_queries(given: ParsedQuery, expected: ParsedQuery) -> tuple[str, ...]:
    """Return the differences of `given` from `expected`, each in a few words; none where they are surely the same."""
    if fingerprint(given) == fingerprint(expected) and given.limit == expected.limit:
        return ()
    found = [*_graphs(given, expected), *_columns(given, expected), *_patterns(given, expected)]
    if not found and not (_is_plain(given) and _is_plain(expected)):
        found.append("whether what is beside its triples means the same can't be told without data")
    return tuple(found)


def _is_plain(query: ParsedQuery) -> bool:
    words = {token.keyword for token in query.tokens}
    return words <= _PLAIN and query.tree.form == "select" and len(query.tree.groups) == 1


def _graphs(given: ParsedQuery, expected: ParsedQuery) -> Iterator[str]:
    here, there = ({source.iri for source in query.tree.sources} for query in (given, expected))
    yield from (f"missing FROM <{iri}>" for iri in sorted(there - here))
    yield from (f"extra FROM <{iri}>" for iri in sorted(here - there))


def _columns(given: ParsedQuery, expected: ParsedQuery) -> Iterator[str]:
    here, there = tree.projected(given.tree.body), tree.projected(expected.tree.body)
    if len(here) != len(there):
        yield f"{len(here)} columns ({', '.join(here)}) instead of {len(there)} ({', '.join(there)})"
    if _is_distinct(given) != _is_distinct(expected) and _is_plain(given):
        yield "missing DISTINCT" if _is_distinct(expected) else "extra DISTINCT"


def _is_distinct(query: ParsedQuery) -> bool:
    return any(token.keyword == "DISTINCT" for token in query.tokens)


def _patterns(given: ParsedQuery, expected: ParsedQuery) -> Iterator[str]:
    here, there = list(_written(given)), list(_written(expected))
    first, second = tree.projected(given.tree.body), tree.projected(expected.tree.body)
    names: dict[str, str] = {}
    if len(first) == len(second):
        names = {f"?{ours}": f"?{theirs}" for ours, theirs in zip(first, second, strict=True)}
    _pair(here, there, names)
    ours, theirs = Counter(each.renamed(names) for each in here), Counter(there)
    shorten = Prefixes(dict(expected.prefixes)).shorten
    yield from (f"missing {_shown(pattern, shorten)}" for pattern in theirs - ours)
    yield from (f"extra {_shown(pattern, shorten)}" for pattern in ours - theirs)


def _shown(pattern: Pattern, shorten: Callable[[str], str]) -> str:
    parts = (shorten(part[1:-1]) if part.startswith("<") and part.count("<") == 1 else part for part in pattern)
    return " ".join(part.replace("?+", "?") for part in parts)


def _pair(here: list[Pattern], there: list[Pattern], names: dict[str, str]) -> None:
    """Find which variables stand for each other: one pattern after the other, those with most in common first."""
    left_here, left_there = list(here), list(there)
    while True:
        fits = [
            (score, -at, -to, ours, theirs)
            for at, ours in enumerate(left_here)
            for to, theirs in enumerate(left_there)
            if (score := _fit(ours, theirs, names)) is not None
        ]
        if not fits:
            return
        # Of equals, those that come first in both queries, so that the same queries always differ alike.
        *_, ours, theirs = max(fits)
        left_here.remove(ours)
        left_there.remove(theirs)
        names.update((a, b) for a, b in zip(ours, theirs, strict=True) if a.startswith("?"))


def _fit(ours: Pattern, theirs: Pattern, names: dict[str, str]) -> int | None:
    """Return how many parts of two patterns are known to be the same; None where they can't be."""
    score, taken = 0, set(names.values())
    for a, b in zip(ours, theirs, strict=True):
        if a.startswith("?") and a not in names:
            if not b.startswith("?") or b in taken:
                return None
        elif names.get(a, a) != b:
            return None
        else:
            score += 1
    return score


# ---------------------------------------------------------------- triples as they are compared


def _written(query: ParsedQuery) -> Iterator[Pattern]:
    """Yield the triples of a query, wherever they stand; sequences of a path as triples of their own."""
    fresh = itertools.count()
    for triple in tree.triples(query.tree):
        yield from _steps(query, triple, fresh)


def _steps(query: ParsedQuery, triple: tree.Triple, fresh: Iterator[int]) -> Iterator[Pattern]:
    path = triple.predicate
    if isinstance(path, tree.Sequence):
        nodes: list[tree.Node] = [tree.Variable(f"/{next(fresh)}", -1) for _ in path.parts[1:]]
        ends = [triple.subject, *nodes, triple.object]
        for at, part in enumerate(path.parts):
            yield from _steps(query, tree.Triple(ends[at], part, ends[at + 1]), fresh)
    elif isinstance(path, tree.Inverse):
        yield from _steps(query, tree.Triple(triple.object, path.path, triple.subject), fresh)
    else:
        predicate = f"?{path.name}" if isinstance(path, tree.Variable) else _path(path)
        yield Pattern(_node(query, triple.subject), predicate, _node(query, triple.object))


def _node(query: ParsedQuery, node: tree.Node) -> str:
    match node:
        case tree.Variable():
            return f"?{node.name}"
        case tree.Blank():
            return f"?_{node.label}"
        case tree.Iri():
            return f"<{node.iri}>"
    return _value(query, node)


def _value(query: ParsedQuery, value: tree.Value) -> str:
    """Return a literal with its sign, its language or its datatype, its quotes alike."""
    at = query.places[value.offset]
    token, after = query.tokens[at], query.tokens[at + 1]
    if token.kind != "string":
        return value.text
    text = f'"{_inside(token)}"'
    if after.kind == "language":
        return text + after.text.lower()
    if not after.is_symbol("^^"):
        return text
    datatype = query.tokens[at + 2]
    return f"{text}^^{query.notes.iris.get(datatype.offset, datatype.text)}"


def _path(path: tree.Path) -> str:
    match path:
        case tree.PathStep():
            return f"<{path.iri.iri}>"
        case tree.Repeat():
            return f"({_path(path.path)}){path.sign}"
        case tree.Inverse():
            return f"^({_path(path.path)})"
        case tree.Sequence():
            return "/".join(map(_path, path.parts))
        case tree.Alternative():
            return "(" + "|".join(sorted(map(_path, path.parts))) + ")"
        case tree.Negation():
            return "!(" + "|".join(sorted(map(_path, path.parts))) + ")"
