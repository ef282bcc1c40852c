"""`rbank-es suite`: checking a suite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli_runner import fails, run

TASK = {
    "id": "count",
    "question": "How many kilns are there?",
    "gold_sparql": "PREFIX k: <https://kilns.example/> SELECT (COUNT(?x) AS ?n) WHERE { ?x a/rdfs:subClassOf* k:Kiln }",
    "answer": [[2]],
    "level": 2,
    "family": "superclasses",
}
TURTLE = """@prefix k: <https://kilns.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
k:Kiln a owl:Class . k:Oven a owl:Class ; rdfs:subClassOf k:Kiln . k:one a k:Oven . k:two a k:Oven .
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "kilns.ttl").write_text(TURTLE)
    (tmp_path / "good.json").write_text(json.dumps({"ontology": "kilns", "files": ["kilns.ttl"], "tasks": [TASK]}))
    (tmp_path / "bad.json").write_text(json.dumps([TASK | {"answer": [[3]]}, TASK | {"id": "b", "level": None}]))
    return tmp_path


def test_a_suite_without_flaws_passes(place: Path) -> None:
    done = run("suite", "check", "good.json", cwd=place)
    assert done.code == 0 and "suite" not in done.err
    assert "1 task in 1 family, no flaw found" in done.out and "digest" in done.out


def test_a_suite_with_flaws_fails_with_a_table_of_them(place: Path) -> None:
    done = run("suite", "check", "bad.json", "--ont", "kilns.ttl", cwd=place, code=1)
    assert "wrong_answer" in done.out and "no_level" in done.out and "2 with flaws" in done.out


def test_the_check_as_json_names_every_task_with_its_flaws(place: Path) -> None:
    found = run("suite", "check", "bad.json", "--ont", "kilns.ttl", "--json", cwd=place, code=1).json
    assert [task["task"] for task in found["tasks"]] == ["count", "b"]
    codes = [{flaw["code"] for flaw in task["flaws"]} for task in found["tasks"]]
    assert codes == [{"wrong_answer", "repeated_question"}, {"no_level", "repeated_question"}]


def test_what_can_not_be_checked_is_refused_with_advice(place: Path) -> None:
    assert "add --ont PATH" in fails("suite", "check", "bad.json", cwd=place)
    assert "can't be read" in fails("suite", "check", "nowhere.json", cwd=place)
    assert "the suite names: kilns" in fails("suite", "check", "good.json", "--ont", "x=kilns.ttl", cwd=place)
    assert "more than 0 seconds" in fails("suite", "check", "good.json", "--timeout", "0", cwd=place)
    (place / "kilns.ttl").unlink()
    assert "kilns.ttl" in fails("suite", "check", "good.json", cwd=place)
