"""The builder of read models: it fills empty tables at once, or continues from checkpoints batch by batch.

A checkpoint records the log and the position that a projection has reached, and decides whether its rows can still be
trusted. This module also opens, locks, seals and replaces the file of the read models. A rebuild fills a new file and
then replaces the old one, whose readers can go on.

The seal notes how its last writer left the file, so that a change by anything else is noticed. SQLite keeps no
checksums, so a flipped bit in a text would be served. To read a whole file before each search would take longer than
the search. The system notes for every file when it was last changed, and no program can set that time. So after each
commit a writer notes size, inode and times of the file beside it. If they differ later, the file is rebuilt from the
log: somebody edited it, a disk was restored, or a writer died between its commit and its seal. Two changes within one
tick of the file system's clock (at most 4 ms) can't be told apart.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from rbank_es import __version__, limits
from rbank_es.errors import BadInput, LimitExceeded, LogCorruption, ProjectionError, ProjectionUnavailable
from rbank_es.log.disk import System, lock_file
from rbank_es.log.protocol import DERIVED_LOCK, older_copy_advice
from rbank_es.projections import Projection, all_projections
from rbank_es.projections.projection import Gatherer, blaming, json_of, settle
from rbank_es.system.files import kind_of, make_private, open_scratch, read_regular, remove_tree, write_replacing
from rbank_es.system.progress import OnProgress

if TYPE_CHECKING:
    from rbank_es.log import EventLog

_SEAL_BYTES, SEAL_WAIT_S = 1_024, 0.05
"""The size of a seal, a line of numbers, and how long a reader waits for a writer to set it, which takes 0.1 ms."""

# Memory for pages of a read model during a rebuild, in KiB: SQLite's own 2 MiB would write most pages many times.
_CACHE_KIB = 128 * 1024


def build(
    connection: sqlite3.Connection,
    log: EventLog,
    fresh: Collection[Projection],
    filled: Collection[Projection],
    upto: int,
    epoch: int,
    on_batch: OnProgress | None = None,
    *,
    lasting: bool = True,
) -> int:
    """Remake the tables of `fresh` projections and fill those in `filled`; return the number of events read.

    Rows first, then indexes, then the settling SQL, in one transaction, because each is quickest when done at once.
    `lasting`: the rows may outlive a power cut, so their events must be on disk before.
    """
    events = 0
    with transaction(connection):
        _remake(connection, fresh, epoch)
        gatherer = Gatherer(list(filled), None)
        for reached, count in gatherer.batches(log, 0, upto):
            gatherer.batch.write(connection)
            events += count
            if on_batch:
                on_batch(reached, upto)
        for projection in fresh:
            with blaming(projection):
                _run(connection, projection.index_ddl.values())
        for projection in filled:
            _run(connection, projection.bulk_begin)
        settle(connection, filled, 0, upto)
        for projection in filled:
            _run(connection, projection.bulk_end)
        if lasting:
            log.sync()
        check_in(connection, log, filled, upto, epoch)
    return events


def advance(
    connection: sqlite3.Connection,
    log: EventLog,
    chosen: Iterable[Projection],
    upto: int,
    epoch: int,
    on_batch: OnProgress | None = None,
    *,
    lasting: bool = True,
) -> int:
    """Apply the events between the checkpoints and `upto`, batch by batch; return their number.

    `lasting`: as for `build`.
    """
    groups: dict[int, list[Projection]] = {}
    points, events = checkpoints_in(connection), 0
    for projection in chosen:
        groups.setdefault(points[projection.name].position, []).append(projection)
    # By checkpoint: projections that are equally far share one reading of the log.
    for start, group in sorted(groups.items()):
        if start >= upto:
            break
        after, gatherer = start, Gatherer(group, connection)
        for reached, count in gatherer.batches(log, start, upto):
            with transaction(connection):
                gatherer.batch.write(connection)
                settle(connection, group, after, reached)
                if lasting:
                    # Sync first: rows must not outlive events that a power cut takes back.
                    log.sync()
                check_in(connection, log, group, reached, epoch)
            after, events = reached, events + count
            if on_batch:
                on_batch(reached, upto)
    return events


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit the writes inside, or roll all of them back if anything is raised there."""
    # IMMEDIATE, because a lock that is only asked for at the first write can be refused in mid-batch.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some errors, such as a full disk, SQLite has rolled back already, and a second time is an error.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _run(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.execute(statement)


def _remake(connection: sqlite3.Connection, projections: Iterable[Projection], epoch: int) -> None:
    """Create empty tables for the projections, at position 0, and drop those of their earlier versions."""
    if "checkpoints" not in objects_in(connection):
        connection.execute(_CHECKPOINTS)
    # From the file, because only it knows the tables of the version that made it.
    recorded = dict(connection.execute("SELECT projection, objects FROM checkpoints"))
    for projection in projections:
        old = msgspec.json.decode(recorded.get(projection.name, "[]"), type=list[str])
        there = objects_in(connection)
        for name in (name for name in old if name in there):
            connection.execute(f'DROP TABLE "{name}"')
        with blaming(projection):
            _run(connection, projection.table_ddl.values())
        connection.execute(
            "INSERT OR REPLACE INTO checkpoints VALUES (?, 0, '', ?, ?, ?, ?)",
            (projection.name, epoch, projection.version, projection.digest, json_of([*projection.table_ddl])),
        )
    remake_views(connection)


def remake_views(connection: sqlite3.Connection) -> None:
    """Replace the views in the file by those of this release and of its plugins."""
    for name in views_in(connection):
        connection.execute(f'DROP VIEW "{name}"')
    for projection in all_projections():
        with blaming(projection):
            _run(connection, _views_of(projection).values())


def declared_views() -> dict[str, str]:
    """Return all declared views by name, with the statements that create them."""
    return {name: sql for projection in all_projections() for name, sql in _views_of(projection).items()}


def _views_of(projection: Projection) -> dict[str, str]:
    return {name: f"CREATE VIEW {name} AS {text.strip()}" for name, text in projection.views.items()}


def views_in(connection: sqlite3.Connection) -> dict[str, str]:
    """Return all views in the file by name, with the statements that created them."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'"))


_CHECKPOINTS = """
CREATE TABLE checkpoints (
    projection TEXT PRIMARY KEY, position INTEGER NOT NULL, mark TEXT NOT NULL, erasures INTEGER NOT NULL,
    version INTEGER NOT NULL, digest TEXT NOT NULL, objects TEXT NOT NULL
)
"""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The position that a projection has reached, and on which log.

    `mark` is the log's at `position`, `erasures` the erasure epoch, `digest` names the declaration that made the rows.
    """

    position: int
    mark: str
    erasures: int
    version: int
    digest: str


def objects_in(connection: sqlite3.Connection) -> dict[str, str]:
    """Return all tables and indexes in the file by name, with the statements that created them."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type <> 'view' AND sql IS NOT NULL"))


def checkpoints_in(connection: sqlite3.Connection) -> dict[str, Checkpoint]:
    """Return all checkpoints in the file, by projection. Raises `sqlite3.Error` if it is no file of read models."""
    # The first statement reads the schema. Of a damaged one, Python may fail to decode what SQLite says.
    try:
        rows = connection.execute("SELECT projection, position, mark, erasures, version, digest FROM checkpoints")
    except UnicodeDecodeError as error:
        damaged = sqlite3.DatabaseError("the schema of the file is damaged")
        damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damaged from error
    return {
        name: Checkpoint(position=position, mark=mark, erasures=erasures, version=version, digest=digest)
        for name, position, mark, erasures, version, digest in rows
    }


def check_in(
    connection: sqlite3.Connection, log: EventLog, projections: Iterable[Projection], position: int, epoch: int
) -> None:
    """Set the projections' checkpoints to `position`. Raises `ProjectionError` if the log no longer reaches there."""
    mark = log.mark(position)
    if mark is None:
        raise ProjectionError(f"the log has no line at position {position:,} any more; nothing of that batch was kept")
    connection.executemany(
        "UPDATE checkpoints SET position = ?, mark = ?, erasures = ? WHERE projection = ?",
        [(position, mark, epoch, projection.name) for projection in projections],
    )


def doubts_of(
    connection: sqlite3.Connection,
    points: Mapping[str, Checkpoint],
    log: EventLog | None,
    chosen: Iterable[Projection] | None = None,
) -> dict[str, str]:
    """Return those of some projections (default: all) whose rows can't be used, by name, each with the reason.

    Without a log, only the file itself is checked.
    """
    there = objects_in(connection)
    # Usually all projections are at one position, and looking there once is enough.
    of_log = cache(partial(_doubt_of_log, log=log)) if log is not None else None
    found = {
        projection.name: _doubt(projection, points.get(projection.name), there, of_log)
        for projection in (all_projections() if chosen is None else chosen)
    }
    return {name: reason for name, reason in found.items() if reason}


def _doubt(
    projection: Projection,
    point: Checkpoint | None,
    there: Mapping[str, str],
    of_log: Callable[[int, str, int], str | None] | None,
) -> str | None:
    if point is None:
        return "not built before"
    if point.version != projection.version:
        return f"it was built by version {point.version}, this is version {projection.version}"
    if point.digest != projection.digest or any(there.get(name) != ddl for name, ddl in projection.schema.items()):
        return "its tables are not those of this release"
    return of_log(point.position, point.mark, point.erasures) if of_log is not None else None


def _doubt_of_log(position: int, mark: str, erasures: int, log: EventLog) -> str | None:
    # Erased words would stay in rows that were made before.
    if erasures != (now := log.erasures()):
        return f"texts were erased since (erasure epoch {erasures}, now {now})"
    if position > (end := log.position()):
        # Events are on disk before their rows are: no loss of power takes them back.
        raise LogCorruption(
            log.place,
            f"the read models hold events up to {position:,}, which were on disk, but the log ends at {end:,}",
            f"Restore the log from a backup. {older_copy_advice(log.derived_directory)}",
        )
    if log.mark(position) != mark:
        return f"its checkpoint {position:,} is not on this log: another event is there, or others before it"
    return None


_COMPANIONS = ("-journal", "-wal", "-shm")
"""Ends of the names of files that SQLite looks for beside a database."""

DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection to a regular file, in autocommit mode; `mode` is `ro` or `rw`. Raises `sqlite3.Error`."""
    # SQLite would follow a link, and wait for ever at a pipe.
    if kind_of(path) != "a file":
        raise sqlite3.DatabaseError(f"no such file: {path}")
    for place in (path.with_name(path.name + end) for end in _COMPANIONS):
        if kind_of(place) not in (None, "a file"):
            raise sqlite3.DatabaseError(f"no such file: {place}")
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=limits.PROJECTION_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    return keep_temporary_in_memory(connection)


def in_memory() -> sqlite3.Connection:
    """Return a connection to a database in memory, which is lost when the connection is closed."""
    return keep_temporary_in_memory(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))


def keep_temporary_in_memory(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return the connection, with its temporary tables and sorters in memory."""
    # They hold texts, and erasure would have to search a file of them too.
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def tune_for_building(connection: sqlite3.Connection) -> None:
    """Turn off SQLite's safety for speed, because an unfinished build is dropped."""
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file is broken, or not one of SQLite's; a rebuild repairs both."""
    code = getattr(error, "sqlite_errorcode", None)
    # The lowest byte of an extended result code is the primary one.
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
    with ExitStack() as stack:
        try:
            make_private(path.parent)
            # A file beside the database, not the database itself: that one is replaced under its readers.
            descriptor = stack.enter_context(lock_file(path.parent / DERIVED_LOCK))
        except OSError as error:
            raise refused(path, "write", error) from error
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def discard(path: Path) -> None:
    """Remove a database and what SQLite keeps beside one."""
    # The database first: without it, a journal that a crash leaves behind is played back into nothing.
    for end in ("", *_COMPANIONS):
        path.with_name(path.name + end).unlink(missing_ok=True)


def clear_way(path: Path) -> None:
    """Remove folders that stand where a database and its companions must be. Only for the user's own cache."""
    for end in ("", *_COMPANIONS):
        if kind_of(place := path.with_name(path.name + end)) == "a directory":
            remove_tree(place)


@contextmanager
def replacing(path: Path, *, exclusive: bool = False) -> Iterator[Path]:
    """Give the place of a new file that replaces `path` durably after the `with`. The old one is never opened.

    For the holder of the lock, or for a place outside of any bank. If anything is raised inside, `path` stays. With
    `exclusive`, raises `BadInput` where a file is at `path` by then: another process may have written it meanwhile.
    """
    descriptor, built = open_scratch(path)
    try:
        yield built
        # On disk before the rename, or a power cut could leave the new name on an empty file.
        os.fsync(descriptor)
        if any(kind_of(path.with_name(path.name + end)) for end in _COMPANIONS):
            discard(path)  # SQLite finds these by name, and would apply those of the old file to the new one
        if exclusive:
            _claim(path)
        built.replace(path)
    except BaseException:
        with suppress(OSError):
            discard(built)
        raise
    finally:
        os.close(descriptor)
    # The rename itself is on disk once its folder is.
    System().sync_directory(path.parent)


def refuse_existing(path: Path) -> None:
    """Raise `BadInput` if anything is at a path that was asked for by name."""
    if os.path.lexists(path):
        raise BadInput(f"{path} exists; choose another file, or give --force to replace it")


def _claim(path: Path) -> None:
    """Make an empty file at a path, which only one of several writers can. Raises `BadInput` for all others."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        refuse_existing(path)
        raise


# ---------------------------------------------------------------- the seal

# With the release, whose tables and rows they are: a hook has no time to compare the declarations themselves.
_SEAL_FORM = f"rbank-seal-2 {__version__}"


def seal(path: Path) -> None:
    """Note how the file is now. For the holder of the lock, after its commit. Raises OSError."""
    write_replacing(_beside(path), [_marks(path)])


def is_sealed(path: Path) -> bool:
    """Return whether the file is as its last writer left it."""
    with suppress(OSError, LimitExceeded):
        return read_regular(_beside(path), _SEAL_BYTES) == _marks(path)
    return False


def wait_for_seal(path: Path) -> bool:
    """Return whether the file is sealed, or becomes so: a writer seals it soon after its commit."""
    end = time.monotonic() + SEAL_WAIT_S
    while not (sealed := is_sealed(path)) and path.exists() and time.monotonic() < end:
        time.sleep(0.001)
    return sealed


def stillness(path: Path, is_believed: Callable[[], bool]) -> Callable[[], bool]:
    """Return how to find out whether this very file is still believed. Raises OSError if there is none."""
    inode, believed = path.stat().st_ino, b""

    def is_still() -> bool:
        nonlocal believed
        with suppress(OSError):
            # A decision asks ten times, and to read the seal takes ten times as long as to look at the file.
            if (marks := _marks(path)) == believed:
                return True
            if is_believed() and path.stat().st_ino == inode:
                believed = marks
                return True
        return False

    return is_still


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.seal")


def _marks(path: Path) -> bytes:
    status = os.lstat(path)
    numbers = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return f"{_SEAL_FORM} {' '.join(map(str, numbers))}\n".encode()
