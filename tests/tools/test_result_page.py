"""Pages of a result: never over their budget of characters, nothing lost, every value exact or shown as text."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.limits import tool_limits
from rbank_es.ontology.rdf_names import XSD
from rbank_es.sparql.results import Answer, Cell
from rbank_es.tools.shared.result_page import kind_of, slice_answer, value_of
from rbank_es.tools.shared.tool_answers import ELLIPSIS, encode, shown_names, size

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=30),
    st.sampled_from(["", "x" * 1_000, "\x00" * 400, '"\\' * 300, "🦉" * 500, "ß\u0301" * 200]),
)
DATATYPES = st.sampled_from(
    [
        "",
        *(XSD + name for name in ("integer", "int", "decimal", "double", "boolean", "date", "string")),
        "urn:long" * 30,
    ]
)
LITERALS = st.builds(lambda text, datatype: Cell("literal", text, "", datatype), TEXTS, DATATYPES)
TAGGED = st.builds(lambda text, lang: Cell("literal", text, lang), TEXTS, st.sampled_from(["en", "de-CH", "x" * 200]))
NUMBERS = st.builds(
    lambda number, name: Cell("literal", str(number), "", XSD + name),
    st.one_of(st.integers(), st.floats(), st.decimals(allow_nan=False, allow_infinity=False)),
    st.sampled_from(["integer", "decimal", "double"]),
)
CELLS = st.one_of(
    st.none(),
    LITERALS,
    TAGGED,
    NUMBERS,
    TEXTS.map(lambda text: Cell("iri", f"http://example.org/{text}")),
    TEXTS.map(lambda text: Cell("bnode", text)),
)
VARIABLES = st.lists(
    st.one_of(st.from_regex(r"[A-Za-z_0-9]{1,8}", fullmatch=True), st.just("v" * 3_000), st.just("1")),
    max_size=8,
    unique=True,
)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    variables = tuple(draw(VARIABLES))
    rows = draw(st.lists(st.tuples(*[CELLS] * len(variables)), max_size=40))
    return Answer(form="select", variables=variables, rows=tuple(rows))


def pages(answer: Answer, limit: int, cap_chars: int) -> list[dict[str, Any]]:
    """Every page, following `next_offset` from the beginning."""
    found = [slice_answer(answer, 0, limit, cap_chars)]
    while found[-1]["has_more"]:
        assert found[-1]["next_offset"] > found[-1]["offset"], "a page that holds nothing would never end"
        found.append(slice_answer(answer, found[-1]["next_offset"], limit, cap_chars))
    return found


@given(answers(), st.integers(1, tool_limits.SLICE_ROWS), st.sampled_from([600, tool_limits.SLICE_RETURN_CHARS]))
def test_no_page_is_over_its_budget_and_the_encoder_has_nothing_left_to_do(
    answer: Answer, limit: int, cap_chars: int
) -> None:
    for body in pages(answer, limit, cap_chars):
        whole = {"ok": True, **body}
        assert size(whole) <= cap_chars
        assert encode(whole, cap_chars) == whole
        assert json.loads(json.dumps(whole, allow_nan=False)) == whole


@given(answers(), st.integers(1, tool_limits.SLICE_ROWS))
def test_the_pages_together_are_all_rows_in_order(answer: Answer, limit: int) -> None:
    found = [row for body in pages(answer, limit, tool_limits.SLICE_RETURN_CHARS) for row in body["rows"]]
    assert len(found) == len(answer.rows)
    names = shown_names(answer.variables)
    for shown, row in zip(found, answer.rows, strict=True):
        for name, cell in zip(names, row, strict=True):
            if name in shown:
                assert cell is not None
                assert shown[name] == value_of(cell) or str(shown[name]).endswith(ELLIPSIS)


@given(answers())
def test_every_page_counts_what_it_returns_and_what_there_is(answer: Answer) -> None:
    for body in pages(answer, 10, tool_limits.SLICE_RETURN_CHARS):
        assert body["returned"] == len(body["rows"]) <= 10
        assert body["total"] == len(answer.rows)
        assert ("next_offset" in body) == body["has_more"] == (body["offset"] + body["returned"] < body["total"])


def literal(text: str, datatype: str = "") -> Cell:
    return Cell("literal", text, "", XSD + datatype if datatype else "")


@pytest.mark.parametrize(
    ("cell", "value", "kind"),
    [
        (Cell("iri", "http://example.org/a"), "http://example.org/a", "iri"),
        (Cell("bnode", "b0"), "_:b0", "bnode"),
        (Cell("bnode", "_:b0"), "_:b0", "bnode"),
        (literal("word"), "word", "text"),
        (literal("word", "string"), "word", "text"),
        (Cell("literal", "mot", "fr"), "mot", "text@fr"),
        (literal("7"), "7", "text"),
        (literal("-007", "integer"), -7, "number"),
        (literal("7", "nonNegativeInteger"), 7, "number"),
        (literal("9007199254740991", "integer"), 2**53 - 1, "number"),
        (literal("9007199254740992", "integer"), "9007199254740992", "xsd:integer"),
        (literal("1" * 10_000, "integer"), "1" * 10_000, "xsd:integer"),
        (literal("seven", "integer"), "seven", "xsd:integer"),
        (literal("٧", "integer"), "٧", "xsd:integer"),
        (literal("1_0", "integer"), "1_0", "xsd:integer"),
        (literal("2.50", "decimal"), 2.5, "number"),
        (literal("2.0", "decimal"), 2, "number"),
        (literal("2E0", "double"), 2, "number"),
        (literal("1.5e-7", "double"), 1.5e-7, "number"),
        (literal("1e300", "double"), "1e300", "xsd:double"),
        (literal("1e9999", "double"), "1e9999", "xsd:double"),
        (literal("1e-9999", "double"), "1e-9999", "xsd:double"),
        (literal("1e999999999999", "double"), "1e999999999999", "xsd:double"),
        (literal("NaN", "double"), "NaN", "xsd:double"),
        (literal("INF", "float"), "INF", "xsd:float"),
        (literal("3.00000000000000000001", "decimal"), "3.00000000000000000001", "xsd:decimal"),
        (literal("true", "boolean"), True, "boolean"),
        (literal("0", "boolean"), False, "boolean"),
        (literal("maybe", "boolean"), "maybe", "xsd:boolean"),
        (literal("2026-01-31", "date"), "2026-01-31", "xsd:date"),
        (Cell("literal", "POINT(1 2)", "", "urn:wkt"), "POINT(1 2)", "<urn:wkt>"),
    ],
)
def test_a_cell_becomes_exact_json_or_stays_text(cell: Cell, value: Any, kind: str) -> None:
    shown = value_of(cell)
    assert (shown, type(shown)) == (value, type(value))
    assert kind_of(cell) == kind


@given(NUMBERS)
def test_a_number_that_is_shown_is_finite_and_no_float_where_an_integer_will_do(cell: Cell) -> None:
    shown = value_of(cell)
    if isinstance(shown, float):
        assert math.isfinite(shown)
        assert not shown.is_integer()
    elif isinstance(shown, int):
        assert abs(shown) < 2**53


def test_a_datatype_is_abbreviated_by_the_prefixes_of_the_ontology() -> None:
    cell = Cell("literal", "POINT(1 2)", "", "http://geo/wkt")
    assert kind_of(cell, lambda iri: iri.replace("http://geo/", "geo:")) == "geo:wkt"


def test_an_unbound_variable_is_absent_from_its_row() -> None:
    answer = Answer(form="select", variables=("a", "b"), rows=((None, Cell("iri", "urn:b")),))
    assert slice_answer(answer, 0, 10)["rows"] == [{"b": "urn:b"}]


@given(answers(), st.sampled_from([600, tool_limits.SLICE_RETURN_CHARS]))
def test_a_page_with_a_hint_is_within_its_budget_too(answer: Answer, cap_chars: int) -> None:
    body = slice_answer(answer, 0, tool_limits.SLICE_ROWS, cap_chars, hint="h" * 120)
    assert size({"ok": True, **body}) <= cap_chars
    assert ("hint" in body) == ("clipped" in body)
    assert bool(body["rows"]) == bool(answer.rows)


@pytest.mark.parametrize(("columns", "length"), [(1, 2_001), (1, 9_000), (4, 1_500)])
def test_an_iri_that_no_page_can_hold_is_cut_and_that_is_said(columns: int, length: int) -> None:
    names = tuple(f"v{number}" for number in range(columns))
    cells = (Cell("iri", "http://e.org/".ljust(length, "x")),) * columns
    body = slice_answer(Answer(form="select", variables=names, rows=(cells,)), 0, 1)
    assert all(value.endswith(ELLIPSIS) for value in body["rows"][0].values())
    assert "IRI that ends in … is cut" in body["note"]


def test_a_row_of_too_many_columns_says_that_some_are_left_out() -> None:
    names = tuple(f"variable_number_{number}" for number in range(600))
    body = slice_answer(Answer(form="select", variables=names, rows=((literal("x"),) * 600,)), 0, 1)
    assert 0 < len(body["rows"][0]) < 600
    assert "select fewer" in body["note"]


def test_an_offset_behind_the_end_says_so() -> None:
    body = slice_answer(Answer(form="select", variables=("a",), rows=((literal("x"),),)), 5, 10)
    assert body["note"] == "there is no row 5"
    assert (body["rows"], body["total"], body["has_more"]) == ([], 1, False)


def test_the_name_of_a_kind_is_bounded() -> None:
    assert len(kind_of(Cell("literal", "x", "a" * 500))) == 40
