"""The process that runs one SQL query over lists of answers: `python -m rbank_es.exchange.sql_worker`.

It holds the lists in memory and opens nothing: no bank, no file, no socket. It compiles the query before it has any
row, and says which lists it reads; so the rows of no other list need be sent. It is killed at the time limit, and has
the memory of a query, not more.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
from typing import Any

import msgspec
from msgspec import Struct

from rbank_es import limits
from rbank_es.limits import answer_limits
from rbank_es.sparql.engines.local import Response, WorkerGone, receive, send
from rbank_es.sparql.engines.worker import INPUT, OUTPUT, confine, end_with_owner

Cell = str | int | float | None
Row = tuple[Cell, ...]


class SqlRequest(Struct, frozen=True, array_like=True):
    """A query, the columns of each list with their SQL types, and how many rows and seconds it may take."""

    sql: str
    lists: dict[str, dict[str, str]]
    rows: int
    timeout_s: float


class SqlRows(Struct, frozen=True, array_like=True):
    """Rows of a list; without a name, there are no more of any."""

    name: str = ""
    rows: list[Row] = []


class SqlResponse(Struct, frozen=True, array_like=True):
    """The lists that a query reads, its rows, or a code with a message."""

    code: str = ""
    message: str = ""
    lists: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: list[Row] = []
    truncated: bool = False


WRITES = "it writes, and a query only reads"
REFUSED = {
    sqlite3.SQLITE_ATTACH: "it attaches another database",
    sqlite3.SQLITE_DETACH: "it detaches a database",
    sqlite3.SQLITE_PRAGMA: "it has a PRAGMA",
    sqlite3.SQLITE_RECURSIVE: "it recurses (WITH RECURSIVE)",
    sqlite3.SQLITE_TRANSACTION: "it begins or ends a transaction",
    sqlite3.SQLITE_SAVEPOINT: "it sets a savepoint",
}
"""Reasons by the action of SQLite that is refused; every other action but reading and calling writes."""

FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "zeroblob", "randomblob", "sqlite_log"})
"""Functions that load code, make bytes of any size, or write; the limit on the length of a value bounds all others."""

TABLE_FUNCTIONS = ("json_each", "json_tree")
"""Functions that stand for tables."""


class Gate:
    """What SQLite asks while it compiles a query: it notes which lists are read, and the first reason to refuse."""

    def __init__(self, lists: frozenset[str]) -> None:
        """Allow reading these lists."""
        self.lists, self.read, self.reason = lists, set[str](), ""

    def __call__(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        """Return whether an action is allowed."""
        reason = self._reason(action, first or "", (second or "").lower())
        self.reason = self.reason or reason
        return sqlite3.SQLITE_DENY if reason else sqlite3.SQLITE_OK

    def _reason(self, action: int, first: str, second: str) -> str:
        if action == sqlite3.SQLITE_SELECT:
            return ""
        if action == sqlite3.SQLITE_FUNCTION:
            return f"it calls {second}" if second in FUNCTIONS else ""
        if first in self.lists and action == sqlite3.SQLITE_READ:
            self.read.add(first)
            return ""
        # SQLite updates its own table, in memory, before it reads a function that stands for a table.
        if action == sqlite3.SQLITE_READ or (action, first) == (sqlite3.SQLITE_UPDATE, "sqlite_master"):
            # Without a column it may be a subquery, whose rows alone are counted.
            subquery = not second and not first.startswith(("sqlite_", "pragma_"))
            known = subquery or first.lower() in TABLE_FUNCTIONS
            return "" if known else "it reads what is neither a view nor json_each or json_tree"
        return REFUSED.get(action, WRITES)


def main() -> None:
    """Answer one query, and end."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # kills, without any step of Python
    threading.Thread(target=end_with_owner, daemon=True).start()
    confine()
    send(OUTPUT, Response())  # ready, as every worker says it
    request = msgspec.msgpack.decode(receive(INPUT), type=SqlRequest)
    try:
        response = _answer(request)
    except MemoryError:
        os.abort()  # the cause of death that stands for memory, also where nobody reads a response yet
    except sqlite3.Error as error:
        response = _failure(error)
    send(OUTPUT, response)


def _failure(error: sqlite3.Error) -> SqlResponse:
    words = str(error)
    if "out of memory" in words:
        os.abort()
    if "too big" in words:
        return SqlResponse(
            code="refused", message=f"it makes a value of more than {limits.TEXT_LINE_BYTES // limits.MIB} MiB"
        )
    if "authoriz" in words or "prohibited" in words:
        return SqlResponse(code="refused", message=WRITES)
    return SqlResponse(code="bad_query", message=words[: limits.ENDPOINT_MESSAGE_CHARS])


def _answer(request: SqlRequest) -> SqlResponse:
    database = _database(request.lists)
    gate = Gate(frozenset(request.lists))
    # Compiling can take for ever, too: a chain of WITH doubles at each link.
    signal.setitimer(signal.ITIMER_REAL, request.timeout_s + limits.QUERY_GRACE_S)
    database.set_authorizer(gate)
    try:
        database.execute(f"EXPLAIN {request.sql}").close()
    except sqlite3.Error as error:
        return SqlResponse(code="refused", message=gate.reason) if gate.reason else _failure(error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    database.set_authorizer(None)
    send(OUTPUT, SqlResponse(lists=tuple(sorted(gate.read))))
    _fill(database)
    database.set_authorizer(gate)
    signal.setitimer(signal.ITIMER_REAL, request.timeout_s + limits.QUERY_GRACE_S)
    return _rows(database.execute(request.sql), request.rows)


def _database(lists: dict[str, dict[str, str]]) -> sqlite3.Connection:
    """Return a database in memory with an empty table for each list."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.text_factory = lambda value: value.decode(errors="replace")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.TEXT_LINE_BYTES)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.execute("PRAGMA temp_store = MEMORY")
    for name in TABLE_FUNCTIONS:
        database.execute(f"SELECT * FROM {name}('[]')").close()  # makes it known, which is no reading
    for name, columns in lists.items():
        declared = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
        database.execute(f'CREATE TABLE "{name}" ({declared})')
    return database


def _fill(database: sqlite3.Connection) -> None:
    decoder = msgspec.msgpack.Decoder(SqlRows)
    while (batch := decoder.decode(receive(INPUT))).name:
        if batch.rows:
            places = ", ".join("?" * len(batch.rows[0]))
            database.executemany(f'INSERT INTO "{batch.name}" VALUES ({places})', batch.rows)


def _rows(cursor: sqlite3.Cursor, most: int) -> SqlResponse:
    columns = tuple(each[0] for each in cursor.description or ())
    rows: list[Row] = []
    size = 0
    for row in cursor:
        cells = tuple(map(_cell, row))
        size += sum(len(each) if isinstance(each, str) else 8 for each in cells)
        if len(rows) == most or size > answer_limits.SQL_RESULT_CHARS:
            return SqlResponse(columns=columns, rows=rows, truncated=True)
        rows.append(cells)
    return SqlResponse(columns=columns, rows=rows)


def _cell(value: Any) -> Cell:
    return value.hex() if isinstance(value, bytes) else value


if __name__ == "__main__":
    try:
        main()
    except WorkerGone:
        sys.exit(0)
