"""The SQLite database for people: a bank as it is at its head, for Datasette, sqlite-utils or any SQL.

It is a copy that nothing reads back. The read models serve searches as of any position; this file has one row for each
thing as it is now. It has primary and foreign keys, full-text search over items and runs, views with plain names, and
the table `columns`, which gives unit and meaning of every column (`answers/shared/glossary.py`).

A foreign key always leads to a row. So rows about a run or an item that the bank doesn't know are left out, and
`bank.rows_left_out` counts them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rbank_es import __version__
from rbank_es.answers.shared.glossary_entries import column_type, describe_columns
from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.projections.builder import connect, refused, replacing
from rbank_es.projections.view import View
from rbank_es.system.files import replaceable

if TYPE_CHECKING:
    from sqlite_utils import Database

APPLICATION_ID = 0x52424E4B
"""`RBNK`, SQLite's mark of whose file it is: only such a file is replaced unasked."""

Row = Mapping[str, Any]


class PeopleTable(NamedTuple):
    """A table: its columns in order, its primary key (empty: SQLite's row number), and its foreign keys by column."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    refers: Mapping[str, tuple[str, str]] = {}


_OF_RUN = {"run": ("runs", "run")}
_OF_ITEM = {"item": ("items", "id")}
_OF_CANDIDATE = {"candidate": ("candidates", "candidate")}

_VERDICTS = ("run", "purpose", "verdict", "judge", "judge_version", "kind", "confidence", "overruled", "judged_seq")

_WHOLE = {
    "items": (("id",), {}),
    "runs": (("run",), {}),
    "leakage_by_run": (("run",), _OF_RUN),
    "leakage_by_tool": (("tool",), {}),
    "leakage_by_run_and_tool": (("run", "tool"), _OF_RUN),
    "red_flags": ((), _OF_RUN),
    "lineage_edges": ((), {}),
    "health_over_time": (("seq",), {}),
    "policies": (("kind",), {}),
    "due": ((), {}),
}
"""Tables that have all columns of the read models' view of the same name: primary and foreign keys by name."""

VIEWS = {
    "active_items": "SELECT * FROM items WHERE state = 'active' ORDER BY wins DESC, uses DESC, id",
    "items_to_decide": "SELECT * FROM items WHERE state = 'pending' ORDER BY born_seq",
    "failed_runs": "SELECT * FROM runs WHERE outcome = 'failed' OR verdict = 'failure' ORDER BY started_seq DESC",
    "runs_to_judge": "SELECT * FROM runs WHERE verdict IS NULL OR verdict = 'undecided' ORDER BY started_seq",
    "lessons_of_runs": "SELECT s.item, i.title, i.state, d.run, r.task, r.verdict FROM support s "
    "JOIN items i ON i.id = s.item JOIN drawn d ON d.candidate = s.candidate JOIN runs r ON r.run = d.run",
}
"""Views by name: what people ask most."""


def write_people_database(bank: Bank, into: str | Path, *, force: bool = False) -> int:
    """Write the database of a bank at its head to a file; return the position of the head.

    A database of a bank that is there is replaced; any other file only with `force`. The file is whole, or as it was.
    Raises `BadInput`, `CannotWrite`, `ProjectionError`.
    """
    place = replaceable(into)
    if place.exists() and not force and not _is_database_of_a_bank(place):
        raise BadInput(f"{place} is a file of another kind; choose another name, or give --force to replace it")
    with bank.live() as view:
        try:
            with replacing(place) as new, closing(connect(new, "rw")) as connection:
                _fill(connection, bank, view)
        except (sqlite3.Error, OSError) as error:
            raise refused(place, "write", error) from error
        return view.position


def _is_database_of_a_bank(place: Path) -> bool:
    with suppress(sqlite3.Error), closing(connect(place, "ro")) as connection:
        return bool(connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)
    return False


def _fill(connection: sqlite3.Connection, bank: Bank, view: View) -> None:
    """Make all tables, indexes and views in an empty file."""
    from sqlite_utils import Database

    # Plugins of sqlite-utils are made for its command line; here they could only change the file.
    database = Database(connection, execute_plugins=False)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
    left_out = _insert_all(database, view)
    _insert(database, *_facts_of_bank(bank, view.position, left_out))
    database.table("items").enable_fts(("title", "desc", "content", "tags"), tokenize="porter")
    database.table("runs").enable_fts(("task", "answer", "error"), tokenize="porter")
    for name, sql in VIEWS.items():
        database.create_view(name, sql)
    database.index_foreign_keys()
    _insert(database, *_described(database))
    connection.commit()


def _insert_all(database: Database, view: View) -> int:
    """Insert the rows of the bank; return how many were left out."""
    known = {"runs": set[str](), "items": set[str](), "candidates": set[str]()}
    left_out = 0
    for table, rows in _tables(view):
        kept = [row for row in rows if all(row[column] in known[of] for column, (of, _) in table.refers.items())]
        left_out += len(rows) - len(kept)
        if table.name in known:
            known[table.name].update(row[table.key[0]] for row in kept)
        _insert(database, table, kept)
    return left_out


def _insert(database: Database, table: PeopleTable, rows: Iterable[Row]) -> None:
    types = {name: column_type(table.name, name) for name in table.columns}
    foreign = [(column, *there) for column, there in table.refers.items()]
    made = database.table(table.name)
    # Created apart, because no rows would make no table, and a column of nothing but nulls would have no type.
    made.create(types, pk=table.key or None, foreign_keys=foreign)
    made.insert_all({name: row[name] for name in table.columns} for row in rows)


def _tables(view: View) -> Iterator[tuple[PeopleTable, Sequence[Row]]]:
    """Yield each table with its rows; those that others refer to come before these."""
    for name in ("items", "runs"):
        yield _whole(view, name)
    decided = view.rows("candidate_decisions")
    for row in decided:
        row["candidate"] = _candidate(row)
    columns = ("candidate", *(name for name in view.columns("candidate_decisions") if name != "landed"))
    yield PeopleTable("candidates", columns, ("candidate",)), decided
    yield (
        PeopleTable("support", ("item", "candidate"), ("item", "candidate"), _OF_ITEM | _OF_CANDIDATE),
        [
            {"item": item, "candidate": row["candidate"]}
            for row in decided
            for item in dict.fromkeys(msgspec.json.decode(row["landed"], type=list[str]))
        ],
    )
    yield (
        PeopleTable("drawn", ("run", "candidate"), ("run", "candidate"), _OF_RUN | _OF_CANDIDATE),
        [
            {"run": row["run"], "candidate": _candidate(row)}
            for row in view.rows("drawn_candidates")
            if row["run"] is not None
        ],
    )
    yield (
        PeopleTable("uses", ("item", "run", "way", "seq"), ("item", "run", "way"), _OF_ITEM | _OF_RUN),
        view.rows("item_exposures"),
    )
    spans = view.spans("verdicts", _VERDICTS)
    standing = [dict[str, Any](zip(_VERDICTS, row[:-2], strict=True)) for row in spans if not row[-1]]
    yield PeopleTable("verdicts", _VERDICTS, ("run", "purpose"), _OF_RUN), standing
    yield from (_whole(view, name) for name in _WHOLE if name not in ("items", "runs"))


def _whole(view: View, name: str) -> tuple[PeopleTable, Sequence[Row]]:
    return PeopleTable(name, view.columns(name), *_WHOLE[name]), view.rows(name)


def _candidate(row: Row) -> str:
    """Return the name of a candidate, as the lineage has it."""
    return f"{row['extraction']}#{row['place']}"


def _facts_of_bank(bank: Bank, position: int, left_out: int) -> tuple[PeopleTable, Sequence[Row]]:
    last_at = bank.event_at(position).at if position else None
    facts = {"bank": bank.name, "bank_id": bank.log.bank_id, "position": position, "last_at": last_at}
    facts |= {"release": __version__, "rows_left_out": left_out}
    return PeopleTable("bank", tuple(facts), ("bank_id",)), [facts]


def _described(database: Database) -> tuple[PeopleTable, Sequence[Row]]:
    """Return the table of all columns of tables and views; those of full-text indexes and its own are left out."""
    names = [name for name in (*database.table_names(), *database.view_names()) if "_fts" not in name]
    rows = [row for name in names for row in describe_columns(name, [column.name for column in database[name].columns])]
    return PeopleTable("columns", tuple(rows[0]), ("table_name", "column_name")), rows
