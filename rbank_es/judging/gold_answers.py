"""The right answer of a task, as people write it in a file of tasks, and as rows that can be compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es.errors import BadInput, QueryRefused
from rbank_es.judging.result_comparison import XSD_BOOLEAN, value_of
from rbank_es.ontology.rdf_names import XSD
from rbank_es.sparql.parser.parsed_query import ParsedQuery, parse_query
from rbank_es.sparql.parser.tree import Variable, projected
from rbank_es.sparql.results import Answer, Cell

if TYPE_CHECKING:
    pass


class Gold(msgspec.Struct, frozen=True, kw_only=True):
    """The right answer: rows, else the rows that a query finds, else words that the answer must contain.

    `ordered` tells whether the order of the rows matters; None: as the query sorts them.
    """

    sparql: str = ""
    answer: Answer | None = None
    words: str = ""
    ordered: bool | None = None

    def order(self, expected: Answer) -> tuple[bool, tuple[int, ...]]:
        """Return whether the order of rows counts, and by which columns the right query sorts them.

        There are no columns if it sorts by anything else as well, or not at all.
        """
        if self.ordered is False:
            return False, ()
        try:
            query = parse_query(self.sparql) if self.sparql else None
        except QueryRefused:
            query = None
        if query is None or not query.tree.body.ordered:
            return bool(self.ordered), ()
        return True, self._sorted_by(query, expected)

    def _sorted_by(self, query: ParsedQuery, expected: Answer) -> tuple[int, ...]:
        # ORDER BY is the last clause with conditions: those before its offset are HAVING and GROUP BY.
        order = max(token.offset for token in query.tokens if token.keyword == "ORDER")
        found = [each for each in query.tree.body.conditions if getattr(each, "offset", order) >= order]
        names = [each.name for each in found if isinstance(each, Variable)]
        columns = expected.variables if self.answer is None else projected(query.tree.body)
        if len(names) < len(found) or len(columns) != len(expected.variables) or not set(names) <= set(columns):
            return ()
        return tuple(map(columns.index, names))


def gold_of(sparql: str | None, answer: str | Sequence[Any] | None, ordered: bool | None = None) -> Gold | None:
    """Return the right answer of a task; None if the task has none.

    `answer` is a text, or a list of rows. A row is a list of values: a number, a text (an IRI if it begins like one),
    true, false, null, or `["iri", text]`, `["num", number]`, `["lit", text, language, datatype]` (the last two are
    optional; a datatype is an IRI, or a name such as `xsd:date`), `["bnode"]`. Raises `BadInput` for other rows.
    """
    words = answer.strip() if isinstance(answer, str) else ""
    rows = None if answer is None or isinstance(answer, str) else _stored(answer)
    if not (sparql or words) and rows is None:
        return None
    return Gold(sparql=sparql or "", answer=rows, words=words, ordered=ordered)


def _stored(rows: Sequence[Any]) -> Answer:
    try:
        cells = tuple(tuple(map(_cell, row)) for row in rows)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        example = '[["iri", "http://…"], 2, ["lit", "words", "en"]]'
        raise BadInput(f"a row of the answer is not a list of values: write {example}") from None
    widths = {len(row) for row in cells}
    if len(widths) > 1:
        raise BadInput("the rows of the answer have different numbers of values; write null for an unbound one")
    width = widths.pop() if widths else 0
    return Answer(form="select", variables=tuple(f"column{at + 1}" for at in range(width)), rows=cells)


def _cell(value: Any) -> Cell | None:
    match value:
        case None:
            return None
        # Before int, because True and False are ints too.
        case bool():
            return Cell("literal", str(value).lower(), "", XSD_BOOLEAN)
        case int() | float():
            return Cell("literal", str(value), "", XSD + "double")
        case str():
            return Cell("iri" if value.startswith(("http://", "https://")) else "literal", value)
        case ["iri", str(text)]:
            return Cell("iri", text)
        case ["num", int() | float() as number]:
            return Cell("literal", str(number), "", XSD + "double")
        case ["lit", str(text)]:
            return Cell("literal", text)
        case ["lit", str(text), str(language)]:
            return Cell("literal", text, language)
        case ["lit", str(text), "" as language, str(datatype)]:
            return Cell("literal", text, language, datatype.replace("xsd:", XSD, 1))
        case ["bnode", *_]:
            return Cell("bnode", "b")
    raise ValueError("no value")


def stored_rows(answer: Answer) -> list[list[Any]]:
    """Return the rows of an answer in the form that `gold_of` takes; yes or no is one row of one value."""
    if answer.form == "ask":
        return [[answer.boolean]]
    return [[_stored_cell(cell) for cell in row] for row in answer.rows]


def _stored_cell(cell: Cell | None) -> Any:
    if cell is None:
        return None
    if cell.kind != "literal":
        return [cell.kind, cell.value] if cell.kind == "iri" else [cell.kind]
    if not cell.datatype:
        return ["lit", cell.value, cell.lang]
    value = value_of(cell)
    if value is not None and value[0] == "number" and _SMALL.fullmatch(str(value[1])):
        return ["num", int(str(value[1]))]
    return ["lit", cell.value, "", cell.datatype.replace(XSD, "xsd:", 1)]


# Whole numbers that every reader of JSON keeps exact.
_SMALL = re.compile(r"-?[0-9]{1,15}")
