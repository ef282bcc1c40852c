"""Values of cells: what makes two of them the same, and how people are shown them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation

from rbank_es.ontology.rdf_names import XSD
from rbank_es.sparql.results import Cell, Row

Value = tuple[object, ...] | None
"""A cell as it is compared; None where a variable is unbound."""

DIGITS = 12
"""Digits to which numbers with a fraction are compared: engines differ in how many they keep of 10/3."""

SHOWN_CHARS = 60
"""What is shown of one value."""

_NUMBERS = frozenset(
    XSD + name
    for name in [
        "integer",
        "decimal",
        "double",
        "float",
        "long",
        "int",
        "short",
        "byte",
        "nonNegativeInteger",
        "positiveInteger",
        "nonPositiveInteger",
        "negativeInteger",
        "unsignedLong",
        "unsignedInt",
        "unsignedShort",
        "unsignedByte",
    ]
)
_MOMENTS = frozenset({XSD + "dateTime", XSD + "dateTimeStamp"})
_MIDNIGHT = re.compile(r"T24:00:00(\.0+)?")
_UTC = re.compile(r"(Z|[+-]00:00)$")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_ROUNDED, _EXACT = Context(prec=DIGITS), Context(prec=10_000)
_WIDEST_EXPONENT = 400
"""Beyond it (a double ends at 308), a number is compared as it was written: its digits are not to be written out."""


def value_of(cell: Cell | None) -> Value:
    """What is compared of a cell. Total: a literal that isn't of its datatype goes by its text."""
    if cell is None:
        return None
    if cell.kind == "iri":
        return ("iri", cell.value)
    if cell.kind == "bnode":
        return ("bnode",)
    by_value = _typed(cell)
    return by_value if by_value is not None else ("literal", cell.value, cell.lang.lower())


def _typed(cell: Cell) -> Value:
    """The value of a literal of a datatype that has one; None for all others."""
    if cell.datatype in _NUMBERS:
        return _number(cell.value)
    text = cell.value.strip()
    if cell.datatype == XSD + "boolean":
        return ("boolean", _BOOLEANS[text]) if text in _BOOLEANS else None
    if cell.datatype in _MOMENTS:
        return _moment(text)
    if cell.datatype == XSD + "date":
        return _day(text)
    return None


def _number(text: str) -> Value:
    try:
        number = Decimal(text.strip()) if text.isascii() and "_" not in text else None
    except InvalidOperation:
        return None
    if number is None or not number.is_finite():
        return None if number is None else ("number", str(number).lower())
    if number and abs(number.adjusted()) > _WIDEST_EXPONENT:
        return ("number", str(number))
    if number.adjusted() < DIGITS and number != number.to_integral_value():
        number = _ROUNDED.plus(number)
    return ("number", str(int(number)) if number == number.to_integral_value() else str(number.normalize(_EXACT)))


def _moment(text: str) -> Value:
    early, ends = _MIDNIGHT.subn("T00:00:00", text)
    try:
        moment = datetime.fromisoformat(early)
    except ValueError:
        return None
    if "T" not in text:
        return None
    try:
        moment += timedelta(days=ends)
        zoned = moment.tzinfo is not None
        return ("moment", (moment.astimezone(UTC) if zoned else moment).replace(tzinfo=None).isoformat(), zoned)
    except OverflowError:
        return None


def _day(text: str) -> Value:
    plain = _UTC.sub("", text)
    try:
        return ("day", date.fromisoformat(plain).isoformat(), plain != text) if len(plain) == 10 else None
    except ValueError:
        return None


def shown(row: Row) -> str:
    """A row in one line: values parted by bars, long ones cut, `-` where a variable is unbound."""
    return " | ".join(_shown(cell) for cell in row) or "(an empty row)"


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    text = {"iri": f"<{cell.value}>", "bnode": "[]"}.get(cell.kind, cell.value)
    line = " ".join(text.split())
    cut = line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…"
    return f"{cut}@{cell.lang}" if cell.lang else cut
