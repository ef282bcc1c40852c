"""A page of a query's result, as `sparql_slice` shows it: cells as plain JSON, the kind of each column, rows that fit.

An IRI stays whole if a page can hold it, because a part of an IRI can't be looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from rbank_es import limits
from rbank_es.limits import tool_limits
from rbank_es.ontology.rdf_names import FRACTIONS, RDF, WHOLE_NUMBERS, XSD
from rbank_es.sparql.results import Answer, Cell, Row
from rbank_es.system.text_cuts import cut
from rbank_es.tools.shared.tool_answers import (
    OK_CHARS,
    WIDTHS,
    Fit,
    body_of,
    clip_all,
    narrowed,
    shown_names,
    size,
    some,
    whereabouts,
)

Json = str | int | float | bool
"""The value of a cell in an answer."""

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_INTEGER = re.compile(r"[+-]?0*(\d{1,16})", re.ASCII)  # 16 digits are enough for limits.COUNT_MOST
_FRACTION = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_PLAIN = frozenset(("", XSD + "string", RDF + "langString"))


def slice_answer(
    answer: Answer,
    offset: int,
    limit: int,
    cap_chars: int = tool_limits.SLICE_RETURN_CHARS,
    *,
    shorten: Callable[[str], str] | None = None,
    hint: str = "",
) -> dict[str, Any]:
    """Return the body of `sparql_slice`: rows from `offset`, as many of `limit` as fit, each column's kind.

    A row maps variables to plain JSON; an unbound variable is absent. `truncated` means that the query itself was cut,
    so that there are more rows than `total`. `clipped` counts the values that are truncated here, `lost` those that
    were when the query ran. `shorten` abbreviates datatypes; `hint` names the way to read truncated values.
    """
    body = _slice(answer, offset, limit, cap_chars, shorten)
    if hint and "clipped" in body:
        body = _slice(answer, offset, limit, cap_chars - size({"hint": hint}), shorten)
        body |= {"hint": hint} if "clipped" in body else {}
    if answer.clipped:
        body["lost"] = answer.clipped
    return {**body, "truncated": True} if answer.truncated else body


def _slice(
    answer: Answer, offset: int, limit: int, cap_chars: int, shorten: Callable[[str], str] | None
) -> dict[str, Any]:
    names = shown_names(answer.variables)
    frame = {"rows": [], "kinds": {}, "truncated": True, **whereabouts(offset, limit, len(answer.rows))}
    frame |= {"lost": answer.clipped} if answer.clipped else {}
    room = cap_chars - size(frame) - OK_CHARS
    kinds: dict[str, str] = {}
    kept: list[dict[str, Any]] = []
    shown_kinds, clipped, truncated_iris, left = kinds, 0, False, room
    for row in answer.rows[offset : offset + limit]:
        merged = _merged(kinds, names, row, shorten)
        # At most a third for kinds: those of many columns would leave no room for rows.
        shown_so_far = some(merged, room // 3)
        shown, shortened, cut_iri = _shown(names, row, tool_limits.CELL_CHARS)
        needed = size(shown) + 1
        if needed + size(shown_so_far) > left:
            if kept:
                break
            first = _narrowed(names, row, room - size(shown_so_far) - 1)
            return body_of("rows", first, {"kinds": shown_so_far}, offset, len(answer.rows))
        kept.append(shown)
        kinds, shown_kinds, left = merged, shown_so_far, left - needed
        clipped, truncated_iris = clipped + shortened, truncated_iris or cut_iri
    return body_of("rows", Fit(kept, clipped, 0, truncated_iris), {"kinds": shown_kinds}, offset, len(answer.rows))


def _shown(names: Sequence[str], row: Row, width: int) -> tuple[dict[str, Any], int, bool]:
    """Return a row with its texts truncated, also overlong IRIs; how many were, and whether an IRI was."""
    shown, clipped, cut_iri = {}, 0, False
    for name, cell in zip(names, row, strict=True):
        if cell is None:
            continue
        is_iri = cell.kind == "iri"
        shown[name], shortened = clip_all(value_of(cell), limits.ONTOLOGY_IRI_CHARS if is_iri else width)
        clipped, cut_iri = clipped + shortened, cut_iri or (is_iri and shortened > 0)
    return shown, clipped, cut_iri


def _narrowed(names: Sequence[str], row: Row, room_chars: int) -> Fit:
    """Return one row in `room_chars` of JSON: texts truncated, then IRIs too, then last columns dropped."""
    for width in WIDTHS:
        shown, clipped, cut_iri = _shown(names, row, width)
        if size(shown) <= room_chars:
            return Fit([shown], clipped, 0, cut_iri)
    found = narrowed(_shown(names, row, tool_limits.CELL_CHARS)[0], room_chars)
    kept = found.rows[0]
    iris = (
        (name, cell.value) for name, cell in zip(names, row, strict=True) if cell is not None and cell.kind == "iri"
    )
    return found._replace(truncated_iris=any(kept.get(name, iri) != iri for name, iri in iris))


def value_of(cell: Cell) -> Json:
    """Return a cell as JSON: a number or boolean that JSON holds exactly, else its text; blank nodes as `_:label`."""
    if cell.kind == "bnode":
        return cell.value if cell.value.startswith("_:") else f"_:{cell.value}"
    if cell.kind == "iri" or cell.datatype in _PLAIN:
        return cell.value
    if cell.datatype == XSD + "boolean":
        return _BOOLEANS.get(cell.value, cell.value)
    if cell.datatype in WHOLE_NUMBERS:
        return _integer(cell.value)
    return _fraction(cell.value) if cell.datatype in FRACTIONS else cell.value


def kind_of(cell: Cell, shorten: Callable[[str], str] | None = None) -> str:
    """Return the kind of a cell: iri, bnode, number, boolean, text, text@LANGUAGE, or its datatype if shown as text."""
    if cell.kind != "literal":
        return cell.kind
    if cell.lang:
        return cut(f"text@{cell.lang}", tool_limits.KIND_CHARS)
    if cell.datatype in _PLAIN:
        return "text"
    value = value_of(cell)
    if isinstance(value, bool):
        return "boolean"
    return cut(_datatype(cell.datatype, shorten), tool_limits.KIND_CHARS) if isinstance(value, str) else "number"


def _datatype(iri: str, shorten: Callable[[str], str] | None) -> str:
    if iri.startswith(XSD):
        return "xsd:" + iri.removeprefix(XSD)
    return shorten(iri) if shorten is not None else f"<{iri}>"


def _integer(text: str) -> int | str:
    digits = _INTEGER.fullmatch(text)
    if digits is None or int(digits[1]) > limits.COUNT_MOST:
        return text
    return -int(digits[1]) if text.startswith("-") else int(digits[1])


def _fraction(text: str) -> int | float | str:
    if not _FRACTION.fullmatch(text):
        return text
    number = float(text)
    if not number.is_integer():
        return number if abs(number) != float("inf") else text
    # A float that became an integer by rounding is not the number that was written.
    return int(number) if abs(number) <= limits.COUNT_MOST and Decimal(text) == int(number) else text


def _merged(
    kinds: Mapping[str, str], names: Sequence[str], row: Row, shorten: Callable[[str], str] | None
) -> dict[str, str]:
    merged = dict(kinds)
    for name, cell in zip(names, row, strict=True):
        if cell is not None:
            kind = kind_of(cell, shorten)
            merged[name] = kind if merged.get(name, kind) == kind else "mixed"
    return merged
