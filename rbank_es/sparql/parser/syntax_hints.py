"""Syntax hints: the probable intention behind text that can't be parsed, for the author of a query."""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

from rbank_es.sparql.parser.tokens import Token, clipped
from rbank_es.sparql.parser.tree import OPERAND_WORDS

_OTHER_NAMES = {
    "LOWER": "LCASE",
    "UPPER": "UCASE",
    "LENGTH": "STRLEN",
    "LEN": "STRLEN",
    "SUBSTRING": "SUBSTR",
    "LIKE": 'CONTAINS(LCASE(STR(?x)), "text")',
    "IFNULL": "COALESCE",
    "ISNULL": "!BOUND(?x)",
    "STARTSWITH": "STRSTARTS",
    "STARTS_WITH": "STRSTARTS",
    "ENDSWITH": "STRENDS",
    "ENDS_WITH": "STRENDS",
    "STRING": "STR",
    "AVERAGE": "AVG",
    "AND": "&&",
    "OR": "||",
    "IS": "=",
}
"""Words of other query languages, each with SPARQL's."""

_WORDS = (
    *("SELECT", "ASK", "CONSTRUCT", "DESCRIBE", "PREFIX", "BASE", "WHERE", "DISTINCT", "REDUCED", "GRAPH"),
    *("FILTER", "OPTIONAL", "UNION", "MINUS", "BIND", "VALUES", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"),
    *sorted(OPERAND_WORDS),
)

_EXAMPLE = "SELECT ?x WHERE { ?x a ex:Thing . FILTER(?x != ex:other) } LIMIT 10"
_IRIS = "an IRI in <…> has no blanks, quotes, braces or backslashes in it; write %20 for a blank"
_MODIFIERS = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET")
_IN_PATTERN = ("FILTER", "OPTIONAL", "BIND", "UNION", "MINUS", "GRAPH")
_TERMS = ("variable", "name", "iri", "string", "number", "language")
_PAIRS = {"{": "}", "(": ")", "[": "]"}


class _Spot(NamedTuple):
    """The place where a query can't be parsed."""

    token: Token
    previous: Token | None
    after: Token | None
    opened: tuple[Token, ...]
    """The brackets that are open there."""
    words: frozenset[str]
    """The keywords before it."""
    in_head: bool
    """Whether no brace came before it."""
    expected: str

    def follows(self, *kinds: str) -> bool:
        """Return whether a token of one of these kinds stands before it."""
        return self.previous is not None and self.previous.kind in kinds

    @property
    def in_pattern(self) -> bool:
        """Whether a brace is open."""
        return any(token.text == "{" for token in self.opened)


def advice(tokens: tuple[Token, ...], index: int, expected: str) -> str:
    """Return a hint at what to do about the token at `index`, where something else was expected."""
    spot = _Spot(
        token=tokens[index],
        previous=tokens[index - 1] if index else None,
        after=tokens[index + 1] if index + 1 < len(tokens) else None,
        opened=tuple(unclosed(tokens[:index])),
        words=frozenset(token.keyword for token in tokens[:index]),
        in_head=not any(token.is_symbol("{") for token in tokens[:index]),
        expected=expected,
    )
    for adviser in (_at_the_end, _about_projection, _about_order, _about_words, _about_marks):
        if found := adviser(spot):
            return found
    return f"write it as SPARQL 1.1 has it, for instance: {_EXAMPLE}"


def unclosed(tokens: tuple[Token, ...]) -> list[Token]:
    """Return the brackets that are opened and never closed, outer before inner."""
    opened: list[Token] = []
    for token in tokens:
        if token.is_symbol(*_PAIRS):
            opened.append(token)
        elif opened and token.is_symbol(_PAIRS[opened[-1].text]):
            opened.pop()
    return opened


def _at_the_end(spot: _Spot) -> str:
    if spot.token.kind != "end":
        return ""
    if not spot.opened:
        return "write the rest of the query" if spot.previous else f"write a query, for instance: {_EXAMPLE}"
    missing = "".join(_PAIRS[token.text] for token in reversed(spot.opened))
    inner = spot.opened[-1]
    return f"add {missing!r} at the end, or where the {inner.text!r} of line {inner.line} should close"


def _about_projection(spot: _Spot) -> str:
    if "SELECT" not in spot.words or spot.words & {"WHERE", "FROM"} or not spot.in_head or len(spot.opened) > 1:
        return ""
    if spot.token.is_symbol(","):
        return "variables of SELECT stand side by side, without commas: SELECT ?a ?b"
    if "AS" in (spot.token.keyword, spot.expected):
        return "an expression has a name and brackets around both: (COUNT(?x) AS ?n)"
    if spot.token.kind == "word" and spot.after and spot.after.is_symbol("("):
        return f"put brackets around it and give it a name: ({spot.token.text}(…) AS ?n)"
    return ""


def _about_order(spot: _Spot) -> str:
    word = spot.token.keyword
    if word in _MODIFIERS:
        if spot.in_pattern:
            return f"{word} stands after the closing '}}' of the pattern"
        return "after the pattern the order is GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET, each once"
    if word in _IN_PATTERN and not spot.in_pattern:
        return f"{word} stands inside the braces of the pattern"
    if word in ("PREFIX", "BASE"):
        return f"{word} stands at the beginning, before SELECT"
    return ""


def _about_words(spot: _Spot) -> str:
    if spot.token.kind != "word":
        return ""
    text, word = clipped(spot.token.text), clipped(spot.token.keyword)
    if other := _OTHER_NAMES.get(word):
        return f"SPARQL has no {text}; it is {other}"
    close = get_close_matches(word, _WORDS, 1, 0.8)
    if not close:
        return f'put text in quotes: "{text}"; a name needs its prefix (ex:{text}), a variable its mark (?{text})'
    if close[0] == word:
        return f"{word} can't stand here: look for a missing '.', ')' or '}}' before it"
    return f"did you mean {close[0]}?"


def _about_marks(spot: _Spot) -> str:
    token = spot.token
    if token.is_symbol("}", ")", "]") and not spot.opened:
        return f"there is one {token.text!r} too many"
    if token.is_symbol(";") and not spot.opened:
        return "leave out the ';': one query at a time, and no mark at its end"
    if token.is_symbol("<"):
        is_template = spot.after is not None and spot.after.is_symbol("{")
        return "fill in the {…} of the template before you send it" if is_template else _IRIS
    if token.is_symbol("=") and spot.previous and spot.previous.is_symbol("=", "!="):
        return "SPARQL compares with one '='"
    if token.is_symbol("/", "-") and spot.after and spot.after.is_symbol(token.text):
        return "a comment begins with #"
    if "object" in spot.expected or "predicate" in spot.expected:
        return "a triple is subject, predicate, object; between two triples stands a '.'"
    if token.kind in _TERMS and spot.follows(*_TERMS):
        return "between two triples stands a '.'; between two conditions && or ||; around < and > put blanks"
    return ""
