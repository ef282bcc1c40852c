"""Answers as text and back, and bodies as they come in: nothing is lost, nothing is guessed."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.sparql.engines.query_engine import CappedRows, Caps
from rbank_es.sparql.engines.response_bodies import JsonBody, TriplesBody
from rbank_es.sparql.results import (
    TRIPLE,
    Answer,
    Cell,
    NotResults,
    ResultContent,
    content_of_json,
    from_json,
    size_of,
    to_json,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
IRIS = TEXT.map(lambda text: f"http://example.org/{text}")
CELLS = st.one_of(
    IRIS.map(lambda iri: Cell("iri", iri)),
    TEXT.map(lambda label: Cell("bnode", label)),
    TEXT.map(lambda text: Cell("literal", text)),
    st.tuples(TEXT, st.sampled_from(["en", "de-AT"])).map(lambda pair: Cell("literal", *pair)),
    st.tuples(TEXT, IRIS).map(lambda pair: Cell("literal", pair[0], "", pair[1])),
)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    form = draw(st.sampled_from(["select", "ask", "construct", "describe"]))
    if form == "ask":
        return Answer(form="ask", boolean=draw(st.booleans()))
    variables = draw(st.lists(TEXT, unique=True, max_size=4).map(tuple)) if form == "select" else TRIPLE
    values = st.none() | CELLS if form == "select" else CELLS
    rows = draw(st.lists(st.tuples(*[values] * len(variables)), max_size=5).map(tuple))
    truncated, clipped = draw(st.sampled_from(["", "rows", "bytes"])), draw(st.integers(0, 9))
    return Answer(form=form, variables=variables, rows=rows, truncated=truncated, clipped=clipped)


@given(answers())
def test_an_answer_comes_back_from_its_text_as_it_was(answer: Answer) -> None:
    assert from_json(to_json(msgspec.structs.replace(answer, duration_s=1.5))) == answer


@given(answers().filter(lambda answer: answer.form != "ask"))
def test_the_bytes_that_are_counted_are_those_of_the_text(answer: Answer) -> None:
    empty = len(to_json(msgspec.structs.replace(answer, rows=())).encode())
    counted = sum(size_of(answer.variables, row) for row in answer.rows)
    assert len(to_json(answer).encode()) == empty + counted - bool(answer.rows)


def test_other_servers_documents_are_read_whatever_else_is_in_them() -> None:
    document = {
        "head": {"vars": ["x", "x", "t"], "link": ["http://e.org/"]},
        "truncated": True,
        "results": {
            "distinct": False,
            "bindings": [
                {
                    "x": {"type": "typed-literal", "value": "1", "datatype": "http://www.w3.org/2001/XMLSchema#string"},
                    "t": {
                        "type": "triple",
                        "value": {
                            "subject": {"type": "bnode", "value": "b"},
                            "predicate": {"type": "uri", "value": "http://e.org/p"},
                            "object": {"type": "literal", "value": 'a"b', "xml:lang": "en", "datatype": None},
                        },
                    },
                }
            ],
        },
    }
    row = (Cell("literal", "1"), Cell("literal", '<<( _:b <http://e.org/p> "a\\"b"@en )>>'))
    assert content_of_json(json.dumps(document)) == ResultContent(("x", "t"), (row,))


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", False),
        ('{"head":{"vars":["x"]},"results":{"bindings":[{"x"', False),
        ('{"head":{},"boolean":true}extra', False),
        (b"\xff\xfe", False),
        ("[]", True),
        ('{"error":"no"}', True),
        ('{"head":{"vars":["x"]},"results":{"bindings":[{"x":{"type":"uri","value":5}}]}}', True),
        ('{"head":{"vars":["x"]},"results":{"bindings":[{"x":{"type":"odd","value":"a"}}]}}', True),
        ('{"head":{"vars":["x"]},"results":{"bindings":[{"x":{"type":"triple","value":{}}}]}}', True),
        ('{"head":' * 100_000, False),
        ('{"a":' + "[" * 100_000, False),
    ],
)
def test_a_text_that_is_no_document_of_results_is_told_from_one_that_was_cut(text: str, complete: bool) -> None:
    with pytest.raises(NotResults) as refused:
        from_json(text)
    assert refused.value.complete == complete


# ---------------------------------------------------------------- caps


def literals(*texts: str) -> list[tuple[Cell]]:
    return [(Cell("literal", text),) for text in texts]


def kept(caps: Caps, *texts: str) -> Answer:
    keeper = CappedRows(["x"], caps)
    for row in literals(*texts):
        if not keeper.add(row):
            break
    return keeper.answer("select")


@pytest.mark.parametrize(("rows", "truncated"), [(0, "rows"), (1, "rows"), (2, ""), (3, "")])
def test_rows_are_kept_up_to_the_cap_and_the_answer_says_whether_there_were_more(rows: int, truncated: str) -> None:
    answer = kept(Caps(rows=rows), "a", "b")
    assert (len(answer.rows), answer.truncated) == (min(rows, 2), truncated)


@given(st.lists(TEXT, max_size=20), st.integers(0, 1_500))
def test_the_text_of_an_answer_is_never_larger_than_its_cap(texts: list[str], size_bytes: int) -> None:
    answer = kept(Caps(rows=100, size_bytes=size_bytes), *texts)
    assert [row[0].value for row in answer.rows] == texts[: len(answer.rows)]
    assert (answer.truncated == "bytes") == (len(answer.rows) < len(texts))
    frame = len(to_json(Answer(form="construct", variables=("x",), truncated="bytes", clipped=10**6)))
    assert not answer.rows or len(to_json(answer).encode()) <= max(size_bytes, frame)


# ---------------------------------------------------------------- bodies, piece by piece

ROWS = (
    (Cell("iri", "http://e.org/a}"), Cell("literal", 'x\n<b>&"é]{', "en")),
    (Cell("bnode", "b0"), None),
    (None, Cell("literal", "1", "", "http://www.w3.org/2001/XMLSchema#integer")),
)
AS_JSON = to_json(Answer(form="select", variables=("s", "o"), rows=ROWS)).encode()


def fed(data: bytes, step: int = 10**6) -> JsonBody:
    body = JsonBody()
    for start in range(0, len(data), step):
        body.feed(data[start : start + step])
    return body


def test_wherever_a_body_is_cut_it_can_not_seem_whole_and_has_the_rows_before_the_cut() -> None:
    for cut in range(len(AS_JSON.rstrip())):
        part = fed(AS_JSON[:cut]).part()
        assert part.rows == ROWS[: len(part.rows)]
        with pytest.raises(NotResults) as refused:
            fed(AS_JSON[:cut]).finish()
        assert not refused.value.complete
    assert fed(AS_JSON[: AS_JSON.index(b"http://www.w3.org/2001")]).part().rows == ROWS[:2]


@pytest.mark.parametrize("between", ['{"type":"uri"}', "", "],[", ",,", ",3,", ',"x",'])
def test_json_with_something_wrong_between_bindings_is_refused(between: str) -> None:
    row = '{"x":{"type":"uri","value":"a"}}'
    data = f'{{"head":{{"vars":["x"]}},"results":{{"bindings":[{row}{between}{row}]}}}}'.encode()
    with pytest.raises(NotResults):
        fed(data).finish()


def test_json_whose_head_comes_last_is_read_too() -> None:
    data = b'{"results":{"bindings":[{"x":{"type":"uri","value":"a"}}]},"head":{"vars":["y","x"]}}'
    assert fed(data).finish() == ResultContent(("y", "x"), ((None, Cell("iri", "a")),))
    assert fed(data[:60]).part() == ResultContent(("x",), ((Cell("iri", "a"),),))


def test_yes_and_no_are_read() -> None:
    assert fed(b'{"boolean":true}').finish().boolean is True
    assert fed(b'{"boolean":false}').finish().boolean is False


TRIPLES = b'<http://e.org/a> <http://e.org/p> "x" .\n<http://e.org/a> <http://e.org/p> _:b .\n'
TURTLE = b'@prefix e: <http://e.org/> .\ne:a e:p "x" , "y" ;\n  e:q e:long ,\n    <relative> .\n'


def triples(syntax: str, data: bytes) -> TriplesBody:
    body = TriplesBody(syntax, "http://e.org/sparql")  # type: ignore[arg-type]
    body.feed(data)
    return body


def test_triples_are_rows_each_once() -> None:
    content = triples("n-triples", TRIPLES + TRIPLES.splitlines(keepends=True)[0]).finish()
    assert content.variables == TRIPLE
    assert [row[2].kind for row in content.rows if row[2]] == ["literal", "bnode"]
    objects = [row[2].value for row in triples("turtle", TURTLE).finish().rows if row[2]]
    assert objects == ["x", "y", "http://e.org/long", "http://e.org/relative"]


def test_triples_that_were_cut_are_those_before_the_cut_and_no_name_is_shortened() -> None:
    whole = triples("turtle", TURTLE).finish().rows
    for cut in range(len(TURTLE) - 2):
        part = triples("turtle", TURTLE[:cut]).part().rows
        assert part == whole[: len(part)]
