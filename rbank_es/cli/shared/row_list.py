"""Lists of runs and items: rows that are filtered, sorted, limited, and printed as a table, as JSON or as CSV.

The read models filter, sort and cut, as for the pages of `rbank-es serve`: only the rows that are printed are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rbank_es import limits
from rbank_es.cli.shared.application import decorated
from rbank_es.cli.shared.output import Cell, echo, echo_json, echo_table, warn, write_bytes
from rbank_es.errors import BadInput
from rbank_es.exchange.csv_text import csv_of
from rbank_es.projections.paged_view import RowCondition, Value
from rbank_es.system.nearest_name import hint

if TYPE_CHECKING:
    from rbank_es.projections.view import View

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]


class RowFilter(NamedTuple):
    """A condition on rows, with the option that set it; `column` is given where rows must have its exact value."""

    option: str
    value: str
    condition: RowCondition
    column: str | None = None

    @classmethod
    def equal(cls, option: str, column: str, value: str | None) -> list[RowFilter]:
        """Return the filter for rows that have this value in a column; none where it is None."""
        return [] if value is None else [cls(option, value, RowCondition((column,), "is", value), column)]

    @classmethod
    def containing(cls, option: str, columns: Sequence[str], text: str | None) -> list[RowFilter]:
        """Return the filter for rows with a text in any of these columns, in whatever case; none where it is None."""
        return [] if text is None else [cls(option, text, RowCondition(tuple(columns), "contains", (text,)))]

    @classmethod
    def bounded(cls, option: str, shown: str, column: str, test: Any, value: Value) -> list[RowFilter]:
        """Return the filter for rows whose value in a column passes a test of order; none where the value is None."""
        return [] if value is None else [cls(option, shown, RowCondition((column,), test, value))]


class RowList(NamedTuple):
    """A list to print, of the rows of the view `noun`.

    `fields` names what JSON and CSV have, and `made` makes them of rows of the view. `derived` are those of the fields
    whose order the view doesn't know. `columns` are those of the table, for the rows that are shown. `sort` is the
    order unless asked otherwise.
    """

    noun: str
    view: View
    filters: list[RowFilter]
    made: Callable[[Rows], Rows]
    fields: Sequence[str]
    derived: frozenset[str]
    columns: Callable[[Rows], Mapping[str, Callable[[Row], Cell]]]
    flexible: Sequence[str]
    sort: str

    @property
    def conditions(self) -> list[RowCondition]:
        """The conditions of all filters."""
        return [each.condition for each in self.filters]


list_options = decorated(
    click.option("--sort", metavar="FIELD", help="Sort by a field of the JSON; -FIELD: the largest first."),
    click.option("--limit", metavar="N", type=click.IntRange(1), help="Only the first N."),
    click.option("--csv", "as_csv", is_flag=True, help="Print CSV."),
)
"""The options that every list has, beside --json."""


def print_list(listed: RowList, bank: str, *, sort: str | None, limit: int | None, as_json: bool, as_csv: bool) -> None:
    """Print the rows of a bank that pass all filters, and on standard error why there are none. Raises `BadInput`."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other.")
    shown, matching = found(listed, sort or listed.sort, limit)
    if as_json:
        echo_json({"bank": bank, "position": listed.view.position, "matching": matching, listed.noun: shown})
    elif as_csv:
        write_bytes(csv_of(listed.fields, shown).encode())
    elif shown:
        columns = listed.columns(shown)
        cells = [[cell(row) for cell in columns.values()] for row in shown]
        echo_table(list(columns), cells, flexible=[name for name in listed.flexible if name in columns])
        if len(shown) < matching:
            echo(f"\n{len(shown):,} of {matching:,} {listed.noun}; without --limit, all are shown")
    if not matching:
        warn(why_none(listed))


def found(listed: RowList, sort: str, limit: int | None) -> tuple[Rows, int]:
    """Return the first rows that pass all filters, in an order, and how many do. Raises `BadInput`."""
    name = sort.removeprefix("-")
    if name not in listed.fields:
        raise BadInput(f"there is no field {name!r} to sort by{hint(name, listed.fields)}")
    if name not in listed.derived:
        page = listed.view.page(listed.noun, listed.conditions, sort=sort, limit=limit)
        return listed.made(page.rows), page.total
    # A derived field is no column of the read models: make all rows, then sort them.
    page = listed.view.page(listed.noun, listed.conditions)
    rows = listed.made(page.rows)
    known = sorted((row for row in rows if row[name] is not None), key=lambda row: row[name], reverse=sort != name)
    return (known + [row for row in rows if row[name] is None])[:limit], page.total


def why_none(listed: RowList) -> str:
    """Return why a list is empty: there is nothing, or which filter leaves nothing, with the values that there are."""
    every = _number(listed, [])
    if not every:
        return f"there are no {listed.noun} yet"
    left = [(each, _number(listed, [each.condition])) for each in listed.filters]
    alone = [each for each, number in left if not number]
    if not alone:
        counts = ", ".join(f"{each.option} {each.value}: {number:,}" for each, number in left)
        return f"none of the {every:,} {listed.noun} passes all filters at once ({counts})"
    first = alone[0]
    values = sorted({str(value) for (value,) in _values(listed, first.column) if value is not None})
    there = (
        f"; there are: {', '.join(values[: limits.CHOICES_NAMED])}{', …' if len(values) > limits.CHOICES_NAMED else ''}"
        if values
        else ""
    )
    return f"none of the {every:,} {listed.noun} has {first.option} {first.value}{there}"


def _number(listed: RowList, conditions: Sequence[RowCondition]) -> int:
    return listed.view.page(listed.noun, conditions, limit=1).total


def _values(listed: RowList, column: str | None) -> list[tuple[Any, ...]]:
    return [] if column is None else listed.view.pick(listed.noun, (column,))
