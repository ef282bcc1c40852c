"""Connections to a database: a pool for each, shared by all its banks, and the errors of a server as those of a log.

No session keeps a setting, a lock or a prepared statement, so each transaction may go to another one, as poolers do.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors as states

from rbank_es import errors
from rbank_es.limits import postgres_limits as limits
from rbank_es.log.postgres import postgres_schema
from rbank_es.log.rows.line_rows import Access

# What psycopg notes of a broken connection is in our errors; without a handler, Python prints it.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

Connection = psycopg.Connection[tuple[Any, ...]]
Made = TypeVar("Made")


class ConnectionLost(errors.LogUnavailable):
    """A connection broke, or none could be made: whether the last transaction came in is unknown."""

    def __init__(self, place: str, cause: Exception) -> None:
        self.bank, self.cause = place, cause
        reason = " ".join(str(cause).split())
        advice = "try again when the server answers; what was on its way is in the log whole or not at all"
        errors.LogError.__init__(self, f"can't reach {place}: {reason}; {advice}")


class TransactionConflict(errors.LogBusy):
    """Transactions of others kept one from its end; it left no trace, and may be made again."""

    def __init__(self, place: str) -> None:
        super().__init__(place, 0)


_ANSWERED = ("RB", "23505")
"""The beginnings of SQLSTATEs that a log answers itself: its own refusals, and an id that is known."""


def _said(error: psycopg.Error) -> Exception:
    """Return what a server said, in one line, without where in our functions it happened."""
    return RuntimeError(error.diag.message_primary or " ".join(str(error).split()))


FLUSH = "set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'rbank', '')"
"""What, committed, has everything on the disk that was committed before."""


class Transaction:
    """A connection in a transaction. `settle` waits for what was sent: behind it the server ends what stands still.

    A `write` that `flushes` waits for the disk when it is committed, and holds no lock meanwhile.
    """

    def __init__(self, db: Connection, settle: Callable[[], None]) -> None:
        self.db, self.settle = db, settle
        self.flushes = False

    def execute(self, statement: str, values: Sequence[object] = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        """Send a statement; its rows are waited for when they are fetched."""
        return self.db.execute(statement.encode(), values, binary=True)


@contextmanager
def _snapshot(db: Connection) -> Iterator[Transaction]:
    db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        yield Transaction(db, lambda: None)
    finally:
        with suppress(psycopg.Error):
            db.execute("ROLLBACK")


@contextmanager
def _write(db: Connection) -> Iterator[Transaction]:
    # Not `db.transaction()`: within a pipeline that waits for the server six times.
    with db.pipeline() as pipeline:
        db.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        begun = Transaction(db, pipeline.sync)
        try:
            yield begun
        except BaseException:
            with suppress(psycopg.Error):
                pipeline.sync()
                db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")
        if begun.flushes:  # by the same session: where the server crashed between the two, this breaks
            begun.execute(f"SELECT {FLUSH}")


class Server:
    """A database: its place for people to read, and the connections of this process, each with one user at a time."""

    def __init__(self, conninfo: str, place: str) -> None:
        self.place, self._conninfo = place, conninfo
        self._begin()

    def _begin(self) -> None:
        self._pid, self._free, self._mine = os.getpid(), list[Connection](), threading.local()
        self._is_checked = self.is_replica = False

    def _connect(self) -> Connection:
        db: Connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        if not self._is_checked:
            self._check(db)
        return db

    def _check(self, db: Connection) -> None:
        """Refuse a server that would lose or change what it acknowledged."""
        encoding = db.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise errors.BadInput(f"{self.place} has the encoding {encoding}; make a database with UTF8")
        row = db.execute("SELECT current_setting('fsync'), pg_is_in_recovery()")
        fsync, self.is_replica = row.fetchone() or ("off", False)
        if fsync != "on":
            raise errors.BadInput(f"{self.place} runs with fsync = {fsync}, so it may lose what it acknowledged")
        self._is_checked = True

    @contextmanager
    def _connection(self, *, own: bool = False, fresh: bool = False) -> Iterator[Connection]:
        """Give a connection: an `own` one for a transaction; `fresh` leaves those that a restart ended."""
        if self._pid != os.getpid():
            self._begin()  # a connection of the parent is not ours
        bound: Connection | None = getattr(self._mine, "db", None)
        if bound is not None and not own:  # this thread is in a transaction: another connection might not be had
            yield bound
            return
        if fresh:
            self._free.clear()
        db: Connection | None = None
        with self._translated():
            try:
                try:
                    db = self._free.pop()
                except IndexError:
                    db = self._connect()
                yield db
            finally:
                if db is not None:
                    idle = not db.closed and db.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
                    if idle and len(self._free) < limits.POOLED_CONNECTIONS:
                        self._free.append(db)
                    else:
                        db.close()

    def execute(self, statement: str, values: Sequence[object] = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run one statement, which only reads or may run twice, and return its rows; again where a connection broke."""
        try:
            with self._connection() as db:
                return db.execute(statement.encode(), values, binary=True)
        except ConnectionLost:
            if getattr(self._mine, "db", None) is not None:
                raise
        with self._connection(fresh=True) as db:
            return db.execute(statement.encode(), values, binary=True)

    def once(self, statement: str, values: Sequence[object]) -> Any:
        """Run one statement that may not run twice, and return the first value of its row."""
        with self._connection(own=True) as db:
            row = db.execute(statement.encode(), values, binary=True).fetchone()
            return row[0] if row else None

    def patiently(self, act: Callable[[], Made]) -> Made:
        """Act, and again for `RETRY_S` while connections break or others are in the way."""
        end = time.monotonic() + limits.RETRY_S
        while True:
            try:
                return act()
            except (ConnectionLost, TransactionConflict):
                if time.monotonic() > end:
                    raise
            time.sleep(limits.RETRY_PAUSE_S)

    @contextmanager
    def transaction(self, access: Access) -> Iterator[Transaction]:
        """Give a connection in a transaction, which statements of this thread share until its end.

        What a `write` executes last is sent with the COMMIT, in one round trip.
        """
        with self._connection(own=True) as db:
            outer, self._mine.db = getattr(self._mine, "db", None), db
            try:
                with (_write if access == "write" else _snapshot)(db) as begun:
                    yield begun
            finally:
                self._mine.db = outer

    def close_idle(self) -> None:
        """Close the connections that nobody uses; the next use makes others."""
        while self._pid == os.getpid() and self._free:
            self._free.pop().close()

    def has_tables(self) -> bool:
        """Return whether there are tables of banks. Raises `BadInput` for those of a later release, or to migrate."""
        self.execute("SELECT 1")  # a connection that a restart ended is made anew
        with self._connection() as db:
            number = postgres_schema.version_of(db)
        if 0 < number < len(postgres_schema.MIGRATIONS):
            raise errors.BadInput(
                f"the tables of {self.place} have version {number}: let their owner make a bank there, to migrate them"
            )
        return number > 0

    def name_bank(self, number: int, name: str) -> bool:
        """Give a draft its name; return whether that was free."""
        try:
            self.once("SELECT rbank.name_bank(%s, %s)", (number, name))
        except states.UniqueViolation:
            return False
        return True

    def vacuum(self, tables: str) -> None:
        """Rewrite tables whole, so that the pages hold no old row."""
        with self._connection() as db:
            db.execute(f"VACUUM FULL {tables}".encode())

    def bring_up(self) -> None:
        """Make the tables of banks, or migrate them, where they are not of this release."""
        self.execute("SELECT 1")
        with self._connection() as db, db.transaction():
            if postgres_schema.version_of(db) < len(postgres_schema.MIGRATIONS):
                postgres_schema.bring_up(db)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise the error of a log for one of the server."""
        try:
            yield
        except (states.SerializationFailure, states.DeadlockDetected) as error:
            raise TransactionConflict(self.place) from error
        except states.LockNotAvailable as error:
            raise errors.LogBusy(self.place, limits.HEAD_WAIT_S) from error
        except (states.InvalidPassword, states.InvalidAuthorizationSpecification, states.InvalidCatalogName) as error:
            raise errors.LogUnavailable(self.place, "connect to", _said(error)) from error
        except (states.DiskFull, states.QueryCanceled) as error:
            raise errors.LogUnavailable(self.place, "use", _said(error)) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise ConnectionLost(self.place, error) from error
        except psycopg.Error as error:
            if error.sqlstate is None or error.sqlstate.startswith(_ANSWERED):
                raise
            raise errors.LogUnavailable(self.place, "use", _said(error)) from error
