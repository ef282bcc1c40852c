"""Tokens of SPARQL: where one ends and the next begins, and that the text comes back whole."""

from __future__ import annotations

import pytest

from rbank_es.errors import QueryRefused
from rbank_es.sparql.parser.tokens import tokenise


def test_keywords_are_ascii_words_in_any_case() -> None:
    assert [token.keyword for token in tokenise("select SeLeCt ?select ex:select <select> 'select'")] == [
        *("SELECT", "SELECT", "", "", "", "", "")
    ]
    with pytest.raises(QueryRefused, match="U\\+017F"):  # its capital is an S
        tokenise("\u017fELECT * {}")


@pytest.mark.parametrize(
    ("text", "line", "column", "hint"),
    [
        ('ASK { ?x ?p "open }', 1, 13, "same quote"),
        ("ASK {\n ?x ?p 'a\nb' }", 2, 8, "line breaks"),
        ('ASK { ?x ?p "\\x" }', 1, 13, "backslash"),
        ("ASK { \\u0053ERVICE }", 1, 7, "the character itself"),
        ("ASK { ?x \u00a0?p ?o }", 1, 10, "plain blank"),
        ("\ufeffASK {}", 1, 1, "leave it out"),
        ("ASK { “x” }", 1, 7, "plain"),
        ("```sparql\nASK {}\n```", 1, 1, "without ```"),
        ("ASK { $ }", 1, 7, "?name"),
        ("ASK { FILTER(1 & 1) }", 1, 16, "&&"),
        ("ASK { 'a' @ }", 1, 11, "@en"),
        ("ASK {}\n\x00", 2, 1, "leave it out"),
        ('ASK { ?x ?p "a\ud800" }', 1, 15, "leave it out"),
        ("ASK { ~ }", 1, 7, "quotes"),
    ],
)
def test_what_is_no_token_is_refused_with_place_and_hint(text: str, line: int, column: int, hint: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        tokenise(text)
    assert (refused.value.code, refused.value.line, refused.value.column) == ("syntax", line, column)
    assert hint in refused.value.hint
