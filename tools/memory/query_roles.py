"""What each part of a SPARQL query is there for: property, class, function, graph, listed value, or plain term.

The reader walks over tokens and keeps track of where in a triple it stands. It takes any token sequence: a query that
no engine would parse gets roles too, as far as they can be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urljoin

from rbank_es.ontology.prefixes import WELL_KNOWN
from rbank_es.ontology.rdf_names import SUBCLASS, TYPE, XSD
from rbank_es.sparql.parser.tokens import Token

Kind = Literal["iri", "variable", "literal", "blank", "word", "symbol"]
Role = Literal["", "property", "class", "function", "graph", "value", "object", "path", "limit"]

TYPES = frozenset({TYPE, "http://www.wikidata.org/prop/direct/P31"})
"""Properties that lead from a thing to its class."""

BELOW = frozenset({SUBCLASS, "http://www.wikidata.org/prop/direct/P279"})
"""Properties that lead on from there. Alone, they lead from an instance to an instance in some data (taxonomies)."""

_NUMERIC = (
    "integer decimal double float int long short byte nonNegativeInteger positiveInteger nonPositiveInteger "
    "negativeInteger unsignedLong unsignedInt unsignedShort unsignedByte"
)
_NUMBERS = frozenset(XSD + name for name in _NUMERIC.split())
_KINDS = {
    **dict.fromkeys(_NUMBERS, "number"),
    **{XSD + name: name for name in ("boolean", "date", "dateTime", "time", "gYear", "gYearMonth", "duration")},
    XSD + "string": "text",
    XSD + "anyURI": "address",
}
_OPERANDS = frozenset({"number", "variable", "string", "language"})
_CODE_POINT = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_FORMS = frozenset({"SELECT", "ASK", "CONSTRUCT", "DESCRIBE"})


@dataclass(slots=True)
class Piece:
    """A token, or a literal with its language or datatype.

    `text` is what it means: a word in capitals, a full IRI, a name without its mark. `value` says what kind of value a
    literal is, `verb` is the IRI of the property whose object this is.
    """

    kind: Kind
    text: str
    role: Role = ""
    value: str = ""
    verb: str = ""
    known: bool = True
    """False for a prefixed name whose prefix nobody knows; `text` is the name then."""


@dataclass(slots=True)
class Reading:
    """The pieces of a query, without its prologue and without full stops that mean nothing.

    By variable: `typed` is the class that it is said to have, `reached` the property that it is an object of,
    `computed` what else it stands for:
    the function that it is the value of, a property, a graph. `ordered`: whether the whole answer is in an order.
    """

    form: str = ""
    pieces: list[Piece] = field(default_factory=list)
    typed: dict[str, str] = field(default_factory=dict)
    reached: dict[str, str] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)
    ordered: bool = False


def read(tokens: Sequence[Token], prefixes: Mapping[str, str]) -> Reading:
    """The pieces of a query, each with its role. `prefixes` are those known beside the query's own."""
    start, declared, base = _prologue(tokens)
    known = {**WELL_KNOWN, **prefixes, **declared}
    pieces = list(_pieces(tokens[start:], known, base))
    return _Reader(pieces).read()


# ---------------------------------------------------------------- pieces


def _prologue(tokens: Sequence[Token]) -> tuple[int, dict[str, str], str]:
    """Where the query begins, its own prefixes, and its base."""
    at, declared, base = 0, {}, ""
    while at < len(tokens):
        if tokens[at].keyword == "PREFIX" and [token.kind for token in tokens[at + 1 : at + 3]] == ["name", "iri"]:
            declared[tokens[at + 1].text.partition(":")[0]] = urljoin(base, _iri(tokens[at + 2].text))
            at += 3
        elif tokens[at].keyword == "BASE" and [token.kind for token in tokens[at + 1 : at + 2]] == ["iri"]:
            base = urljoin(base, _iri(tokens[at + 1].text))
            at += 2
        else:
            break
    return at, declared, base


def _iri(text: str) -> str:
    return _CODE_POINT.sub(_character, text[1:-1])


def _character(match: re.Match[str]) -> str:
    code = int(match[1] or match[2], 16)
    return chr(code) if code < 0x110000 else "\ufffd"


def _pieces(tokens: Sequence[Token], prefixes: Mapping[str, str], base: str) -> Iterator[Piece]:
    at = 0
    while at < len(tokens) and tokens[at].kind != "end":
        token = tokens[at]
        if token.kind == "string":
            piece, at = _literal(tokens, at, prefixes)
            yield piece
            continue
        if not _is_sign(tokens, at):
            yield _piece(token, prefixes, base)
        at += 1


def _is_sign(tokens: Sequence[Token], at: int) -> bool:
    """Whether a mark is the sign of a number, and no operator."""
    sign, number, before = tokens[at], tokens[at + 1], tokens[at - 1] if at else None
    if not sign.is_symbol("+", "-") or number.kind != "number" or number.between:
        return False
    operator = before is not None and (before.kind in _OPERANDS or before.is_symbol(")"))
    return not operator and (sign.text == "-" or bool(sign.between))


def _piece(token: Token, prefixes: Mapping[str, str], base: str) -> Piece:
    if token.kind == "iri":
        return Piece("iri", urljoin(base, _iri(token.text)))
    if token.kind == "name":
        return _named(token.text, prefixes)
    if token.kind == "variable":
        return Piece("variable", token.text[1:])
    if token.kind == "blank":
        return Piece("blank", token.text[2:])
    if token.kind == "number":
        return Piece("literal", token.text, value="number")
    if token.keyword in ("TRUE", "FALSE"):
        return Piece("literal", token.keyword, value="boolean")
    return Piece("symbol", token.text) if token.kind in ("symbol", "language") else Piece("word", token.keyword)


def _named(text: str, prefixes: Mapping[str, str]) -> Piece:
    prefix, _, local = text.partition(":")
    if prefix not in prefixes:
        return Piece("iri", text, known=False)
    return Piece("iri", prefixes[prefix] + re.sub(r"\\(.)", r"\1", local))


def _literal(tokens: Sequence[Token], at: int, prefixes: Mapping[str, str]) -> tuple[Piece, int]:
    """The literal that begins with a string, and where it ends."""
    text, following = tokens[at].text, tokens[at + 1 :][:2]
    if following and following[0].kind == "language":
        return Piece("literal", text + following[0].text, value="text with language"), at + 2
    if len(following) == 2 and following[0].is_symbol("^^") and following[1].kind in ("iri", "name"):
        datatype = _piece(following[1], prefixes, "").text
        return Piece("literal", f"{text}^^{datatype}", value=_kind_of(datatype)), at + 3
    return Piece("literal", text, value="text"), at + 1


def _kind_of(datatype: str) -> str:
    return _KINDS.get(datatype, "typed value")


# ---------------------------------------------------------------- roles


@dataclass(slots=True)
class _Frame:
    """A bracket that is open. `place` is where in a triple, or in which clause, the reader stands."""

    kind: Literal["clauses", "group", "node", "list", "path", "expression", "values"]
    place: Literal["subject", "verb", "object", "after", "constraint", "graph", "values"] = "subject"
    subject: str = ""
    """The variable that the triples are about."""
    verbs: list[str] = field(default_factory=list)
    ended: bool = False
    """A triple has ended; whatever follows is parted from it by a full stop."""
    word: str = ""
    function: str = ""
    """The last word of an expression or a clause, and the first."""


class _Reader:
    """Walks over pieces once, with a stack of open brackets."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._given = pieces
        self._done = Reading()
        self._stack = [_Frame("clauses")]

    def read(self) -> Reading:
        for at, piece in enumerate(self._given):
            following = self._given[at + 1] if at + 1 < len(self._given) else Piece("symbol", "}")
            if self._is_idle(piece, following):
                continue
            self._part(piece)
            if piece.kind == "symbol":
                self._symbol(piece)
            elif piece.kind == "word":
                self._word(piece)
            else:
                self._term(piece, following)
            self._done.pieces.append(piece)
        return self._done

    # ------------------------------------------------ full stops and semicolons

    def _is_idle(self, piece: Piece, following: Piece) -> bool:
        """Whether the piece says nothing. What parts triples is set anew by `_part` where it is needed."""
        frame = self._stack[-1]
        if piece.kind == "symbol" and piece.text in ("+", "-") and frame.kind in ("values", "list"):
            return True  # the sign of a number
        if piece.kind != "symbol" or frame.kind not in ("group", "node"):
            return False
        if piece.text == "." and frame.kind == "group":
            frame.ended = frame.ended or frame.place in ("after", "verb")
            frame.place = "subject"
            return True
        if piece.text != ";":
            return False
        return following.text in (".", ";", "}", "]") or (following.kind == "word" and following.text != "A")

    def _part(self, piece: Piece) -> None:
        frame = self._stack[-1]
        if frame.kind != "group" or piece.text == "}":
            return
        if frame.place == "after" and (piece.kind == "word" or piece.text == "{"):
            frame.place, frame.ended = "subject", True
        if frame.place == "subject" and frame.ended:
            self._done.pieces.append(Piece("symbol", "."))
            frame.ended = False

    # ------------------------------------------------ brackets and other marks

    def _symbol(self, piece: Piece) -> None:
        frame, mark = self._stack[-1], piece.text
        if mark in ("{", "(", "["):
            self._open(mark, frame)
            piece.role = "value" if self._stack[-1].kind == "values" else ""
        elif mark in ("}", ")", "]"):
            piece.role = "value" if frame.kind == "values" else ""
            self._close(mark)
        elif mark == "," and frame.place == "after":
            frame.place = "object"
        elif mark == ";" and frame.place == "after":
            frame.place, frame.verbs = "verb", []
        elif frame.kind == "path" or (frame.kind in ("group", "node") and frame.place in ("verb", "object")):
            piece.role = "path"
            if mark in ("/", "|") and frame.kind != "path":
                frame.place = "verb"

    def _open(self, mark: str, frame: _Frame) -> None:
        if mark == "{":
            self._stack.append(_Frame("values" if frame.place == "values" else "group"))
            frame.place = "subject"
        elif mark == "[":
            self._stack.append(_Frame("node", "verb"))
        elif frame.kind == "path" or (frame.kind in ("group", "node") and frame.place == "verb"):
            self._stack.append(_Frame("path"))
        elif frame.kind == "list" or (frame.kind in ("group", "node") and frame.place in ("subject", "object")):
            self._stack.append(_Frame("list", verbs=frame.verbs))
        elif frame.kind != "values":
            self._stack.append(_Frame("expression"))

    def _close(self, mark: str) -> None:
        frame = self._stack[-1]
        if len(self._stack) == 1 or (mark == ")" and frame.kind == "values"):
            return
        self._stack.pop()
        outer = self._stack[-1]
        if frame.kind == "path" and outer.kind in ("group", "node", "path"):
            outer.verbs += frame.verbs
            outer.place = "object"
        elif frame.kind in ("list", "node") and outer.kind in ("group", "node"):
            outer.place = "verb" if outer.place == "subject" else "after"
        elif outer.place == "constraint" or mark == "}":
            outer.place = "subject"

    # ------------------------------------------------ words

    def _word(self, piece: Piece) -> None:
        frame, word = self._stack[-1], piece.text
        frame.word = word
        frame.function = frame.function or ("" if word == "AS" else word)
        if frame.kind == "path" or (frame.kind in ("group", "node") and frame.place == "verb"):
            if word == "A":
                piece.kind, piece.text = "iri", TYPE
                self._verb(piece, frame)
        elif frame.kind == "group":
            self._word_of_group(frame, word)
        elif frame.kind == "clauses":
            self._word_of_clauses(piece, frame)

    def _word_of_group(self, frame: _Frame, word: str) -> None:
        if word == "SELECT":
            frame.kind = "clauses"
        elif word in ("FILTER", "BIND"):
            frame.place = "constraint"
        elif word in ("GRAPH", "SERVICE"):
            frame.place = "graph"
        elif word == "VALUES":
            frame.place = "values"

    def _word_of_clauses(self, piece: Piece, frame: _Frame) -> None:
        outermost = len(self._stack) == 1
        if piece.text == "VALUES":
            frame.place = "values"
        elif outermost and piece.text in ("LIMIT", "OFFSET"):
            piece.role = "limit"
        elif outermost and piece.text in _FORMS:
            self._done.form = self._done.form or piece.text
        elif outermost and piece.text == "ORDER":
            self._done.ordered = True

    # ------------------------------------------------ terms

    def _term(self, piece: Piece, following: Piece) -> None:
        frame = self._stack[-1]
        calls = piece.kind == "iri" and following.kind == "symbol" and following.text == "("
        if calls and (frame.kind in ("expression", "clauses") or frame.place == "constraint"):
            piece.role = "function"
        elif frame.kind in ("group", "node"):
            self._term_of_triple(piece, frame)
        elif frame.kind == "path":
            self._verb(piece, frame)
        elif frame.kind == "list":
            self._object(piece, frame)
        elif frame.kind == "values":
            piece.role = "value"
        elif frame.word == "AS" and piece.kind == "variable":
            self._done.computed.setdefault(piece.text, frame.function)
        elif frame.kind == "clauses" and frame.word in ("FROM", "NAMED"):
            piece.role = "graph"
        elif frame.kind == "clauses" and frame.word in ("LIMIT", "OFFSET") and len(self._stack) == 1:
            piece.role = "limit"

    def _term_of_triple(self, piece: Piece, frame: _Frame) -> None:
        if frame.place in ("subject", "after"):
            frame.subject = piece.text if piece.kind == "variable" else ""
            frame.place, frame.verbs = "verb", []
        elif frame.place == "verb":
            self._verb(piece, frame)
            frame.place = "object"
        elif frame.place == "object":
            self._object(piece, frame)
            frame.place = "after"
        elif frame.place == "graph":
            piece.role, frame.place = "graph", "subject"
            if piece.kind == "variable":
                self._done.computed.setdefault(piece.text, "graph")

    def _verb(self, piece: Piece, frame: _Frame) -> None:
        if piece.kind == "iri":
            piece.role = "property"
            frame.verbs.append(piece.text)
        elif piece.kind == "variable":
            self._done.computed.setdefault(piece.text, "property")
        if frame.kind != "path":
            frame.place = "object"

    def _object(self, piece: Piece, frame: _Frame) -> None:
        verb = frame.verbs[-1] if frame.verbs else ""
        if piece.kind == "iri" and verb and frame.verbs[0] in TYPES and set(frame.verbs) <= TYPES | BELOW:
            piece.role = "class"
            if frame.subject:
                self._done.typed.setdefault(frame.subject, piece.text)
        elif verb:
            piece.role = "object"
            piece.verb = verb
            if piece.kind == "variable":
                self._done.reached.setdefault(piece.text, verb)
