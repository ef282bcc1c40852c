"""Lists of runs and items, page by page: which keys a page has, and the whole rows of these keys only.

A view of a bank with many runs joins and counts all of them before a LIMIT can cut. So a paged is declared in parts:
a base table, and what is joined to it. The page's keys are found with those parts only that its conditions and its
order name; then the view is read for these keys. A page begins behind a row, not at a number of rows: rows that come
later don't shift the pages of a position, and no page costs more than the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal

from msgspec import Struct, json

from rbank_es.errors import BadInput

Value = str | int | float | None
"""A value of a column."""

OF_RUN = "/* of one run */"
"""The place in a view's SQL, behind a table, for a condition on its `run`.

SQLite computes a grouped subquery for all runs before it takes one of them. Where some runs are asked for, `View` puts
the condition here.
"""

Test = Literal["is", "not", "contains", "has", "among", "from", "before", "after", "upto"]

_TESTS: Mapping[str, str] = {
    "is": "{column} IS {value}",
    "not": "{column} IS NOT {value}",
    # An erased or missing list has no entries; `json_each` would refuse it.
    "has": "{value} IN (SELECT value FROM json_each(CASE WHEN json_valid({column}) THEN {column} ELSE '[]' END))",
    "among": "{column} IN (SELECT value FROM json_each({value}))",
    "from": "{column} >= {value}",
    "before": "{column} < {value}",
    "after": "{column} > {value}",
    "upto": "{column} <= {value}",
}


class RowCondition(Struct, frozen=True):
    """A condition on rows: some test of `value` holds in one of these columns.

    is, not: equal or not, None for none. contains: the texts hold each of the values, in whatever case. has: a JSON
    list holds it. among: it is one of the values. from, before, after, upto: >=, <, >, <=.
    """

    columns: tuple[str, ...]
    test: Test
    value: Value | tuple[str, ...]


class RowPage(Struct, frozen=True):
    """One page of a list: its rows, the number of rows on all pages, and the key to go on behind (None: the last)."""

    rows: list[dict[str, Any]]
    total: int
    next: str | None


class PagedView(Struct, frozen=True, kw_only=True, dict=True):
    """The declaration of a view that can be read by pages.

    `base` are the tables that have one row for each row of the view, under the condition `holds`; `tables` are grouped
    parts by name, `parts` what is joined by alias, each by the text that joins it; `columns` is an expression for each
    column of the view. `key` is the column that identifies a row, `place` the column that gives the usual order.
    `computed` are further columns of its pages: the view in the file lacks them, because they call functions of Python,
    or cost too much where all rows are read.
    """

    key: str
    place: str
    base: str
    columns: Mapping[str, str]
    computed: Mapping[str, str] = {}
    tables: Mapping[str, str] = {}
    parts: Mapping[str, str] = {}
    holds: str = "TRUE"

    @cached_property
    def view(self) -> str:
        """The SQL of the whole view."""
        return self._select([f'{text} AS "{name}"' for name, text in self.columns.items()], self.parts, [])

    @cached_property
    def fields(self) -> Mapping[str, str]:
        """The expression of each column of a page."""
        return {**self.columns, **self.computed}

    def rows(self) -> str:
        """Return the SQL of the page's rows whose keys are in the JSON list `:keys`; nothing else is counted."""
        listed = "IN (SELECT value FROM json_each(:keys))"
        return self._whole(f"{self.columns[self.key]} {listed}", f"run {listed}")

    def row(self) -> str:
        """Return the SQL of the page's row with the key `:key`."""
        return self._whole(f"{self.columns[self.key]} = :key", "run = :key")

    def _whole(self, condition: str, of_run: str) -> str:
        return self._select(list(self.fields.values()), self.parts, [condition]).replace(OF_RUN, f"WHERE {of_run}")

    def order(self, sort: str) -> list[tuple[str, str]]:
        """Return the expressions and directions of an order: `-` before a column puts its largest value first.

        Rows without a value are last; ties are the latest first, then by key. Raises `BadInput` for an unknown column.
        """
        name, direction = sort.removeprefix("-"), "DESC" if sort.startswith("-") else "ASC"
        self._check([name])
        text, key = self.fields[name], (self.columns[self.key], "ASC")
        if name in (self.place, self.key):
            return [(text, direction)] if name == self.key else [(text, direction), key]
        return [(f"({text}) IS NULL", "ASC"), (text, direction), (self.columns[self.place], "DESC"), key]

    def keys(self, conditions: Sequence[RowCondition], sort: str, *, behind: bool) -> str:
        """Return the SQL of the keys of a page, at most `:limit`; `behind` a row whose order is in `:v0`, `:v1`, …"""
        order = self.order(sort)
        where = self._where(conditions) + ([_behind(order)] if behind else [])
        ordered = ", ".join(f"{text} {direction}" for text, direction in order)
        parts = self._needed([*(text for text, _ in order), *where])
        return f"{self._select([self.columns[self.key]], parts, where)} ORDER BY {ordered} LIMIT :limit"

    def count(self, conditions: Sequence[RowCondition]) -> str:
        """Return the SQL of the number of rows under some conditions."""
        where = self._where(conditions)
        return self._select(["count(*)"], self._needed(where), where)

    def marks(self, sort: str) -> str:
        """Return the SQL of the place of the row `:key` in an order: the values of its expressions."""
        texts = [text for text, _ in self.order(sort)]
        return self._select(texts, self._needed(texts), [f"{self.columns[self.key]} = :key"])

    def some(self, columns: Sequence[str], conditions: Sequence[RowCondition], sort: str) -> str:
        """Return the SQL of some columns of all rows under some conditions, in an order."""
        self._check(columns)
        texts, where, order = [self.fields[name] for name in columns], self._where(conditions), self.order(sort)
        ordered = ", ".join(f"{text} {direction}" for text, direction in order)
        parts = self._needed([*texts, *where, *(text for text, _ in order)])
        return f"{self._select(texts, parts, where)} ORDER BY {ordered}"

    def _select(self, what: Sequence[str], parts: Mapping[str, str], where: Sequence[str]) -> str:
        text = " ".join(parts.values())
        tables = [f"{name} AS ({table})" for name, table in self.tables.items() if _names(text, name)]
        prefix = f"WITH {', '.join(tables)} " if tables else ""
        return f"{prefix}SELECT {', '.join(what)} FROM {self.base} {text} WHERE {' AND '.join([self.holds, *where])}"

    def _needed(self, texts: Iterable[str]) -> dict[str, str]:
        text = " ".join(texts)
        return {alias: join for alias, join in self.parts.items() if _names(text, f"{alias}.", end="")}

    def _where(self, conditions: Sequence[RowCondition]) -> list[str]:
        self._check([name for each in conditions for name in each.columns])
        return [self._test(each, f":c{number}") for number, each in enumerate(conditions)]

    def _test(self, condition: RowCondition, value: str) -> str:
        columns = [f"({self.fields[name]})" for name in condition.columns]
        if condition.test == "contains":
            # One text of all columns, with a character between that no text has: a call of Python for each row, not
            # for each column of it.
            joined = " || char(31) || ".join(f"coalesce({column}, '')" for column in columns)
            return f"contains_all({joined}, {value})"
        return f"({' OR '.join(_TESTS[condition.test].format(column=column, value=value) for column in columns)})"

    def _check(self, names: Iterable[str]) -> None:
        unknown = [name for name in names if name not in self.fields]
        if unknown:
            raise BadInput(f"there is no column {unknown[0]!r}; there are: {', '.join(self.fields)}")


def parameters_of(conditions: Sequence[RowCondition]) -> dict[str, Value]:
    """Return the parameters by which the SQL of a paged names the values of its conditions."""
    values = (each.value for each in conditions)
    encoded = (json.encode(value).decode() if isinstance(value, tuple) else value for value in values)
    return {f"c{number}": value for number, value in enumerate(encoded)}


def contains_all(text: str, wanted: str) -> bool:
    """Return whether a text holds each text of a JSON list, in any script; SQLite itself knows the case of ASCII only.

    For SQL: a view registers it as a function.
    """
    lowered = text.lower()
    return all(each in lowered for each in _lowered(wanted))


@lru_cache(maxsize=64)
def _lowered(wanted: str) -> tuple[str, ...]:
    return tuple(each.lower() for each in json.decode(wanted, type=tuple[str, ...]))


def _behind(order: Sequence[tuple[str, str]]) -> str:
    """Return the condition that a row comes behind the one whose values are `:v0`, `:v1`, …"""
    # Not a comparison of rows, which would take NULL and descending columns for ascending ones.
    same = [f"({text}) IS :v{number}" for number, (text, _) in enumerate(order)]
    later = [f"({text}) {'>' if way == 'ASC' else '<'} :v{number}" for number, (text, way) in enumerate(order)]
    return "(" + " OR ".join(" AND ".join([*same[:number], each]) for number, each in enumerate(later)) + ")"


def _names(text: str, name: str, end: str = r"\b") -> bool:
    return re.search(rf"\b{re.escape(name)}{end}", text) is not None
