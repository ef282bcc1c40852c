"""A query's pattern: its classes, properties and structure, with places to fill in where its data stood.

Nothing that a person could have put into the query as data gets through: literals and instances become places such as
«organism», variables are named after what they stand for, prefixes are those of the ontology, comments and layout go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from rbank_es.errors import QueryRefused
from rbank_es.ontology.prefixes import Prefixes, choose_prefixes, count_namespaces, local_name, namespace_of, words_of
from rbank_es.ontology.rdf_names import FORMAL, SKOS, TYPE, XSD
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
from rbank_es.sparql.parser.tokens import Token, tokenise
from rbank_es.tools.memory.query_format import laid_out
from rbank_es.tools.memory.query_roles import BELOW, TYPES, Piece, Reading, read

NAME_WORDS = 5
NAME_CHARS = 40
"""How much of a label or of a local name is used to name something: words, and characters."""

_VOCABULARIES = (*FORMAL, SKOS, XSD)
"""Namespaces that hold no instances."""

_FEATURES = {
    "FILTER": "filter",
    "OPTIONAL": "optional",
    "UNION": "union",
    "MINUS": "minus",
    "EXISTS": "exists",
    "VALUES": "values",
    "BIND": "bind",
    "GRAPH": "named graphs",
    "SERVICE": "service",
    "GROUP": "grouped",
    "HAVING": "having",
    "ORDER": "ordered",
    **dict.fromkeys(("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT"), "aggregate"),
}
_LINE_END = re.compile(r"\r\n|\r|\n")
_NOT_IN_A_VARIABLE = re.compile(r"[^a-z0-9]+")


class Terms:
    """What a schema knows about the terms of a query."""

    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema or Schema()
        self.classes: Mapping[str, ClassInfo] = {each.iri: each for each in self.schema.classes}
        self.properties: Mapping[str, PropertyInfo] = {each.iri: each for each in self.schema.properties}

    def has(self, iri: str) -> bool:
        """Whether an IRI is a term, and so no data."""
        return iri in self.classes or iri in self.properties or iri.startswith(_VOCABULARIES)

    def words(self, iri: str) -> str:
        """What a term is called, in lower case: by its label, else by its local name."""
        known = self.classes.get(iri) or self.properties.get(iri)
        found = words_of(known.label) if known is not None else []
        found = found or words_of(local_name(iri))
        return " ".join(found[:NAME_WORDS])[:NAME_CHARS].strip() or "thing"


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """A query without its data.

    `classes`, `properties` and `given` (properties whose object is a place to fill in) are IRIs in order of their
    first use; `unknown` are prefixed names that nobody can expand. `variables`: the name here of each variable of the
    query. `prefixes`: those that the text uses. `features`: what the query is made with, such as `optional`. `data`:
    what was left out, as it stood in the query.
    """

    text: str
    form: str
    classes: tuple[str, ...]
    properties: tuple[str, ...]
    given: tuple[str, ...]
    unknown: tuple[str, ...]
    variables: Mapping[str, str]
    prefixes: Prefixes
    features: tuple[str, ...]
    data: frozenset[str]


def generalise(query: str, prefixes: Mapping[str, str], terms: Terms, *, broken: bool = False) -> Pattern | None:
    """The pattern of a query; None for a text that is no query. `prefixes` are those of the ontology.

    With `broken`, a query that can't be read to its end is taken as far as it can be read.
    """
    tokens = _tokens(query, broken=broken)
    if tokens is None:
        return None
    reading = read(tokens, prefixes)
    return _Generalising(reading, prefixes, terms).pattern() if reading.form else None


def _tokens(query: str, *, broken: bool) -> Sequence[Token] | None:
    try:
        return tokenise(query)
    except QueryRefused as error:
        if not broken or error.line is None or error.column is None:
            return None
        starts = [0, *(match.end() for match in _LINE_END.finditer(query))]
        return _tokens(query[: starts[error.line - 1] + error.column - 1], broken=False)


class _Generalising:
    """One query on its way to a pattern."""

    def __init__(self, reading: Reading, prefixes: Mapping[str, str], terms: Terms) -> None:
        self._reading = reading
        self._terms = terms
        self._names = _Names()
        kept = [piece.text for piece in reading.pieces if piece.kind == "iri" and piece.known and self._is_kept(piece)]
        self._shown = Prefixes(
            choose_prefixes(
                (),
                count_namespaces(kept, prefixes.values()),
                preferred=prefixes.items(),
                vocabulary=set(map(namespace_of, kept)),
            )
        )

    def pattern(self) -> Pattern:
        pieces = self._without_limit()
        shown = [(piece, self._text_of(piece)) for piece in pieces]
        text = laid_out(_without_repeats(shown))
        used = {prefix for piece in pieces if self._is_kept(piece) for prefix in self._prefix_of(piece)}
        return Pattern(
            text=text,
            form=self._reading.form,
            classes=self._classes(),
            properties=self._properties(),
            given=_distinct(piece.verb for piece in pieces if piece.verb and self._is_data(piece)),
            unknown=_distinct(piece.text for piece in pieces if not piece.known and self._is_kept(piece)),
            variables=self._names.variables,
            prefixes=Prefixes({prefix: self._shown[prefix] for prefix in used}),
            features=self._features(),
            data=frozenset(piece.text for piece in pieces if self._is_data(piece)),
        )

    # ------------------------------------------------ what stays

    def _is_kept(self, piece: Piece) -> bool:
        if piece.kind != "iri":
            return False
        if piece.role in ("property", "class", "function"):
            return True
        return piece.known and (self._terms.has(piece.text) or piece.text in self._terms.schema.graphs)

    def _is_data(self, piece: Piece) -> bool:
        return piece.kind == "literal" or (piece.kind == "iri" and not self._is_kept(piece))

    def _without_limit(self) -> list[Piece]:
        """Of an answer without an order, how much was asked for says nothing."""
        return [piece for piece in self._reading.pieces if self._reading.ordered or piece.role != "limit"]

    def _classes(self) -> tuple[str, ...]:
        iris = (piece for piece in self._reading.pieces if piece.kind == "iri" and piece.known)
        return _distinct(piece.text for piece in iris if piece.role == "class" or piece.text in self._terms.classes)

    def _properties(self) -> tuple[str, ...]:
        verbs = [piece.text for piece in self._reading.pieces if piece.role == "property" and piece.known]
        left_out = TYPES | BELOW if TYPES & set(verbs) else TYPES
        return _distinct(verb for verb in verbs if verb not in left_out)

    def _features(self) -> tuple[str, ...]:
        words = [piece.text for piece in self._reading.pieces if piece.kind == "word"]
        found = [_FEATURES[word] for word in words if word in _FEATURES]
        found += ["subquery"] if words.count("SELECT") > 1 else []
        found += ["property path"] if any(piece.role == "path" for piece in self._reading.pieces) else []
        return tuple(sorted(set(found)))

    # ------------------------------------------------ what is shown

    def _text_of(self, piece: Piece) -> str:
        if piece.kind == "variable":
            return "?" + self._names.of_variable(piece.text, self._base_of(piece.text))
        if piece.kind == "blank":
            return "_:" + self._names.of_blank(piece.text)
        if self._is_data(piece):
            return self._place_of(piece)
        if piece.kind != "iri":
            return piece.text
        if piece.role == "property" and piece.text == TYPE:
            return "a"
        return self._shown.shorten(piece.text) if piece.known else piece.text

    def _base_of(self, variable: str) -> str:
        """What a variable stands for, in words."""
        told = self._reading.typed.get(variable) or self._reading.reached.get(variable)
        words = self._terms.words(told) if told else self._reading.computed.get(variable, "thing").lower()
        first, *rest = _NOT_IN_A_VARIABLE.sub(" ", words).split() or ["thing"]
        return first + "".join(word.capitalize() for word in rest)

    def _place_of(self, piece: Piece) -> str:
        if piece.role in ("value", "limit", "graph"):
            return {"value": "«value»", "limit": "«count»", "graph": "«graph»"}[piece.role]
        if piece.kind == "literal":
            return self._names.of_literal(piece.value)
        return self._names.of_instance(piece.text, self._terms.words(piece.verb) if piece.verb else "thing")

    def _prefix_of(self, piece: Piece) -> Iterator[str]:
        prefix, colon, _ = self._text_of(piece).partition(":")
        if colon and prefix in self._shown and piece.known:
            yield prefix


class _Names:
    """Names that are given out once each: «text», «text 2», and so on."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self._blanks: dict[str, str] = {}
        self._instances: dict[str, str] = {}
        self._taken: dict[str, int] = {}

    def of_variable(self, variable: str, base: str) -> str:
        """The name of a variable, without its mark."""
        if variable not in self.variables:
            self.variables[variable] = self._fresh(f"?{base}", "")[1:]
        return self.variables[variable]

    def of_blank(self, label: str) -> str:
        """The label of a blank node."""
        return self._blanks.setdefault(label, f"b{len(self._blanks) + 1}")

    def of_literal(self, kind: str) -> str:
        """A place for a literal; each one has its own, so that nothing tells whether two of them were the same."""
        return f"«{self._fresh(kind, ' ')}»"

    def of_instance(self, iri: str, base: str) -> str:
        """A place for an instance, the same wherever it stands."""
        if iri not in self._instances:
            self._instances[iri] = f"«{self._fresh(base, ' ')}»"
        return self._instances[iri]

    def _fresh(self, base: str, blank: str) -> str:
        self._taken[base] = self._taken.get(base, 0) + 1
        return base if self._taken[base] == 1 else f"{base}{blank}{self._taken[base]}"


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _without_repeats(shown: Sequence[tuple[Piece, str]]) -> list[tuple[Piece, str]]:
    """Of rows of VALUES that look the same now, one after the other, only the first: how many there were is data."""
    done: list[tuple[Piece, str]] = []
    row: list[str] = []
    before: list[str] = []
    start = 0
    for piece, text in shown:
        done.append((piece, text))
        if piece.role != "value" or text in ("{", "}"):
            before = []
        elif text == "(":
            row, start = [text], len(done) - 1
        elif row and text != ")":
            row.append(text)
        else:
            row, start = ([*row, text], start) if row else ([text], len(done) - 1)
            if row == before:
                del done[start:]
            before, row = row, []
    return done
