"""A generalised query: its classes, properties and structure, with placeholders instead of its data.

No data that a person could have put into the query is kept. Literals and instances become placeholders such as
«organism», and variables are named after their classes or properties. Prefixes are those of the ontology; comments and
layout are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from rbank_es.limits import tool_limits
from rbank_es.ontology.prefixes import Prefixes, choose_prefixes, count_namespaces, local_name, namespace_of
from rbank_es.ontology.rdf_names import FORMAL, NUMBERS, SKOS, SUBCLASS, TYPE, XSD
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.parsed_query import ParsedQuery
from rbank_es.sparql.parser.tokens import Token
from rbank_es.text.spelled_words import apart, runs_of

TYPES = frozenset({TYPE, "http://www.wikidata.org/prop/direct/P31"})
"""Properties that lead from a thing to its class."""

BELOW = frozenset({SUBCLASS, "http://www.wikidata.org/prop/direct/P279"})
"""Properties that lead on from there. Alone, they lead from an instance to an instance in some data (taxonomies)."""

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
    **dict.fromkeys(tree.AGGREGATES, "aggregate"),
}
_VALUE_KINDS = {
    **dict.fromkeys(NUMBERS, "number"),
    **{XSD + name: name for name in ("boolean", "date", "dateTime", "time", "gYear", "gYearMonth", "duration")},
    XSD + "string": "text",
    XSD + "anyURI": "address",
}
_NOT_IN_A_VARIABLE = re.compile(r"[^a-z0-9]+")


class Terms:
    """The facts of a schema about the terms of a query."""

    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema or Schema()
        self.classes: Mapping[str, ClassInfo] = {each.iri: each for each in self.schema.classes}
        self.properties: Mapping[str, PropertyInfo] = {each.iri: each for each in self.schema.properties}

    def has(self, iri: str) -> bool:
        """Return whether an IRI is a term, and so no data."""
        return iri in self.classes or iri in self.properties or iri.startswith(_VOCABULARIES)

    def words(self, iri: str) -> str:
        """Return the name of a term in lower case: its label, else its local name."""
        known = self.classes.get(iri) or self.properties.get(iri)
        found = runs_of(apart(known.label)) if known is not None else []
        found = found or runs_of(apart(local_name(iri)))
        return " ".join(found[: tool_limits.PATTERN_NAME_WORDS])[: tool_limits.PATTERN_NAME_CHARS].strip() or "thing"


class GeneralisedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query without its data.

    `classes`, `properties` and `given` (properties whose object is a place to fill in) are IRIs in order of their
    first use; `unknown` are prefixed names that nobody can expand. `variables`: the name here of each variable of the
    query. `prefixes`: those that the text uses. `features`: parts of the language such as `optional`. `data`: the
    literals and IRIs that were left out, as they stood in the query.
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


def generalise(query: ParsedQuery, prefixes: Mapping[str, str], terms: Terms) -> GeneralisedQuery:
    """Return the pattern of a query. `prefixes` are those of the ontology."""
    return _Generaliser(query, prefixes, terms).pattern()


# ---------------------------------------------------------------- pieces


@dataclass(slots=True)
class _Piece:
    """A token, or a literal with its sign, language or datatype.

    `text` is its meaning: a word in capitals, a full IRI, a name without its mark. `value` is the kind of a literal,
    `verb` the IRI of the property that leads to it.
    """

    kind: Literal["iri", "variable", "literal", "blank", "word", "symbol"]
    text: str
    role: Literal["", "property", "class", "path", "function", "datatype", "graph", "value", "slice"] = ""
    value: str = ""
    verb: str = ""
    known: bool = True
    """False for a prefixed name whose prefix nobody knows; `text` is the name then."""


@dataclass(slots=True)
class _Uses:
    """The facts that the triples and names of a query give about its variables and its terms."""

    typed: dict[str, str] = field(default_factory=dict)
    """The class of a variable."""
    reached: dict[str, str] = field(default_factory=dict)
    """The property that leads to a variable."""
    computed: dict[str, str] = field(default_factory=dict)
    """The function whose value a variable has, or `property`, or `graph`."""
    classes: set[int] = field(default_factory=set)
    verbs: dict[int, str] = field(default_factory=dict)


def _uses(query: tree.Query) -> _Uses:
    uses = _Uses()
    template = query.template.elements if query.template else ()
    triples = [*(each for each in template if isinstance(each, tree.Triple)), *tree.triples(query)]
    lists: dict[int, list[str]] = {}
    # In the order of the text, whatever groups they stand in: the first use of a variable names it.
    for triple in sorted(triples, key=lambda triple: triple.object.offset):
        _note_triple(triple, uses, lists)
    for _, name, word in sorted(_computed(query)):
        uses.computed.setdefault(name, word)
    return uses


def _note_triple(triple: tree.Triple, uses: _Uses, lists: dict[int, list[str]]) -> None:
    """Record the use of a triple's object. `lists` has the properties that lead to each list, by the list's offset."""
    subject, path, node = triple
    if isinstance(path, tree.Variable):
        return
    verbs = [step.iri for step in tree.steps(path)]
    # The cells of a list are blank nodes of the parser: their elements belong to the property that leads to the list.
    if isinstance(subject, tree.Blank) and "." in subject.label and not subject.label.startswith("_:"):
        if isinstance(path, tree.PathStep) and path.iri.iri.endswith("rest"):
            return
        verbs = lists.get(subject.offset, [])
    if isinstance(node, tree.Blank):
        lists[node.offset] = verbs
    elif isinstance(node, tree.Iri) and verbs and verbs[0] in TYPES and set(verbs) <= TYPES | BELOW:
        uses.classes.add(node.offset)
        if isinstance(subject, tree.Variable):
            uses.typed.setdefault(subject.name, node.iri)
    elif verbs:
        uses.verbs[node.offset] = verbs[-1]
        if isinstance(node, tree.Variable):
            uses.reached.setdefault(node.name, verbs[-1])


def _computed(query: tree.Query) -> Iterator[tuple[int, str, str]]:
    """Yield offset, name and word for every variable that is no plain subject or object."""
    for element in tree.elements(query):
        match element:
            case tree.Bind(expression, variable):
                yield variable.offset, variable.name, _function(expression)
            case tree.Nested(graph=tree.Variable(name, offset)):
                yield offset, name, "graph"
            case tree.Triple(predicate=tree.Variable(name, offset)):
                yield offset, name, "property"
    for selection in tree.selections(query):
        for column in selection.columns:
            if column.expression is not None:
                yield column.variable.offset, column.variable.name, _function(column.expression)
        for each in selection.grouping:
            if (
                isinstance(each, tree.FunctionCall)
                and each.name == "AS"
                and isinstance(each.arguments[1], tree.Variable)
            ):
                yield each.arguments[1].offset, each.arguments[1].name, _function(each.arguments[0])


def _function(expression: tree.Expression) -> str:
    """Return the first function of an expression in capitals; empty where operators alone make it."""
    if isinstance(expression, tree.Exists):
        return "NOT" if expression.negated else "EXISTS"
    words = (call.name for call in tree.calls(expression))
    return next((word.partition(" ")[0] for word in words if word[0].isalpha() and word.isupper()), "")


def _pieces(query: ParsedQuery, uses: _Uses) -> Iterator[_Piece]:
    """Yield the pieces behind the prologue, each with its role; dots stand between statements alone."""
    notes, sign, at = query.notes, -1, 0
    words = query.words
    while at < len(words):
        token = words[at]
        # Dots come from the statements, not from the text: a dot before `}` or a FILTER may stand or be missing.
        if token.offset in notes.breaks:
            yield _Piece("symbol", ".")
        if token.offset in notes.idle:
            sign = token.offset
            at += 1
            continue
        piece, length = _literal(query, words[at : at + 3]) if token.kind == "string" else (_piece(query, token), 1)
        offset = sign if at and words[at - 1].offset == sign else token.offset
        piece.role = notes.roles.get(token.offset, "") if piece.kind != "word" or piece.text in _SLICES else ""
        piece.role = "class" if offset in uses.classes else piece.role
        piece.verb = uses.verbs.get(offset, "")
        yield piece
        at += length


_SLICES = ("LIMIT", "OFFSET")


def _piece(query: ParsedQuery, token: Token) -> _Piece:
    if token.kind in ("iri", "name"):
        iri = query.notes.iris.get(token.offset)
        return _Piece("iri", token.text, known=False) if iri is None else _Piece("iri", iri)
    if token.text == "a" and query.notes.roles.get(token.offset) == "property":
        return _Piece("iri", TYPE)
    if token.kind == "variable":
        return _Piece("variable", token.text[1:])
    if token.kind == "blank":
        return _Piece("blank", token.text[2:])
    if token.kind == "number":
        return _Piece("literal", token.text, value="number")
    if token.keyword in ("TRUE", "FALSE"):
        return _Piece("literal", token.keyword, value="boolean")
    return _Piece("symbol", token.text) if token.kind in ("symbol", "language") else _Piece("word", token.keyword)


def _literal(query: ParsedQuery, tokens: Sequence[Token]) -> tuple[_Piece, int]:
    """Return the literal that begins with a string, and how many tokens it has."""
    text, following = tokens[0].text, tokens[1:]
    if following and following[0].kind == "language":
        return _Piece("literal", text + following[0].text, value="text with language"), 2
    if len(following) == 2 and following[0].is_symbol("^^") and following[1].kind in ("iri", "name"):
        datatype = query.notes.iris.get(following[1].offset, following[1].text)
        return _Piece("literal", f"{text}^^{datatype}", value=_VALUE_KINDS.get(datatype, "typed value")), 3
    return _Piece("literal", text, value="text"), 1


# ---------------------------------------------------------------- the pattern


class _Generaliser:
    """A query on its way to a pattern."""

    def __init__(self, query: ParsedQuery, prefixes: Mapping[str, str], terms: Terms) -> None:
        self._tree = query.tree
        self._uses = _uses(query.tree)
        self._pieces = list(_pieces(query, self._uses))
        self._terms = terms
        self._names = _Names()
        # Prefixes of data would name what the pattern leaves out.
        kept = [piece.text for piece in self._pieces if piece.kind == "iri" and piece.known and self._is_kept(piece)]
        self._shown = Prefixes(
            choose_prefixes(
                (),
                count_namespaces(kept, prefixes.values()),
                preferred=prefixes.items(),
                vocabulary=set(map(namespace_of, kept)),
            )
        )

    def pattern(self) -> GeneralisedQuery:
        # Without an order, how many rows were asked for says nothing.
        pieces = [piece for piece in self._pieces if self._tree.body.ordered or piece.role != "slice"]
        text = laid_out(_without_repeats([(piece, self._text_of(piece)) for piece in pieces]))
        used = {prefix for piece in pieces if self._is_kept(piece) for prefix in self._prefix_of(piece)}
        return GeneralisedQuery(
            text=text,
            form=self._tree.form.upper(),
            classes=self._classes(),
            properties=self._properties(),
            given=_distinct(piece.verb for piece in pieces if piece.verb and self._is_data(piece)),
            unknown=_distinct(piece.text for piece in pieces if not piece.known and self._is_kept(piece)),
            variables=self._names.variables,
            prefixes=Prefixes({prefix: self._shown[prefix] for prefix in used}),
            features=self._features(),
            data=frozenset(piece.text for piece in pieces if self._is_data(piece)),
        )

    def _is_kept(self, piece: _Piece) -> bool:
        if piece.kind != "iri":
            return False
        if piece.role in ("property", "class", "function"):
            return True
        return piece.known and (self._terms.has(piece.text) or piece.text in self._terms.schema.graphs)

    def _is_data(self, piece: _Piece) -> bool:
        return piece.kind == "literal" or (piece.kind == "iri" and not self._is_kept(piece))

    def _classes(self) -> tuple[str, ...]:
        iris = (piece for piece in self._pieces if piece.kind == "iri" and piece.known)
        return _distinct(piece.text for piece in iris if piece.role == "class" or piece.text in self._terms.classes)

    def _properties(self) -> tuple[str, ...]:
        verbs = [piece.text for piece in self._pieces if piece.role == "property" and piece.known]
        # Beside a type, a path over subclasses is part of it; alone, it may be what the query asks for.
        left_out = TYPES | BELOW if TYPES & set(verbs) else TYPES
        return _distinct(verb for verb in verbs if verb not in left_out)

    def _features(self) -> tuple[str, ...]:
        words = [piece.text for piece in self._pieces if piece.kind == "word"]
        found = [_FEATURES[word] for word in words if word in _FEATURES]
        found += ["subquery"] if words.count("SELECT") > 1 else []
        found += ["property path"] if any(piece.role == "path" for piece in self._pieces) else []
        return tuple(sorted(set(found)))

    def _text_of(self, piece: _Piece) -> str:
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
        """Return a name for what a variable stands for."""
        term = self._uses.typed.get(variable) or self._uses.reached.get(variable)
        words = self._terms.words(term) if term else self._uses.computed.get(variable, "thing").lower()
        first, *rest = _NOT_IN_A_VARIABLE.sub(" ", words).split() or ["thing"]
        return first + "".join(word.capitalize() for word in rest)

    def _place_of(self, piece: _Piece) -> str:
        if piece.role in ("value", "slice", "graph"):
            return {"value": "«value»", "slice": "«count»", "graph": "«graph»"}[piece.role]
        if piece.kind == "literal":
            return self._names.of_literal(piece.value)
        return self._names.of_instance(piece.text, self._terms.words(piece.verb) if piece.verb else "thing")

    def _prefix_of(self, piece: _Piece) -> Iterator[str]:
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
        """Return the name of a variable, without its mark."""
        if variable not in self.variables:
            self.variables[variable] = self._fresh(f"?{base}", "")[1:]
        return self.variables[variable]

    def of_blank(self, label: str) -> str:
        """Return the label of a blank node."""
        return self._blanks.setdefault(label, f"b{len(self._blanks) + 1}")

    def of_literal(self, kind: str) -> str:
        """Return a place for a literal: each has its own, and nothing tells whether two were the same."""
        return f"«{self._fresh(kind, ' ')}»"

    def of_instance(self, iri: str, base: str) -> str:
        """Return a place for an instance, the same wherever it stands."""
        if iri not in self._instances:
            self._instances[iri] = f"«{self._fresh(base, ' ')}»"
        return self._instances[iri]

    def _fresh(self, base: str, blank: str) -> str:
        self._taken[base] = self._taken.get(base, 0) + 1
        return base if self._taken[base] == 1 else f"{base}{blank}{self._taken[base]}"


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _without_repeats(shown: Sequence[tuple[_Piece, str]]) -> list[tuple[_Piece, str]]:
    """Return pieces with one row of VALUES instead of several that now look the same: how many there were is data."""
    done: list[tuple[_Piece, str]] = []
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


# ---------------------------------------------------------------- layout

_APART = frozenset({"SELECT", "DISTINCT", "REDUCED", "BY", "VALUES", "IN", "AS", "WHERE", "NOT", "EXISTS", "HAVING"})
"""Words that stand apart from a bracket after them; all others are functions, or read well as one."""

INDENT = "  "

LINE_CHARS = 100
"""A group of one line that fits into this many characters, braces included, stays on its line."""


def laid_out(pieces: Sequence[tuple[_Piece, str]]) -> str:
    """Return the text of a query, one triple a line: of each piece the text that is given with it."""
    lines: list[str] = [""]
    depth = nodes = 0
    previous: tuple[_Piece, str] | None = None
    for piece, text in pieces:
        mark = text if piece.kind == "symbol" else ""
        nodes += (mark == "[") - (mark == "]")
        ends = mark == "}" and piece.role != "value"
        if ends:
            depth = max(0, depth - 1)
            _break(lines, depth)
        glued = not lines[-1].strip() or _is_glued(previous, piece, text)
        lines[-1] += text if glued else f" {text}"
        if ends:
            _join(lines)
        depth += mark == "{" and piece.role != "value"
        if mark == "}" or (mark == "{" and piece.role != "value") or (mark in (".", ";") and nodes <= 0):
            _break(lines, depth + (mark == ";"))
        previous = (piece, text)
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _break(lines: list[str], depth: int) -> None:
    if lines[-1].strip():
        lines.append(INDENT * depth)
    else:
        lines[-1] = INDENT * depth


def _join(lines: list[str]) -> None:
    """Put a group of one line on the line where it opens."""
    if len(lines) < 3 or not lines[-3].endswith("{") or "{" in lines[-2]:
        return
    joined = f"{lines[-3]} {lines[-2].strip()} {lines[-1].strip()}"
    if len(joined) <= LINE_CHARS:
        lines[-3:] = [joined]


def _is_glued(previous: tuple[_Piece, str] | None, piece: _Piece, text: str) -> bool:
    """Return whether a piece follows the one before it without a blank."""
    if previous is None:
        return True
    before, written = previous
    if piece.kind == "symbol" and (text in (")", "]", ",") or (piece.role == "path" and text not in ("^", "!", "("))):
        return True
    if before.kind == "symbol" and (written in ("(", "[", "!") or (before.role == "path" and written in "/|^!")):
        return True
    if piece.kind == "symbol" and text == "(":
        return before.role == "function" or (before.kind == "word" and written not in _APART)
    return False
