"""The budget of an answer, in characters: pages of rows, texts and names that fit into it.

A page holds at least one row if there is one, because following `next_offset` must reach the end, whatever the rows
hold. A text that is too long is truncated with `ELLIPSIS`, and counted. An IRI in a result stays whole if a page can
hold it, because a part of an IRI can't be looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from rbank_es import limits
from rbank_es.ontology.rdf_names import RDF, XSD
from rbank_es.sparql.results import Answer, Cell, Row
from rbank_es.tools.runtime.encoder import ELLIPSIS, EXACT, size
from rbank_es.tools.runtime.tool_family import ToolError, ToolSession

Thing = TypeVar("Thing")

Json = str | int | float | bool
"""The value of a cell in an answer."""

OK_CHARS = 11
"""Characters of an answer beside its body: `"ok":true,`."""

KIND_CHARS = 40
"""Characters that are shown of one kind, because names of datatypes can be long."""

WIDTHS = (150, 75, 40, 20, 10, 4)
"""Characters to which the texts of a row without room are truncated, step by step, before columns are dropped."""

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
    """Rows that fit, the number of truncated texts and of dropped columns, and whether an IRI was truncated."""

    rows: list[dict[str, Any]]
    clipped: int = 0
    left_out: int = 0
    truncated_iris: bool = False


def page(
    rows: Sequence[dict[str, Any]],
    offset: int,
    total: int,
    cap_chars: int,
    *,
    name: str = "rows",
    beside: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the body of an answer that pages through rows: the rows that fit, and where the next page begins.

    `rows` are those wanted, of `total`; the first of them is number `offset`. `beside` is merged into the body, which
    is at most `cap_chars` characters of JSON with it.
    """
    # Measured in its longest form, so that no later field exceeds the cap.
    frame = {name: [], **(beside or {}), **_whereabouts(offset, len(rows), total)}
    found = fit(rows, cap_chars - size(frame) - OK_CHARS)
    return _body(name, found, {**(beside or {})}, offset, total)


def fit(rows: Sequence[dict[str, Any]], room_chars: int) -> Fit:
    """Return the first rows in `room_chars` characters of JSON at most; a first row that is too large is truncated."""
    kept = leading(rows, room_chars, lambda row: size(row) + 1)
    return Fit(kept) if kept or not rows else narrowed(rows[0], room_chars - 1)


def narrowed(row: dict[str, Any], room_chars: int) -> Fit:
    """Return one row in `room_chars` characters of JSON: its texts truncated, then its last columns dropped."""
    narrow, clipped = row, 0
    for width in WIDTHS:
        narrow, clipped = clip_all(row, width)
        if size(narrow) <= room_chars:
            return Fit([narrow], clipped)
    kept = some(narrow, room_chars)
    return Fit([kept], clipped, len(row) - len(kept))


def some(parts: Mapping[str, Any], room_chars: int) -> dict[str, Any]:
    """Return the first parts of an object that fit into `room_chars` characters of JSON."""
    return dict(leading(parts.items(), room_chars - 2, lambda pair: size(pair[0]) + size(pair[1]) + 2))


def leading(values: Iterable[Thing], room: int, chars_of: Callable[[Thing], int]) -> list[Thing]:
    """Return the first values that fit into `room` characters together."""
    kept: list[Thing] = []
    for value in values:
        room -= chars_of(value)
        if room < 0:
            break
        kept.append(value)
    return kept


def clip(text: str, width: int) -> str:
    """Return the text in at most `width` characters, marked where it was truncated."""
    return text if len(text) <= width else text[: width - 1] + ELLIPSIS


def clip_all(value: Any, width: int) -> tuple[Any, int]:
    """Return the value with every text in it truncated (keys stay whole), and the number of truncated texts."""
    if isinstance(value, str):
        return clip(value, width), int(len(value) > width)
    if isinstance(value, dict):
        pairs = {name: clip_all(part, width) for name, part in value.items()}
        return {name: part for name, (part, _) in pairs.items()}, sum(count for _, count in pairs.values())
    if isinstance(value, list):
        parts = [clip_all(part, width) for part in value]
        return [part for part, _ in parts], sum(count for _, count in parts)
    return value, 0


def slice_answer(
    answer: Answer,
    offset: int,
    limit: int,
    cap_chars: int = limits.SLICE_RETURN_CHARS,
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
    frame = {"rows": [], "kinds": {}, "truncated": True, **_whereabouts(offset, limit, len(answer.rows))}
    frame |= {"lost": answer.clipped} if answer.clipped else {}
    room = cap_chars - size(frame) - OK_CHARS
    kinds: dict[str, str] = {}
    kept: list[dict[str, Any]] = []
    shown_kinds, clipped, truncated_iris, left = kinds, 0, False, room
    for row in answer.rows[offset : offset + limit]:
        merged = _merged(kinds, names, row, shorten)
        # At most a third for kinds: those of many columns would leave no room for rows.
        shown_so_far = some(merged, room // 3)
        shown, cut, cut_iri = _shown(names, row, limits.CELL_CHARS)
        needed = size(shown) + 1
        if needed + size(shown_so_far) > left:
            if kept:
                break
            first = _narrowed(names, row, room - size(shown_so_far) - 1)
            return _body("rows", first, {"kinds": shown_so_far}, offset, len(answer.rows))
        kept.append(shown)
        kinds, shown_kinds, left = merged, shown_so_far, left - needed
        clipped, truncated_iris = clipped + cut, truncated_iris or cut_iri
    return _body("rows", Fit(kept, clipped, 0, truncated_iris), {"kinds": shown_kinds}, offset, len(answer.rows))


def _shown(names: Sequence[str], row: Row, width: int) -> tuple[dict[str, Any], int, bool]:
    """Return a row with its texts truncated, also overlong IRIs; how many were, and whether an IRI was."""
    shown, clipped, cut_iri = {}, 0, False
    for name, cell in zip(names, row, strict=True):
        if cell is None:
            continue
        is_iri = cell.kind == "iri"
        shown[name], cut = clip_all(value_of(cell), limits.ONTOLOGY_IRI_CHARS if is_iri else width)
        clipped, cut_iri = clipped + cut, cut_iri or (is_iri and cut > 0)
    return shown, clipped, cut_iri


def _narrowed(names: Sequence[str], row: Row, room_chars: int) -> Fit:
    """Return one row in `room_chars` of JSON: texts truncated, then IRIs too, then last columns dropped."""
    for width in WIDTHS:
        shown, clipped, cut_iri = _shown(names, row, width)
        if size(shown) <= room_chars:
            return Fit([shown], clipped, 0, cut_iri)
    found = narrowed(_shown(names, row, limits.CELL_CHARS)[0], room_chars)
    kept = found.rows[0]
    iris = (
        (name, cell.value) for name, cell in zip(names, row, strict=True) if cell is not None and cell.kind == "iri"
    )
    return found._replace(truncated_iris=any(kept.get(name, iri) != iri for name, iri in iris))


def shown_names(variables: Sequence[str]) -> tuple[str, ...]:
    """Return the names under which variables are shown: the sandbox's boundary would reorder mere digits."""
    names: dict[str, None] = {}
    for variable in variables:
        name = f"_{variable}" if variable.isdigit() else variable
        while name in names:
            name = f"_{name}"
        names[name] = None
    return tuple(names)


def value_of(cell: Cell) -> Json:
    """Return a cell as JSON: a number or boolean that JSON holds exactly, else its text; blank nodes as `_:label`."""
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
    """Return the kind of a cell: iri, bnode, number, boolean, text, text@LANGUAGE, or its datatype if shown as text."""
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


_NOTE = "some columns have no room: select fewer"
_TRUNCATED_IRIS = "an IRI that ends in … is cut, and no name of anything"


def _whereabouts(offset: int, limit: int, total: int) -> dict[str, Any]:
    """Return the longest form of the fields that say where a page is."""
    numbers = {"returned": limit, "total": total, "offset": offset, "next_offset": offset + limit, "clipped": 10**6}
    return {**numbers, "has_more": False, "note": f"{_NOTE}; {_TRUNCATED_IRIS}"}


def _body(name: str, found: Fit, beside: Mapping[str, Any], offset: int, total: int) -> dict[str, Any]:
    after = offset + len(found.rows)
    body: dict[str, Any] = {name: found.rows, **beside, "returned": len(found.rows), "total": total, "offset": offset}
    body["has_more"] = after < total
    if body["has_more"]:
        body["next_offset"] = after
    if found.clipped:
        body["clipped"] = found.clipped
    notes = [*([_NOTE] if found.left_out else []), *([_TRUNCATED_IRIS] if found.truncated_iris else [])]
    if not found.rows and offset and offset >= total:
        notes = [f"there is no row {offset}"]
    if notes:
        body["note"] = "; ".join(notes)
    return body


HANDLE_CHARS = 300
"""Characters of a handle: alias, key of 36, kind, size, and a preview of 80 with its escapes."""

UNBOUNDED = limits.PAYLOAD_BYTES
"""The budget of the naive mode in characters: what one payload can hold."""

VALUE_CHARS = 80
"""Characters that a lookup shows of a value."""

_WORDS_CHARS = {"label": 80, "comment": 200}
_ROW_CHARS = 40

EMPTY_CHARS = 120
"""Characters that a text leaves for the empty lists after it."""


class AnswerBudget:
    """The characters that the answers of a run may take."""

    def __init__(self, session: ToolSession) -> None:
        self.naive = session.naive
        self.cap_chars = UNBOUNDED if session.naive else limits.TOOL_RETURN_CHARS
        self.slice_chars = UNBOUNDED if session.naive else limits.SLICE_RETURN_CHARS
        self.value_chars = UNBOUNDED if session.naive else VALUE_CHARS

    def left(self, body: dict[str, Any], *, handle: bool = False) -> int:
        """Return the characters that a body leaves."""
        return self.cap_chars - OK_CHARS - size(body) - (HANDLE_CHARS if handle else 0)

    def put(
        self, body: dict[str, Any], name: str, rows: Sequence[dict[str, Any]], *, share: int = 100, handle: bool = False
    ) -> None:
        """Add the first rows that fit into a share (in percent) of the rest; their total if some are left out."""
        room = self.left({**body, name: [], f"{name}_total": len(rows)}, handle=handle) * share // 100
        kept = fit([self.brief(row) for row in rows], room).rows if room >= _ROW_CHARS else []
        body[name] = kept
        if len(kept) < len(rows):
            body[f"{name}_total"] = len(rows)

    def list(self, body: dict[str, Any], name: str, values: Sequence[str], most: int = 3) -> None:
        """Add the first names that fit into half of the rest, whole ones only."""
        left = self.left({**body, name: []}) // 2
        body[name] = leading(values if self.naive else values[:most], left, lambda value: size(value) + 1)

    def holds(self, body: dict[str, Any], name: str, rows: Sequence[dict[str, Any]]) -> bool:
        """Return whether all rows fit into the rest."""
        return self.left({**body, name: rows}) >= 0

    def say(self, body: dict[str, Any], name: str, text: str, most: int = 400, *, handle: bool = False) -> None:
        """Add a text, truncated to what a body with empty lists after it leaves; nothing if under 16 fit."""
        room = self.left({**body, name: ""}, handle=handle) - EMPTY_CHARS
        if shown := self._clipped(text, most, room):
            body[name] = shown

    def texts(self, body: dict[str, Any], name: str, texts: Sequence[str], most: int, total: int) -> None:
        """Add the first of `total` texts to half of the rest, each truncated to `most`; `total` if some stay out.

        The first is truncated further if it has to be. Nothing is added if there are none, or no room even for their
        number.
        """
        room = self.left({**body, name: [], f"{name}_total": total})
        if not total or room < 0:
            return
        left, kept = (room - EMPTY_CHARS) // 2, list[str]()
        for text in texts:
            shown = self._clipped(text, most, UNBOUNDED if kept else left - 3)  # its quotes and its comma
            left -= size(shown) + 1
            if not shown or left < 0:
                break
            kept.append(shown)
        body[name] = kept
        if len(kept) < total:
            body[f"{name}_total"] = total

    def _clipped(self, text: str, most: int, room: int) -> str:
        """Return the text in at most `most` characters and `room` of JSON; nothing if under 16 would stay."""
        shown = text if self.naive else clip(text, most)
        while shown and size(shown) - 2 > room:
            # Step by step, because escapes make the JSON longer than the text by an unknown factor.
            shown = clip(shown, len(shown) * 3 // 4)
            if len(shown) < 16:
                return ""
        return shown

    def page(
        self,
        things: Sequence[Thing],
        offset: int,
        limit: int,
        name: str,
        beside: dict[str, Any],
        row_of: Callable[[Thing], dict[str, Any]],
    ) -> dict[str, Any]:
        """Return the body of a page of rows made of things; in the naive mode, of all that follow the offset."""
        end = len(things) if self.naive else offset + limit
        rows = [self.brief(row_of(thing)) for thing in things[offset:end]]
        return page(rows, offset, len(things), self.cap_chars, name=name, beside=beside)

    def brief(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row with its label and comment truncated."""
        if self.naive or not any(len(row.get(name, "")) > most for name, most in _WORDS_CHARS.items()):
            return row
        return {name: clip(part, _WORDS_CHARS[name]) if name in _WORDS_CHARS else part for name, part in row.items()}

    @staticmethod
    def was_truncated(body: dict[str, Any]) -> bool:
        """Return whether a list in the body is incomplete."""
        return any(name.endswith("_total") for name in body)

    def most(self, n: int, least: int = 20) -> int:
        """Return how many things may be asked for: from 1 to `least`, any number in the naive mode."""
        return max(1, n if self.naive else min(n, least))


def within(name: str, value: int, most: int) -> int:
    """Return a limit between 1 and `most`. Raises `ToolError` for one below."""
    if value < 1:
        raise ToolError("bad_limit", f"{name} is {value}", f"give a number from 1 to {most:,}")
    return min(value, most)


def from_zero(value: int) -> int:
    """Return an offset. Raises `ToolError` for a negative one."""
    if value < 0:
        raise ToolError("bad_offset", f"offset is {value}", "offsets count from 0; go on from next_offset")
    return value
