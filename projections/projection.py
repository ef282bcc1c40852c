"""The declaration of a projection, the registry of projections, and the making of their rows in batches.

A projection is one file that declares a `Projection`. It has tables and views, and one pure function per event type,
from an event to row changes. SQL settles rows that depend on earlier ones. The same code runs it live, in a rebuild and
in a copy in memory, so the three can't differ.

Rows are bitemporal. A row holds from the position `from_seq` on, until `to_seq` (None: it still holds). Only a `to_seq`
of None changes, and only once, so reading the past never depends on the present.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from rbank_es import limits
from rbank_es.errors import BadInput, ProjectionDefect
from rbank_es.events import Event, type_of
from rbank_es.projections.paged_view import PagedView, Value
from rbank_es.system.registry import Registry, leave_out

if TYPE_CHECKING:
    from rbank_es.log import EventLog

BATCH_EVENTS = 20_000
"""Events whose row changes are applied in one transaction: they are held in memory until then."""

BATCH_CHARS = 32 * limits.MIB
"""Characters of text after which such a transaction is closed early, because a few events may hold much text."""

Row = tuple[Value, ...]


class Insert(Struct, frozen=True, gc=False):
    """A new row: its columns in the order of the table, then `from_seq`. A row whose key is taken is dropped."""

    table: str
    row: Row


class Close(Struct, frozen=True, gc=False):
    """The end of the open row with this key, if any: its `to_seq` becomes the position of the event."""

    table: str
    key: Row


class Put(Struct, frozen=True, gc=False):
    """A `Close` of the open row with the key of `row`, then an `Insert` of it."""

    table: str
    row: Row


Change = Insert | Close | Put
Handler = Callable[..., Iterable[Change]]
Indexer = Callable[[sqlite3.Connection, int, int], None]
"""Brings tables in `virtual` up to a batch: the connection, the position before it, and its last one."""


class Table(Struct, frozen=True, kw_only=True, dict=True):
    """A table of rows that hold from `from_seq` on; `from_seq` and `to_seq` are its last columns.

    `columns` is as in SQL, `run TEXT NOT NULL, chars INTEGER`. `key` is unique. `current`: for a table whose rows are
    closed by events, the number of leading columns that identify the one open row. `number`: an integer primary key,
    the first value of a row. `bulky`: rows hold texts of any length, so a batch counts their characters.
    """

    name: str
    columns: str
    key: tuple[str, ...]
    current: int = 0
    number: str | None = None
    bulky: bool = False

    @cached_property
    def types(self) -> Mapping[str, str]:
        """The SQL type of each column by name, without `from_seq` and `to_seq`."""
        pairs = (column.split(maxsplit=1) for column in self.columns.split(","))
        return {name: " ".join(type_.split()) for name, type_ in pairs}

    @cached_property
    def ddl(self) -> str:
        """The statement that creates the table."""
        columns = {**self.types, "from_seq": "INTEGER NOT NULL", "to_seq": "INTEGER"}
        lines = [f"{_quoted(name)} {type_}" for name, type_ in columns.items()]
        if self.number:
            lines.insert(0, f"{_quoted(self.number)} INTEGER PRIMARY KEY")
        lines.append(f"{'UNIQUE' if self.number else 'PRIMARY KEY'} ({', '.join(map(_quoted, self.key))})")
        # WITHOUT ROWID only where rows are found by key: a table of events is in order of position by itself.
        apart = "" if self.number or self.key == ("from_seq",) else " WITHOUT ROWID"
        return f"CREATE TABLE {self.name} ({', '.join(lines)}){apart}"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All columns, in order."""
        return (*((self.number,) if self.number else ()), *self.types, "from_seq", "to_seq")

    @cached_property
    def insert(self) -> str:
        """The statement that adds a row; a row whose key is taken is dropped, any other fault raises."""
        names = self.names if self.current else self.names[:-1]
        marks = ", ".join("?" * len(names))
        # ON CONFLICT rather than OR IGNORE, which would also hide a NULL where none may be.
        return f"INSERT INTO {self.name} ({', '.join(map(_quoted, names))}) VALUES ({marks}) ON CONFLICT DO NOTHING"

    @cached_property
    def close(self) -> str:
        """The statement that ends the open row with a key."""
        key = " AND ".join(f"{_quoted(name)} = ?" for name in tuple(self.types)[: self.current])
        return f"UPDATE {self.name} SET to_seq = ? WHERE {key} AND to_seq IS NULL"


class Projection(Struct, frozen=True, kw_only=True, dict=True):
    """One read model.

    `handlers` has a pure function per event type, from one event to row changes: no lookups, no clock. Where rows
    follow from earlier ones, `memory` makes what the handlers get before the event, once per reading of the log. It is
    given the connection, or None if there are no rows yet; it must remember what the handlers made of every event
    since, because rows are written at the end of a batch. `resolves` are event types whose long texts are needed.
    `settle` is SQL that runs once per batch, with `:after` and `:upto`; then each of `indexers` is called with the
    connection and these. Their outcome must not depend on where batches end. People and programs read the `views`,
    written as if only the present existed; `paged` are those that have pages. `virtual` are search indexes;
    `bulk_begin` and `bulk_end` run around a rebuild. `rules` are rules of other rooms, with their versions, by which
    rows are made: another version means a rebuild.
    """

    name: str
    version: int
    title: str
    handlers: Mapping[type[Event], Handler]
    memory: Callable[[sqlite3.Connection | None], Any] | None = None
    tables: tuple[Table, ...] = ()
    resolves: frozenset[str] = frozenset()
    settle: tuple[str, ...] = ()
    indexers: tuple[Indexer, ...] = ()
    indexes: Mapping[str, str] = {}
    views: Mapping[str, str] = {}
    paged: Mapping[str, PagedView] = {}
    virtual: Mapping[str, str] = {}
    bulk_begin: tuple[str, ...] = ()
    bulk_end: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    @cached_property
    def reads(self) -> frozenset[str]:
        """The event types that it reads, by their names in the log."""
        return frozenset(type_of(cls) for cls in self.handlers)

    def handlers_for(self, connection: sqlite3.Connection | None) -> Mapping[type[Event], Handler]:
        """Return the handlers for one reading of a log, of one event each; `connection` has the rows so far, if any."""
        if self.memory is None:
            return self.handlers
        memory = self.memory(connection)
        return {cls: partial(handler, memory) for cls, handler in self.handlers.items()}

    @cached_property
    def table_ddl(self) -> Mapping[str, str]:
        """Every table and search index by name, with the statement that creates it."""
        return {**{table.name: table.ddl for table in self.tables}, **self.virtual}

    @cached_property
    def index_ddl(self) -> Mapping[str, str]:
        """Every index by name, with the statement that creates it."""
        return {name: f"CREATE INDEX {name} ON {on}" for name, on in self.indexes.items()}

    @cached_property
    def schema(self) -> Mapping[str, str]:
        """Tables, search indexes and indexes. Views are apart: they hold no rows."""
        return {**self.table_ddl, **self.index_ddl}

    @cached_property
    def digest(self) -> str:
        """A digest of every part of the declaration that shapes rows; another digest means a rebuild."""
        # Not the handlers: Python code has no stable digest, so a change of theirs needs a new `version`.
        parts = [self.name, str(self.version), *sorted(self.reads), *self.schema.values(), *self.settle, *self.rules]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


PROJECTIONS: Registry[Projection] = Registry(
    "projection",
    {
        "memory_index": "rbank_es.projections.memory_index:MEMORY_INDEX",
        "usage": "rbank_es.projections.usage:USAGE",
        "runs": "rbank_es.projections.runs:RUNS",
        "leakage": "rbank_es.projections.leakage_rows:LEAKAGE",
        "lineage": "rbank_es.projections.lineage_edges:LINEAGE",
        "health": "rbank_es.projections.health:HEALTH",
        "vector_index": "rbank_es.projections.vector_index:VECTOR_INDEX",
        "rare_events": "rbank_es.projections.rare_events:RARE_EVENTS",
    },
)
"""Every projection by name."""


_set_aside: set[str] = set()
"""Projections of plugins that failed in this process."""


def all_projections() -> tuple[Projection, ...]:
    """Return every projection, those of plugins last, without those of plugins that were set aside."""
    return _checked(tuple(name for name in PROJECTIONS.names() if name not in _set_aside))


def set_aside(name: str, error: Exception) -> bool:
    """Go on without a projection of a plugin in this process, as if it were not installed; return whether it is one.

    Its rows stay as they are, and its package is named.
    """
    package = PROJECTIONS.package_of(name)
    if package is None or name in _set_aside:
        return False
    _set_aside.add(name)
    leave_out(name, package, error)
    return True


def chosen_projections(only: Collection[str] | None) -> tuple[Projection, ...]:
    """Return the projections with these names, each once; all for None. Raises `BadInput` for an unknown name."""
    if only is None:
        return all_projections()
    if not only:
        raise BadInput("no projection was named; leave the list out for all of them")
    return tuple(PROJECTIONS.get(name) for name in dict.fromkeys(only))


def view_texts() -> dict[str, str]:
    """Return the SQL of all views, which people and programs read, by name."""
    return {name: text for projection in all_projections() for name, text in projection.views.items()}


def paged_views() -> dict[str, PagedView]:
    """Return the views that can be read by pages, by name."""
    return {name: paged for projection in all_projections() for name, paged in projection.paged.items()}


@cache
def _checked(names: tuple[str, ...]) -> tuple[Projection, ...]:
    owners: dict[str, str] = {}
    found = []
    for name in names:
        try:
            found.append(_fitting(name, owners))
        # Anything, because importing a plugin's module may raise anything.
        except Exception as error:
            if not set_aside(name, error):
                raise
    return tuple(found)


def _fitting(name: str, owners: dict[str, str]) -> Projection:
    """Return a projection whose tables and views nobody owns, and make it their owner. Raises `ProjectionDefect`."""
    projection = PROJECTIONS.get(name)
    if projection.name != name:
        raise ProjectionDefect(name, f"calls itself {projection.name!r}")
    # All projections share one SQLite file.
    things = (*projection.schema, *projection.views)
    taken = next((thing for thing in things if thing in owners), None)
    if taken is not None:
        raise ProjectionDefect(name, f"has a table, index or view {taken!r}, which is one of {owners[taken]}")
    owners.update(dict.fromkeys(things, name))
    return projection


class ChangeBatch:
    """Row changes that are gathered in memory and written together."""

    def __init__(self, tables: Iterable[Table]) -> None:
        self._tables = {table.name: table for table in tables}
        self._rows: dict[str, list[Row]] = {name: [] for name in self._tables}
        self._open: dict[str, dict[Row, int]] = {t.name: {} for t in self._tables.values() if t.current}
        self._closes: dict[str, list[Row]] = {name: [] for name in self._open}
        self._bulky = frozenset(table.name for table in self._tables.values() if table.bulky)
        self.chars = 0
        self.append = {name: self._rows[name].append for name in self._tables.keys() - self._bulky - self._open.keys()}
        """How to add one row, by table, for tables that are neither closed nor bulky: most rows go there."""

    def add(self, change: Change, seq: int) -> None:
        """Add one change of the event at `seq`."""
        # Most rows are never closed, and go the short way.
        if isinstance(change, Insert) and change.table not in self._open:
            self._rows[change.table].append(change.row)
        else:
            self._add_to_closable(change, seq)
        if change.table in self._bulky and not isinstance(change, Close):
            self.chars += sum(len(value) for value in change.row if type(value) is str)

    def _add_to_closable(self, change: Change, seq: int) -> None:
        name = change.table
        key = change.key if isinstance(change, Close) else change.row[: self._tables[name].current]
        if not isinstance(change, Insert):
            self._close(name, key, seq)
        if not isinstance(change, Close):
            self._open[name][key] = len(self._rows[name])
            self._rows[name].append((*change.row, None))

    def _close(self, name: str, key: Row, seq: int) -> None:
        # A row of this very batch is closed in memory, which saves an UPDATE.
        index = self._open[name].pop(key, None)
        if index is None:
            self._closes[name].append((seq, *key))
        else:
            self._rows[name][index] = (*self._rows[name][index][:-1], seq)

    def write(self, connection: sqlite3.Connection) -> None:
        """Write everything, closes of older rows first, and empty the batch.

        Raises `ProjectionError` for a value that SQLite can't hold, `sqlite3.Error` where it can't write.
        """
        for name, table in self._tables.items():
            # Closes first, or they would end new rows of the same keys as well.
            if self._closes.get(name):
                connection.executemany(table.close, self._closes[name])
                self._closes[name].clear()
            if self._rows[name]:
                _insert(connection, table, self._rows[name])
                self._rows[name].clear()
        for rows in self._open.values():
            rows.clear()
        self.chars = 0


_WRONG_ROWS = (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
"""What SQLite raises for values of a wrong kind or number."""


def _insert(connection: sqlite3.Connection, table: Table, rows: Sequence[Row]) -> None:
    try:
        connection.executemany(table.insert, rows)
    except (OverflowError, ValueError, *_WRONG_ROWS) as error:
        first, last = (row[table.names.index("from_seq")] for row in (rows[0], rows[-1]))
        reason = f"can't hold in table {table.name} the facts of the events at positions {first} to {last}: {error}"
        raise ProjectionDefect(_owner(table), reason) from error


def _owner(table: Table) -> str:
    return next((each.name for each in all_projections() if table in each.tables), table.name)


class Gatherer:
    """A run of the handlers of some projections over events, batch by batch.

    `connection` has the rows of earlier events; None if there are none.
    """

    def __init__(self, projections: Sequence[Projection], connection: sqlite3.Connection | None) -> None:
        self.projections = projections
        self.batch = ChangeBatch(table for projection in projections for table in projection.tables)
        self.types = frozenset[str]().union(*(projection.reads for projection in projections))
        self.resolve = frozenset[str]().union(*(projection.resolves for projection in projections))
        self._routes: dict[type[Event], list[tuple[Projection, Handler]]] = {}
        for projection in projections:
            for cls, handler in projection.handlers_for(connection).items():
                self._routes.setdefault(cls, []).append((projection, handler))

    def batches(self, log: EventLog, after: int, upto: int) -> Iterator[tuple[int, int]]:
        """Yield (position reached, number of events) after each batch of the events after `after` up to `upto`.

        The consumer writes the batch before it goes on. The last batch reaches `upto`, and may be empty.
        Raises `ProjectionError` where a projection can't take an event.
        """
        events = log.read(after=after, upto=upto, types=self.types, resolve=self.resolve)
        last = after
        while True:
            chunk = self._gather(islice(events, BATCH_EVENTS))
            if chunk is None:
                break
            last, count = chunk
            yield last, count
        # Also without events: the checkpoint must pass events of other types.
        if last < upto or upto == after:
            yield upto, 0

    def _gather(self, events: Iterable[Event]) -> tuple[int, int] | None:
        """Return position and number of the events gathered; None if there were none."""
        # Bound to locals: this loop is most of a rebuild, and runs for every event of the log.
        routes, append, batch, count, seq = self._routes, self.batch.append, self.batch, 0, 0
        for event in events:
            seq, count = event.seq, count + 1
            for projection, handler in routes.get(type(event), ()):
                try:
                    for change in handler(event):
                        if type(change) is Insert and change.table in append:
                            append[change.table](change.row)
                        else:
                            batch.add(change, seq)
                # Anything, because a plugin's handler may raise anything; the event must be named.
                except Exception as error:
                    raise _refused(projection, event, error) from error
            if batch.chars > BATCH_CHARS:
                break
        return (seq, count) if count else None


def _refused(projection: Projection, event: Event, error: Exception) -> ProjectionDefect:
    reason = f"can't take {type_of(event)} at position {event.seq:,}: {type(error).__name__}: {error}"
    return ProjectionDefect(projection.name, reason)


def settle(connection: sqlite3.Connection, projections: Iterable[Projection], after: int, upto: int) -> None:
    """Run the settling SQL and the indexers of the projections for the positions after `after`, up to `upto`."""
    span = {"after": after, "upto": upto}
    for projection in projections:
        with blaming(projection):
            for statement in projection.settle:
                connection.execute(statement, span)
            for index in projection.indexers:
                index(connection, after, upto)


@contextmanager
def blaming(projection: Projection) -> Iterator[None]:
    """Raise `ProjectionDefect` for what a projection of a plugin does wrong inside; what SQLite can't do stays that."""
    try:
        yield
    except Exception as error:
        wrong_sql = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
        if PROJECTIONS.package_of(projection.name) is None or (isinstance(error, sqlite3.Error) and not wrong_sql):
            raise
        raise ProjectionDefect(projection.name, f"fails with {type(error).__name__}: {error}") from error


def _quoted(name: str) -> str:
    return f'"{name}"'


def words_of(value: object) -> str | None:
    """Return a text of an event as a projection stores it: None for one that was erased or not resolved."""
    return value if isinstance(value, str) else None


def json_of(value: object) -> str:
    """Return a value as compact JSON text."""
    return msgspec.json.encode(value).decode()
