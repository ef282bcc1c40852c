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


@pytest.mark.parametrize("query", ["ASK {?s ?p ?o}", "ASK {?s ?p ?o} LIMIT 5000", "ASK {{SELECT * {} LIMIT 99}}"])
def test_ask_has_none(query: str) -> None:
    assert sent(query) == query
