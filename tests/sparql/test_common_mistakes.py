"""Mistakes that beginners and models make in SPARQL: each is named in a sentence, not by a list of the grammar."""

from __future__ import annotations

import re
from itertools import product

import pytest

from rbank_es.errors import QueryRefused
from rbank_es.sparql.guard import Surroundings, check

LOCAL = Surroundings(prefixes={"ex": "http://ex/"})
REMOTE = Surroundings(prefixes={"ex": "http://ex/"}, remote=True)

# What a message must say, and queries with that mistake; V and W stand for any variables, P and C for any names.
MISTAKES: dict[str, list[str]] = {
    "neither grouped nor aggregated": [
        "SELECT V (COUNT(W) AS ?n) WHERE { W a V }",
        "SELECT V W (SUM(W) AS ?n) WHERE { V P W } GROUP BY V",
        "SELECT V (MAX(W) AS ?n) { V P W } ORDER BY ?n",
    ],
    "gives only after grouping": [
        "SELECT V (COUNT(W) AS ?n) WHERE { W a V } GROUP BY V ?n",
        "SELECT (COUNT(W) AS ?n) WHERE { W a V } GROUP BY ?n",
        "SELECT (STR(V) AS ?s) (COUNT(W) AS ?n) WHERE { W a V } GROUP BY ?s V",
        "SELECT V { { SELECT V (AVG(W) AS ?m) { V P W } GROUP BY ?m V } }",
    ],
    "nothing is grouped yet": [
        "SELECT V { W a V FILTER(COUNT(W) > 2) } GROUP BY V",
        "SELECT V { W a V BIND(SUM(W) AS ?n) } GROUP BY V",
        "SELECT (COUNT(W) AS ?k) { W a V } GROUP BY (COUNT(W) AS ?n)",
    ],
    "an aggregate takes no other": ["SELECT (MAX(COUNT(W)) AS ?n) { W a V } GROUP BY V"],
    "an aggregate takes one expression": ["SELECT (COUNT(DISTINCT V, W) AS ?n) { V P W }"],
    "is not closed": [
        "SELECT V WHERE { V a C",
        "SELECT V WHERE { V a C . OPTIONAL { V P W }",
        "SELECT V { V P W FILTER(regex(STR(W), 'a') }",
        "SELECT V { V P W FILTER(W > (3 }",
        "ASK { VALUES V { C }",
    ],
    "has no '{' in front": ["SELECT V WHERE V a C }", "SELECT V WHERE V a C", "SELECT * V P W", "ASK V a C"],
    "one '}' too many": ["SELECT V { V a C } }", "SELECT V { { V a C } } } LIMIT 3"],
    "'.' is missing before": [
        "SELECT V { V a C V P W }",
        "SELECT V { V P 3 W P V }",
        "SELECT V { V a C P W }",
        "SELECT V { V P 'x' <http://ex/y> P V }",
    ],
    "lacks its object": ["SELECT V { V P }", "SELECT V { V P . W a C }"],
    "condition of FILTER has no brackets": [
        "SELECT V { V P W FILTER W > 3 }",
        "SELECT V { V P W . FILTER STR(W) = 'a' }",
        "SELECT V { V P W FILTER !BOUND(W) }",
    ],
    "condition of HAVING has no brackets": [
        "SELECT V (COUNT(W) AS ?n) { V P W } GROUP BY V HAVING COUNT(W) > 2",
        "SELECT V (COUNT(W) AS ?n) { V P W } GROUP BY V HAVING ?n > 2",
    ],
    "LIMIT stands inside": ["SELECT V { V a C LIMIT 3 }", "SELECT V { V a C . LIMIT 3 }"],
    "ORDER stands inside": ["SELECT V { V P W ORDER BY W }"],
    "GROUP stands inside": ["SELECT V (COUNT(W) AS ?n) { V P W . GROUP BY V }"],
    "'=' gives no value a name": ["SELECT V { V P W . ?z = W + 1 }", "SELECT V { V P W . V = C }"],
    "SPARQL has no LET": ["SELECT V { V P W LET (?z := W) }"],
    "BIND has no name behind AS": ["SELECT V { V P W BIND(?z = W) }", "SELECT V { V P W BIND(?z := W) }"],
    "BIND has no brackets": ["SELECT V { V P W BIND W AS ?z }"],
    "behind AS is no variable": ["SELECT V { V P W BIND(?z AS 3) }", "SELECT V { V P W BIND(W AS C) }"],
    "commas between the variables": ["SELECT V, W { V P W }",
        "SELECT DISTINCT V , W { V P W }", "SELECT *, V { V a C }"],
    "commas behind BY": ["SELECT V W (COUNT(*) AS ?n) { V P W } GROUP BY V, W", "SELECT V W { V P W } ORDER BY V, W"],
    "has no name": [
        "SELECT COUNT(V) { V a C }",
        "SELECT V COUNT(W) { V P W }",
        "SELECT (COUNT(V)) { V a C }",
        "SELECT MAX(V) AS ?n { V a C }",
    ],
    "no braces": [
        "SELECT V { V a C OPTIONAL V P W }",
        "SELECT V { { V a C } UNION V P W }",
        "SELECT V { V a C UNION V P W }",
        "SELECT V { V a C MINUS V P W }",
        "SELECT V { V a C FILTER NOT EXISTS V P W }",
        "SELECT V { V a C . SELECT W { W a C } }",
    ],
    "without FILTER": ["SELECT V { V a C NOT EXISTS { V P W } }", "SELECT V { V a C . EXISTS { V P W } }"],
    "NOT stands before something else": ["SELECT V { V P W FILTER(NOT W = 5) }"],
    "is no operator": ["SELECT V { V P W FILTER(W == 5) }", "SELECT V { V P W FILTER(W <> 5) }"],
    "SPARQL has no AND": ["SELECT V { V P W FILTER(W > 3 AND W < 5) }"],
    "SPARQL has no LIKE": ["SELECT V { V P W FILTER(W LIKE 'a%') }"],
    "SPARQL has no IS NULL": ["SELECT V { V P W FILTER(W IS NULL) }", "SELECT V { V P W FILTER(W IS NOT NULL) }"],
    "list behind IN has no brackets": ["SELECT V { V P W FILTER(W IN 3, 4) }"],
    "lacks BY": ["SELECT V { V P W } ORDER W", "SELECT V (COUNT(W) AS ?n) { V P W } GROUP V"],
    "DESC has no brackets": ["SELECT V { V P W } ORDER BY W DESC", "SELECT V { V P W } ORDER BY DESC W"],
    "in the wrong place": ["SELECT V { V P W } LIMIT 3 ORDER BY V", "SELECT V { V P W } ORDER BY V GROUP BY V"],
    "takes one whole number": ["SELECT V { V a C } LIMIT ?n", "ASK { V a C } LIMIT 5, 10", "ASK { V a C } OFFSET 'x'"],
    "after its pattern was closed": ["SELECT V { V a C } { V P W }", "SELECT V WHERE { V a C } WHERE { V P W }"],
    "outside of the pattern": ["SELECT V { V P W } FILTER(W > 3)", "SELECT V { V P W } OPTIONAL { V a C }"],
    "SPARQL has no TOP": ["SELECT TOP 3 V { V a C }"],
    "DISTINCT stands behind": ["SELECT V DISTINCT { V a C }"],
    "names no variables": ["SELECT WHERE { V a C }", "SELECT DISTINCT WHERE { V a C }"],
    "not a table": ["SELECT * FROM Lights WHERE { V a C }"],
    "lacks its ':'": ["PREFIX ex <http://ex/> SELECT V { V a C }"],
    "is Turtle": ["@prefix ex: <http://ex/> . SELECT V { V a C }"],
    "stands behind PREFIX": ["PREFIX ex: <http://ex/> . SELECT V { V a C }"],
    "without < and >": ["PREFIX ex: http://ex/ ASK { V a C }", "ASK { V http://ex/p W }", "ASK { V a http://ex/C }"],
    "not declared and not known": ["SELECT V { V a exx:Thing }"],
    "no SPARQL": ["Here is the query: SELECT V { V a C }", "sparql SELECT V { V a C }"],
    "has no '-'": ["SELECT ?my-name { ?my-name a C }", "SELECT * { ?my-name a C }"],
    "neither a variable": ["SELECT name { V P W }", "ASK { V name W }", "ASK { V P Rex }", "ASK { V a Lighthouse }"],
    "template was not filled": ["SELECT V { V a {cls} }"],
    "comma is missing between two": ["SELECT V { V P W FILTER(REGEX(STR(W) 'a')) }"],
    "condition is empty": ["SELECT V { V P W FILTER(W = ) }", "SELECT V { V P W FILTER() }"],
    "one ')' too many": ["SELECT V { V P W FILTER(W > 3)) }"],
    "stands between triples": ["SELECT V { V a C AND V P W }", "SELECT V { V a C && V P W }"],
    "two '.' in a row": ["SELECT V { V P W . . W P V }"],
    "one '^' in front": ["ASK { V P '1'^xsd:integer }"],
    "commas in VALUES": ["ASK { VALUES V { C, P } V a C }"],
    "list of VALUES has no braces": ["ASK { VALUES V (C P) }"],
    "takes no minus": ["SELECT V { V P W } ORDER BY -W"],
    "names nothing": ["SELECT V { V P W } GROUP BY", "SELECT V { V P W } ORDER BY LIMIT 3"],
    "stands behind the pattern": ["SELECT V { V P W } COUNT(V)"],
    "a path stands where": ["ASK { V P ex:a/ex:b }"],
    "name stands before AS": ["SELECT (?n AS COUNT(V)) { V a C }"],
    "stands in brackets": ["SELECT DISTINCT(V) { V a C }"],
    "instead of braces": ["SELECT V WHERE ( V a C )", "SELECT V WHERE [ V a C ]"],
    "shares its braces": ["ASK { SELECT V { V a C } . V P W }"],
    "template of CONSTRUCT": ["CONSTRUCT V P W WHERE { V P W }"],
    "leads to no property": ["SELECT V.name { V a C }"],
    "behind the query": ["SELECT V { V a C };"],
}  # fmt: skip
CASES = [(said, query) for said, queries in MISTAKES.items() for query in queries]
WRITINGS = (
    ("?x", "?y", "ex:p", "ex:C"),
    ("$light", "?b2", "<http://ex/p>", "<http://ex/C>"),
    ("?a", "?z9", "ex:p", "ex:C"),
)


def written(query: str, names: tuple[str, str, str, str], *, lines: bool) -> str:
    parts = re.split(r"(?<![\w?$:/<'])([VWPC])(?![\w:/>'])", query)
    text = "".join(dict(zip("VWPC", names, strict=True)).get(part, part) for part in parts)
    return text.replace(" ", "\n  ") + "\n# the end" if lines else text


@pytest.mark.parametrize(("said", "query"), CASES)
def test_a_mistake_is_named_in_a_sentence_with_what_to_write(said: str, query: str) -> None:
    for names, lines in product(WRITINGS, (False, True)):
        text = written(query, names, lines=lines)
        with pytest.raises(QueryRefused) as refused:
            check(text, LOCAL, 10)
        error = refused.value
        assert said in error.message, (text, str(error))
        assert "expected" not in error.message and error.hint and error.line is not None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ?c (COUNT(?x) AS ?n) { ?x a ?c } GROUP BY ?c HAVING (?n > 2) ORDER BY DESC(?n)",
        "SELECT ?c (COUNT(?x) AS ?n) { ?x a ?c } GROUP BY ?c HAVING (COUNT(?x) > 2 && MAX(?x) != ex:a)",
        "SELECT ?s (COUNT(?x) AS ?n) { ?x a ?c } GROUP BY (STR(?c) AS ?s)",
        "SELECT ?c { { SELECT ?c (COUNT(?x) AS ?n) { ?x a ?c } GROUP BY ?c } FILTER(?n > 2) }",
        "SELECT (MAX(?n) AS ?most) { { SELECT ?c (COUNT(?x) AS ?n) { ?x a ?c } GROUP BY ?c } }",
        "SELECT ?x { ?x ex:p ?y FILTER EXISTS { SELECT ?x (COUNT(?z) AS ?k) { ?x ex:q ?z } GROUP BY ?x } }",
    ],
)
def test_what_looks_like_a_mistake_and_is_none_runs(query: str) -> None:
    check(query, LOCAL, 10)


@pytest.mark.parametrize("said", ["gives only after grouping", "nothing is grouped yet", "an aggregate takes no other"])
def test_what_some_endpoints_take_is_left_to_the_endpoint(said: str) -> None:
    for query in MISTAKES[said]:
        check(written(query, WRITINGS[0], lines=False), REMOTE, 10)
