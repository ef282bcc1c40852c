"""The check of a suite: each fault of a task is found, and a task without any passes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es.data import lights
from rbank_es.lab.query_mistakes import plausible_mistakes
from rbank_es.lab.suite_check import EnginePair, check_suite, check_task
from rbank_es.lab.task_suite import Suite
from rbank_es.loop.tasks import Task
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import open_source
from rbank_es.sparql.engines.local import LocalEngine
from rbank_es.sparql.parser.parsed_query import parse_query
from tests.cli_runner import CACHE

SOUND = Task(
    id="sound",
    question="How many lights are there?",
    gold_sparql="SELECT (COUNT(DISTINCT ?x) AS ?n) WHERE { ?x a/rdfs:subClassOf* lt:Light }",
    answer=[[15]],
    level=2,
    family="superclasses",
)


@pytest.fixture(scope="module")
def engines() -> Iterator[EnginePair]:
    ontology = load_ontology(lights().ontology, cache=CACHE)
    source, second = open_source(ontology), LocalEngine(ontology.quads, "rdflib")
    yield EnginePair(source, second)
    source.close()
    second.close()


@pytest.mark.slow
def test_a_sound_task_has_no_flaw(engines: EnginePair) -> None:
    found = check_task(SOUND, engines)
    assert (found.flaws, found.rows, found.missed_by) == ((), 1, "subclasses left out")


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        ({"level": None, "family": None}, {"no_level", "no_family"}),
        ({"gold_sparql": None}, {"no_gold"}),
        ({"gold_sparql": "SELECT ?x WHERE {"}, {"unreadable_gold"}),
        ({"gold_sparql": "DELETE WHERE { ?s ?p ?o }"}, {"unreadable_gold"}),
        ({"gold_sparql": "SELECT ?x WHERE { ?x a lt:Cathedral }"}, {"failed_gold"}),
        ({"gold_sparql": "SELECT ?x WHERE { ?x a lt:Light }", "answer": None}, {"empty_gold"}),
        ({"gold_sparql": "SELECT ?a WHERE { ?a ?b ?c . ?d ?e ?f }", "answer": None}, {"too_many_rows"}),
        ({"gold_sparql": "SELECT ?x WHERE { ?x a lt:Watch }", "answer": None}, {"nameless_rows", "no_trap"}),
        ({"answer": [[14]]}, {"wrong_answer"}),
        ({"answer": "sixteen lights"}, {"wrong_answer"}),
        ({"question": "How many lights are there: 14 or 15?"}, {"gives_answer_away"}),
        ({"question": "How many lights are there: 14 or 15?", "answer": None}, {"gives_answer_away"}),
        ({"question": "How many things have an rdfs:subClassOf path to lt:Light?"}, {"names_property"}),
        ({"misleading_sparql": "SELECT (15 AS ?n) WHERE {}"}, {"misleading_right"}),
        ({"misleading_sparql": "SELECT ?x WHERE { ?x lt:painter ?y }"}, {"misleading_failed"}),
        ({"ordered": True}, {"unordered_gold"}),
        ({"gold_sparql": "SELECT ?x WHERE { ?x a lt:Status }", "answer": None}, {"no_trap"}),
    ],
)
def test_each_fault_of_a_task_is_found(engines: EnginePair, changed: dict[str, Any], codes: set[str]) -> None:
    found = check_task(replace(SOUND, **changed), engines)
    assert {flaw.code for flaw in found.flaws} == codes, found.flaws


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "is_tie"),
    [
        ("SELECT ?l WHERE { ?l lt:nominalRange ?r } ORDER BY DESC(?r) LIMIT 3", False),
        ("SELECT ?l WHERE { ?l lt:nominalRange ?r } ORDER BY DESC(?r) ?l LIMIT 4", False),
        ("SELECT ?r WHERE { ?l lt:nominalRange ?r } ORDER BY DESC(?r) LIMIT 4", False),
        ("SELECT ?l WHERE { ?o a lt:Outage ; lt:ofLight ?l } GROUP BY ?l ORDER BY DESC(COUNT(*)) LIMIT 1", False),
        ("SELECT ?n WHERE { { SELECT ?l WHERE { ?l lt:lensOrder ?o } ORDER BY ?o LIMIT 1 } ?l lt:name ?n }", False),
        ("SELECT ?l WHERE { ?l lt:nominalRange ?r } ORDER BY DESC(?r) LIMIT 4", True),
        ("SELECT ?c WHERE { ?x lt:cause ?c } LIMIT 3", True),
        (
            "SELECT ?n WHERE { { SELECT ?l WHERE { ?l lt:lensOrder ?o } ORDER BY DESC(?o) LIMIT 2 } ?l lt:name ?n }",
            True,
        ),
        ("SELECT ?l WHERE { ?l lt:nominalRange ?r } ORDER BY DESC(?r) OFFSET 4", True),
        ("SELECT DISTINCT ?l WHERE { ?l lt:nominalRange ?r } ORDER BY DESC(?r) LIMIT 3 OFFSET 1 VALUES ?q { 1 }", True),
        ("SELECT * WHERE { ?l lt:lensOrder ?r } LIMIT 2", True),
    ],
)
def test_a_limit_or_an_offset_is_a_tie_unless_order_by_or_equal_rows_decide(
    engines: EnginePair, query: str, is_tie: bool
) -> None:
    found = check_task(replace(SOUND, gold_sparql=query, answer=None), engines)
    assert ("tie_at_limit" in {flaw.code for flaw in found.flaws}) is is_tie


def test_engines_that_differ_are_found(engines: EnginePair, tmp_path: Path) -> None:
    """A second engine over other data stands for one with another opinion."""
    other = tmp_path / "other.nq"
    other.write_text("<https://lights.example/x> a <https://lights.example/ns#Light> .\n".replace(" a ", " <x:a> "))
    second = LocalEngine(other)
    codes = {flaw.code for flaw in check_task(SOUND, EnginePair(engines.source, second)).flaws}
    second.close()
    assert codes == {"engines_differ"}


@pytest.mark.slow
def test_a_second_engine_that_takes_too_long_is_stopped_and_told(engines: EnginePair) -> None:
    slow = "SELECT (COUNT(*) AS ?n) WHERE { ?a ?b ?c . ?d ?e ?f FILTER(STRLEN(STR(?c)) > STRLEN(STR(?f))) }"
    found = check_task(replace(SOUND, gold_sparql=slow, answer=None), engines, timeout_s=0.8)
    assert "second_engine_failed" in {flaw.code for flaw in found.flaws}


def test_a_task_about_an_endpoint_is_checked_by_its_text_alone_unless_it_may_be_asked() -> None:
    found = check_task(replace(SOUND, endpoint="uniprot"), None)
    assert found.rows is None and "not run" in found.note and not found.flaws


def test_a_question_that_is_asked_twice_and_a_lonely_family_are_told(engines: EnginePair) -> None:
    twin = replace(SOUND, id="twin", family="other")
    found = check_suite(Suite.of("pair", [SOUND, twin]), lambda task: engines)
    assert {flaw.code for each in found.tasks for flaw in each.flaws} == {"repeated_question"}
    assert [each.task for each in found.failing] == ["sound", "twin"]
    assert found.notes == ("2 families have one task, from which no lesson can help another: superclasses, other",)


# ---------------------------------------------------------------- parts


def test_mistakes_are_made_one_at_a_time_and_can_be_read() -> None:
    query = parse_query(
        """SELECT DISTINCT ?x WHERE {
          ?x a/rdfs:subClassOf* lt:Light ; lt:inArea|^lt:covers ?a . ?a lt:partOf+ ?b ; rdfs:label "South"@en
          OPTIONAL { ?x lt:range ?r } FILTER(?r * 2 > 3) FILTER NOT EXISTS { ?m lt:marks ?x }
        } ORDER BY ?r LIMIT 2"""
    )
    made = list(plausible_mistakes(query))
    assert len({mistake.query for mistake in made}) == len(made)
    assert {mistake.name for mistake in made} == {
        "subclasses left out", "one side of a relation", "one step of a path", "no language", "rows counted twice",
        "a condition left out", "an optional part required", "sorted the other way", "a property turned around",
    }  # fmt: skip
    for mistake in made:
        parse_query(mistake.query)
    assert "a lt:Light" in " ".join(made[0].query.split()) and "?r * 2" in made[0].query
