"""What may have been meant where a query can't be read: a hint for whoever wrote it, most often a language model."""

from __future__ import annotations

from difflib import get_close_matches

from rbank_es.sparql.lexing import Token
from rbank_es.sparql.words import NAMES

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
"""What other query languages call it."""

_WORDS = (
    *("SELECT", "ASK", "CONSTRUCT", "DESCRIBE", "PREFIX", "BASE", "WHERE", "DISTINCT", "REDUCED", "GRAPH"),
    *("FILTER", "OPTIONAL", "UNION", "MINUS", "BIND", "VALUES", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"),
    *sorted(NAMES),
)

_EXAMPLE = "SELECT ?x WHERE { ?x a ex:Thing . FILTER(?x != ex:other) } LIMIT 10"
_IRIS = "an IRI in <…> has no blanks, quotes, braces or backslashes in it; write %20 for a blank"
_MODIFIERS = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET")
_PAIRS = {"{": "}", "(": ")", "[": "]"}


def advice(tokens: tuple[Token, ...], index: int, expected: str) -> str:
    """What to do about the token at `index`, where something else was expected."""
    return (
        _at_the_end(tokens, index)
        or _about_projection(tokens, index)
        or _about_order(tokens, index)
        or _about_words(tokens, index)
        or _about_marks(tokens, index, expected)
        or f"write it as SPARQL 1.1 has it, for instance: {_EXAMPLE}"
    )


def _at_the_end(tokens: tuple[Token, ...], index: int) -> str:
    """Where the query ends too early: what is still open."""
    if tokens[index].kind != "end":
        return ""
    opened = unclosed(tokens)
    if not opened:
        return "write the rest of the query" if index else f"write a query, for instance: {_EXAMPLE}"
    first = opened[-1]
    missing = "".join(_PAIRS[token.text] for token in reversed(opened))
    return f"add {missing!r} at the end, or where the {first.text!r} of line {first.line} should close"


def unclosed(tokens: tuple[Token, ...]) -> list[Token]:
    """The brackets that are opened and never closed."""
    opened: list[Token] = []
    for token in tokens:
        if token.is_symbol(*_PAIRS):
            opened.append(token)
        elif opened and token.is_symbol(_PAIRS[opened[-1].text]):
            opened.pop()
    return opened


def _about_projection(tokens: tuple[Token, ...], index: int) -> str:
    """Commas between variables, and expressions without AS or brackets."""
    before = [token.keyword for token in tokens[:index]]
    if "SELECT" not in before or any(word in before for word in ("WHERE", "FROM")) or _depth(tokens, index) > 1:
        return ""
    token, after_select = tokens[index], not any(t.is_symbol("{") for t in tokens[:index])
    if not after_select:
        return ""
    if token.is_symbol(","):
        return "variables of SELECT stand side by side, without commas: SELECT ?a ?b"
    if token.keyword == "AS" or (token.is_symbol(")") and _depth(tokens, index)):
        return "an expression has a name and brackets around both: (COUNT(?x) AS ?n)"
    if token.kind == "word" and tokens[index + 1].is_symbol("("):
        return f"put brackets around it and give it a name: ({token.text}(…) AS ?n)"
    return ""


def _depth(tokens: tuple[Token, ...], index: int) -> int:
    """How many brackets are open before a token."""
    return len(unclosed(tokens[:index]))


def _about_order(tokens: tuple[Token, ...], index: int) -> str:
    """Modifiers inside the braces, or in the wrong order."""
    token = tokens[index]
    if token.keyword in _MODIFIERS:
        if any(opened.text == "{" for opened in unclosed(tokens[:index])):
            return f"{token.keyword} stands after the closing '}}' of the pattern"
        return "after the pattern the order is GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET, each once"
    if token.keyword == "FILTER" or token.keyword in ("OPTIONAL", "BIND", "UNION"):
        return f"{token.keyword} stands inside the braces of the pattern"
    if token.keyword in ("PREFIX", "BASE"):
        return f"{token.keyword} stands at the beginning, before SELECT"
    return ""


def _about_words(tokens: tuple[Token, ...], index: int) -> str:
    """Words that SPARQL doesn't have: another language's, misspelt, or text without quotes."""
    token = tokens[index]
    if token.kind != "word":
        return ""
    if other := _OTHER_NAMES.get(token.keyword):
        return f"SPARQL has no {token.text}; it is {other}"
    close = get_close_matches(token.keyword, _WORDS, 1, 0.75)
    if close and close[0] != token.keyword:
        return f"did you mean {close[0]}?"
    if close:
        return f"{token.keyword} can't stand here: look for a missing '.', ')' or '}}' before it"
    text = token.text
    return f'put text in quotes: "{text}"; a name needs its prefix (ex:{text}), a variable its mark (?{text})'


def _about_marks(tokens: tuple[Token, ...], index: int, expected: str) -> str:
    """A dot that is missing, brackets that don't fit, and the like."""
    token = tokens[index]
    previous = tokens[index - 1] if index else token
    if token.is_symbol("}", ")", "]") and not _depth(tokens, index):
        return f"there is one {token.text!r} too many"
    if token.is_symbol(";") and not _depth(tokens, index):
        return "leave out the ';': one query at a time, and no mark at its end"
    if "object" in expected or "predicate" in expected:
        return "a triple is subject, predicate, object; between two triples stands a '.'"
    if previous.kind in ("variable", "name", "iri", "string", "number") and token.kind in ("variable", "name", "iri"):
        return "between two triples stands a '.'; between two conditions && or ||; around < and > put blanks"
    if token.is_symbol("<"):
        filled = tokens[index + 1].is_symbol("{") if index + 1 < len(tokens) else False
        return "fill in the {…} of the template before you send it" if filled else _IRIS
    if token.is_symbol("/", "-") and previous.is_symbol(token.text):
        return "a comment begins with #"
    if token.is_symbol("=") and previous.is_symbol("=", "!="):
        return "SPARQL compares with one '='"
    return ""
