"""Comparing answers: the stated rule, and the kind of every difference with its count and examples."""

from __future__ import annotations

import pytest

from rbank_es import limits
from rbank_es.judging.result_comparison import compare_results, value_of
from rbank_es.sparql.results import Answer, Cell
from tests.judging.answers import blank, iri, table, text, typed, yes_or_no

A, B, C = (iri(name) for name in "abc")


def kinds(given: Answer, expected: Answer, *, ordered: bool = False) -> list[tuple[str, int]]:
    return [(each.kind, each.count) for each in compare_results(given, expected, ordered=ordered).differences]


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (typed(1), typed("01")),
        (typed(1), typed("1.0", "decimal")),
        (typed(1), typed("1.0E0", "double")),
        (typed("0.1", "decimal"), typed("0.1", "double")),
        (typed("-0.0", "double"), typed(0)),
        (typed("3.3333333333333333", "decimal"), typed("3.333333333333333333333", "decimal")),
        (typed("2.9999999999999996", "double"), typed(3)),
        (typed("100.00000000000001", "double"), typed(100)),
        (typed("INF", "double"), typed("INF", "float")),
        (typed("NaN", "double"), typed("NaN", "double")),
        (typed("true", "boolean"), typed("1", "boolean")),
        (typed("2020-01-01T00:00:00Z", "dateTime"), typed("2020-01-01T01:00:00+01:00", "dateTime")),
        (typed("2020-01-01T00:00:00", "dateTime"), typed("2020-01-01T00:00:00.0", "dateTime")),
        (typed("2020-01-01T00:00:00Z", "dateTimeStamp"), typed("2020-01-01T01:00:00+01:00", "dateTime")),
        (typed("2020-12-31T24:00:00", "dateTime"), typed("2021-01-01T00:00:00", "dateTime")),
        (typed("2020-01-01Z", "date"), typed("2020-01-01+00:00", "date")),
        (typed(" true ", "boolean"), typed("1", "boolean")),
        (text("chat", "EN"), text("chat", "en")),
        (blank("x"), blank("y")),
        (typed("words", "token"), text("words")),
    ],
)
def test_what_is_the_same_by_value(one: Cell, other: Cell) -> None:
    assert value_of(one) == value_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (typed(2), text("2")),
        (typed(1), typed(2)),
        (typed("9007199254740993"), typed("9007199254740992")),
        (typed("12345678901234.5", "decimal"), typed("12345678901234", "decimal")),
        (typed("1e999", "double"), typed("1e998", "double")),
        (typed("true", "boolean"), typed("false", "boolean")),
        (typed("true", "boolean"), text("true")),
        (typed("2020-01-01T00:00:00", "dateTime"), typed("2020-01-01T00:00:00Z", "dateTime")),
        (typed("2020-01-01", "date"), typed("2020-01-01Z", "date")),
        (typed("2020-01-01", "date"), text("2020-01-01")),
        (text("chat", "en"), text("chat", "fr")),
        (text("chat", "en"), text("chat")),
        (text("Chat"), text("chat")),
        (iri("a"), text("http://example.org/a")),
        (iri("a"), iri("A")),
        (blank("x"), iri("x")),
        (blank("x"), None),
    ],
)
def test_what_is_not_the_same(one: Cell | None, other: Cell | None) -> None:
    assert value_of(one) != value_of(other)


@pytest.mark.parametrize(
    "wrong", ["2020", "2020-13-01T00:00:00", "2020-01-01", "-0044-01-01T00:00:00", "9999-12-31T24:00:00"]
)
def test_a_time_that_cannot_be_read_goes_by_its_text(wrong: str) -> None:
    assert value_of(typed(wrong, "dateTime")) == ("literal", wrong, "")


def test_a_number_with_a_huge_exponent_is_not_written_out() -> None:
    assert len(str(value_of(typed("1e999999999", "double")))) < 100


# ---------------------------------------------------------------- rows


def test_yes_and_no_are_a_row_of_one_column() -> None:
    assert compare_results(yes_or_no(True), yes_or_no(True)).equal
    assert kinds(yes_or_no(True), yes_or_no(False)) == [("missing_rows", 1), ("extra_rows", 1)]
    assert compare_results(table((typed("true", "boolean"),)), yes_or_no(True)).equal


# ---------------------------------------------------------------- columns


def test_many_columns_are_matched_within_bounds() -> None:
    """There are more ways to match nine of ten columns than are tried."""
    cells = tuple(text(f"value {n}") for n in range(10))
    given = table(cells[::-1])
    assert limits.JUDGE_COLUMN_CHOICES < 10 * 9 * 8 * 7 * 6
    assert kinds(given, table(cells[:9])) == [("extra_columns", 1)]
    twice = (cells[0], *cells[:8])
    assert kinds(table((*twice, cells[9])), table(twice)) == [("extra_columns", 1)]
