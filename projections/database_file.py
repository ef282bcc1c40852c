"""The file that read models live in: opening it, locking it, replacing it.

No write-ahead log: a WAL database is three files, and replacing one of them under its readers pairs a new database
with an old log. With a rollback journal the database is one file whenever no transaction is open, so `os.replace`
swaps it whole, and readers that have the old one open read on in it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from rbank_es import limits
from rbank_es.errors import ProjectionError, ProjectionUnavailable
from rbank_es.log.protocol import DERIVED_LOCK

DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection in autocommit mode. `mode` is `ro`, `rw` (never creates) or `rwc`. Raises `sqlite3.Error`."""
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode={mode}",
        uri=True,
        timeout=limits.PROJECTION_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    return _tuned(connection)


def in_memory() -> sqlite3.Connection:
    """A connection to a database that nobody else sees, and that is gone when it is closed."""
    return _tuned(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))


def _tuned(connection: sqlite3.Connection) -> sqlite3.Connection:
    # Temporary tables and sorters hold texts: kept in memory, erasing has no further place to look for them.
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def tune_for_building(connection: sqlite3.Connection) -> None:
    """Trade every safety for speed: what is built is thrown away if it isn't finished."""
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(f"PRAGMA cache_size = -{limits.PROJECTION_CACHE_KIB}")


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is broken, or none of SQLite's; a rebuild helps then."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in DAMAGED


def refused(path: Path, action: str, error: Exception) -> ProjectionError:
    """The error that says what the system or SQLite refused to do with a file of read models."""
    if isinstance(error, sqlite3.Error) and is_damage(error):
        return ProjectionError(
            f"can't {action} the read models in {path}: {error}. The log is as it was. "
            "Make them anew with: rbank-es project BANK --rebuild"
        )
    return ProjectionUnavailable(
        f"can't {action} the read models in {path}: {error}. The log is as it was. "
        "Make room there, or make it writable, and run the same again"
    )


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of the folder of `path`, and wait for it if somebody else builds there.

    The lock goes with its holder, however that ends. Raises `ProjectionError` where the folder can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path.parent / DERIVED_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise refused(path, "write", error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def unfinished(path: Path) -> Path:
    """Where a new file is built before it takes the place of `path`."""
    return path.with_name(f"{path.name}.building")


def journal(path: Path) -> Path:
    """The rollback journal that SQLite keeps beside a database while a transaction is open."""
    return path.with_name(f"{path.name}-journal")


def discard(path: Path) -> None:
    """Remove a database and its journal; one that isn't there is fine."""
    journal(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def put_in_place(path: Path) -> None:
    """Let the finished file take the place of `path`, durably. The caller holds the lock."""
    built = unfinished(path)
    _sync(built)
    _retire_journal(path)
    built.replace(path)
    _sync(path.parent)


def _retire_journal(path: Path) -> None:
    """Leave no journal of the old file behind: SQLite finds it by name, and would play it back into the new one.

    Reading the old file plays the journal back where it belongs, so a crash right after this leaves the old file
    sound. Only a file that can't be read loses its journal unplayed.
    """
    if not journal(path).exists():
        return
    with suppress(sqlite3.Error), closing(connect(path, "rw")) as old:
        old.execute("SELECT count(*) FROM sqlite_master").fetchone()
    journal(path).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
