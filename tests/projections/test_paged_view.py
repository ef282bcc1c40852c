"""Pages of views: every page is what a plain sort of the whole view has there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import Bank
from rbank_es.errors import BadInput
from rbank_es.projections.paged_view import RowCondition
from rbank_es.projections.projection import paged_views
from rbank_es.projections.view import View
from tests.cli_runner import SAMPLE
from tests.effort import examples

Row = Mapping[str, Any]


@pytest.fixture(scope="module")
def bank() -> Any:
    with Bank.open(SAMPLE) as opened:
        yield opened


def plainly(rows: Sequence[Row], sort: str, key: str, place: str) -> list[Row]:
    """Rows in the order that `View.page` promises, by sorts that are stable."""
    name = sort.removeprefix("-")
    ordered = sorted(sorted(rows, key=lambda row: row[key]), key=lambda row: row[place], reverse=True)
    known = sorted(
        (row for row in ordered if row[name] is not None), key=lambda row: row[name], reverse=sort.startswith("-")
    )
    # `reverse` keeps the order of equals: they are the latest first in both directions.
    return known + [row for row in ordered if row[name] is None]


def of_view(rows: Sequence[Row], name: str) -> list[Row]:
    """The columns of rows that the view itself has."""
    return [{column: row[column] for column in paged_views()[name].columns} for row in rows]


def all_pages(view: View, name: str, sort: str, limit: int) -> list[Row]:
    rows, after = list[Row](), None
    while True:
        page = view.page(name, sort=sort, after=after, limit=limit)
        assert len(page.rows) <= limit
        rows += page.rows
        if (after := page.next) is None:
            return rows


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_the_pages_in_any_order_at_any_position_are_the_whole_view_sorted(bank: Bank, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(paged_views())))
    paged = paged_views()[name]
    sort = data.draw(st.sampled_from(("", "-"))) + data.draw(st.sampled_from(sorted(paged.fields)))
    with bank.as_of(data.draw(st.integers(0, bank.position))) as view:
        found = all_pages(view, name, sort, data.draw(st.integers(1, 20)))
        whole = view.page(name).rows
        assert found == plainly(whole, sort, paged.key, paged.place)
        assert of_view(whole, name) == plainly(view.rows(name), f"-{paged.place}", paged.key, paged.place)
        assert view.page(name, limit=1).total == len(found)


@pytest.mark.parametrize(
    "asked",
    [
        {"sort": "nosuch"},
        {"sort": "run; DROP TABLE runs"},
        {"after": "nosuch"},
        {"conditions": [RowCondition(("nosuch",), "is", 1)]},
    ],
)
def test_what_is_no_column_and_no_key_is_refused(bank: Bank, asked: Any) -> None:
    with bank.as_of() as view, pytest.raises(BadInput):
        view.page("runs", **asked)


def test_a_page_may_be_larger_than_any_integer_of_sqlite(bank: Bank) -> None:
    with bank.as_of() as view:
        assert view.page("runs", limit=10**30) == view.page("runs")


def test_a_view_without_pages_says_which_have_them(bank: Bank) -> None:
    with bank.as_of() as view, pytest.raises(BadInput, match="these have: items, runs, leakage_by_run"):
        view.page("due")
