"""Real questions' queries through the guard: every one is read, gets its limit, and is read again by both libraries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyoxigraph
import pytest
from rdflib.plugins.sparql.parser import parseQuery

from rbank_es.errors import QueryRefused
from rbank_es.ontology.loader import load_ontology
from rbank_es.ontology.vocabulary import Vocabulary
from rbank_es.sparql.endpoint_profiles import profile_named
from rbank_es.sparql.guard import Surroundings, check, explain

pytestmark = pytest.mark.real

SUITES = ("uniprot_subset_tasks", "judge_eval_tasks", "ontology_tasks")
QUERIES, ONTOLOGY_TASKS = 58, 29


@cache
def tasks_of(path: Path) -> list[dict[str, Any]]:
    found = json.loads(path.read_text(encoding="utf-8"))
    return found["tasks"] if isinstance(found, dict) else found


def queries(data: Path) -> Iterator[tuple[str, str]]:
    """Every query of every suite, with the name of its task; an agent that wrote none left the field empty."""
    for suite in SUITES:
        for task in tasks_of(data / "tasks" / f"{suite}.json"):
            yield from ((f"{task['id']} {key}", task[key]) for key in task if "sparql" in key and task[key].strip())


@pytest.mark.slow
def test_every_query_is_read_limited_and_read_again(data: Path) -> None:
    surroundings = Surroundings(prefixes=profile_named("uniprot").prefixes, remote=True)
    count = 0
    for name, query in queries(data):
        for rows in (1, 10_000):
            found = check(query, surroundings, rows)
            _, read = parseQuery(found.query)
            limit = read.limitoffset.limit if read.limitoffset else None
            assert read.name == f"{found.form.capitalize()}Query", name
            assert (None if limit is None else int(limit)) == found.limit_applied, name
            assert found.form == "ask" or (found.limit_applied or 0) <= rows + 1, name
            pyoxigraph.Store().query(found.query)
        count += 1
    assert count == QUERIES


@pytest.mark.slow
def test_every_gold_query_names_only_what_its_ontology_knows(data: Path, tmp_path: Path) -> None:
    @cache
    def surroundings(files: tuple[str, ...]) -> Surroundings:
        ontology = load_ontology([data / file for file in files], cache=tmp_path)
        return Surroundings(prefixes=ontology.prefixes, vocabulary=Vocabulary.from_schema(ontology.schema))

    tasks = tasks_of(data / "tasks" / "ontology_tasks.json")
    assert len(tasks) == ONTOLOGY_TASKS
    for task in tasks:
        there = surroundings(tuple(task["files"]))
        found = check(task["gold_sparql"], there, 100)
        assert found.rows >= task["n_rows"], task["id"]
        # Their answers are known, so that a warning of what can't be found would be wrong.
        codes = {finding.code for finding in found.warnings}
        assert not codes & {"unbound_variable", "cross_product", "unknown_graph", "unbound_predicate"}, task["id"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("SELECT * { ?x a brick:AirHandlingUnit }", "brick:Air_Handling_Unit"),
        ("SELECT * { ?x a brick:VAV ; brick:has_part ?y }", "brick:hasPart"),
        ("SELECT * { ?x a/rdfs:subClassOf* brick:TemperatureSensor }", "brick:Temperature_Sensor"),
    ],
)
def test_what_was_meant_is_named_for_a_real_ontology(data: Path, tmp_path: Path, query: str, meant: str) -> None:
    files = [data / "ontologies" / name for name in ("brick-1.4.ttl", "brick_soda.ttl")]
    ontology = load_ontology(files, cache=tmp_path)
    there = Surroundings(prefixes=ontology.prefixes, vocabulary=Vocabulary.from_schema(ontology.schema))
    with pytest.raises(QueryRefused) as refused:
        check(query, there, 10)
    assert refused.value.code == "unknown_term"
    assert f"try {meant}" in refused.value.hint


def test_gold_queries_of_an_endpoint_are_not_too_slow_for_it(data: Path) -> None:
    there = Surroundings(prefixes={}, remote=True, profile=profile_named("uniprot"))
    for task in tasks_of(data / "tasks" / "uniprot_subset_tasks.json"):
        assert explain(task["expected_sparql"], there).refused_by == (), task["id"]
