"""QALD: the questions of a challenge become tasks that can be compared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.errors import BadInput
from rbank_es.judging.gold_answers import gold_of, stored_rows
from rbank_es.judging.result_comparison import compare_results
from rbank_es.lab.qald import is_qald, parse_qald
from rbank_es.lab.query_shape import family_of, level_of
from rbank_es.sparql.parser.parsed_query import parse_query
from rbank_es.sparql.results import Answer, Cell

X = "http://x.example/"


def question(id: Any, sparql: str | None, answers: list[Any], **texts: str) -> dict[str, Any]:
    wordings = [{"language": language, "string": text, "keywords": "k"} for language, text in texts.items()]
    return {"id": id, "answertype": "x", "question": wordings, "query": {"sparql": sparql}, "answers": answers}


def rows(**binding: Any) -> dict[str, Any]:
    return {"head": {"vars": list(binding)}, "results": {"bindings": [binding]}}


URI = {"type": "uri", "value": X + "Ulm"}
COUNT = {"type": "typed-literal", "value": "12", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}
FILE = {
    "dataset": {"id": "qald-x"},
    "questions": [
        question(1, f"SELECT ?c WHERE {{ <{X}A> <{X}capital> ?c }}", [rows(c=URI)], en="Capital?", de="Hauptstadt?"),
        question("b", f"SELECT (COUNT(?c) AS ?n) WHERE {{ ?c a <{X}City> }}", [rows(n=COUNT)], en="How many?"),
        question("c", f"ASK WHERE {{ <{X}A> <{X}capital> ?c }}", [{"head": {}, "boolean": True}], en="Is there one?"),
        question("d", "OUT OF SCOPE", [], en="Why?"),
        question("e", None, [], en="Who?"),
        question("f", f"SELECT ?x WHERE {{ ?x <{X}p> ?y }}", [], de="Wer?"),
    ],
}


def parsed(content: Any = FILE, **options: Any) -> Any:
    return parse_qald(json.dumps(content).encode(), "qald.json", **options)


def test_questions_become_tasks_with_gold_answer_level_and_family() -> None:
    found = parsed(endpoint="dbpedia")
    assert [task.id for task in found.tasks] == ["1", "b", "c"]
    first, number, decision = found.tasks
    assert (first.question, first.endpoint, first.level, first.family) == ("Capital?", "dbpedia", 1, "capital")
    assert (first.answer, number.answer, decision.answer) == ([[["iri", X + "Ulm"]]], [[["num", 12]]], [[True]])
    assert (number.level, number.family) == (5, "type")
    assert found.left_out == {
        "a query that can't be read": 1, "no query": 1, "no text in the language 'en'": 1
    }  # fmt: skip


def test_the_language_can_be_chosen() -> None:
    assert [task.question for task in parsed(language="de").tasks] == ["Hauptstadt?", "Wer?"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"questions": 3}, "no QALD file"),
        ({"questions": []}, "no question can be used: there are none"),
        ({"questions": [FILE["questions"][3]]}, "no question can be used: 1 with a query that can't be read"),  # type: ignore[index]
        ({"questions": [FILE["questions"][0]] * 2}, "'1' is there twice"),  # type: ignore[index]
        ({"questions": [question("1", "ASK {}", [{"head": {}}], en="x")]}, "no document of SPARQL results"),
        ({"questions": [question("1" * 101, "ASK {}", [], en="x")]}, "can't be the id"),
    ],
)
def test_a_file_that_can_not_be_used_is_refused_with_the_reason(content: Any, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        parsed(content)


@settings(max_examples=25)
@given(st.binary(max_size=40) | st.recursive(st.none() | st.text(), st.lists).map(lambda x: json.dumps(x).encode()))
def test_no_content_makes_anything_but_tasks_or_a_refusal(data: bytes) -> None:
    is_qald(data)
    with pytest.raises(BadInput):
        parse_qald(data, "x")


@pytest.mark.parametrize(
    ("query", "level", "family"),
    [
        ("SELECT ?x WHERE { <x:a> <x:p> ?x }", 1, "p"),
        ("SELECT ?x WHERE { ?x a <x:C> ; <x:p> ?y }", 2, "p"),
        ("SELECT ?x WHERE { ?x a <x:C> ; <x:q> ?y . ?y <x:p> ?z }", 3, "p+q"),
        ("SELECT ?x WHERE { ?x <x:p>/<x:q> ?y }", 3, "p+q"),
        ("SELECT ?x WHERE { ?x <x:p> ?y FILTER(?y > 3) }", 4, "p"),
        ("SELECT ?x WHERE { ?x <x:p> ?y } ORDER BY ?y LIMIT 1", 5, "p"),
        ("SELECT ?x WHERE { ?x a <x:C> ; <http://www.w3.org/2000/01/rdf-schema#label> ?y }", 2, "label+type"),
        ("SELECT ?filter WHERE { ?filter ?count 'ORDER' }", 1, None),
    ],
)
def test_level_and_family_follow_from_the_shape_of_a_query(query: str, level: int, family: str | None) -> None:
    shape = parse_query(query)
    assert (level_of(shape), family_of(shape)) == (level, family)


XSD = "http://www.w3.org/2001/XMLSchema#"
cells = st.one_of(
    st.none(),
    st.just(Cell("iri", X + "a")),
    st.just(Cell("bnode", "b")),
    st.builds(lambda text, lang: Cell("literal", text, lang), st.text(max_size=4), st.sampled_from(["", "en"])),
    st.builds(lambda n: Cell("literal", str(n), "", XSD + "integer"), st.integers()),
    st.builds(
        lambda n: Cell("literal", str(n), "", XSD + "decimal"), st.decimals(allow_nan=False, allow_infinity=False)
    ),
    st.sampled_from([Cell("literal", "2024-01-31", "", XSD + "date"), Cell("literal", "x", "", "http://d.example/")]),
)


@settings(max_examples=25)
@given(st.lists(st.tuples(cells, cells), max_size=3))
def test_rows_that_are_stored_are_those_that_are_compared(made: list[tuple[Cell | None, Cell | None]]) -> None:
    answer = Answer(form="select", variables=("x", "y"), rows=tuple(made))
    stored = gold_of(None, json.loads(json.dumps(stored_rows(answer))))
    assert stored is not None and stored.answer is not None
    assert not made or compare_results(stored.answer, answer).equal
