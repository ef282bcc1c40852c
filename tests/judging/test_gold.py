"""The gold check: results where data tell, queries where they don't, words where there is nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es.errors import BadInput, JudgeFailed
from rbank_es.judging.gold_answers import Gold, gold_of
from rbank_es.judging.gold_judge import judge_by_gold
from rbank_es.judging.judges import decide
from rbank_es.judging.query_comparison import differences_of_queries
from rbank_es.sparql.data_source import Source
from rbank_es.sparql.parser.parsed_query import parse_query
from rbank_es.sparql.results import Cell
from tests.judging.answers import blank, iri, run_of, table, text, typed
from tests.judging.test_checks import Failing, with_engine

LIT = "SELECT ?light WHERE { ?light lt:status lt:Lit ; a lt:Lighthouse }"
ALL = "SELECT ?light WHERE { ?light a lt:Lighthouse }"


def kinds(sparql: str, gold: Gold, source: Source) -> list[str]:
    return [each.kind for each in judge_by_gold(run_of(sparql), gold, source).differences]


# ---------------------------------------------------------------- by results


def test_the_kind_of_every_difference_is_named(lights_source: Source) -> None:
    named = "SELECT ?light ?n WHERE { ?light lt:status lt:Lit ; a lt:Lighthouse ; lt:name ?n }"
    ordered = "SELECT ?light WHERE { ?light a lt:Lighthouse } ORDER BY ?light"
    turned = "SELECT ?light WHERE { ?light a lt:Lighthouse } ORDER BY DESC(?light)"
    assert kinds(ALL, Gold(sparql=LIT), lights_source) == ["extra_rows"]
    assert kinds(LIT, Gold(sparql=ALL), lights_source) == ["missing_rows"]
    assert kinds(LIT, Gold(sparql=named), lights_source) == ["missing_columns"]
    assert kinds(turned, Gold(sparql=ordered), lights_source) == ["different_order"]
    assert kinds(turned, Gold(sparql=ALL), lights_source) == []


@pytest.mark.parametrize(
    ("expected", "given", "right"),
    [
        ("?l ?s {} ORDER BY ?s", "?l ?s {} ORDER BY ?s DESC(?l)", True),
        ("?l ?s {} ORDER BY DESC(?s)", "(1 AS ?x) ?l ?s {} ORDER BY DESC(?s) ?l", True),
        ("?l ?s {} ORDER BY ?s", "?l ?s {} ORDER BY DESC(?s) ?l", False),
        ("?l ?s {} ORDER BY ?s ?l", "?l ?s {} ORDER BY ?s DESC(?l)", False),
        ("?l {} ORDER BY ?s ?l", "?l {} ORDER BY ?s DESC(?l)", False),
        ("?l ?s {} ORDER BY STR(?s)", "?l ?s {} ORDER BY ?s DESC(?l)", False),
        ("(COUNT(?l) AS ?n) ?s {} GROUP BY ?s HAVING(COUNT(?l) > 0) ORDER BY ?s",
         "(COUNT(?l) AS ?n) ?s {} GROUP BY ?s ORDER BY DESC(?s)", False),
    ],
)  # fmt: skip
def test_rows_that_are_sorted_alike_may_stand_in_any_order(
    expected: str, given: str, right: bool, lights_source: Source
) -> None:
    """By `?s` alone, SPARQL leaves open in which order the lights of one status come."""
    pattern = "WHERE { ?l a lt:Lighthouse ; lt:status ?s }"
    one, other = (f"SELECT {each.replace('{}', pattern)}" for each in (expected, given))
    _, answer = lights_source.query(one)
    unnamed = replace(answer, variables=tuple(f"column {number}" for number in range(len(answer.variables))))
    for gold in (Gold(sparql=one), Gold(sparql=one, answer=answer), Gold(sparql=one, answer=unnamed)):
        verdict = judge_by_gold(run_of(other), gold, lights_source)
        assert (verdict.verdict == "success") == right, verdict.reason


def test_a_stored_answer_goes_before_the_query(lights_source: Source) -> None:
    count = "SELECT (COUNT(*) AS ?n) WHERE { ?light a lt:Lighthouse }"
    assert judge_by_gold(run_of(count), Gold(sparql=ALL, answer=table((typed(9),))), lights_source).verdict == "success"
    assert judge_by_gold(run_of(count), Gold(answer=table((typed(8),))), lights_source).verdict == "failure"


def test_what_did_not_converge_or_can_not_run_is_wrong(lights_source: Source) -> None:
    gold = Gold(sparql=LIT)
    for run in (
        run_of(LIT, outcome="failed"),
        run_of("", answer="Seven"),
        run_of("SELECT"),
        run_of("SELECT ?x { ?x a lt:Submarine }"),
    ):
        assert judge_by_gold(run, gold, lights_source).verdict == "failure"
    stored, slow = Gold(answer=table((iri("a"),))), with_engine(lights_source, Failing("timeout"))
    assert judge_by_gold(run_of(ALL), stored, slow).verdict == "undecided"


@pytest.mark.parametrize(
    ("sparql", "answer", "told"), [(LIT, "", "success"), (ALL, "", "failure"), ("", "", "failure")]
)
def test_an_answer_that_was_forced_at_a_limit_is_compared_where_there_is_one(
    sparql: str, answer: str, told: str, lights_source: Source
) -> None:
    forced = run_of(sparql, answer=answer, outcome="forced_at_limit")
    assert judge_by_gold(forced, Gold(sparql=LIT), lights_source).verdict == told
    judged = decide(forced, gold=Gold(sparql=LIT), source=lights_source, purpose="scoring")
    assert (judged.verdict, judged.grounding is None) == (told, not sparql)
    # A model's judge and the checks hold that a run has to end by itself.
    assert decide(forced, gold=Gold(sparql=LIT), source=lights_source).verdict == "failure"


def test_there_is_no_verdict_where_the_right_answer_can_not_be_found_out(lights_source: Source) -> None:
    for code in ("unreachable", "timeout"):
        with pytest.raises(JudgeFailed, match="gold"):
            judge_by_gold(run_of(ALL), Gold(sparql=LIT), with_engine(lights_source, Failing(code)))
    with pytest.raises(JudgeFailed, match="no source"):
        judge_by_gold(run_of(ALL), Gold(answer=table((iri("a"),))))
    with pytest.raises(JudgeFailed, match="can't be read"):
        judge_by_gold(run_of(ALL), Gold(sparql="SELECT nonsense"))


def test_two_empty_results_prove_nothing(lights_source: Source) -> None:
    """Then the queries are compared."""
    none = 'SELECT ?l WHERE { ?l a lt:Lighthouse ; lt:name "Atlantis" }'
    other = 'SELECT ?l WHERE { ?l a lt:Beacon ; lt:name "Atlantis" }'
    again = 'SELECT ?it WHERE { ?it lt:name "Atlantis" . ?it a lt:Lighthouse }'
    assert judge_by_gold(run_of(again), Gold(sparql=none), lights_source).verdict == "success"
    verdict = judge_by_gold(run_of(other), Gold(sparql=none), lights_source)
    assert verdict.verdict == "undecided" and "missing ?l rdf:type lt:Lighthouse" in verdict.reason


def test_right_words_are_looked_for_in_the_answer() -> None:
    gold = gold_of(None, " district  Sud ")
    assert gold is not None
    prose = "It is called “District Sud”."
    assert judge_by_gold(run_of("", answer=prose), gold).verdict == "success"
    assert judge_by_gold(run_of("", answer=prose, source="lights"), gold).verdict == "failure"  # no query behind it
    assert judge_by_gold(run_of(ALL, answer="It is called “District Sud”."), gold).verdict == "success"
    assert judge_by_gold(run_of(ALL, answer="It is called South."), gold).verdict == "failure"


# ---------------------------------------------------------------- by what the queries say


@pytest.mark.parametrize(
    "other",
    [
        "SELECT ?a ?b { ?a up:recommendedName ?r . ?r up:fullName ?b . ?a a up:Protein . }",
        "SELECT ?a ?b { ?a a up:Protein ; up:recommendedName/up:fullName ?b }",
        "SELECT ?a ?b { ?b ^up:fullName ?r . ?a up:recommendedName ?r . ?a rdf:type up:Protein }",
        "PREFIX u: <http://purl.uniprot.org/core/> SELECT * { ?a a u:Protein ; u:recommendedName [ u:fullName ?b ] }",
    ],
)
def test_the_same_triples_are_the_same_query(other: str) -> None:
    gold = "SELECT ?protein ?name { ?protein a up:Protein ; up:recommendedName ?x . ?x up:fullName ?name }"
    assert differences_of_queries(parse_query(other), parse_query(gold)) == ()
    assert judge_by_gold(run_of(other), Gold(sparql=gold)).verdict == "success"


@pytest.mark.parametrize(
    ("given", "expected", "said"),
    [
        ("SELECT ?t { ?t a up:T }", "SELECT ?t FROM <http://e.org/g> { ?t a up:T }", "missing FROM <http://e.org/g>"),
        ("SELECT ?x { ?x up:m 'A' }", "SELECT ?x { ?x a up:P ; up:m 'A' }", "missing ?x rdf:type up:P"),
        ("SELECT ?x { ?x up:host ?y }", "SELECT ?x ?y { ?x up:host ?y }", "1 columns (x) instead of 2 (x, y)"),
        ("SELECT ?y ?x { ?x up:host ?y }", "SELECT ?x ?y { ?x up:host ?y }", "extra ?y up:host ?x"),
        ("SELECT ?x { ?x up:n '1' }", "SELECT ?x { ?x up:n '1'^^xsd:date }", "missing ?x up:n"),
        ("SELECT ?x { ?x up:n 'a'@en }", "SELECT ?x { ?x up:n 'a' }", "extra ?x up:n"),
        ("SELECT DISTINCT ?x { ?x a up:A }", "SELECT ?x { ?x a up:A }", "extra DISTINCT"),
        ("SELECT ?x { ?x a up:A } LIMIT 1", "SELECT ?x { ?x a up:A }", "can't be told"),
        ("SELECT ?x { ?x up:n ?y FILTER(?y < 3) }", "SELECT ?x { ?x up:n ?y FILTER(?y > 3) }", "can't be told"),
        ("SELECT ?x { VALUES ?x { up:A } ?x a up:C }", "SELECT ?x { VALUES ?x { up:B } ?x a up:C }", "can't be told"),
        ("SELECT ?x { ?x up:a ?y OPTIONAL { ?x up:b ?z } }", "SELECT ?x { ?x up:a ?y . ?x up:b ?z }", "can't be told"),
        ("ASK { ?x a up:A }", "SELECT ?x { ?x a up:A }", "columns"),
    ],
)  # fmt: skip
def test_what_is_missing_and_extra_is_named(given: str, expected: str, said: str) -> None:
    verdict = judge_by_gold(run_of(given), Gold(sparql=expected))
    # Only what no data can mend is a failure: too few columns, or no table at all.
    assert verdict.verdict == ("failure" if "columns" in said else "undecided")
    assert said in verdict.reason


def test_a_query_that_can_not_be_told_from_another_is_not_called_the_same() -> None:
    """No false agreement: every two of these ask something else."""
    queries = [
        "SELECT ?x { ?x up:a ?y . ?y up:a ?z }",
        "SELECT ?x { ?z up:a ?y . ?y up:a ?x }",
        "SELECT ?x { ?x up:a ?y . ?z up:a ?y }",
        "SELECT ?x { ?x up:a ?y . ?x up:a ?x }",
        "SELECT ?x { ?x up:a ?y . ?y up:a ?x }",
        "SELECT ?x { ?x up:a+ ?y }",
        "SELECT ?x { ?x up:a|up:b ?y }",
        "SELECT ?x { ?x !up:a ?y }",
        "SELECT ?x { ?x ?p ?y . ?y up:a ?z }",
        "SELECT * { ?x up:a ?y . ?y up:a ?z }",
        "SELECT ?x { ?x up:a 5 }",
        "SELECT ?x { ?x up:a -5 }",
        "SELECT ?x { ?x up:a -6 }",
        "SELECT ?x { ?x up:a 5.0 }",
        "SELECT ?x { ?x up:a '5' }",
        "SELECT ?x { ?x up:a 'a' }",
        "SELECT ?x { ?x up:a '\"a\"' }",
        "SELECT ?x { ?x up:a 'a . }' }",
        "SELECT ?x { ?x up:a 'a }' }",
        "SELECT ?x { ?x up:a 'a'@en }",
        "SELECT ?x { ?x up:a 'a'^^up:b }",
        "SELECT ?x { ?x up:a '' }",
    ]
    for one in queries:
        for other in queries:
            assert (differences_of_queries(parse_query(one), parse_query(other)) == ()) == (one == other), (one, other)


# ---------------------------------------------------------------- what a task says


def test_rows_of_a_task_are_read_in_both_forms() -> None:
    gold = gold_of(None, [[["iri", "http://example.org/a"], ["num", 2.0], ["lit", "mot", "fr"], ["bnode"], None]])
    assert gold is not None and gold.answer is not None
    assert gold.answer.rows == ((iri("a"), typed("2.0", "double"), text("mot", "fr"), blank("b"), None),)
    assert len(gold.answer.variables) == 5
    plain = gold_of("SELECT *", [["http://example.org/a", 2, "mot", True]])
    assert plain is not None and plain.answer is not None
    assert plain.answer.rows == ((iri("a"), typed("2", "double"), text("mot"), typed("true", "boolean")),)
    dated = gold_of(None, [[["lit", "2020-01-01", "", "xsd:date"], ["lit", "x", "", "http://e.org/t"], ["lit", "y"]]])
    assert dated is not None and dated.answer is not None
    assert dated.answer.rows == ((typed("2020-01-01", "date"), Cell("literal", "x", "", "http://e.org/t"), text("y")),)
    assert gold_of(None, None) is None
    assert gold_of("", "  ") is None


@pytest.mark.parametrize(
    "rows",
    [
        [3],
        [[["num", "x"]]],
        [[["odd", 1]]],
        [["a"], ["a", "b"]],
        [[{}]],
        [None],
        [[["lit", "a", "en", "xsd:date"]]],
        [[["lit", 1]]],
    ],
)
def test_other_rows_are_refused(rows: list[Any]) -> None:
    with pytest.raises(BadInput, match="row"):
        gold_of(None, rows)
