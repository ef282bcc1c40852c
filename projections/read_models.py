"""The read models of one bank, in one SQLite file: caught up, rebuilt, and opened for reading at any position.

The file is derived: delete it whenever you like. Each projection has a checkpoint (position, checksum of the log's
line there, erasure epoch, version) that is committed in the same transaction as its rows. A checkpoint that doesn't
fit the log is reported and means a rebuild, into a new file that takes the old one's place when it is complete.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from rbank_es.errors import BadInput, BadPoint, ProjectionError
from rbank_es.projections import ALL, files, named
from rbank_es.projections.engine import Gatherer, LogReader, OnBatch, Projection, json_of, settle
from rbank_es.projections.view import View

_CHECKPOINTS = """
CREATE TABLE checkpoints (
    projection TEXT PRIMARY KEY, position INTEGER NOT NULL, crc TEXT NOT NULL, erasures INTEGER NOT NULL,
    version INTEGER NOT NULL, digest TEXT NOT NULL, objects TEXT NOT NULL
)
"""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """How far a projection has got, and on which log.

    `crc` is the checksum of the log's line at `position` ('' at 0), `erasures` the erasure epoch, `digest` names the
    declaration that made the rows.
    """

    position: int
    crc: str
    erasures: int
    version: int
    digest: str


class Applied(Struct, frozen=True, kw_only=True):
    """What catching up did.

    `position`: where all projections asked for are now. `events`: how many events were read. `rebuilt`: the
    projections that were built anew, each with the reason.
    """

    position: int
    events: int = 0
    projections: tuple[str, ...] = ()
    rebuilt: Mapping[str, str] = {}


class ReadModels:
    """The read models in one file. It holds nothing open, so a file replaced by another process is simply seen."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self.read_only = path, read_only

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False) -> ReadModels:
        """The read models in the file at `path`, which need not exist yet. `read_only`: never write there."""
        return cls(Path(path), read_only=read_only)

    def __enter__(self) -> ReadModels:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """There is nothing to let go of; views are closed one by one."""

    def checkpoints(self) -> dict[str, Checkpoint]:
        """The checkpoint of each projection in the file; none where there is no sound file."""
        with suppress(sqlite3.Error), closing(files.connect(self.path, "ro")) as connection:
            return _checkpoints(connection)
        return {}

    def catch_up(
        self,
        log: LogReader,
        upto: int | None = None,
        only: Collection[str] | None = None,
        on_batch: OnBatch | None = None,
    ) -> Applied:
        """Apply what the log has beyond the checkpoints, up to position `upto` (default: all of it).

        `only` names the projections to care for; the others stay as they are. What is missing, damaged, of another
        version, not on this log, or from before an erasure is rebuilt, and the result says why. Several processes
        may do this at once; one of them does the work. Raises `ProjectionError` if that is impossible, `BadInput`
        for an unknown name; the file is then as it was, up to a whole batch.
        """
        chosen, target = _chosen(only), _target(log, upto)
        if (applied := self._as_it_is(log, chosen, target)) is not None:
            return applied
        return self._write(log, upto, chosen, {}, on_batch)

    def rebuild(
        self,
        log: LogReader,
        upto: int | None = None,
        only: Collection[str] | None = None,
        on_batch: OnBatch | None = None,
    ) -> Applied:
        """Build the projections anew (all, or those in `only`), up to `upto`, in a file that then replaces this one.

        Raises as `catch_up` does; the old file is then untouched.
        """
        chosen = _chosen(only)
        return self._write(log, upto, chosen, {p.name: "asked for" for p in chosen}, on_batch)

    def live(self, log: LogReader | None = None) -> View:
        """A view of the newest position: of `log`, where given (see `as_of`), else of the file."""
        if log is not None:
            return self.as_of(log.position(), log)
        points = self.checkpoints()
        return self.as_of(min((point.position for point in points.values()), default=0))

    def as_of(self, seq: int, log: LogReader | None = None) -> View:
        """A view of the bank as it was at position `seq`; close it after use. It never writes to the bank.

        With a `log`, a file that is missing, not to be trusted, or behind `seq` is made good in a copy in memory,
        which goes with the view. Without one, that raises `ProjectionError`. Raises `BadPoint` beyond the log's end.
        """
        if seq < 0 or (log is not None and seq > log.position()):
            raise BadPoint(str(seq), f"the log ends at position {log.position() if log else 0:,}")
        view = self._view_of_file(seq, log)
        if view is None and log is None:
            raise ProjectionError(
                f"the read models in {self.path} are missing, broken or behind position {seq:,}; "
                "run: rbank-es project BANK"
            )
        return view or _view_in_memory(log, seq)  # type: ignore[arg-type]

    def _view_of_file(self, seq: int, log: LogReader | None) -> View | None:
        try:
            connection = files.connect(self.path, "ro")
        except sqlite3.Error:
            return None
        try:
            points = _checkpoints(connection)
            if not _doubts(connection, points, log):
                if min(point.position for point in points.values()) >= seq:
                    return View(connection, seq)
                if log is not None:
                    return _view_of_copy(connection, points, log, seq)
        except sqlite3.Error:
            pass  # a broken file, or a journal that only a writer may play back: the caller builds its own
        connection.close()
        return None

    def _as_it_is(self, log: LogReader, chosen: list[Projection], target: int) -> Applied | None:
        """The result if there is nothing to do; that is found out without the lock, and without writing."""
        with suppress(sqlite3.Error), closing(files.connect(self.path, "ro")) as connection:
            points = _checkpoints(connection)
            doubts = _doubts(connection, points, log)
            here = min(points[p.name].position for p in chosen) if not doubts else -1
            if here >= target and _views(connection) == _declared_views():
                return Applied(position=here)
        return None

    def _write(
        self,
        log: LogReader,
        upto: int | None,
        chosen: list[Projection],
        stale: Mapping[str, str],
        on_batch: OnBatch | None,
    ) -> Applied:
        if self.read_only:
            raise ProjectionError(f"the read models in {self.path} were opened for reading only; nothing was written")
        with _refusing(self.path), files.exclusive(self.path):
            return _Writer(self.path, log, chosen, _target(log, upto), on_batch).run(stale)


def rebuild(
    path: str | Path,
    log: LogReader,
    upto: int | None = None,
    only: Collection[str] | None = None,
    on_batch: OnBatch | None = None,
) -> Applied:
    """Build the read models, as of position `upto`, in a file of one's own, that is in no bank.

    As `ReadModels.rebuild`, but without the lock that a bank's folder has: it would stay there as a file.
    """
    chosen, place = _chosen(only), Path(path)
    with _refusing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        return _Writer(place, log, chosen, _target(log, upto), on_batch).run({p.name: "asked for" for p in chosen})


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError, OverflowError) as error:
        raise files.refused(path, "write", error) from error


class _Writer:
    """One catch-up or rebuild, by the holder of the lock."""

    def __init__(
        self, path: Path, log: LogReader, chosen: list[Projection], target: int, on_batch: OnBatch | None
    ) -> None:
        self.path, self.log, self.chosen, self.target, self.on_batch = path, log, chosen, target, on_batch
        # Read before any event is: an erasure that comes later leaves a higher epoch behind, and means a rebuild.
        self.epoch = log.erasures()

    def run(self, stale: Mapping[str, str]) -> Applied:
        files.discard(files.unfinished(self.path))
        doubts = self._doubts_of_file()
        rebuilt = {p.name: stale.get(p.name) or doubts[p.name] for p in self.chosen if p.name in {**doubts, **stale}}
        events = self._rebuild(rebuilt, doubts) if rebuilt else 0
        try:
            more, moved = self._advance()
        except sqlite3.DatabaseError as error:
            if not files.is_damage(error):
                raise
            rebuilt = {projection.name: f"the file is damaged: {error}" for projection in self.chosen}
            more, moved = self._rebuild(rebuilt, {p.name: "damaged" for p in ALL}), []
        return Applied(
            position=self._position(),
            events=events + more,
            projections=tuple(p.name for p in self.chosen if p.name in rebuilt or p.name in moved),
            rebuilt=rebuilt,
        )

    def _doubts_of_file(self) -> dict[str, str]:
        if not self.path.exists():
            return {projection.name: "not built before" for projection in ALL}
        try:
            # Opened for writing, so that SQLite plays back the journal of a writer that died.
            with closing(files.connect(self.path, "rw")) as connection:
                return _doubts(connection, _checkpoints(connection), self.log)
        except sqlite3.DatabaseError as error:
            if not files.is_damage(error) and "no such" not in str(error):
                raise
            return {projection.name: f"the file is damaged: {error}" for projection in ALL}

    def _position(self) -> int:
        with closing(files.connect(self.path, "ro")) as connection:
            points = _checkpoints(connection)
        return min(points[projection.name].position for projection in self.chosen)

    def _rebuild(self, rebuilt: Collection[str], doubts: Collection[str]) -> int:
        """Build a new file: sound projections are copied, the rebuilt ones filled, all others left empty."""
        kept = [p for p in ALL if p.name not in rebuilt and p.name not in doubts]
        fresh = [p for p in ALL if p not in kept]
        building = files.unfinished(self.path)
        try:
            with closing(files.connect(building, "rwc")) as connection:
                files.tune_for_building(connection)
                if kept:
                    with closing(files.connect(self.path, "ro")) as old:
                        old.backup(connection)
                filled = [p for p in fresh if p.name in rebuilt]
                events = build(connection, self.log, fresh, filled, self.target, self.epoch, self.on_batch)
            files.put_in_place(self.path)
        except BaseException:
            with suppress(OSError):
                files.discard(building)
            raise
        return events

    def _advance(self) -> tuple[int, list[str]]:
        with closing(files.connect(self.path, "rw")) as connection:
            if _views(connection) != _declared_views():
                with _transaction(connection):
                    _remake_views(connection)
            before = _checkpoints(connection)
            events = advance(connection, self.log, self.chosen, self.target, self.epoch, self.on_batch)
            after = _checkpoints(connection)
        return events, [name for name, point in after.items() if point != before[name]]


def build(
    connection: sqlite3.Connection,
    log: LogReader,
    fresh: Collection[Projection],
    filled: Collection[Projection],
    upto: int,
    epoch: int,
    on_batch: OnBatch | None = None,
) -> int:
    """Make the tables of `fresh` projections anew and fill those in `filled`; returns the number of events read.

    Rows first, then indexes, then all that is settled, in one transaction: each is quickest when done at once.
    """
    events = 0
    with _transaction(connection):
        _remake(connection, fresh, epoch)
        gatherer = Gatherer(list(filled))
        for reached, count in gatherer.batches(log, 0, upto):
            gatherer.batch.write(connection)
            events += count
            if on_batch:
                on_batch(reached, upto)
        for projection in fresh:
            _create(connection, projection.index_ddl)
        for projection in filled:
            _run(connection, projection.bulk_begin)
        settle(connection, filled, 0, upto)
        for projection in filled:
            _run(connection, projection.bulk_end)
        log.sync()
        _check_in(connection, log, filled, upto, epoch)
    return events


def advance(
    connection: sqlite3.Connection,
    log: LogReader,
    chosen: Iterable[Projection],
    upto: int,
    epoch: int,
    on_batch: OnBatch | None = None,
) -> int:
    """Apply what lies between the checkpoints and `upto`, batch by batch; returns the number of events read."""
    groups: dict[int, list[Projection]] = {}
    points, events = _checkpoints(connection), 0
    for projection in chosen:
        groups.setdefault(points[projection.name].position, []).append(projection)
    for start, group in sorted(groups.items()):
        if start >= upto:
            break
        after, gatherer = start, Gatherer(group)
        for reached, count in gatherer.batches(log, start, upto):
            with _transaction(connection):
                gatherer.batch.write(connection)
                settle(connection, group, after, reached)
                # Synced first: rows of events that a power cut takes back must not outlive them.
                log.sync()
                _check_in(connection, log, group, reached, epoch)
            after, events = reached, events + count
            if on_batch:
                on_batch(reached, upto)
    return events


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _run(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.execute(statement)


def _create(connection: sqlite3.Connection, schema: Mapping[str, str]) -> None:
    _run(connection, schema.values())


def _remake(connection: sqlite3.Connection, projections: Iterable[Projection], epoch: int) -> None:
    """Empty tables for the projections, at position 0; whatever an earlier version of them had is dropped."""
    if "checkpoints" not in _objects(connection):
        connection.execute(_CHECKPOINTS)
    recorded = dict(connection.execute("SELECT projection, objects FROM checkpoints"))
    for projection in projections:
        old = msgspec.json.decode(recorded.get(projection.name, "[]"), type=list[str])
        there = _objects(connection)
        for name in (name for name in old if name in there):
            connection.execute(f'DROP TABLE "{name}"')
        _create(connection, projection.table_ddl)
        connection.execute(
            "INSERT OR REPLACE INTO checkpoints VALUES (?, 0, '', ?, ?, ?, ?)",
            (projection.name, epoch, projection.version, projection.digest, json_of([*projection.table_ddl])),
        )
    _remake_views(connection)


def _remake_views(connection: sqlite3.Connection) -> None:
    for name in _views(connection):
        connection.execute(f'DROP VIEW "{name}"')
    _run(connection, _declared_views().values())


def _declared_views() -> dict[str, str]:
    views = {name: text for projection in ALL for name, text in projection.views.items()}
    return {name: f"CREATE VIEW {name} AS {text}" for name, text in views.items()}


def _objects(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type <> 'view' AND sql IS NOT NULL"))


def _views(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'"))


def _checkpoints(connection: sqlite3.Connection) -> dict[str, Checkpoint]:
    rows = connection.execute("SELECT projection, position, crc, erasures, version, digest FROM checkpoints")
    return {
        name: Checkpoint(position=position, crc=crc, erasures=erasures, version=version, digest=digest)
        for name, position, crc, erasures, version, digest in rows
    }


def _check_in(
    connection: sqlite3.Connection, log: LogReader, projections: Iterable[Projection], position: int, epoch: int
) -> None:
    crc = log.crc_at(position) if position else ""
    if crc is None:
        raise ProjectionError(f"the log has no line at position {position:,} any more; nothing of that batch was kept")
    connection.executemany(
        "UPDATE checkpoints SET position = ?, crc = ?, erasures = ? WHERE projection = ?",
        [(position, crc, epoch, projection.name) for projection in projections],
    )


def _doubts(connection: sqlite3.Connection, points: Mapping[str, Checkpoint], log: LogReader | None) -> dict[str, str]:
    """Why the rows of a projection can't be used, by name; those without doubt are left out."""
    there = _objects(connection)
    found = {projection.name: _doubt(projection, points.get(projection.name), there, log) for projection in ALL}
    return {name: reason for name, reason in found.items() if reason}


def _doubt(
    projection: Projection, point: Checkpoint | None, there: Mapping[str, str], log: LogReader | None
) -> str | None:
    if point is None:
        return "not built before"
    if point.version != projection.version:
        return f"it was built by version {point.version}, this is version {projection.version}"
    if point.digest != projection.digest or any(there.get(name) != ddl for name, ddl in projection.schema.items()):
        return "its tables are not those of this release"
    return _doubt_of_position(point, log) if log is not None else None


def _doubt_of_position(point: Checkpoint, log: LogReader) -> str | None:
    if point.erasures != log.erasures():
        return f"texts were erased since (erasure epoch {point.erasures}, now {log.erasures()})"
    if point.position > log.position():
        return f"its checkpoint {point.position:,} is beyond the end of the log at {log.position():,}"
    if point.position and log.crc_at(point.position) != point.crc:
        return f"its checkpoint {point.position:,} is not on this log: another event stands there"
    return None


def _chosen(only: Collection[str] | None) -> list[Projection]:
    if only is not None and not only:
        raise BadInput("no projection was named; leave the list out for all of them")
    return list(ALL) if only is None else [named(name) for name in dict.fromkeys(only)]


def _target(log: LogReader, upto: int | None) -> int:
    position = log.position()
    if upto is not None and not 0 <= upto <= position:
        raise BadPoint(str(upto), f"the log ends at position {position:,}")
    return position if upto is None else upto


def _view_of_copy(connection: sqlite3.Connection, points: Mapping[str, Checkpoint], log: LogReader, seq: int) -> View:
    copy = files.in_memory()
    try:
        with closing(connection):
            connection.backup(copy)
        advance(copy, log, ALL, seq, log.erasures())
        return View(copy, seq)
    except BaseException:
        copy.close()
        raise


def _view_in_memory(log: LogReader, seq: int) -> View:
    connection = files.in_memory()
    try:
        build(connection, log, ALL, ALL, seq, log.erasures())
        return View(connection, seq)
    except BaseException:
        connection.close()
        raise
