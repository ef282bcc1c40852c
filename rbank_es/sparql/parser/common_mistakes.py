"""Common mistakes in SPARQL: what its authors, people and models, write instead of it, by where it can't be parsed.

Each rule looks at one spot and names the mistake in a sentence, with what to write instead. The rules are tried in
order; none of them decides whether a query is well-formed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rbank_es.sparql.parser.tokens import FORMS, Token, clipped
from rbank_es.sparql.parser.tree import AGGREGATES

PAIRS = {"{": "}", "(": ")", "[": "]"}
TERMS = ("variable", "name", "iri", "string", "number", "language")
_MODIFIERS = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET")
_BRACED = ("OPTIONAL", "UNION", "MINUS", "GRAPH", "EXISTS")
_COMPARISONS = ("=", "!=", "<", ">", "<=", ">=", "&&", "||")


class Spot(NamedTuple):
    """The place where a query can't be parsed."""

    tokens: tuple[Token, ...]
    place: int
    opened: tuple[Token, ...]
    """The brackets that are open there."""
    words: frozenset[str]
    """The keywords before it."""
    in_head: bool
    """Whether no brace came before it."""
    expected: str

    @property
    def token(self) -> Token:
        """The token that can't stand there."""
        return self.tokens[self.place]

    @property
    def previous(self) -> Token | None:
        """The token before it."""
        return self.tokens[self.place - 1] if self.place else None

    @property
    def after(self) -> Token | None:
        """The token behind it."""
        return self.tokens[self.place + 1] if self.place + 1 < len(self.tokens) else None

    @property
    def behind(self) -> str:
        """The keyword before it; empty if no keyword stands there."""
        return self.previous.keyword if self.previous is not None else ""

    @property
    def in_pattern(self) -> bool:
        """Whether a brace is open."""
        return any(token.text == "{" for token in self.opened)

    @property
    def clause(self) -> str:
        """The last keyword before it, apart from functions' names: what the spot is part of."""
        words = ("SELECT", "WHERE", "FILTER", "BIND", "VALUES", "PREFIX", "BASE", "BY", "FROM", *_MODIFIERS, *_BRACED)
        return next((each.keyword for each in reversed(self.tokens[: self.place]) if each.keyword in words), "")

    def follows(self, *kinds: str) -> bool:
        """Return whether a token of one of these kinds stands before it."""
        return self.previous is not None and self.previous.kind in kinds


class SyntaxMistake(NamedTuple):
    """A mistake in a sentence, and what to write instead."""

    message: str
    hint: str


def common_mistake(spot: Spot) -> SyntaxMistake | None:
    """Return the first mistake that fits a spot, None if none does."""
    return next(filter(None, (rule(spot) for rule in _RULES)), None)


def _prologue(spot: Spot) -> SyntaxMistake | None:
    token = spot.token
    if token.text.lower() in ("@prefix", "@base"):
        word = token.text[1:].upper()
        return SyntaxMistake(
            f"{token.text} is Turtle: a query writes {word}", "PREFIX ex: <http://…>, with no '.' behind it"
        )
    if token.is_symbol(".") and spot.clause in ("PREFIX", "BASE") and spot.follows("iri"):
        return SyntaxMistake(f"a '.' stands behind {spot.clause}", "leave it out: only Turtle ends a prefix with '.'")
    if spot.behind == "PREFIX" and token.kind == "word":
        name = clipped(token.text)
        return SyntaxMistake(f"the prefix {name} lacks its ':'", f"PREFIX {name}: <http://…>")
    # `http://…` is read as the name `http:` and two steps of a path.
    if any(map(_is_scheme, spot.tokens[max(0, spot.place - 2) : spot.place + 1])):
        return SyntaxMistake("an IRI stands without < and >", "put it between < and >: <http://…>")
    if spot.place == 0 and token.kind == "word" and any(each.keyword in FORMS for each in spot.tokens):
        return SyntaxMistake(
            f"the query begins with {clipped(token.text)!r}, which is no SPARQL", "send the query alone"
        )
    return None


def _is_scheme(token: Token) -> bool:
    return token.kind == "name" and token.text.lower() in ("http:", "https:", "urn:")


def _head(spot: Spot) -> SyntaxMistake | None:
    """Mistakes before the first brace."""
    token, word = spot.token, spot.token.keyword
    if not spot.in_head or not spot.words & {"SELECT", "DESCRIBE", "ASK"}:
        return None
    if token.is_symbol(",") and len(spot.opened) <= 1:
        return SyntaxMistake(
            "there are commas between the variables of SELECT", "write them without commas: SELECT ?a ?b"
        )
    if spot.behind == "FROM":
        return SyntaxMistake(
            "FROM takes a graph's IRI, not a table", "leave out FROM; of a class, WHERE { ?x a ex:Thing }"
        )
    if word == "TOP":
        return SyntaxMistake("SPARQL has no TOP", "write LIMIT 10 behind the pattern")
    if word in ("DISTINCT", "REDUCED"):
        return SyntaxMistake(f"{word} stands behind a variable", f"put it right behind SELECT: SELECT {word} ?x")
    if word == "WHERE" and spot.behind in ("SELECT", "DISTINCT"):
        return SyntaxMistake("SELECT names no variables", "write SELECT ?x WHERE { … }, or SELECT * for all of them")
    return _nameless(spot) or _unbraced(spot)


def _nameless(spot: Spot) -> SyntaxMistake | None:
    token, after = spot.token, spot.after
    if spot.behind == "AS" and token.kind == "word":
        if after is not None and after.is_symbol("("):
            return SyntaxMistake("the name stands before AS", f"write the expression first: ({token.text}(…) AS ?n)")
        return SyntaxMistake(
            "what stands behind AS is no variable", f"a variable has its mark: AS ?{clipped(token.text)}"
        )
    if token.is_symbol(")") and spot.follows("variable") and spot.tokens[spot.place - 2].is_symbol("("):
        return SyntaxMistake("a variable of SELECT stands in brackets", "leave the brackets out: SELECT DISTINCT ?x")
    if token.kind == "word" and after is not None and after.is_symbol("(") and not spot.opened:
        name = clipped(token.text)
        return SyntaxMistake(f"{name}(…) has no name, or no brackets around it", f"write ({name}(…) AS ?n)")
    if spot.opened and (spot.expected == "AS" or token.keyword == "AS"):
        return SyntaxMistake(
            "an expression of SELECT has no name behind AS", "write both in brackets: (COUNT(?x) AS ?n)"
        )
    if token.is_symbol("-") and spot.follows("variable"):
        return _dashed(spot)
    return None


def _dashed(spot: Spot) -> SyntaxMistake:
    name = clipped(spot.previous.text) if spot.previous is not None else "?a"
    rest = spot.after.text if spot.after is not None and spot.after.kind == "word" else "b"
    return SyntaxMistake("a variable's name has no '-' in it", f"write {name}_{clipped(rest)}")


def _unbraced(spot: Spot) -> SyntaxMistake | None:
    if spot.token.is_symbol("(", "[") and spot.expected == "'{'":
        return SyntaxMistake(
            f"the pattern stands in {spot.token.text!r} instead of braces", "write WHERE { ?x a ex:Thing }"
        )
    if spot.token.is_symbol(".") and spot.follows("variable"):
        return SyntaxMistake("'.' leads to no property of a variable", "ask for it in the pattern: ?x ex:name ?name")
    begins = spot.token.kind in (*TERMS, "end") or spot.token.text == "a"
    if spot.expected == "'{'" and not spot.opened and begins:
        return SyntaxMistake("the pattern has no '{' in front", "put braces around it: WHERE { ?x a ex:Thing }")
    return None


def _brackets(spot: Spot) -> SyntaxMistake | None:
    token = spot.token
    if not spot.opened:
        too_many = token.is_symbol("}", ")", "]")
        return (
            SyntaxMistake(f"there is one {token.text!r} too many", f"leave out one {token.text!r}")
            if too_many
            else None
        )
    inner = spot.opened[-1]
    message = f"the {inner.text!r} of line {inner.line}, column {inner.column}, is not closed"
    if inner.text == "{" and token.is_symbol(")", "]"):
        return SyntaxMistake(f"there is one {token.text!r} too many", f"leave out one {token.text!r}")
    if (inner.text == "(" and token.is_symbol("}", ".", "{") and spot.clause != "VALUES") or (
        inner.text == "[" and token.is_symbol("}")
    ):
        return SyntaxMistake(message, f"add {PAIRS[inner.text]!r} before {token.text!r}")
    if token.kind == "end":
        missing = "".join(PAIRS[each.text] for each in reversed(spot.opened))
        hint = f"add {missing!r} at the end, or where the {inner.text!r} of line {inner.line} should close"
        return SyntaxMistake(message, hint)
    return None


def _braces(spot: Spot) -> SyntaxMistake | None:
    """Mistakes about words that need a group in braces."""
    token, word = spot.token, spot.token.keyword
    if spot.expected == "'{'" and spot.behind in _BRACED:
        return SyntaxMistake(f"what follows {spot.behind} has no braces", f"write {spot.behind} {{ ?x ex:p ?y }}")
    if spot.expected == "WHERE" and "CONSTRUCT" in spot.words:
        return SyntaxMistake("the template of CONSTRUCT has no braces", "write CONSTRUCT { ?x ex:p ?y } WHERE { … }")
    if not spot.in_pattern:
        if not spot.in_head and (token.is_symbol("{") or word == "WHERE"):
            return SyntaxMistake(
                "the query goes on after its pattern was closed", "put all of it in one pair of braces"
            )
        return None
    if word == "UNION":
        return SyntaxMistake("what stands before UNION has no braces", "write { … } UNION { … }")
    if word == "SELECT":
        return SyntaxMistake(
            "a subquery has no braces of its own", "write { SELECT … WHERE { … } } inside of the pattern"
        )
    if spot.expected.startswith("'}' to close") and _opens_subquery(spot):
        return SyntaxMistake(
            "a subquery shares its braces with other patterns", "give it braces: { { SELECT … } ?x ex:p ?y }"
        )
    if word in ("NOT", "EXISTS"):
        return SyntaxMistake(
            f"{word} stands without FILTER", f"write FILTER {'NOT ' if word == 'NOT' else ''}EXISTS {{ … }}"
        )
    if token.is_symbol("{") and spot.after is not None and spot.after.kind == "word" and _fills(spot):
        return SyntaxMistake("a template was not filled in", f"write a term instead of {{{clipped(spot.after.text)}}}")
    return None


def _opens_subquery(spot: Spot) -> bool:
    """Return whether the innermost brace begins with a SELECT."""
    start = spot.tokens.index(spot.opened[-1]) + 1
    return spot.opened[-1].text == "{" and spot.tokens[start].keyword == "SELECT"


def _fills(spot: Spot) -> bool:
    closing = spot.tokens[spot.place + 2] if spot.place + 2 < len(spot.tokens) else None
    return closing is not None and closing.is_symbol("}")


def _conditions(spot: Spot) -> SyntaxMistake | None:
    token = spot.token
    if spot.behind in ("FILTER", "HAVING") and spot.expected.startswith("a variable, a value"):
        return SyntaxMistake(f"the condition of {spot.behind} has no brackets", f"write {spot.behind}(?x > 3)")
    compares = token.is_symbol(*_COMPARISONS) and not spot.expected.startswith("a predicate")
    outside = not spot.opened or spot.opened[-1].text == "{"
    if compares and outside and spot.clause in ("HAVING", "FILTER", "EXISTS"):
        word = "HAVING" if spot.clause == "HAVING" else "FILTER"
        return SyntaxMistake(f"the condition of {word} has no brackets", f"put all of it in brackets: {word}(…)")
    if spot.behind == "NOT" and spot.expected == "EXISTS" and spot.token.keyword.startswith("EXIST"):
        return SyntaxMistake(f"{clipped(token.text)} is no word of SPARQL", "write NOT EXISTS { … }")
    if spot.behind == "NOT" and spot.expected == "EXISTS":
        return SyntaxMistake("NOT stands before something else than EXISTS or IN", "write !(…), or ?a != ?b")
    if token.text == "<>" and spot.follows(*TERMS) and spot.opened and spot.opened[-1].text == "(":
        return SyntaxMistake("'<>' is no operator", "SPARQL writes != for 'not equal'")
    if token.keyword == "IS":
        return SyntaxMistake("SPARQL has no IS NULL", "write !BOUND(?x), or BOUND(?x) for IS NOT NULL; equal is =")
    if token.is_symbol("=") and spot.previous is not None and spot.previous.is_symbol("=", "!="):
        return SyntaxMistake("'==' is no operator", "SPARQL compares with one '='")
    if spot.clause == "FILTER" and spot.behind == "IN":
        return SyntaxMistake("the list behind IN has no brackets", "write ?x IN (1, 2)")
    return None


def _values_with_names(spot: Spot) -> SyntaxMistake | None:
    """Mistakes of those who want to give a value a name."""
    token = spot.token
    assigns = "BIND(?value AS ?name) gives a value a name"
    if token.keyword == "LET":
        return SyntaxMistake("SPARQL has no LET", assigns)
    if token.is_symbol("=") and spot.expected.startswith("a predicate"):
        return SyntaxMistake("'=' gives no value a name in a pattern", f"{assigns}; FILTER(?a = ?b) compares")
    if spot.clause != "BIND":
        return None
    if spot.behind == "BIND":
        return SyntaxMistake("BIND has no brackets", "write BIND(?value AS ?name)")
    if spot.expected == "AS":
        return SyntaxMistake("BIND has no name behind AS; '=' only compares", assigns)
    if spot.behind == "AS" and token.kind != "word":
        return SyntaxMistake("what stands behind AS is no variable", f"{assigns}: the value first")
    return None


def _modifiers(spot: Spot) -> SyntaxMistake | None:
    token, word, clause = spot.token, spot.token.keyword, spot.clause
    if spot.expected.startswith("variables after"):
        named = "GROUP BY" if "GROUP" in spot.expected else "ORDER BY"
        return SyntaxMistake(f"{named} names nothing", f"write {named} ?x")
    if word in _MODIFIERS:
        if spot.in_pattern:
            hint = f"{word} stands after the closing '}}' of the pattern"
            return SyntaxMistake(f"{word} stands inside the braces of the pattern", hint)
        hint = "after the pattern the order is GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET, each once"
        return SyntaxMistake(f"{word} stands twice, or in the wrong place", hint)
    if spot.behind in ("GROUP", "ORDER") and spot.expected == "BY":
        return SyntaxMistake(f"{spot.behind} lacks BY", f"write {spot.behind} BY ?x")
    if spot.behind in ("ASC", "DESC"):
        return SyntaxMistake(f"{spot.behind} has no brackets behind it", f"write ORDER BY {spot.behind}(?x)")
    no_number = spot.expected.startswith("a whole number") and token.kind != "end"
    if clause in ("LIMIT", "OFFSET") and (token.is_symbol(",") or no_number):
        return SyntaxMistake(f"{clause} takes one whole number", "write LIMIT 10 OFFSET 5")
    if token.is_symbol(",") and clause == "BY" and not spot.opened:
        return SyntaxMistake("there are commas behind BY", "write the variables side by side: GROUP BY ?a ?b")
    if token.is_symbol(",") and any(f"to close {name}(" in spot.expected for name in AGGREGATES):
        return SyntaxMistake(
            "an aggregate takes one expression", "count pairs with SELECT DISTINCT ?a ?b in a subquery"
        )
    return None


def _arguments(spot: Spot) -> SyntaxMistake | None:
    token = spot.token
    if spot.expected.startswith("',' or ')'") and token.kind in TERMS:
        return SyntaxMistake("a comma is missing between two arguments", f"write ',' before {clipped(token.text)}")
    if spot.expected.startswith("a variable, a value") and token.is_symbol(")"):
        return SyntaxMistake("a condition is empty, or ends too soon", "write both sides: FILTER(?x > 3)")
    if token.is_symbol("^") and spot.follows("string"):
        return SyntaxMistake("a datatype has one '^' in front", 'write "1"^^xsd:integer')
    if token.is_symbol(",") and spot.clause == "VALUES":
        return SyntaxMistake("there are commas in VALUES", "write the values side by side: VALUES ?x { ex:a ex:b }")
    if token.is_symbol("(", "[") and spot.clause == "VALUES" and spot.follows("variable"):
        return SyntaxMistake("the list of VALUES has no braces", "write VALUES ?x { ex:a ex:b }")
    if token.is_symbol("-") and spot.behind == "BY":
        return SyntaxMistake("ORDER BY takes no minus", "write ORDER BY DESC(?x)")
    if token.keyword in AGGREGATES and not spot.in_pattern and not spot.in_head and spot.clause != "BY":
        return SyntaxMistake(
            f"{token.keyword} stands behind the pattern", f"write SELECT ({token.keyword}(?x) AS ?n) WHERE …"
        )
    return None


def _triples(spot: Spot) -> SyntaxMistake | None:
    token = spot.token
    if token.is_symbol("-") and spot.follows("variable") and "predicate" in spot.expected:
        return _dashed(spot)
    closes = spot.expected.startswith("'}' to close")
    if closes and (token.is_symbol("&&") or token.keyword == "AND"):
        return SyntaxMistake(
            f"{token.text} stands between triples", "join triples with '.'; && joins conditions in FILTER(…)"
        )
    if closes and token.is_symbol(".") and spot.previous is not None and spot.previous.is_symbol("."):
        return SyntaxMistake("there are two '.' in a row", "leave out one")
    if closes and token.is_symbol("/") and spot.follows("name", "iri"):
        return SyntaxMistake(
            "a path stands where an object must", "a path stands between subject and object: ?x ex:p/ex:q ?y"
        )
    begins = token.kind in TERMS or token.text == "a"
    if closes and begins and spot.follows(*TERMS):
        hint = "between two triples stands a '.', before another property of the same thing a ';'"
        return SyntaxMistake(f"a '.' is missing before {clipped(token.text)}", hint)
    for part in ("an object", "a predicate"):
        if spot.expected.startswith(part) and token.is_symbol("}", ".", ";", ","):
            hint = "a triple is subject, predicate, object; between two triples stands a '.'"
            return SyntaxMistake(f"a triple lacks its {part.split()[1]}", hint)
    return None


_RULES: tuple[Callable[[Spot], SyntaxMistake | None], ...] = (
    _prologue, _head, _values_with_names, _arguments, _brackets, _conditions, _braces, _modifiers, _triples,
)  # fmt: skip
