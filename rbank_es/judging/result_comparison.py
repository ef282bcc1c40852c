"""Whether two answers are the same, by one stated rule, and if not, how they differ.

Rows are a multiset. Columns go by position; where their numbers differ, by the columns that make the most rows agree.
Names of variables don't count. Numbers, booleans, dates and times go by value, other literals by text and language,
IRIs by their text; blank nodes are all alike. The order of rows counts only where the expected answer has one, and rows
that are alike in what it is sorted by may stand in any order. An answer of yes or no is one row of one column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import permutations
from math import perm
from typing import Literal, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.judging.cell_values import Value, shown, value_of
from rbank_es.sparql.results import Answer, Cell, Row

Kind = Literal["missing_rows", "extra_rows", "missing_columns", "extra_columns", "different_order"]

MATCHINGS = 5_000
"""Ways to match columns that are all tried; beyond, each column takes the one that shares most values with it."""

XSD_BOOLEAN = "http://www.w3.org/2001/XMLSchema#boolean"

Key = tuple[Value, ...]
"""A row as it is compared."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which an answer is not the expected one: how many rows or columns, and a few of them."""

    kind: Kind
    count: int
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        name, shown_examples = self.kind.replace("_", " "), "; ".join(self.examples)
        return f"{name}: {self.count:,}" + (f" ({shown_examples})" if shown_examples else "")


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What came of comparing an answer with the expected one. No difference means equal."""

    differences: tuple[Difference, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether they are the same."""
        return not self.differences

    @property
    def outcome(self) -> Literal["exact", "superset", "wrong"]:
        """`superset` where all that is expected is there, in more columns."""
        kinds = {each.kind for each in self.differences}
        return "exact" if not kinds else "superset" if kinds == {"extra_columns"} else "wrong"


class _Table(NamedTuple):
    """An answer as it is compared, beside what people are shown of it."""

    names: tuple[str, ...]
    rows: tuple[Row, ...]
    keys: list[Key]

    def projected(self, columns: Sequence[int]) -> list[Key]:
        """The rows with some of the columns, in that order."""
        return [tuple(key[at] for at in columns) for key in self.keys]


def compare_results(
    given: Answer, expected: Answer, *, ordered: bool = False, sorted_by: Sequence[int] = ()
) -> Comparison:
    """How `given` differs from `expected` by the rule of this module; pure.

    `ordered` says that the order of the expected rows counts; it is looked at where the rows agree. `sorted_by` are the
    columns of the expected answer that it is sorted by; without them whole rows are looked at. Answers that were cut
    are compared as far as they go: whoever calls looks at `truncated` first.
    """
    here, there = _table(given), _table(expected)
    ours, theirs = _matching(here, there)
    differences = [
        *_columns("missing_columns", there.names, theirs),
        *_columns("extra_columns", here.names, ours),
        *_rows(here, there, here.projected(ours), there.projected(theirs)),
    ]
    if ordered and all(each.kind == "extra_columns" for each in differences):
        columns = [theirs.index(at) for at in sorted_by if at in theirs] or range(len(theirs))
        first, second = here.projected([ours[at] for at in columns]), there.projected([theirs[at] for at in columns])
        differences += _order(here, first, second)
    return Comparison(differences=tuple(differences))


def _table(answer: Answer) -> _Table:
    if answer.form != "ask":
        return _Table(answer.variables, answer.rows, [tuple(map(value_of, row)) for row in answer.rows])
    row: Row = (Cell("literal", "true" if answer.boolean else "false", "", XSD_BOOLEAN),)
    return _Table(("",), (row,), [tuple(map(value_of, row))])


# ---------------------------------------------------------------- columns


def _matching(here: _Table, there: _Table) -> tuple[list[int], list[int]]:
    """The columns of both that stand for each other: as many as the narrower one has."""
    if len(here.names) == len(there.names):
        every = list(range(len(here.names)))
        return every, every
    if len(here.names) > len(there.names):
        return _best(here, there), list(range(len(there.names)))
    return list(range(len(here.names))), _best(there, here)


def _best(wide: _Table, narrow: _Table) -> list[int]:
    """The columns of the wider answer that make the most rows agree; of several such choices the first.

    A choice can't make more rows agree than its worst column has values in common, so the promising ones go first.
    """
    shared = [[_shared(wide, at, narrow, to) for at in range(len(wide.names))] for to in range(len(narrow.names))]
    rows = Counter(narrow.keys)
    best, agreeing = list(range(len(narrow.names))), -1
    for bound, columns in _choices(shared, len(wide.names)):
        if bound <= agreeing:
            break
        common = (Counter(wide.projected(columns)) & rows).total()
        if common > agreeing:
            best, agreeing = list(columns), common
    return best


def _shared(wide: _Table, at: int, narrow: _Table, to: int) -> int:
    """How many values two columns have in common."""
    return (Counter(key[at] for key in wide.keys) & Counter(key[to] for key in narrow.keys)).total()


def _choices(shared: list[list[int]], width: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Choices of columns with the number of rows that they could make agree, the most first."""
    if perm(width, len(shared)) > MATCHINGS:
        yield _greedy(shared, width)
        return
    bounded = (
        (min((shared[to][at] for to, at in enumerate(columns)), default=0), columns)
        for columns in permutations(range(width), len(shared))
    )
    yield from sorted(bounded, key=lambda choice: (-choice[0], choice[1]))


def _greedy(shared: list[list[int]], width: int) -> tuple[int, tuple[int, ...]]:
    left, chosen = list(range(width)), []
    for counts in shared:
        column = max(left, key=lambda at: (counts[at], -at))
        left.remove(column)
        chosen.append(column)
    return 0, tuple(chosen)


def _columns(kind: Kind, names: tuple[str, ...], matched: Sequence[int]) -> list[Difference]:
    rest = tuple(f"?{name}" for at, name in enumerate(names) if at not in matched)
    return [Difference(kind=kind, count=len(rest), examples=rest[: limits.DIFFERENCE_EXAMPLES])] if rest else []


# ---------------------------------------------------------------- rows


def _rows(here: _Table, there: _Table, given: list[Key], expected: list[Key]) -> list[Difference]:
    found, wanted = Counter(given), Counter(expected)
    missing, extra = wanted - found, found - wanted
    return [*_surplus("missing_rows", missing, expected, there), *_surplus("extra_rows", extra, given, here)]


def _order(here: _Table, given: list[Key], expected: list[Key]) -> list[Difference]:
    moved = [at for at, pair in enumerate(zip(given, expected, strict=True)) if pair[0] != pair[1]]
    if not moved:
        return []
    examples = tuple(f"row {at + 1} is {shown(here.rows[at])}" for at in moved[: limits.DIFFERENCE_EXAMPLES])
    return [Difference(kind="different_order", count=len(moved), examples=examples)]


def _surplus(kind: Kind, surplus: Counter[Key], keys: list[Key], table: _Table) -> list[Difference]:
    if not surplus:
        return []
    firsts: dict[Key, Row] = {}
    for key, row in zip(keys, table.rows, strict=True):
        if key in surplus:
            firsts.setdefault(key, row)
    examples = tuple(shown(row) for row in list(firsts.values())[: limits.DIFFERENCE_EXAMPLES])
    return [Difference(kind=kind, count=surplus.total(), examples=examples)]
