"""Tokens of SPARQL: where one ends and the next begins, and that the text comes back whole."""

from __future__ import annotations

import pytest

from rbank_es import limits
from rbank_es.errors import QueryRefused
from rbank_es.sparql.parser.tokens import tokenise


def read(text: str) -> list[tuple[str, str]]:
    """Kind and text of each token but the last."""
    tokens = tokenise(text)
    assert "".join(token.between + token.text for token in tokens) == text
    assert tokens[-1].kind == "end"
    return [(token.kind, token.text) for token in tokens[:-1]]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("iri", "<http://a/b#c>"),
        ("iri", "<>"),
        ("iri", "<caf\\u00e9>"),
        ("iri", "<http://ex/a'b>"),
        ("string", '""'),
        ("string", "''"),
        ("string", '"a \\" b \\\\"'),
        ("string", "'it\\'s'"),
        ("string", '""""""'),
        ("string", '"""a "quoted" ""word"" \n LIMIT 5"""'),
        ("string", "'''a\n'b' ''c'''"),
        ("string", '"# no comment"'),
        ("blank", "_:b"),
        ("blank", "_:a.b-1"),
        ("name", ":"),
        ("name", "ex:"),
        ("name", "ex:a.b"),
        ("name", "ex.y:a:b"),
        ("name", "ex:a%20b"),
        ("name", "ex:a\\-b\\,c"),
        ("name", "ex:01-x"),
        ("name", "limit:service"),
        ("name", "été:naïve"),
        ("variable", "?x"),
        ("variable", "$x"),
        ("variable", "?1"),
        ("variable", "?service"),
        ("language", "@en-GB"),
        ("number", "12"),
        ("number", "1.5"),
        ("number", ".5"),
        ("number", "1.e3"),
        ("number", "1.5E-3"),
        ("word", "GROUP_CONCAT"),
        ("symbol", "^^"),
        ("symbol", "||"),
        ("symbol", "!="),
    ],
)
def test_one_token(kind: str, text: str) -> None:
    assert read(text) == [(kind, text)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ex:a.", ["ex:a", "."]),
        ("ex:a..b.", ["ex:a..b", "."]),
        ("_:a.1.", ["_:a.1", "."]),
        ("5.", ["5", "."]),
        ("5.}", ["5", ".", "}"]),
        ("?x?y", ["?x", "?y"]),
        ("ex:p?", ["ex:p", "?"]),
        ("?a<?b", ["?a", "<", "?b"]),
        ("?a<=?b", ["?a", "<=", "?b"]),
        ("?a<?b&&?c>?d", ["?a", "<?b&&?c>", "?d"]),
        ("SELECT?x{}", ["SELECT", "?x", "{", "}"]),
        ('"a"@en"b"^^xsd:int', ['"a"', "@en", '"b"', "^^", "xsd:int"]),
        ("LIMIT 10OFFSET 5", ["LIMIT", "10", "OFFSET", "5"]),
        ("a:b/c:d*|^e:f", ["a:b", "/", "c:d", "*", "|", "^", "e:f"]),
        ("?x+1", ["?x", "+", "1"]),
    ],
)
def test_where_a_token_ends(text: str, parts: list[str]) -> None:
    assert [part for _, part in read(text)] == parts


def test_comments_and_blanks_stand_between_tokens() -> None:
    tokens = tokenise("# first LIMIT\nASK #second {\r\n\t{ } # last")
    assert [token.text for token in tokens] == ["ASK", "{", "}", ""]
    assert [token.between for token in tokens] == ["# first LIMIT\n", " #second {\r\n\t", " ", " # last"]


def test_a_comment_ends_at_either_line_end() -> None:
    assert [token.text for token in tokenise("# a\rASK # b\n{}")][:3] == ["ASK", "{", "}"]


def test_a_hash_in_an_iri_begins_no_comment() -> None:
    assert [text for _, text in read("PREFIX x: <http://a#> ASK {}")] == [
        "PREFIX",
        "x:",
        "<http://a#>",
        "ASK",
        "{",
        "}",
    ]


def test_places_count_lines_of_every_kind() -> None:
    places = [(token.text, token.offset, token.line, token.column) for token in tokenise("a\nb\r\n  c\rd")]
    assert places == [("a", 0, 1, 1), ("b", 2, 2, 1), ("c", 7, 3, 3), ("d", 9, 4, 1), ("", 10, 4, 2)]


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


def test_a_text_over_the_limit_is_not_read() -> None:
    longest = "#" * limits.QUERY_TEXT_CHARS
    assert tokenise(longest)[0].between == longest
    with pytest.raises(QueryRefused) as refused:
        tokenise(longest + "#")
    assert refused.value.code == "too_long"
