"""Laws of comparing answers, and of the figures by which judges are measured."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es.judging.result_comparison import Comparison, compare_results, value_of
from rbank_es.sparql.results import Answer, Cell
from tests.judging.answers import blank, iri, text, typed

CELLS: list[Cell | None] = [
    None,
    iri("a"),
    iri("b"),
    blank("x"),
    blank("y"),
    text("one"),
    text("one", "en"),
    typed(1),
    typed("1.0", "decimal"),
    typed(2),
    typed("2020-01-01T00:00:00Z", "dateTime"),
    typed("2020-01-01T01:00:00+01:00", "dateTime"),
]
cells = st.sampled_from(CELLS) | st.builds(text, st.text(max_size=4), st.sampled_from(["", "en"]))
odd_numbers = st.builds(
    typed, st.text(max_size=8) | st.floats() | st.integers(), st.sampled_from(["double", "integer"])
)


@st.composite
def answers(draw: st.DrawFn, *, least: int = 0, width: int | None = None) -> Answer:
    columns = draw(st.integers(0, 3)) if width is None else width
    row = st.tuples(*[cells | odd_numbers] * columns)
    rows = draw(st.lists(row, min_size=least, max_size=6))
    return Answer(form="select", variables=tuple("abc"[:columns]), rows=tuple(rows))


def kinds(comparison: Comparison) -> Counter[str]:
    return Counter({each.kind: each.count for each in comparison.differences})


@given(st.data(), answers())
def test_the_order_of_rows_does_not_count(data: st.DataObject, answer: Answer) -> None:
    shuffled = replace(answer, rows=tuple(data.draw(st.permutations(answer.rows))))
    assert compare_results(shuffled, answer).equal
    same_order = [*map(keys_of, shuffled.rows)] == [*map(keys_of, answer.rows)]
    assert compare_results(shuffled, answer, ordered=True).equal == same_order


def keys_of(row: tuple[Cell | None, ...]) -> tuple[Any, ...]:
    return tuple(map(value_of, row))


@given(answers(), st.lists(st.text("uvwxyz", min_size=1), min_size=3, max_size=3, unique=True))
def test_the_names_of_columns_do_not_count(answer: Answer, names: list[str]) -> None:
    renamed = replace(answer, variables=tuple(names[: len(answer.variables)]))
    assert compare_results(renamed, answer).equal
    assert compare_results(answer, renamed).equal


@given(answers(), st.dictionaries(st.sampled_from("xy"), st.text("pqr", min_size=1)))
def test_the_labels_of_blank_nodes_do_not_count(answer: Answer, labels: dict[str, str]) -> None:
    def relabelled(cell: Cell | None) -> Cell | None:
        return blank(labels.get(cell.value, cell.value)) if cell and cell.kind == "bnode" else cell

    other = replace(answer, rows=tuple(tuple(map(relabelled, row)) for row in answer.rows))
    assert compare_results(other, answer).equal


@given(answers(), answers())
def test_what_one_lacks_the_other_has_too_much_of(one: Answer, other: Answer) -> None:
    swapped = {"missing_rows": "extra_rows", "missing_columns": "extra_columns"}
    swapped |= {there: here for here, there in swapped.items()}
    there, here = kinds(compare_results(one, other)), kinds(compare_results(other, one))
    assert Counter({swapped[kind]: count for kind, count in there.items()}) == here


@given(st.data(), answers(least=1, width=2))
def test_a_row_that_was_dropped_is_missing_and_one_that_was_added_is_extra(data: st.DataObject, answer: Answer) -> None:
    at = data.draw(st.integers(0, len(answer.rows) - 1))
    shorter = replace(answer, rows=answer.rows[:at] + answer.rows[at + 1 :])
    assert kinds(compare_results(shorter, answer)) == {"missing_rows": 1}
    assert kinds(compare_results(answer, shorter)) == {"extra_rows": 1}
    assert not compare_results(shorter, answer).equal


@given(answers(least=1, width=3), st.permutations(range(3)), st.integers(1, 2))
def test_columns_that_were_dropped_are_told_and_nothing_else(answer: Answer, order: list[int], kept: int) -> None:
    columns = order[:kept]
    fewer = Answer(
        form="select",
        variables=tuple(answer.variables[at] for at in columns),
        rows=tuple(tuple(row[at] for at in columns) for row in answer.rows),
    )
    assert kinds(compare_results(fewer, answer)) == {"missing_columns": 3 - kept}
    told = compare_results(answer, fewer)
    assert (kinds(told), told.outcome) == ({"extra_columns": 3 - kept}, "superset")


@given(answers(least=2, width=1), st.booleans())
def test_rows_in_another_order_are_told_where_it_counts(answer: Answer, ordered: bool) -> None:
    turned = replace(answer, rows=answer.rows[::-1])
    moved = sum(keys_of(a) != keys_of(b) for a, b in zip(turned.rows, answer.rows, strict=True))
    expected = {"different_order": moved} if ordered and moved else {}
    assert kinds(compare_results(turned, answer, ordered=ordered)) == expected


@given(cells | odd_numbers, cells | odd_numbers, cells | odd_numbers)
def test_being_the_same_is_an_equivalence(one: Cell | None, other: Cell | None, third: Cell | None) -> None:
    """Comparing by keys makes it one; NaN, which is not equal to itself, must be no exception."""
    assert value_of(one) == value_of(one)
    assert hash(value_of(one)) == hash(value_of(one))
    if value_of(one) == value_of(other) and value_of(other) == value_of(third):
        assert value_of(one) == value_of(third)
