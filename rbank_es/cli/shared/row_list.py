"""Lists of runs and items: rows that are filtered, sorted, limited, and printed as a table, as JSON or as CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from rbank_es.cli.shared.application import decorated
from rbank_es.cli.shared.arguments import nearest_hint
from rbank_es.cli.shared.output import Cell, echo, echo_json, echo_table, warn, write_bytes
from rbank_es.errors import BadInput
from rbank_es.exchange.csv_text import csv_of

Row = Mapping[str, Any]

NAMES_SHOWN = 8
"""Values of a column that a message names."""


class RowFilter(NamedTuple):
    """A condition on rows, with the option that set it; `column` is given where rows must have its exact value."""

    option: str
    value: str
    keeps: Callable[[Row], bool]
    column: str | None = None


class RowList(NamedTuple):
    """A list to print: all rows, by which column they are sorted unless asked otherwise, and how they are shown."""

    noun: str
    rows: list[dict[str, Any]]
    filters: list[RowFilter]
    columns: Mapping[str, Callable[[Row], Cell]]
    flexible: Sequence[str]
    sort: str
    fields: Sequence[str]


list_options = decorated(
    click.option("--sort", metavar="FIELD", help="Sort by a field of the JSON; -FIELD: the largest first."),
    click.option("--limit", metavar="N", type=click.IntRange(1), help="Only the first N."),
    click.option("--csv", "as_csv", is_flag=True, help="Print CSV."),
)
"""The options that every list has, beside --json."""


def equals(option: str, column: str, value: str | None) -> list[RowFilter]:
    """Return the filter for rows that have this value in a column; none where it is None."""
    return [] if value is None else [RowFilter(option, value, lambda row: row[column] == value, column)]


def contains(option: str, columns: Sequence[str], text: str | None) -> list[RowFilter]:
    """Return the filter for rows with a text in any of these columns, in whatever case; none where it is None."""
    if text is None:
        return []
    wanted = text.casefold()
    return [RowFilter(option, text, lambda row: any(wanted in (row[name] or "").casefold() for name in columns))]


def print_list(
    listed: RowList, facts: Mapping[str, Any], *, sort: str | None, limit: int | None, as_json: bool, as_csv: bool
) -> None:
    """Print the rows that pass all filters, and on standard error why there are none. Raises `BadInput`."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other.")
    found = [row for row in listed.rows if all(each.keeps(row) for each in listed.filters)]
    found = sorted_by(found, sort or listed.sort, listed.fields)
    shown = found[:limit]
    if as_json:
        echo_json({**facts, "matching": len(found), listed.noun: shown})
    elif as_csv:
        write_bytes(csv_of(listed.fields, shown).encode())
    elif shown:
        cells = [[cell(row) for cell in listed.columns.values()] for row in shown]
        echo_table(list(listed.columns), cells, flexible=listed.flexible)
        if len(shown) < len(found):
            echo(f"\n{len(shown):,} of {len(found):,} {listed.noun}; without --limit, all are shown")
    if not found:
        warn(why_none(listed))


def sorted_by(rows: list[dict[str, Any]], field: str, fields: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows in order of a field, rows without a value last; with `-` before it, the largest first."""
    name = field.removeprefix("-")
    if name not in fields:
        raise BadInput(f"there is no field {name!r} to sort by; {nearest_hint(name, fields)}")
    known = [row for row in rows if row[name] is not None]
    unknown = [row for row in rows if row[name] is None]
    return sorted(known, key=lambda row: row[name], reverse=field.startswith("-")) + unknown


def why_none(listed: RowList) -> str:
    """Return why a list is empty: there is nothing, or which filter leaves nothing, with the values that there are."""
    if not listed.rows:
        return f"there are no {listed.noun} yet"
    left = [(each, sum(map(each.keeps, listed.rows))) for each in listed.filters]
    alone = [each for each, number in left if not number]
    if not alone:
        counts = ", ".join(f"{each.option} {each.value}: {number:,}" for each, number in left)
        return f"none of the {len(listed.rows):,} {listed.noun} passes all filters at once ({counts})"
    first = alone[0]
    values = sorted(
        {str(row[first.column]) for row in listed.rows if row[first.column] is not None} if first.column else ()
    )
    there = (
        f"; there are: {', '.join(values[:NAMES_SHOWN])}{', …' if len(values) > NAMES_SHOWN else ''}" if values else ""
    )
    return f"none of the {len(listed.rows):,} {listed.noun} has {first.option} {first.value}{there}"
