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


@pytest.mark.slow
def test_a_suite_without_flaws_passes(place: Path) -> None:
    done = run("suite", "check", "good.json", cwd=place)
    assert done.code == 0 and "suite" not in done.err
    assert "1 task in 1 family, no flaw found" in done.out and "digest" in done.out


@pytest.mark.slow
def test_the_check_fails_and_names_every_task_with_its_flaws(place: Path) -> None:
    found = run("suite", "check", "bad.json", "--ont", "kilns.ttl", "--json", cwd=place, code=1).json
    assert [task["task"] for task in found["tasks"]] == ["count", "b"]
    codes = [{flaw["code"] for flaw in task["flaws"]} for task in found["tasks"]]
    assert codes == [{"wrong_answer", "repeated_question"}, {"no_level", "repeated_question"}]
    told = run("suite", "check", "bad.json", "--ont", "kilns.ttl", cwd=place, code=1).out
    assert "wrong_answer" in told and "no_level" in told and "2 with flaws" in told


def test_what_can_not_be_checked_is_refused_with_advice(place: Path) -> None:
    assert "add --ont PATH" in fails("suite", "check", "bad.json", cwd=place)
    assert "can't be read" in fails("suite", "check", "nowhere.json", cwd=place)
    assert "the suite names: kilns" in fails("suite", "check", "good.json", "--ont", "x=kilns.ttl", cwd=place)
    assert "not in the range 0<x<=300" in fails("suite", "check", "good.json", "--timeout", "0", cwd=place)
    (place / "kilns.ttl").unlink()
    assert "kilns.ttl" in fails("suite", "check", "good.json", cwd=place)


def test_tasks_of_another_form_are_imported_and_what_is_left_out_is_told(place: Path) -> None:
    kilns = {"sparql": "SELECT ?x WHERE { ?x a <https://kilns.example/Oven> }"}
    asked = [
        {"id": "1", "question": [{"language": "en", "string": "Which ovens are there?"}], "query": kilns},
        {"id": "2", "question": [{"language": "de", "string": "Welche?"}], "query": kilns},
    ]
    (place / "qald.json").write_text(json.dumps({"questions": asked}))
    done = run("suite", "import", "qald.json", "--ont", "kilns", "--into", "made.json", cwd=place)
    assert "made.json: 1 task" in done.out and "left out: 1 question with no text in the language 'en'" in done.out
    made = json.loads((place / "made.json").read_text())
    assert (made["name"], made["ontology"], made["tasks"][0]["level"]) == ("qald", "kilns", 1)
    again = run("suite", "import", "made.json", "--endpoint", "uniprot", "--into", "re.json", "--json", cwd=place).json
    assert (again["tasks"], again["left_out"]) == (1, {})
    assert json.loads((place / "re.json").read_text())["tasks"][0]["endpoint"] == "uniprot"
    told = run("suite", "check", "re.json", cwd=place).out
    assert "1 not run" in told
    (place / "bare.json").write_text(json.dumps([{"id": "1", "query": "Which?", "expected_sparql": kilns["sparql"]}]))
    run("suite", "import", "bare.json", "--into", "shaped.json", cwd=place)
    assert json.loads((place / "shaped.json").read_text())["tasks"][0]["level"] == 1


def test_an_import_is_refused_before_anything_is_written(place: Path) -> None:
    into = ("--into", "made.json")
    assert "not both" in fails("suite", "import", "good.json", "--ont", "x", "--endpoint", "y", *into, cwd=place)
    assert "is not a directory" in fails("suite", "import", "good.json", "--into", "no/made.json", cwd=place)
    assert "neither JSON nor JSON Lines" in fails("suite", "import", "kilns.ttl", *into, cwd=place)
    assert not (place / "made.json").exists()


def test_a_suite_is_generated_with_a_second_version_that_breaks_lessons(tmp_path: Path) -> None:
    done = run("suite", "generate", "--seed", "4", "--tasks", "30", "--into", "made", "--second", cwd=tmp_path)
    assert "made: generated-4, 30 tasks in 6 families" in done.out and "removed" in done.out
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")}
    assert names == {f"made/{name}" for name in (
        "ontology.ttl", "suite.json", "second/ontology.ttl", "second/suite.json", "second/broken.json"
    )}  # fmt: skip
    told = run("suite", "generate", "--seed", "4", "--tasks", "30", "--into", "again", "--json", cwd=tmp_path).json
    assert (told["tasks"], told["second"], told["broken"]) == (30, None, [])
    assert (tmp_path / "again" / "suite.json").read_bytes() == (tmp_path / "made" / "suite.json").read_bytes()


def test_a_suite_is_generated_into_a_new_directory_only(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    assert "name a new one" in fails("suite", "generate", "--into", "there", cwd=tmp_path)
    assert "ask for 1 to" in fails("suite", "generate", "--tasks", "0", "--into", "new", cwd=tmp_path)
    assert not (tmp_path / "new").exists()


def test_a_script_of_a_suite_is_written_and_named(place: Path) -> None:
    done = run("suite", "script", "good.json", "--into", "gold.toml", cwd=place)
    assert "answers to 1 task" in done.out and "[[task]]" in (place / "gold.toml").read_text()
    assert run("suite", "script", "good.json", "--into", "gold.toml", "--json", cwd=place).json["tasks"] == 1
