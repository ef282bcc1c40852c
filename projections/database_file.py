"""The file of the read models: it is opened, locked and replaced here.

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

LOCK = "derived.lock"
"""The lock of a folder of derived files, held by its one writer. The log's own lock is taken after it."""

DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection in autocommit mode. `mode` is `ro`, `rw` (never creates) or `rwc`. Raises `sqlite3.Error`."""
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode={mode}",
        uri=True,
        timeout=limits.PROJECTION_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    return _tuned(connection)


def in_memory() -> sqlite3.Connection:
    """Return a connection to a database of this process alone, which is gone when it is closed."""
    return _tuned(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))


def _tuned(connection: sqlite3.Connection) -> sqlite3.Connection:
    # Temporary tables and sorters hold texts. In memory, because erasure would have to search a file of them too.
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def tune_for_building(connection: sqlite3.Connection) -> None:
    """Trade every safety for speed: an unfinished build is thrown away."""
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(f"PRAGMA cache_size = -{limits.PROJECTION_CACHE_KIB}")


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file is broken, or is none of SQLite's; a rebuild mends both."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in DAMAGED


def refused(path: Path, action: str, error: Exception) -> ProjectionError:
    """Return the error for an action on read models that the system or SQLite refused."""
    if isinstance(error, sqlite3.Error) and is_damage(error):
        return ProjectionError(
            f"can't {action} the read models in {path}: {error}. The log is as it was. "
            "Rebuild them with: rbank-es project BANK --rebuild"
        )
    return ProjectionUnavailable(
        f"can't {action} the read models in {path}: {error}. The log is as it was. "
        "Make room there, or make it writable, and run the same again"
    )


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of the folder of `path`; wait for it while another process builds there.

    The system releases it when its holder ends, however that happens. Raises `ProjectionError` for a folder that
    can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file beside the database, not the database itself: that one is replaced under its readers.
        descriptor = os.open(path.parent / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise refused(path, "write", error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def unfinished(path: Path) -> Path:
    """Return the place of a new file until it is complete and replaces `path`."""
    return path.with_name(f"{path.name}.building")


def journal(path: Path) -> Path:
    """Return the rollback journal that SQLite keeps beside a database while a transaction is open."""
    return path.with_name(f"{path.name}-journal")


def discard(path: Path) -> None:
    """Remove a database and its journal, if they exist."""
    journal(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def put_in_place(path: Path) -> None:
    """Replace `path` by the finished file, durably. The caller holds the lock."""
    built = unfinished(path)
    # On disk before the rename, or a power cut could leave the new name on an empty file.
    _sync(built)
    _retire_journal(path)
    built.replace(path)
    # The rename itself is on disk once its folder is.
    _sync(path.parent)


def _retire_journal(path: Path) -> None:
    """Remove the journal of the old file, because SQLite finds it by name and would play it back into the new one.

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
