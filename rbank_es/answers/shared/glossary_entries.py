"""The entries of the glossary by the field that is met: in an answer, or in a column of the database for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from rbank_es.answers.shared.glossary import COLUMNS
from rbank_es.answers.shared.glossary_units import (
    BOOLEAN,
    CHARS,
    DIFFERENCE,
    DOLLARS,
    NUMBER,
    POSITION,
    SECONDS,
    SHARE,
)

_WHOLE = (POSITION, CHARS, NUMBER, BOOLEAN)
_FRACTIONS = (SHARE, DIFFERENCE, SECONDS, DOLLARS)


class GlossaryEntry(NamedTuple):
    """Unit and meaning of a field, and the name under which they are known: its own, or with a table before it."""

    key: str
    unit: str
    meaning: str


def entry_of(name: str, *tables: str) -> GlossaryEntry | None:
    """Return the entry of a field: that of the first of some tables that has one, else the one that holds everywhere.

    None for a field without a meaning.
    """
    keys = [*(f"{table}.{name}" for table in tables), name]
    return next((GlossaryEntry(key, *COLUMNS[key]) for key in keys if key in COLUMNS), None)


def describe_columns(table: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return a row of the table `columns` for each column of a table. Raises `KeyError` for one without a meaning."""
    found = [(name, _entry(table, name)) for name in names]
    return [
        {"table_name": table, "column_name": name, "unit": entry.unit, "meaning": entry.meaning}
        for name, entry in found
    ]


def column_type(table: str, name: str) -> type:
    """Return the type that a column is created with. Raises `KeyError` for one without a meaning."""
    unit = _entry(table, name).unit
    return int if unit in _WHOLE else float if unit in _FRACTIONS else str


def _entry(table: str, name: str) -> GlossaryEntry:
    found = entry_of(name, table)
    if found is None:
        raise KeyError(f"{table}.{name}")
    return found
