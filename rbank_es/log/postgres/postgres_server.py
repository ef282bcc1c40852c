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
from psycopg.pq import PipelineStatus, TransactionStatus

from rbank_es import errors
from rbank_es.limits import postgres_limits as limits
from rbank_es.log.postgres import postgres_schema
from rbank_es.log.postgres.postgres_exchange import Connection, Rows, ServerCommand, exchange
from rbank_es.log.rows.line_rows import Access

# What psycopg notes of a broken connection is in our errors; without a handler, Python prints it.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

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


_BEGIN: dict[Access, str] = {
    "write": "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    "snapshot": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}


class Transaction:
    """A connection in a transaction, which begins with its first statement, in one round trip.

    One that `flushes` waits for the disk when it is committed, and holds no lock meanwhile.
    """

    def __init__(self, db: Connection, access: Access) -> None:
        self._db, self._left = db, [ServerCommand(_BEGIN[access])]
        self.flushes = False

    def execute(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """Run a statement behind what was left, and return its rows."""
        commands, self._left = [*self._left, ServerCommand(statement, values)], []
        return exchange(self._db, commands)[-1]

    def leave(self, statement: str, values: Sequence[object]) -> None:
        """Have a statement run with the next one, or with the COMMIT."""
        if self._left:
            exchange(self._db, self._left)
        self._left = [ServerCommand(statement, values)]

    def commit(self) -> None:
        """Commit, and wait for the disk."""
        # By the same session: where the server crashed between the two, it breaks.
        flush = [ServerCommand(f"SELECT {FLUSH}")] if self.flushes else []
        exchange(self._db, [*self._left, ServerCommand("COMMIT"), *flush])

    def end(self) -> None:
        """Leave no trace, unless it is committed."""
        if self._db.info.transaction_status != TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                exchange(self._db, [ServerCommand("ROLLBACK")])


class Server:
    """A database: its place for people to read, and the connections of this process, each with one user at a time."""

    def __init__(self, conninfo: str, place: str) -> None:
        self.place, self._conninfo = place, conninfo
        self._begin()

    def _begin(self) -> None:
        self._pid, self._free, self._mine = os.getpid(), list[Connection](), threading.local()
        self._is_checked = self.is_replica = False

    def _connect(self) -> Connection:
        db: Connection = psycopg.connect(self._conninfo, autocommit=True, client_encoding="utf8")
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
    def _connection(self, *, fresh: bool = False) -> Iterator[Connection]:
        """Give a connection; `fresh` leaves those that a restart ended."""
        if self._pid != os.getpid():
            self._begin()  # a connection of the parent is not ours
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
                    at_rest = (db.info.transaction_status, db.info.pipeline_status)
                    idle = at_rest == (TransactionStatus.IDLE, PipelineStatus.OFF)
                    if idle and len(self._free) < limits.POOLED_CONNECTIONS:
                        self._free.append(db)
                    else:
                        db.close()

    def execute(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """Run one statement, which only reads or may run twice, and return its rows; again where a connection broke."""
        begun: Transaction | None = getattr(self._mine, "begun", None)
        if begun is not None:  # this thread is in a transaction: another connection might not be had
            with self._translated():
                return begun.execute(statement, values)
        with suppress(ConnectionLost), self._connection() as db:
            return exchange(db, [ServerCommand(statement, values)])[0]
        with self._connection(fresh=True) as db:
            return exchange(db, [ServerCommand(statement, values)])[0]

    def once(self, statement: str, values: Sequence[object]) -> Any:
        """Run one statement that may not run twice, and return the first value of its row."""
        with self._connection() as db:
            rows = exchange(db, [ServerCommand(statement, values)])[0]
            return rows[0][0] if rows else None

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

        What a `write` leaves to the last is sent with the COMMIT, in one round trip.
        """
        with self._connection() as db:
            begun = Transaction(db, access)
            outer, self._mine.begun = getattr(self._mine, "begun", None), begun
            try:
                yield begun
                if access == "write":
                    begun.commit()
            finally:
                self._mine.begun = outer
                begun.end()

    def close_idle(self) -> None:
        """Close the connections that nobody uses; the next use makes others."""
        while self._pid == os.getpid() and self._free:
            self._free.pop().close()

    def has_tables(self) -> bool:
        """Return whether there are tables of banks. Raises `BadInput` for those of a later release, or to migrate."""
        number = postgres_schema.version_of(self.execute)
        if 0 < number < len(postgres_schema.MIGRATIONS):
            raise errors.BadInput(
                f"the tables of {self.place} have version {number}: let their owner make a bank there, to migrate them"
            )
        return number > 0

    def name_bank(self, number: int, name: str) -> bool:
        """Give a draft its name; return whether that was free."""
        try:
            self.once("SELECT rbank.name_bank($1, $2)", (number, name))
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
        except (states.FeatureNotSupported, states.ReadOnlySqlTransaction) as error:  # the first by BEGIN at a replica
            why = f"the server only reads, as a replica does ({_said(error)}); name the one that it follows"
            raise errors.LogUnavailable(self.place, "write to", RuntimeError(why)) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise ConnectionLost(self.place, error) from error
        except psycopg.Error as error:
            if error.sqlstate is None or error.sqlstate.startswith(_ANSWERED):
                raise
            raise errors.LogUnavailable(self.place, "use", _said(error)) from error
