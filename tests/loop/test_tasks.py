"""Tasks: read from the forms that people have them in, or refused with the place of what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.loop.tasks import Task, load_tasks, parse_tasks


def refused(content: object, *words: str) -> None:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(BadInput) as caught:
        parse_tasks(data, "tasks.json")
    for word in words:
        assert word in str(caught.value)


def test_an_answer_of_rows_that_can_not_be_compared_is_refused_before_anything_runs() -> None:
    """With the task's id."""
    asked = {"id": "kilns", "question": "Which?"}
    refused([{**asked, "answer": [[1, 2], ["a"]]}], "task kilns", "different numbers of values")
    refused([{**asked, "answer": [[{"a": 1}]]}], "task kilns", "a row of the answer is not a list of values")


def test_json_lines_a_list_and_one_object_are_the_same_tasks() -> None:
    entries = [{"id": "a", "question": "Which?"}, {"id": "b", "question": "How many?", "level": 2}]
    lines = "\n".join(map(json.dumps, entries)) + "\n\n"
    expected = (Task(id="a", question="Which?"), Task(id="b", question="How many?", level=2))
    assert parse_tasks(lines.encode()) == parse_tasks(json.dumps(entries).encode()) == expected
    assert parse_tasks(json.dumps({"tasks": entries}).encode()) == expected
    assert parse_tasks(b"\xef\xbb\xbf" + json.dumps(entries[0]).encode()) == expected[:1]


def test_other_names_of_fields_are_known_and_other_fields_passed_over() -> None:
    given = {"id": 7, "query": "All?", "expected_sparql": "ASK {}", "complexity": "simple", "dataset": "prov-onto"}
    [task] = parse_tasks(json.dumps([given]).encode())
    assert task == Task(id="7", question="All?", gold_sparql="ASK {}", ontology="prov-onto")


def test_what_can_be_no_task_is_refused_with_its_place() -> None:
    refused([{"id": "a", "question": "?"}, {"question": "?"}], "tasks.json, task 2", "no id")
    refused([{"id": "a"}], "task 1", "no question")
    refused([{"id": "a", "question": "?"}, {"id": "a", "question": "!"}], "'a'", "twice")
    refused([{"id": "a", "question": " "}], "empty")
    refused([{"id": "a", "question": 5}], "question")
    refused([{"id": "a", "question": "?", "level": "hard"}], "level")
    refused([{"id": "a", "question": "?", "answer": {"rows": []}}], "answer")
    refused([{"id": "\n", "question": "?"}], "id")
    refused([{"id": "x" * 1000, "question": "?"}], "characters")
    refused([{"id": "a", "question": "x" * (limits.TASK_CHARS + 1)}], "characters")
    refused(["a"], "task 1", "object")
    refused([], "no task")
    refused(5, "list of tasks")
    refused({"tasks": {}}, "list")


def test_broken_files_are_refused_in_plain_words(tmp_path: Path) -> None:
    refused(b"", "no task")
    refused(b"which lights?", "line 1", "JSON")
    refused(b'{"id":"a","question":"?"}\n{"id":', "line 2")
    refused(b'[{"id":"a","question":"?"},\n', "line 1")
    refused(b"[" * 100_000, "JSON")
    refused(b'[{"id":"a","question":"?","question":"!"}]', "the key 'question' is there twice")
    refused(b'{"id":"a","question":"?"}\n{"id":"b","id":"c","question":"?"}', "line 2", "the key 'id' is there twice")
    with pytest.raises(BadInput, match="can't be read"):
        load_tasks(tmp_path / "none.json")
    with pytest.raises(BadInput, match="can't be read"):
        load_tasks(tmp_path)


def test_too_many_bytes_and_too_many_tasks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(json.dumps({"id": str(n), "question": "?"}) for n in range(4)))
    monkeypatch.setattr(limits, "TASKS", 3)
    with pytest.raises(BadInput, match="at most 3"):
        load_tasks(file)
    monkeypatch.setattr(limits, "TASKS_BYTES", 10)
    with pytest.raises(BadInput, match="at most 10 bytes"):
        load_tasks(file)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(str).map(str.encode))
def test_no_content_makes_anything_but_tasks_or_a_refusal(data: bytes) -> None:
    try:
        tasks = parse_tasks(data)
    except BadInput:
        return
    assert tasks and len({task.id for task in tasks}) == len(tasks)


def test_a_question_without_an_id_is_named_by_its_words() -> None:
    one, same, other = Task.asking("Which?"), Task.asking("Which?"), Task.asking("How?")
    assert one == same and one.id != other.id


@given(st.text(min_size=1, max_size=20).filter(lambda text: text.strip() and text.isprintable()))
def test_the_slug_of_any_id_can_be_part_of_a_name(id: str) -> None:
    slug = Task(id=id, question="?").slug
    assert slug and slug.isascii() and " " not in slug and "/" not in slug
