"""Comparison of two answers by one rule, and the differences that it finds.

Rows are a multiset. Columns are matched by position; if their numbers differ, the columns are chosen that make the most
rows agree. Names of variables don't count. Numbers, booleans, dates and times are compared by value, other literals by
text and language, IRIs by text; all blank nodes are equal. Row order counts only if the expected answer has one, and
rows with equal sort keys may change places. A yes/no answer is one row of one column.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from itertools import permutations
from math import perm
from typing import Literal, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.ontology.rdf_names import NUMBERS, XSD
from rbank_es.sparql.results import Answer, Cell, Row, row_line

_DIGITS = 12
"""Significant digits to which fractional numbers are compared: engines keep different numbers of digits of 10/3."""

Kind = Literal["missing_rows", "extra_rows", "missing_columns", "extra_columns", "different_order"]

Value = tuple[object, ...] | None
"""A cell as it is compared; None for an unbound variable."""

Key = tuple[Value, ...]
"""A row as it is compared."""

XSD_BOOLEAN = XSD + "boolean"
_MOMENTS = frozenset({XSD + "dateTime", XSD + "dateTimeStamp"})
_MIDNIGHT = re.compile(r"T24:00:00(\.0+)?")
_UTC = re.compile(r"(Z|[+-]00:00)$")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_ROUNDED, _EXACT = Context(prec=_DIGITS), Context(prec=limits.JUDGE_NUMBER_DIGITS)


class ResultDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which an answer differs from the expected one: the number of rows or columns, and a few examples."""

    kind: Kind
    count: int
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        name, examples = self.kind.replace("_", " "), "; ".join(self.examples)
        return f"{name}: {self.count:,}" + (f" ({examples})" if examples else "")


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between an answer and the expected one; none if they are equal."""

    differences: tuple[ResultDifference, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether there is no difference."""
        return not self.differences

    @property
    def outcome(self) -> Literal["exact", "superset", "wrong"]:
        """`superset` if the answer has all expected rows and columns, and more columns."""
        kinds = {each.kind for each in self.differences}
        return "exact" if not kinds else "superset" if kinds == {"extra_columns"} else "wrong"


class _Table(NamedTuple):
    """An answer as it is compared, beside its names and cells as people are shown them."""

    names: tuple[str, ...]
    rows: tuple[Row, ...]
    keys: list[Key]

    def projected(self, columns: Sequence[int]) -> list[Key]:
        """Return the rows reduced to some columns, in that order."""
        return [tuple(key[at] for at in columns) for key in self.keys]


def compare_results(
    given: Answer, expected: Answer, *, ordered: bool = False, sorted_by: Sequence[int] = ()
) -> Comparison:
    """Return how `given` differs from `expected` by the rule of this module. Pure.

    Truncated answers are compared as far as they go: check `truncated` first.

    Args:
        ordered: whether the order of the expected rows counts; it is compared only if the rows agree.
        sorted_by: the columns of the expected answer by which it is sorted; without them, whole rows are compared.
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
    """Return the columns of both answers that match each other: as many as the narrower answer has."""
    if len(here.names) == len(there.names):
        every = list(range(len(here.names)))
        return every, every
    if len(here.names) > len(there.names):
        return _best(here, there), list(range(len(there.names)))
    return list(range(len(here.names))), _best(there, here)


def _best(wide: _Table, narrow: _Table) -> list[int]:
    """Return the columns of the wider answer that make the most rows agree; the first choice among equals."""
    shared = [[_shared(wide, at, narrow, to) for at in range(len(wide.names))] for to in range(len(narrow.names))]
    rows = Counter(narrow.keys)
    best, agreeing = list[int](), -1  # below any count: the first choice is taken even if no row agrees
    for bound, columns in _choices(shared, len(wide.names)):
        if bound <= agreeing:  # no later choice can do better: they come with the highest bound first
            break
        common = (Counter(wide.projected(columns)) & rows).total()
        if common > agreeing:
            best, agreeing = list(columns), common
    return best


def _shared(wide: _Table, at: int, narrow: _Table, to: int) -> int:
    """Return how many values two columns have in common."""
    return (Counter(key[at] for key in wide.keys) & Counter(key[to] for key in narrow.keys)).total()


def _choices(shared: list[list[int]], width: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield choices of columns, each with the most rows that it could make agree; the highest bound first."""
    if perm(width, len(shared)) > limits.JUDGE_COLUMN_CHOICES:
        yield _greedy(shared, width)
        return
    # Because no more rows can agree than the worst column has values in common, its count is the bound.
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


def _columns(kind: Kind, names: tuple[str, ...], matched: Sequence[int]) -> list[ResultDifference]:
    rest = tuple(f"?{name}" for at, name in enumerate(names) if at not in matched)
    return [ResultDifference(kind=kind, count=len(rest), examples=rest[: limits.DIFFERENCE_EXAMPLES])] if rest else []


# ---------------------------------------------------------------- rows


def _rows(here: _Table, there: _Table, given: list[Key], expected: list[Key]) -> list[ResultDifference]:
    found, wanted = Counter(given), Counter(expected)
    missing, extra = wanted - found, found - wanted
    return [*_surplus("missing_rows", missing, expected, there), *_surplus("extra_rows", extra, given, here)]


def _order(here: _Table, given: list[Key], expected: list[Key]) -> list[ResultDifference]:
    moved = [at for at, pair in enumerate(zip(given, expected, strict=True)) if pair[0] != pair[1]]
    if not moved:
        return []
    examples = tuple(f"row {at + 1} is {row_line(here.rows[at])}" for at in moved[: limits.DIFFERENCE_EXAMPLES])
    return [ResultDifference(kind="different_order", count=len(moved), examples=examples)]


def _surplus(kind: Kind, surplus: Counter[Key], keys: list[Key], table: _Table) -> list[ResultDifference]:
    if not surplus:
        return []
    firsts: dict[Key, Row] = {}
    for key, row in zip(keys, table.rows, strict=True):
        if key in surplus:
            firsts.setdefault(key, row)
    examples = tuple(row_line(row) for row in list(firsts.values())[: limits.DIFFERENCE_EXAMPLES])
    return [ResultDifference(kind=kind, count=surplus.total(), examples=examples)]


# ---------------------------------------------------------------- cells


def value_of(cell: Cell | None) -> Value:
    """Return the value by which a cell is compared. A literal that is invalid for its datatype is compared by text."""
    if cell is None:
        return None
    if cell.kind == "iri":
        return ("iri", cell.value)
    if cell.kind == "bnode":
        return ("bnode",)
    by_value = _typed(cell)
    return by_value if by_value is not None else ("literal", cell.value, cell.lang.lower())


def _typed(cell: Cell) -> Value:
    """Return the value of a number, boolean, date or time; None for other literals and for invalid ones."""
    if cell.datatype in NUMBERS:
        return _number(cell.value)
    text = cell.value.strip()
    if cell.datatype == XSD_BOOLEAN:
        return ("boolean", _BOOLEANS[text]) if text in _BOOLEANS else None
    if cell.datatype in _MOMENTS:
        return _moment(text)
    return _day(text) if cell.datatype == XSD + "date" else None


def _number(text: str) -> Value:
    try:
        number = Decimal(text.strip()) if text.isascii() and "_" not in text else None
    except InvalidOperation:
        return None
    if number is None or not number.is_finite():
        return None if number is None else ("number", str(number).lower())
    if number and abs(number.adjusted()) > limits.JUDGE_EXPONENT:
        return ("number", str(number))
    # Integers below 10**12 stay exact; only fractions are rounded, because only they differ between engines.
    if number.adjusted() < _DIGITS and number != number.to_integral_value():
        number = _ROUNDED.plus(number)
    return ("number", str(int(number)) if number == number.to_integral_value() else str(number.normalize(_EXACT)))


def _moment(text: str) -> Value:
    # XSD allows 24:00:00 for the next day's midnight, `fromisoformat` doesn't.
    early, ends = _MIDNIGHT.subn("T00:00:00", text)
    try:
        moment = datetime.fromisoformat(early)
    except ValueError:
        return None
    # `fromisoformat` also takes a date alone, which is no xsd:dateTime.
    if "T" not in text:
        return None
    try:
        moment += timedelta(days=ends)
        zoned = moment.tzinfo is not None
        return ("moment", (moment.astimezone(UTC) if zoned else moment).replace(tzinfo=None).isoformat(), zoned)
    except OverflowError:
        return None


def _day(text: str) -> Value:
    bare = _UTC.sub("", text)
    try:
        # 10 characters, because `fromisoformat` also takes 20250131 and 2025-W05-5.
        return ("day", date.fromisoformat(bare).isoformat(), bare != text) if len(bare) == 10 else None
    except ValueError:
        return None
