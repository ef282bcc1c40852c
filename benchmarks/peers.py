"""Peers of the log: a plain SQLite table, and the `eventsourcing` library. Both hold the log's own lines.

Both sync each commit as SQLite does in WAL mode with `synchronous = FULL`, which is as durable as the log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, AggregateEvent, DomainEvent
from eventsourcing.persistence import JSONTranscoder, Mapper, StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore
from eventsourcing.utils import get_topic

from rbank_es.log import lines

Lines = Sequence[bytes]

FILL_LINES = 5_000
"""Lines of one transaction while a peer is filled."""


def is_text(line: bytes) -> bool:
    """Return whether a line holds a long text and no event."""
    return line.startswith(lines.ANY_TEXT)


class Table:
    """Events and texts in two tables, a transaction per append."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, timeout=60.0)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS events "
            "(seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, body BLOB NOT NULL)"
        )
        self._waiting: list[bytes] = []
        self.connection.execute("CREATE TABLE IF NOT EXISTS texts (number INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def append(self, group: Lines) -> None:
        """Write the lines of a group in one transaction."""
        run = self.connection.execute
        run("BEGIN IMMEDIATE")
        for line in group:
            if is_text(line):
                run("INSERT INTO texts (body) VALUES (?)", (line,))
            else:
                run("INSERT INTO events (id, type, body) VALUES (?, ?, ?)", (str(uuid4()), _type_of(line), line))
        run("COMMIT")

    def bodies(self) -> Iterator[bytes]:
        """Yield the lines of all events, in order."""
        for (body,) in self.connection.execute("SELECT body FROM events ORDER BY seq"):
            yield body

    def add(self, line: bytes) -> None:
        """Buffer a line; write when `FILL_LINES` are buffered."""
        self._waiting.append(line)
        if len(self._waiting) == FILL_LINES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines."""
        self.append(self._waiting)
        self._waiting.clear()

    def close(self) -> None:
        """Close the file."""
        self.connection.close()


def _type_of(line: bytes) -> str:
    return line[9 : line.find(b'"', 9)].decode()


class Library:
    """The `eventsourcing` library's recorder over SQLite, and its mapper."""

    def __init__(self, path: Path) -> None:
        self._topic = get_topic(DomainEvent)
        self._datastore = SQLiteDatastore(str(path))
        self.recorder = SQLiteApplicationRecorder(self._datastore)
        self.recorder.create_table()
        self._mapper: Mapper[UUID] = Mapper(JSONTranscoder())
        self._originator, self._version = uuid4(), 0
        self._waiting: list[bytes] = []

    def stored(self, group: Lines) -> list[StoredEvent]:
        """Return lines as the library's recorder takes them."""
        first, self._version = self._version + 1, self._version + len(group)
        return [StoredEvent(self._originator, first + n, self._topic, line) for n, line in enumerate(group)]

    def events(self, position: int, page: int = 1_000) -> Iterator[Any]:
        """Yield all events up to a position, read and mapped as the library's own applications do."""
        for start in range(1, position + 1, page):
            for notification in self.recorder.select_notifications(start, page):
                yield self._mapper.to_domain_event(notification)

    def add(self, line: bytes) -> None:
        """Buffer the line of an event; write when `FILL_LINES` are buffered."""
        if not is_text(line):
            self._waiting.append(line)
        if len(self._waiting) == FILL_LINES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines."""
        self.recorder.insert_events(self.stored(self._waiting))
        self._waiting.clear()

    def close(self) -> None:
        """Close the file."""
        self._datastore.close()


class Recorded(AggregateEvent):
    """One event of a run, with its fields."""

    fields: dict[str, Any]


class LibraryApplication:
    """The `eventsourcing` library as documented: an aggregate, saved by an application."""

    def __init__(self, path: Path) -> None:
        environment = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)}
        self._application: Application[UUID] = Application(env=environment)
        self._run = Aggregate()

    def begin(self) -> None:
        """Begin a new aggregate, because one that grows would slow each round."""
        self._run = Aggregate()
        self._application.save(self._run)

    def append(self, group: Sequence[dict[str, Any]]) -> None:
        """Record the fields of events with the aggregate, and save it."""
        for fields in group:
            self._run.trigger_event(Recorded, fields=fields)
        self._application.save(self._run)

    def close(self) -> None:
        """Close the file."""
        self._application.close()
