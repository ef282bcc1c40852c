"""Rows, a page at a time: as many as fit into a budget of characters, every value plain JSON, no row skipped.

Whatever is in the rows, a page holds at least one row where there is one, so whoever goes from page to page along
`next_offset` comes to the end. What is too long for its place is clipped, marked with `CUT`, and counted. An IRI in a
result stays whole where a page can hold it, for a part of one can't be asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from rbank_es import limits
from rbank_es.sparql.results import Answer, Cell, Row
from rbank_es.tools.runtime.encoder import CUT, EXACT, size

Json = str | int | float | bool
"""What a cell becomes."""

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

OK_CHARS = 11
"""What every answer says beside its body: `"ok":true,`."""

KIND_CHARS = 40
"""What is shown of one kind; names of datatypes can be long."""

WIDTHS = (150, 75, 40, 20, 10, 4)
"""How far the texts of a row that has no room are clipped, step by step, before columns are left out."""

_WHOLE = (
    "integer int long short byte nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger "
    "unsignedLong unsignedInt unsignedShort unsignedByte"
)
_INTEGERS = frozenset(XSD + name for name in _WHOLE.split())
_FRACTIONS = frozenset(XSD + name for name in ("decimal", "double", "float"))
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_INTEGER = re.compile(r"[+-]?0*(\d{1,16})", re.ASCII)  # 16 digits are enough for EXACT
_FRACTION = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_PLAIN = frozenset(("", XSD + "string", RDF + "langString"))


class Fit(NamedTuple):
    """The rows that found room, how many texts in them were clipped, whether IRIs too, and columns left out."""

    rows: list[dict[str, Any]]
    clipped: int = 0
    left_out: int = 0
    cut_iris: bool = False


def page(
    rows: Sequence[dict[str, Any]],
    offset: int,
    total: int,
    cap_chars: int,
    *,
    name: str = "rows",
    beside: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The body of an answer that pages through rows: those of `rows` that fit, and where the next page begins.

    `rows` are those wanted, of `total`; the first of them is number `offset`. `beside` is what the body says besides;
    with it, the body is at most `cap_chars` characters of JSON.
    """
    frame = {name: [], **(beside or {}), **_whereabouts(offset, len(rows), total)}
    found = fit(rows, cap_chars - size(frame) - OK_CHARS)
    return _body(name, found, {**(beside or {})}, offset, total)


def fit(rows: Sequence[dict[str, Any]], room_chars: int) -> Fit:
    """The first rows that fit into so many characters of JSON; a first row that is too large is clipped to fit."""
    kept: list[dict[str, Any]] = []
    left = room_chars
    for row in rows:
        left -= size(row) + 1
        if left < 0:
            break
        kept.append(row)
    return Fit(kept) if kept or not rows else narrowed(rows[0], room_chars - 1)


def narrowed(row: dict[str, Any], room_chars: int) -> Fit:
    """One row in so many characters of JSON: its texts clipped, then its last columns left out."""
    narrow, clipped = row, 0
    for width in WIDTHS:
        narrow, clipped = clip_all(row, width)
        if size(narrow) <= room_chars:
            return Fit([narrow], clipped)
    kept = some(narrow, room_chars)
    return Fit([kept], clipped, len(row) - len(kept))


def some(parts: Mapping[str, Any], room_chars: int) -> dict[str, Any]:
    """The first parts of an object that fit into so many characters of JSON."""
    kept: dict[str, Any] = {}
    left = room_chars - 2
    for name, part in parts.items():
        left -= size(name) + size(part) + 2
        if left < 0:
            break
        kept[name] = part
    return kept


def clip(text: str, width: int) -> str:
    """The text in at most `width` characters, marked where it was cut."""
    return text if len(text) <= width else text[: width - 1] + CUT


def clip_all(value: Any, width: int) -> tuple[Any, int]:
    """The value with every text in it clipped (names stay whole), and how many were."""
    if isinstance(value, str):
        return clip(value, width), int(len(value) > width)
    if isinstance(value, dict):
        pairs = {name: clip_all(part, width) for name, part in value.items()}
        return {name: part for name, (part, _) in pairs.items()}, sum(count for _, count in pairs.values())
    if isinstance(value, list):
        parts = [clip_all(part, width) for part in value]
        return [part for part, _ in parts], sum(count for _, count in parts)
    return value, 0


# ---------------------------------------------------------------- the rows of a query's answer


def slice_answer(
    answer: Answer,
    offset: int,
    limit: int,
    cap_chars: int = limits.SLICE_RETURN_CHARS,
    *,
    shorten: Callable[[str], str] | None = None,
    hint: str = "",
) -> dict[str, Any]:
    """The body of `sparql_slice`: rows from `offset`, as many of `limit` as fit, and the kind of every column.

    A row maps variables to plain JSON; an unbound variable is absent. `truncated` says that the query itself was cut,
    so that there are more rows than `total`; `clipped` counts values that are shown short, `lost` those of the whole
    result that were cut when the query ran. `shorten` abbreviates datatypes; `hint` says how to read what is clipped.
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
    frame = {"rows": [], "kinds": {}, "truncated": True, **_whereabouts(offset, limit, len(answer.rows))}
    frame |= {"lost": answer.clipped} if answer.clipped else {}
    room = cap_chars - size(frame) - OK_CHARS
    kinds: dict[str, str] = {}
    kept: list[dict[str, Any]] = []
    shown_kinds, clipped, cut_iris, left = kinds, 0, False, room
    for row in answer.rows[offset : offset + limit]:
        merged = _merged(kinds, names, row, shorten)
        told = some(merged, room // 3)
        shown, cut, cut_iri = _shown(names, row, limits.CELL_CHARS)
        needed = size(shown) + 1
        if needed + size(told) > left:
            if kept:
                break
            first = _narrowed(names, row, room - size(told) - 1)
            return _body("rows", first, {"kinds": told}, offset, len(answer.rows))
        kept.append(shown)
        kinds, shown_kinds, left = merged, told, left - needed
        clipped, cut_iris = clipped + cut, cut_iris or cut_iri
    return _body("rows", Fit(kept, clipped, 0, cut_iris), {"kinds": shown_kinds}, offset, len(answer.rows))


def _shown(names: Sequence[str], row: Row, width: int) -> tuple[dict[str, Any], int, bool]:
    """A row with its texts clipped, and IRIs that nobody would write; how many were, and whether an IRI was."""
    shown, clipped, cut_iri = {}, 0, False
    for name, cell in zip(names, row, strict=True):
        if cell is None:
            continue
        is_iri = cell.kind == "iri"
        shown[name], cut = clip_all(value_of(cell), limits.CELL_IRI_CHARS if is_iri else width)
        clipped, cut_iri = clipped + cut, cut_iri or (is_iri and cut > 0)
    return shown, clipped, cut_iri


def _narrowed(names: Sequence[str], row: Row, room_chars: int) -> Fit:
    """One row in so many characters of JSON: its texts clipped, then its IRIs too, then its last columns left out."""
    for width in WIDTHS:
        shown, clipped, cut_iri = _shown(names, row, width)
        if size(shown) <= room_chars:
            return Fit([shown], clipped, 0, cut_iri)
    found = narrowed(_shown(names, row, limits.CELL_CHARS)[0], room_chars)
    kept = found.rows[0]
    iris = (
        (name, cell.value) for name, cell in zip(names, row, strict=True) if cell is not None and cell.kind == "iri"
    )
    return found._replace(cut_iris=any(kept.get(name, iri) != iri for name, iri in iris))


def shown_names(variables: Sequence[str]) -> tuple[str, ...]:
    """Names under which variables are shown: digits alone would change their order at the sandbox's boundary."""
    names: dict[str, None] = {}
    for variable in variables:
        name = f"_{variable}" if variable.isdigit() else variable
        while name in names:
            name = f"_{name}"
        names[name] = None
    return tuple(names)


def value_of(cell: Cell) -> Json:
    """A cell as JSON: numbers and booleans where they are exact there, else the text; a blank node as `_:label`."""
    if cell.kind == "bnode":
        return cell.value if cell.value.startswith("_:") else f"_:{cell.value}"
    if cell.kind == "iri" or cell.datatype in _PLAIN:
        return cell.value
    if cell.datatype == XSD + "boolean":
        return _BOOLEANS.get(cell.value, cell.value)
    if cell.datatype in _INTEGERS:
        return _integer(cell.value)
    return _fraction(cell.value) if cell.datatype in _FRACTIONS else cell.value


def kind_of(cell: Cell, shorten: Callable[[str], str] | None = None) -> str:
    """What a cell is: iri, bnode, number, boolean, text, text@LANGUAGE, or its datatype where it is shown as text."""
    if cell.kind != "literal":
        return cell.kind
    if cell.lang:
        return clip(f"text@{cell.lang}", KIND_CHARS)
    if cell.datatype in _PLAIN:
        return "text"
    value = value_of(cell)
    if isinstance(value, bool):
        return "boolean"
    return clip(_datatype(cell.datatype, shorten), KIND_CHARS) if isinstance(value, str) else "number"


def _datatype(iri: str, shorten: Callable[[str], str] | None) -> str:
    if iri.startswith(XSD):
        return "xsd:" + iri.removeprefix(XSD)
    return shorten(iri) if shorten is not None else f"<{iri}>"


def _integer(text: str) -> int | str:
    digits = _INTEGER.fullmatch(text)
    if digits is None or int(digits[1]) > EXACT:
        return text
    return -int(digits[1]) if text.startswith("-") else int(digits[1])


def _fraction(text: str) -> int | float | str:
    if not _FRACTION.fullmatch(text):
        return text
    number = float(text)
    if not number.is_integer():
        return number if abs(number) != float("inf") else text
    # A float that became an integer by rounding is not the number that was written.
    return int(number) if abs(number) <= EXACT and Decimal(text) == int(number) else text


def _merged(
    kinds: Mapping[str, str], names: Sequence[str], row: Row, shorten: Callable[[str], str] | None
) -> dict[str, str]:
    merged = dict(kinds)
    for name, cell in zip(names, row, strict=True):
        if cell is not None:
            kind = kind_of(cell, shorten)
            merged[name] = kind if merged.get(name, kind) == kind else "mixed"
    return merged


# ---------------------------------------------------------------- what a page says of itself

_NOTE = "some columns have no room: select fewer"
_CUT_IRIS = "an IRI that ends in … is cut, and no name of anything"


def _whereabouts(offset: int, limit: int, total: int) -> dict[str, Any]:
    """The longest form of what a page says of itself."""
    numbers = {"returned": limit, "total": total, "offset": offset, "next_offset": offset + limit, "clipped": 10**6}
    return {**numbers, "has_more": False, "note": f"{_NOTE}; {_CUT_IRIS}"}


def _body(name: str, found: Fit, beside: Mapping[str, Any], offset: int, total: int) -> dict[str, Any]:
    after = offset + len(found.rows)
    body: dict[str, Any] = {name: found.rows, **beside, "returned": len(found.rows), "total": total, "offset": offset}
    body["has_more"] = after < total
    if body["has_more"]:
        body["next_offset"] = after
    if found.clipped:
        body["clipped"] = found.clipped
    notes = [*([_NOTE] if found.left_out else []), *([_CUT_IRIS] if found.cut_iris else [])]
    if not found.rows and offset and offset >= total:
        notes = [f"there is no row {offset}"]
    if notes:
        body["note"] = "; ".join(notes)
    return body
