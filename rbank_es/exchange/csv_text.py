"""CSV that any spreadsheet may open: texts quoted, lists joined, nothing that runs as a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from rbank_es.events.visible_text import visible

FORMULA_BEGINS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""Beginnings of a cell that a spreadsheet takes for a formula (OWASP's list, and their full-width forms)."""


def csv_of(fields: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a line of headers: texts quoted, lists joined by `; `, nothing that runs as a formula."""
    text = io.StringIO()
    # Quoted whatever they hold, so that no other separator that a spreadsheet may expect splits them.
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows([[csv_cell(row[name]) for name in fields] for row in rows])
    return text.getvalue()


def csv_cell(value: Any) -> str | int | float:
    """Return a value as a cell: a number as it is, a text spelled out and, if it could be a formula, after a `'`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return value
    text = "" if value is None else "; ".join(value) if isinstance(value, list) else str(value)
    # A spreadsheet trims a cell before it looks for a formula.
    return visible(f"'{text}" if text.strip(" \u00a0").startswith(tuple(FORMULA_BEGINS)) else text, keep="\n")
