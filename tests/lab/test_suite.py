"""Suites: what their files say, and what names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.errors import BadInput
from rbank_es.lab.task_suite import Suite, load_suite, suite_json
from rbank_es.loop.tasks import Task, suite_digest

TASKS: list[dict[str, Any]] = [
    {"id": "a", "question": "Which lights are lit?", "level": 2, "family": "status"},
    {"id": "b", "question": "How many are dark?", "level": 5, "family": "status", "answer": [[3]]},
]


def saved(place: Path, content: Any) -> Path:
    path = place / "suite.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_files_can_be_named_by_the_tasks_or_for_each_ontology(tmp_path: Path) -> None:
    listed = [{**TASKS[0], "dataset": "x", "files": ["x.ttl"]}, {**TASKS[1], "ontology": "y"}]
    suite = load_suite(saved(tmp_path, {"name": "two", "ontologies": {"y": ["y.ttl", "data"]}, "tasks": listed}))
    assert (suite.name, suite.ontology, suite.ontologies) == ("two", None, ("x", "y"))
    assert suite.files == {"x": ("x.ttl",), "y": ("y.ttl", "data")}
    assert load_suite(saved(tmp_path, listed)).files == {"x": ("x.ttl",)}


def test_a_suite_in_json_lines_is_read(tmp_path: Path) -> None:
    assert len(load_suite(saved(tmp_path, "\n".join(map(json.dumps, TASKS)))).tasks) == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"tasks": [{**TASKS[0], "level": 6}]}, "the level is 6; there are 1 to 5"),
        ({"tasks": [{**TASKS[0], "level": 0}]}, "the level is 0"),
        ({"tasks": [{**TASKS[0], "family": ""}]}, "a family is named by"),
        ({"tasks": [TASKS[0], TASKS[0]]}, "'a' is there twice"),
        ({"tasks": []}, "there is no task in it"),
        ({"tasks": TASKS, "name": 3}, "name"),
        ({"tasks": TASKS, "ontologies": {"x": ["../secret.ttl"]}}, "no path within the suite's folder"),
        ({"tasks": TASKS, "ontologies": {"x": ["/etc/passwd"]}}, "no path within the suite's folder"),
        ([{**TASKS[0], "ontology": "x", "files": ["a"]}, {**TASKS[1], "ontology": "x", "files": ["b"]}], "two sets"),
    ],
)
def test_a_suite_that_can_not_be_used_is_refused_with_the_reason(tmp_path: Path, content: Any, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        load_suite(saved(tmp_path, content))


rows = st.lists(
    st.tuples(st.one_of(st.integers(), st.text(max_size=5), st.booleans(), st.none())).map(list), max_size=3
)
words = st.text(st.characters(categories=("L", "N", "P", "Zs")), min_size=1, max_size=12).filter(str.strip)
tasks = st.builds(
    Task,
    id=words.filter(str.isprintable),
    question=words,
    ontology=st.none() | st.just("coast"),
    gold_sparql=st.none() | words,
    answer=st.none() | words | rows,
    level=st.none() | st.integers(1, 5),
    family=st.none() | st.just("status"),
    ordered=st.booleans(),
    endpoint=st.none() | st.just("uniprot"),
    misleading_sparql=st.none() | words,
)
suites = st.lists(tasks, min_size=1, max_size=4, unique_by=lambda task: task.id)


@pytest.mark.slow
@settings(max_examples=25)
@given(suites)
def test_a_suite_that_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, made: list[Task]) -> None:
    path = tmp_path_factory.getbasetemp() / "written.json"
    suite = Suite.of("made", made)
    path.write_bytes(suite_json(suite))
    assert load_suite(path) == suite


@settings(max_examples=25)
@given(suites, st.randoms())
def test_the_digest_says_nothing_of_the_order_of_tasks_and_everything_of_their_content(
    made: list[Task], random
) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(made)
    random.shuffle(shuffled)
    assert suite_digest(shuffled) == suite_digest(made)
    changed = [Task(id=made[0].id, question=made[0].question + " Why?"), *made[1:]]
    assert suite_digest(changed) != suite_digest(made)
