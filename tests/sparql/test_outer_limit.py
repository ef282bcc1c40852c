"""The outer LIMIT: put in, lowered or left, whatever else in the query looks like one."""

from __future__ import annotations

import pytest

from rbank_es.sparql.guard import Checked, Surroundings, check

EX = "PREFIX ex: <http://ex/>\n"
LOCAL = Surroundings(prefixes={"ex": "http://ex/"})


def checked(query: str, rows: int = 10) -> Checked:
    return check(EX + query, LOCAL, rows)


def sent(query: str, rows: int = 10) -> str:
    """Return the text for the engine, without the prefix."""
    return checked(query, rows).query.removeprefix(EX)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * {?s ?p ?o}", "SELECT * {?s ?p ?o}\nLIMIT 11"),
        ("SELECT * {?s ?p ?o}  \n\n", "SELECT * {?s ?p ?o}\nLIMIT 11  \n\n"),
        ("SELECT * {?s ?p ?o} # all of them", "SELECT * {?s ?p ?o} # all of them\nLIMIT 11"),
        ("SELECT * {?s ?p ?o} # LIMIT 5", "SELECT * {?s ?p ?o} # LIMIT 5\nLIMIT 11"),
        ("SELECT * {?s ?p 'LIMIT 5'}", "SELECT * {?s ?p 'LIMIT 5'}\nLIMIT 11"),
        ("SELECT * {?s ?p '''\nLIMIT 5\n'''}", "SELECT * {?s ?p '''\nLIMIT 5\n'''}\nLIMIT 11"),
        ("SELECT ?limit {?limit ex:limit <LIMIT>}", "SELECT ?limit {?limit ex:limit <LIMIT>}\nLIMIT 11"),
        ("SELECT * {?s ?p ?o} ORDER BY ?s", "SELECT * {?s ?p ?o} ORDER BY ?s\nLIMIT 11"),
        ("SELECT * {?s ?p ?o} OFFSET 3", "SELECT * {?s ?p ?o} OFFSET 3\nLIMIT 11"),
        ("SELECT * {?s ?p ?o} VALUES ?s {ex:a}", "SELECT * {?s ?p ?o} LIMIT 11\nVALUES ?s {ex:a}"),
        ("SELECT * {VALUES ?s {ex:a}}", "SELECT * {VALUES ?s {ex:a}}\nLIMIT 11"),
        ("SELECT * {?s ?p ?o} #\nVALUES ?s {ex:a}", "SELECT * {?s ?p ?o} #\nLIMIT 11\nVALUES ?s {ex:a}"),
        ("CONSTRUCT {?s ?p ?o} WHERE {?s ?p ?o}", "CONSTRUCT {?s ?p ?o} WHERE {?s ?p ?o}\nLIMIT 11"),
        ("CONSTRUCT WHERE {?s ?p ?o}", "CONSTRUCT WHERE {?s ?p ?o}\nLIMIT 11"),
        ("DESCRIBE ex:a", "DESCRIBE ex:a\nLIMIT 11"),
        ("DESCRIBE ?s {?s ?p ?o}", "DESCRIBE ?s {?s ?p ?o}\nLIMIT 11"),
    ],
)
def test_absent_it_is_put_in(query: str, expected: str) -> None:
    assert sent(query) == expected
    assert checked(query).their_limit is None
    assert checked(query).limit_applied == 11


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * {?s ?p ?o} LIMIT 12", "SELECT * {?s ?p ?o} LIMIT 11"),
        ("SELECT * {?s ?p ?o} limit 999999999999 #5", "SELECT * {?s ?p ?o} limit 11 #5"),
        ("SELECT * {?s ?p ?o} LIMIT 0099 OFFSET 7", "SELECT * {?s ?p ?o} LIMIT 11 OFFSET 7"),
        ("SELECT * {?s ?p ?o} OFFSET 7 LIMIT 99", "SELECT * {?s ?p ?o} OFFSET 7 LIMIT 11"),
        ("SELECT * {?s ?p ?o} LIMIT #5\n 99 VALUES ?s {1}", "SELECT * {?s ?p ?o} LIMIT #5\n 11 VALUES ?s {1}"),
        ("SELECT * {{SELECT * {?s ?p ?o} LIMIT 50}} LIMIT 50", "SELECT * {{SELECT * {?s ?p ?o} LIMIT 50}} LIMIT 11"),
    ],
)
def test_larger_its_number_is_replaced(query: str, expected: str) -> None:
    assert sent(query) == expected
    assert checked(query).rows == 10


@pytest.mark.parametrize("query", ["ASK {?s ?p ?o}", "ASK {?s ?p ?o} LIMIT 5000", "ASK {{SELECT * {} LIMIT 99}}"])
def test_ask_has_none(query: str) -> None:
    assert sent(query) == query


def test_the_limit_of_a_graph_counts_solutions_and_says_so() -> None:
    theirs = checked("CONSTRUCT {?s ?p ?o . ?o ?p ?s} WHERE {?s ?p ex:a} LIMIT 3")
    assert (theirs.rows, theirs.limit_applied, theirs.warnings) == (10, 3, ())
    ours = checked("CONSTRUCT WHERE {?s ex:p ex:a}")
    assert [finding.code for finding in ours.warnings] == ["limit_counts_solutions"]
