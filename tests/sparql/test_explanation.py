"""What is told of a query without running it: warnings that are precise, and what a profile refuses."""

from __future__ import annotations

import pytest

from rbank_es.errors import QueryRefused
from rbank_es.sparql.endpoint_profiles import Profile
from rbank_es.sparql.guard import Surroundings, check, explain
from rbank_es.sparql.lint import CODES

LOCAL = Surroundings(prefixes={"ex": "http://ex/"}, graphs=frozenset({"http://ex/g"}))


def codes(query: str) -> list[str]:
    return [finding.code for finding in explain(query, LOCAL).warnings]


@pytest.mark.parametrize(
    ("code", "pattern"),
    [
        ("unbound_predicate", "?s ?p ?o"),
        ("unbound_predicate", "?s a ex:T ; ?p ?o"),
        ("unbound_predicate", "?s ex:q ?x OPTIONAL { ?s ?p ?o }"),
        ("string_filter_on_predicate", "ex:a ex:q ?x . ?s ?p ?o FILTER(CONTAINS(LCASE(STR(?p)), 'name'))"),
        ("string_filter_on_predicate", "?s ?p ?o BIND(STR(?p) AS ?t) FILTER(REGEX(?t, 'name'))"),
        ("string_filter", "?s ex:name ?n FILTER(REGEX(?n, 'x', 'i'))"),
        ("string_filter", "?s a ex:T ; ex:name ?n FILTER(?s != ex:a && STRSTARTS(STR(?n), 'x'))"),
        ("string_filter", "?s ex:name ?n { SELECT ?s { ?s ex:q ?t FILTER(CONTAINS(?t, 'x')) } }"),
        ("cross_product", "?a ex:p ?b . ?c ex:q ?d"),
        ("cross_product", "?a ex:p ?b . { ?c ex:q ?d }"),
        ("cross_product", "?a ex:p ?b OPTIONAL { ?c ex:q ?d }"),
        ("cross_product", "?a ex:p [ ex:q ?b ] . [] ex:r ?c"),
        ("cross_product", "?z ex:p ?z { ?a ex:p ?b . ?c ex:q ?d }"),
        ("graph_scan", "GRAPH ?g { ?s ex:p ?o }"),
        ("unknown_graph", "GRAPH ex:other { ?s ex:p ?o }"),
        ("unbounded_path", "?a rdfs:subClassOf* ?b"),
        ("unbounded_path", "?a ^(ex:p/ex:q)+ ?b"),
        ("unbounded_path", "?a (ex:p|ex:q)* ?b"),
        ("unbound_variable", "?a ex:p ?b } ORDER BY ?bb #"),
        ("unbound_variable", "{ SELECT ?c { ?a ex:p ?b } }"),
        ("order_without_limit", "?a ex:p ?b } ORDER BY ?b #"),
    ],
)
def test_what_is_warned_of(code: str, pattern: str) -> None:
    query = f"SELECT * {{ {pattern} \n }}" if "#" not in pattern else f"SELECT * {{ {pattern}"
    assert code in codes(query)


def test_four_variables_are_named_and_of_more_it_is_said_that_there_are_more() -> None:
    for asked, named in (("?a ?b ?c ?d", "?a, ?b, ?c, ?d"), ("?a ?b ?c ?d ?e", "?a, ?b, ?c, ?d, …")):
        (found,) = explain(f"SELECT {asked} {{ ?x ex:p ex:o }}", LOCAL).warnings
        assert found.message == f"no pattern binds {named}"


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
