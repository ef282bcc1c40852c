"""Syntax hints: the probable intention behind text that can't be parsed, for the author of a query."""

from __future__ import annotations

from difflib import get_close_matches

from rbank_es.sparql.parser.common_mistakes import PAIRS, TERMS, Spot, SyntaxMistake, common_mistake
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
    "CASE": 'IF(?x > 3, "large", "small")',
    "COUNT_DISTINCT": "COUNT(DISTINCT ?x)",
    "CONCATENATE": "CONCAT",
    "NVL": "COALESCE",
    "BETWEEN": "?x >= 1 && ?x <= 3",
}
"""Words of other query languages, each with SPARQL's."""

_WORDS = (
    *("SELECT", "ASK", "CONSTRUCT", "DESCRIBE", "PREFIX", "BASE", "WHERE", "DISTINCT", "REDUCED", "GRAPH"),
    *("FILTER", "OPTIONAL", "UNION", "MINUS", "BIND", "VALUES", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"),
    *sorted(OPERAND_WORDS),
)

_EXAMPLE = "SELECT ?x WHERE { ?x a ex:Thing . FILTER(?x != ex:other) } LIMIT 10"
_IRIS = "an IRI in <…> has no blanks, quotes, braces or backslashes in it; write %20 for a blank"
_IN_PATTERN = ("FILTER", "OPTIONAL", "BIND", "UNION", "MINUS", "GRAPH")


def advice(tokens: tuple[Token, ...], index: int, expected: str) -> SyntaxMistake:
    """Return the mistake at the token at `index`, where something else was expected, and a hint at what to do.

    The mistake is empty where only the grammar tells that there is one.
    """
    spot = Spot(
        tokens=tokens,
        place=index,
        opened=tuple(unclosed(tokens[:index])),
        words=frozenset(token.keyword for token in tokens[:index]),
        in_head=not any(token.is_symbol("{") for token in tokens[:index]),
        expected=expected,
    )
    if found := common_mistake(spot):
        return found
    for adviser in (_at_the_end, _about_order, _about_words, _about_marks):
        if made := adviser(spot):
            return made if isinstance(made, SyntaxMistake) else SyntaxMistake("", made)
    return SyntaxMistake("", f"write it as SPARQL 1.1 has it, for instance: {_EXAMPLE}")


def unclosed(tokens: tuple[Token, ...]) -> list[Token]:
    """Return the brackets that are opened and never closed, outer before inner."""
    opened: list[Token] = []
    for token in tokens:
        if token.is_symbol(*PAIRS):
            opened.append(token)
        elif opened and token.is_symbol(PAIRS[opened[-1].text]):
            opened.pop()
    return opened


def _at_the_end(spot: Spot) -> str:
    if spot.token.kind != "end":
        return ""
    return "write the rest of the query" if spot.previous else f"write a query, for instance: {_EXAMPLE}"


def _about_order(spot: Spot) -> SyntaxMistake | None:
    word = spot.token.keyword
    if word in _IN_PATTERN and not spot.in_pattern:
        return SyntaxMistake(f"{word} stands outside of the pattern", f"{word} stands inside the braces of the pattern")
    if word in ("PREFIX", "BASE"):
        return SyntaxMistake(f"{word} stands behind SELECT", f"{word} stands at the beginning, before SELECT")
    return None


def _about_words(spot: Spot) -> SyntaxMistake | str:
    if spot.token.kind != "word":
        return ""
    text, word = clipped(spot.token.text), clipped(spot.token.keyword)
    if other := _OTHER_NAMES.get(word):
        return SyntaxMistake(f"SPARQL has no {text}", f"SPARQL has no {text}; it is {other}")
    close = get_close_matches(word, _WORDS, 1, 0.8)
    if not close:
        hint = f'put text in quotes: "{text}"; a name needs its prefix (ex:{text}), a variable its mark (?{text})'
        return SyntaxMistake(f"{text} is neither a variable, nor a name with a prefix, nor a text", hint)
    if close[0] == word:
        return f"{word} can't stand here: look for a missing '.', ')' or '}}' before it"
    return SyntaxMistake(f"{text} is no word of SPARQL", f"did you mean {close[0]}?")


def _about_marks(spot: Spot) -> SyntaxMistake | str:
    token = spot.token
    if token.is_symbol(";") and not spot.opened:
        return SyntaxMistake(
            "there is a ';' behind the query", "leave it out: one query at a time, and no mark at its end"
        )
    if token.is_symbol("<"):
        is_template = spot.after is not None and spot.after.is_symbol("{")
        return "fill in the {…} of the template before you send it" if is_template else _IRIS
    if token.is_symbol("/", "-") and spot.after and spot.after.is_symbol(token.text):
        return "a comment begins with #"
    if "object" in spot.expected or "predicate" in spot.expected:
        return "a triple is subject, predicate, object; between two triples stands a '.'"
    if token.kind in TERMS and spot.follows(*TERMS):
        return "between two triples stands a '.'; between two conditions && or ||; around < and > put blanks"
    return ""
