"""SQL over the lists that a bank can be asked for, as of a position: a view for each, with the columns of its rows.

A view is a question whose rows need no parameter, those of plugins too, so a column is the field of the JSON. Booleans
are 1 and 0, times texts, lists and objects their JSON. The query runs in a process of its own (`sql_worker.py`), which
is sent the rows of the views that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from rbank_es import limits
from rbank_es.answers import QUESTIONS, Page, question_kind
from rbank_es.answers.shared.answer_schema import answer_fields
from rbank_es.answers.shared.frames import ColumnType, Schema, flat_rows, schema_of
from rbank_es.answers.shared.question_form import lists_of
from rbank_es.errors import BadInput, LimitExceeded, QueryFailed
from rbank_es.exchange.sql_worker import Row, SqlRequest, SqlResponse, SqlRows
from rbank_es.limits import answer_limits
from rbank_es.sparql.engines.local import WorkerGone, WorkerProcess, WorkerTimeout

CHEAPER = "ask for less: count first, join on the columns that name runs and items, and filter early"
_TYPES = {"whole": "INTEGER", "truth": "INTEGER", "number": "REAL"}
_RESPONSE = msgspec.msgpack.Decoder(SqlResponse)


class SqlAnswer(NamedTuple):
    """The rows of a query, and whether there are more of them than were asked for or fit."""

    columns: tuple[str, ...]
    rows: list[Row]
    truncated: bool


def sql_views() -> dict[str, type[Struct]]:
    """Return the type of the rows of each view by name."""
    kinds = {name: question_kind(name) for name in QUESTIONS.names()}
    return {
        name: lists_of(kind.answer)[kind.rows]
        for name, kind in kinds.items()
        if kind.rows is not None and not any(field.required for field in msgspec.structs.fields(kind.question))
    }


def query_sql(
    ask: Callable[..., Any], sql: str, *, rows: int = answer_limits.SQL_ROWS, timeout_s: float = limits.QUERY_TIME_S
) -> SqlAnswer:
    """Return the rows of a SELECT over the views, at most so many, of at most `SQL_RESULT_CHARS` characters.

    `ask` answers a question by its name. Raises `BadInput` for a query that does more than read, is no SQL, or gives
    two columns one name; `LimitExceeded`; `QueryFailed` for one of too long or too much memory; as the questions.
    """
    if len(sql) > limits.QUERY_TEXT_CHARS:
        raise LimitExceeded("characters of a query", len(sql), limits.QUERY_TEXT_CHARS, "write it shorter")
    if "\0" in sql:
        raise BadInput("the query has a character of the number 0")
    schemas = {name: schema_of(row) for name, row in sql_views().items()}
    declared = {name: {each: _TYPES.get(kind.name, "TEXT") for each, kind in schemas[name].items()} for name in schemas}
    worker = WorkerProcess("rbank_es.exchange.sql_worker")
    try:
        read = _exchange(worker, SqlRequest(sql, declared, rows, timeout_s), timeout_s)
        for name in read.lists:
            for batch in _batches(ask, name, schemas[name]):
                worker.tell(SqlRows(name, batch), limits.QUERY_TIME_MOST_S)
        found = _exchange(worker, SqlRows(), timeout_s)
    except WorkerTimeout:
        raise QueryFailed("timeout", f"the query took longer than {timeout_s:g} s", CHEAPER) from None
    except WorkerGone:
        raise QueryFailed(*worker.cause_of_death(), CHEAPER) from None
    finally:
        worker.end()
    return _checked(found)


def _exchange(worker: WorkerProcess, message: SqlRequest | SqlRows, timeout_s: float) -> SqlResponse:
    """Return the response to a message. Raises as `query_sql`, and as `WorkerProcess.ask`."""
    found = _RESPONSE.decode(worker.ask(message, timeout_s))
    if found.code == "refused":
        raise BadInput(
            f"the query will not be run: {found.message}; write one SELECT over the views: {', '.join(sql_views())}"
        )
    if found.code:
        raise BadInput(f"the query can't be run: {found.message}; the views are {', '.join(sql_views())}")
    return found


def _checked(found: SqlResponse) -> SqlAnswer:
    twice = next((name for name in found.columns if found.columns.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"two columns are called {twice[: limits.GIVEN_WORD_CHARS]!r}: name one of them with AS")
    return SqlAnswer(found.columns, found.rows, found.truncated)


def _batches(ask: Callable[..., Any], name: str, schema: Schema) -> Iterator[list[Row]]:
    """Yield the rows of a list, as SQL has them, page by page."""
    kind = question_kind(name)
    paged = issubclass(kind.answer, Page)
    found = ask(name, limit=answer_limits.ANSWER_ROWS_MOST) if paged else ask(name)
    while found is not None:
        rows = flat_rows(schema, getattr(found, str(kind.rows)))
        yield from (rows[at : at + answer_limits.ANSWER_ROWS] for at in range(0, len(rows), answer_limits.ANSWER_ROWS))
        found = found.following() if paged else None


class ViewColumn(NamedTuple):
    """A column of a view: its SQL type, and the unit and meaning of the field."""

    view: str
    column: str
    type: str
    meaning: str


def described_views() -> Iterator[ViewColumn]:
    """Yield each column of each view."""
    for name, row in sql_views().items():
        fields = {field.name: field.entry for field in answer_fields(name) if field.struct == row.__name__}
        for column, kind in schema_of(row).items():
            entry = fields[column]
            meaning = "" if entry is None else f"{entry.unit}: {entry.meaning}"
            yield ViewColumn(name, column, _TYPES.get(kind.name, "TEXT"), meaning)


def answer_schema_of(found: SqlAnswer) -> tuple[Schema, dict[str, list[Any]]]:
    """Return the columns of an answer with their types: whole numbers, numbers, or else texts.

    A column that has numbers and texts is one of texts; one of nothing but none, too.
    """
    columns = {name: [row[place] for row in found.rows] for place, name in enumerate(found.columns)}
    schema = {name: _type_of(values) for name, values in columns.items()}
    texts = {name: kind.name == "text" for name, kind in schema.items()}
    return schema, {name: [_text(each) if texts[name] else each for each in values] for name, values in columns.items()}


def _type_of(values: Sequence[Any]) -> ColumnType:
    types = {type(each) for each in values if each is not None}
    if types == {int}:
        return ColumnType("whole", optional=True)
    return ColumnType("number" if types and types <= {int, float} else "text", optional=True)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
