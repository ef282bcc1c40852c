"""What is told of a query without running it: warnings that are precise, and what a profile refuses."""

from __future__ import annotations

import pytest

from rbank_es.errors import QueryRefused
from rbank_es.sparql.endpoint_profiles import Profile, profile_named
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


@pytest.mark.parametrize(
    ("code", "pattern"),
    [
        ("unbound_predicate", "ex:a ?p ?o"),
        ("unbound_predicate", "?s ?p ex:a"),
        ("unbound_predicate", "?s ex:name 'A4_HUMAN' ; ?p ?o"),
        ("unbound_predicate", "ex:a ex:q ?s . ?s ?p ?o"),
        ("unbound_predicate", "VALUES ?s { ex:a ex:b } ?s ?p ?o"),
        ("unbound_predicate", "BIND(ex:a AS ?s) ?s ?p ?o"),
        ("unbound_predicate", "VALUES ?p { ex:p ex:q } ?s ?p ?o"),
        ("string_filter_on_predicate", "ex:a ?p ?o FILTER(CONTAINS(STR(?p), 'name'))"),
        ("string_filter", "ex:a ex:name ?n FILTER(REGEX(?n, 'x'))"),
        ("string_filter", "?s ex:organism ex:human ; ex:name ?n FILTER(CONTAINS(?n, 'x'))"),
        ("string_filter", "?s ex:name ?n FILTER(?n = 'CONTAINS')"),
        ("cross_product", "?a ex:p ?b . ?b ex:q ?c"),
        ("cross_product", "?a ex:p ?b . ?c ex:q ?d FILTER(?b < ?d)"),
        ("cross_product", "?a ex:p ?b . ?c ex:q ?d BIND(?b + ?d AS ?e)"),
        ("cross_product", "?a ex:p _:x . _:x ex:q ?c"),
        ("cross_product", "?a ex:p ?b . ex:c ex:label ?d"),
        ("cross_product", "ex:a ex:p ?b . ex:c ex:label ?d"),
        ("cross_product", "{ SELECT (COUNT(*) AS ?n) { ?s ex:p ?o } } { SELECT (COUNT(*) AS ?m) { ?s ex:q ?o } }"),
        ("cross_product", "?a ex:p ?b MINUS { ?c ex:q ?d }"),
        ("cross_product", "{ ?a ex:p ?b } UNION { ?c ex:q ?d }"),
        ("graph_scan", "GRAPH ex:g { ?s ex:p ?o }"),
        ("graph_scan", "VALUES ?g { ex:g } GRAPH ?g { ?s ex:p ?o }"),
        ("unknown_graph", "GRAPH ex:g { ?s ex:p ?o }"),
        ("unbounded_path", "?a rdfs:subClassOf* ex:b"),
        ("unbounded_path", "?x a ?a . ?a rdfs:subClassOf* ?b"),
        ("unbounded_path", "?a ex:p? ?b"),
        ("unbounded_path", "?a ex:p/ex:q ?b"),
        ("unbound_variable", "?a ex:p ?b BIND(?b AS ?c) FILTER(?c > 1)"),
        ("order_without_limit", "?a ex:p ?b } ORDER BY ?b LIMIT 5 #"),
    ],
)
def test_what_is_not_warned_of(code: str, pattern: str) -> None:
    query = f"SELECT * {{ {pattern} \n }}" if "#" not in pattern else f"SELECT * {{ {pattern}"
    assert code not in codes(query)


def test_names_that_a_select_makes_itself_are_bound() -> None:
    query = (
        "SELECT ?k (COUNT(?b) AS ?n) (?n + 1 AS ?m) { ?a ex:p ?b } GROUP BY (STR(?a) AS ?k) HAVING (?n > 1) ORDER BY ?m"
    )
    assert codes(query) == []


def test_a_misspelt_variable_is_told_with_those_that_there_are() -> None:
    (found,) = explain("SELECT ?nmae { ?x ex:p ?name }", LOCAL).warnings
    assert (found.message, found.alternative) == (
        "no pattern binds ?nmae",
        "use the name that the pattern has: ?name, ?x",
    )


def test_four_variables_are_named_and_of_more_it_is_said_that_there_are_more() -> None:
    for asked, named in (("?a ?b ?c ?d", "?a, ?b, ?c, ?d"), ("?a ?b ?c ?d ?e", "?a, ?b, ?c, ?d, …")):
        (found,) = explain(f"SELECT {asked} {{ ?x ex:p ex:o }}", LOCAL).warnings
        assert found.message == f"no pattern binds {named}"


def test_findings_come_once_and_in_one_order() -> None:
    query = "SELECT ?x { ?s ?p ?o . ?s ?p ?o . ?a ex:q ?b . ?c ex:q* ?d } ORDER BY ?s"
    assert codes(query) == [
        *("unbound_predicate", "cross_product", "unbounded_path", "order_without_limit", "unbound_variable")
    ]
    assert codes(query) == codes(query)


@pytest.mark.slow
def test_every_finding_says_what_to_do() -> None:
    pattern = "?s ?p ?o FILTER(REGEX(STR(?p), 'x') || REGEX(?o, 'x')) GRAPH ?g { ?c ex:q* ?d } GRAPH ex:h { }"
    query = f"SELECT ?x {{ {pattern} }} ORDER BY ?s"
    found = explain(query, LOCAL).warnings
    elsewhere = {"limit_counts_solutions", "class_mismatch"}
    assert {finding.code for finding in found} == CODES.keys() - elsewhere
    assert all(finding.message and finding.alternative for finding in found)


def test_form_variables_limit_and_text_are_told() -> None:
    told = explain("SELECT ?b ?a { ?a ex:p ?b }", LOCAL, rows=5)
    assert (told.form, told.variables, told.limit, told.added_prefixes) == ("select", ("b", "a"), 6, ("ex",))
    assert told.query == check("SELECT ?b ?a { ?a ex:p ?b }", LOCAL, 5).query
    assert explain("ASK { ?a ex:p ?b } LIMIT 9", LOCAL).limit == 9
    assert explain("ASK { ?a ex:p ?b }", LOCAL).limit is None


# Profiles


@pytest.mark.parametrize(
    ("name", "query", "alternative"),
    [
        ("uniprot", "SELECT DISTINCT ?p { ?x a up:Taxon ; ?p ?o }", "sparql_schema"),
        (
            "uniprot",
            "SELECT * { ?s ?p 'x'; up:mnemonic ?m . ?a ?q ?b FILTER(CONTAINS(STR(?q), 'name')) }",
            "name the predicate",
        ),
        ("uniprot", "SELECT * { GRAPH ?g { ?x a up:Protein } }", "sparql.uniprot.org/uniprot"),
        ("wikidata", "SELECT * { ?x rdfs:label ?l FILTER(CONTAINS(?l, 'Douglas')) }", "whole label"),
        ("wikidata", "SELECT * { ?a wdt:P279* ?b }", "name one end"),
    ],
)
def test_what_is_slow_at_an_endpoint_is_refused_with_the_fast_way(name: str, query: str, alternative: str) -> None:
    there = Surroundings(prefixes={}, remote=True, profile=profile_named(name))
    with pytest.raises(QueryRefused) as refused:
        check(query, there, 10)
    assert refused.value.code == "slow_here"
    assert name in refused.value.message
    assert alternative in refused.value.hint
    told = explain(query, there)
    assert told.refused_by[0].alternative == refused.value.hint
    assert not {finding.code for finding in told.refused_by} & {finding.code for finding in told.warnings}
    assert check(query, Surroundings(prefixes=there.profile.prefixes), 10)


def test_a_profile_that_says_no_more_than_the_code_leaves_the_alternative() -> None:
    there = Surroundings(prefixes={}, profile=Profile(name="here", refuses={"unbound_predicate": ""}))
    with pytest.raises(QueryRefused, match="sparql_schema lists"):
        check("SELECT * { ?s ?p ?o }", there, 10)
