"""What is told of a query without running it: warnings that are precise, and what a profile refuses."""

from __future__ import annotations

import pytest

from rbank_es.errors import QueryRefused
from rbank_es.sparql.endpoint_profiles import Profile
from rbank_es.sparql.guard import Surroundings, check, explain
from rbank_es.sparql.lint import CODES

LOCAL = Surroundings(prefixes={"ex": "http://ex/"}, graphs=frozenset({"http://ex/g"}))


@pytest.mark.slow
def test_every_finding_says_what_to_do() -> None:
    pattern = "?s ?p ?o FILTER(REGEX(STR(?p), 'x') || REGEX(?o, 'x')) GRAPH ?g { ?c ex:q* ?d } GRAPH ex:h { }"
    query = f"SELECT ?x {{ {pattern} }} ORDER BY ?s"
    found = explain(query, LOCAL).warnings
    elsewhere = {"limit_counts_solutions", "class_mismatch"}
    assert {finding.code for finding in found} == CODES.keys() - elsewhere
    assert all(finding.message and finding.alternative for finding in found)


# Profiles


def test_a_profile_that_says_no_more_than_the_code_leaves_the_alternative() -> None:
    there = Surroundings(prefixes={}, profile=Profile(name="here", refuses={"unbound_predicate": ""}))
    with pytest.raises(QueryRefused, match="sparql_schema lists"):
        check("SELECT * { ?s ?p ?o }", there, 10)
