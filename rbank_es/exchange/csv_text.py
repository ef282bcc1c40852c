"""CSV that any spreadsheet may open or have written: texts quoted, lists joined, nothing that runs as a formula; read
with whatever separator the spreadsheet of that country uses.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rbank_es.errors import BadInput
from rbank_es.events.hidden_characters import visible
from rbank_es.system.text_cuts import cut

FORMULA_BEGINS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""Beginnings of a cell that a spreadsheet takes for a formula (OWASP's list, and their full-width forms)."""
_HEADER_CHARS = 80
"""What an error shows of a header that is none: a file without separators is one header."""


def csv_of(fields: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a line of headers: texts quoted, lists joined by `; `, nothing that runs as a formula."""
    text = io.StringIO()
    # Quoted whatever they hold, so that no other separator that a spreadsheet may expect splits them.
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows([[csv_cell(row[name]) for name in fields] for row in rows])
    return text.getvalue()


def csv_cell(value: Any) -> str | int | float:
    """Return a value as a cell: a number as it is, a text spelled out and, if it could be a formula, after a `'`; what
    is no text and no list of texts as JSON."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return value
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        value = "; ".join(value)
    text = "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
    # A spreadsheet trims a cell before it looks for a formula.
    return visible(f"'{text}" if text.strip(" \u00a0").startswith(tuple(FORMULA_BEGINS)) else text, keep="\n")


SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
"""What may stand between cells, with its name."""


def csv_rows(text: str, fields: Collection[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows below a line of headers, each with its line and its cells that aren't empty; empty rows are left
    out.

    The separator is the one that makes fields of all headers; a line `sep=;`, as spreadsheets write it, is skipped.
    Raises `BadInput` for other headers and for a row with more cells; `csv.Error`.
    """
    lines = text.splitlines(keepends=True)
    skipped = 1 if lines and lines[0].lower().startswith("sep=") else 0
    body = "".join(lines[skipped:])
    separator = next((each for each in SEPARATORS if _headers(body, each) <= set(fields)), None)
    if separator is None:
        raise _unknown_headers(body, fields)
    reader = csv.reader(io.StringIO(body, newline=""), delimiter=separator, strict=True)
    headers = [each.strip() for each in next(reader, [])]
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        line = reader.line_num + skipped
        if any(cell.strip() for cell in cells[len(headers) :]):
            raise BadInput(f"line {line} has more cells than the line of headers")
        yield line, {name: cell for name, cell in zip(headers, cells, strict=False) if cell}


def _headers(text: str, separator: str) -> set[str]:
    try:
        headers = next(csv.reader(io.StringIO(text, newline=""), delimiter=separator), [])
    except csv.Error:
        return {text}
    return {each.strip() for each in headers} - {""}


def _unknown_headers(text: str, fields: Collection[str]) -> BadInput:
    """Return the error for headers that no separator makes fields of; the likeliest separator is named."""
    separator = max(SEPARATORS, key=lambda each: (len(_headers(text, each) & set(fields)), each == ","))
    unknown = sorted(_headers(text, separator) - set(fields))
    return BadInput(
        f"no field is called {cut(unknown[0], _HEADER_CHARS)!r} (with a {SEPARATORS[separator]} between cells); "
        f"there are: {', '.join(fields)}; the separator may be a {', '.join(SEPARATORS.values())}"
    )
