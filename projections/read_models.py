"""The read models of one bank in one SQLite file: their catch-up, their rebuild, and views of them at any position.

The file is derived and may be deleted at any time. Each projection has a checkpoint (position, checksum of the log's
line there, erasure epoch, version) that is committed in the same transaction as its rows. If a checkpoint doesn't fit
the log, this is reported and the projection is rebuilt. A rebuild fills a new file, which replaces the old one when it
is complete.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from rbank_es.errors import BadPoint, LogError, ProjectionDefect, ProjectionError
from rbank_es.log.disk import ProcessCache
from rbank_es.projections import Projection, all_projections, builder, chosen_projections
from rbank_es.projections.builder import Checkpoint
from rbank_es.projections.projection import PROJECTIONS, set_aside
from rbank_es.system.files import kind_of, replaceable, sweep_scratch
from rbank_es.system.progress import OnProgress

if TYPE_CHECKING:
    from rbank_es.log import EventLog
    from rbank_es.projections.stored_state import StoredState
    from rbank_es.projections.view import View
    from rbank_es.projections.view_rows import ViewConnection

# Positions whose views stay open in a process: the head, and the point in the past that somebody looks at.
VIEWS_KEPT = 2


T = TypeVar("T")
_Key = tuple[int, str | None, int, int, bool]
"""A position, its mark, the erasure epoch, the inode of the file, and whether the file is believed."""

_INHERITED: list[ViewConnection | sqlite3.Connection] = []
"""Connections of a parent process. SQLite forbids to use or close them in a forked child."""


class Applied(Struct, frozen=True, kw_only=True):
    """The outcome of a catch-up or rebuild.

    `position`: the position of all requested projections now. `events`: how many events were read. `rebuilt`: the
    projections that were rebuilt, each with the reason.
    """

    position: int
    events: int = 0
    projections: tuple[str, ...] = ()
    rebuilt: Mapping[str, str] = {}


class ReadModels(ProcessCache):
    """The read models in one file.

    The views of the positions asked for last stay open: whoever asks for such a position again shares its view, as
    long as the file and the log are the same there.
    """

    def __init__(self, path: Path, *, read_only: bool = False, sealed: bool = False) -> None:
        self.path, self.read_only, self.sealed = path, read_only, sealed
        self._kept: dict[_Key, ViewConnection] = {}
        self._looked_up: sqlite3.Connection | None = None
        super().__init__()

    def forget(self) -> None:
        """Let go of the kept views in a forked child, without closing what the parent has open."""
        _INHERITED.extend(self._kept.values())
        self._kept = {}
        if self._looked_up is not None:
            _INHERITED.append(self._looked_up)
            self._looked_up = None

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False, sealed: bool = False) -> ReadModels:
        """Return the read models in the file at `path`, which need not exist yet. `read_only`: never write there.

        `sealed`: a file that is not as a writer of read models left it is not believed, and rebuilt.
        """
        return cls(Path(path), read_only=read_only, sealed=sealed)

    def __enter__(self) -> ReadModels:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept views, apart from those that somebody still uses."""
        with self.lock:
            kept, self._kept = self._kept, {}
        self._look_up_by(None)
        for shared in kept.values():
            shared.release()

    def checkpoints(self) -> dict[str, Checkpoint]:
        """Return the checkpoint of each projection in the file; none where there is no sound file."""
        with suppress(sqlite3.Error), closing(builder.connect(self.path, "ro")) as connection:
            return builder.checkpoints_in(connection) if self._is_believed() else {}
        return {}

    def position(self, log: EventLog | None = None) -> int:
        """Return the position to which the file has all read models, of a log; 0 where there is a doubt about any."""
        if (found := self._opened(log)) is None:
            return 0
        found[0].close()
        return found[1]

    def _opened(
        self, log: EventLog | None, chosen: Sequence[Projection] | None = None
    ) -> tuple[sqlite3.Connection, int] | None:
        """Return a connection to the file, which the caller closes, and the position of some projections, by default of
        all; None where there is a doubt about any of them. Raises as `builder.doubts_of`."""
        read = all_projections() if chosen is None else chosen
        with suppress(sqlite3.Error), ExitStack() as stack:
            connection = stack.enter_context(closing(builder.connect(self.path, "ro")))
            points = builder.checkpoints_in(connection)
            if self._is_believed() and not builder.doubts_of(connection, points, log, read):
                stack.pop_all()
                return connection, min(points[projection.name].position for projection in read)
        return None

    def _is_believed(self) -> bool:
        return not self.sealed or builder.wait_for_seal(self.path)

    def catch_up(
        self,
        log: EventLog,
        upto: int | None = None,
        only: Collection[str] | None = None,
        on_batch: OnProgress | None = None,
    ) -> Applied:
        """Apply the events beyond the checkpoints, up to position `upto` (default: all of it).

        `only` names the projections to bring up to date; the others stay as they are. A projection that is missing,
        damaged, of another version, not on this log, or from before an erasure is rebuilt, and the result says why.
        Several processes may do this at once; one of them does the work. Raises `ProjectionError` if that is
        impossible, `BadInput` for an unknown name; the file is then as it was, up to a whole batch.
        """

        def work() -> Applied:
            chosen = chosen_projections(only)
            applied = self._as_it_is(log, chosen, _target(log, upto))
            return applied if applied is not None else self._write(log, upto, chosen, {}, on_batch)

        return _without_failing(work)

    def rebuild(
        self,
        log: EventLog,
        upto: int | None = None,
        only: Collection[str] | None = None,
        on_batch: OnProgress | None = None,
    ) -> Applied:
        """Rebuild the projections (all, or those in `only`), up to `upto`, in a file that then replaces this one.

        Raises as `catch_up` does; the old file is then untouched.
        """

        def work() -> Applied:
            chosen = chosen_projections(only)
            return self._write(log, upto, chosen, {p.name: "asked for" for p in chosen}, on_batch)

        return _without_failing(work)

    def caught_up(self, log: EventLog, seq: int | None = None) -> View:
        """Return a view of a position, by default the log's head, as `as_of` does; first bring the file up to the head,
        if it isn't and can be written. Raises `BadPoint` beyond the log's end."""
        return self.as_of(log.position() if seq is None else seq, log, writing=True)

    def live(self) -> View:
        """Return a view of the newest position of the file."""
        return self.as_of(self.position())

    def as_of(self, seq: int, log: EventLog | None = None, *, writing: bool = False) -> View:
        """Return a view of the bank as it was at position `seq`; close it after use. It never writes to the log.

        With a `log`, a file that is missing, doubtful or behind `seq` is completed in a copy in memory, which is
        dropped with the view. Without one, that raises `ProjectionError`. Raises `BadPoint` beyond the log's end.
        `writing`: first bring the file up to the log's head, if it can be written.
        """
        if seq < 0 or (log is not None and seq > log.position()):
            raise BadPoint(str(seq), f"the log ends at position {log.position() if log else 0:,}")
        key = self._key(seq, log)
        view = self._kept_view(key)
        if view is not None:
            return view
        found = self._opened(log)
        if writing and log is not None and (found is None or found[1] < log.position()):
            if found is not None:
                found[0].close()
            # Where the file can't be written, the view is of a temporary copy.
            with suppress(ProjectionError, LogError, OSError):
                self.catch_up(log)
            return self.as_of(seq, log)
        connection = _without_failing(lambda: self._any_connection(seq, log, found))
        from rbank_es.projections.view import View  # on use: who only writes needs no searches
        from rbank_es.projections.view_rows import ViewConnection

        shared = ViewConnection(connection)
        view = View(shared, seq)
        if key is not None:
            self._keep(key, shared)
        return view

    def stored_state(self, log: EventLog) -> StoredState | None:
        """Return the state of the log as far as the file has it, read when it is asked for; None without a sound file.

        The file answers until it is another, or was changed by anybody but its writers, and until these read models
        are closed or asked again.
        """
        from rbank_es.projections.stored_state import READ_FROM, StoredState

        self._look_up_by(None)
        with suppress(OSError):
            is_still = builder.stillness(self.path, self._is_believed)
            if (found := self.sound(log, *READ_FROM)) is not None:
                self._look_up_by(found[0])
                return StoredState(*found, log, is_still)
        return None

    def sound(self, log: EventLog, *names: str) -> tuple[sqlite3.Connection, int] | None:
        """Return a connection, which the caller closes, and the position of some projections; None on a doubt."""
        with suppress(LogError, OSError):
            return self._opened(log, [PROJECTIONS.get(name) for name in names])
        return None

    def _look_up_by(self, connection: sqlite3.Connection | None) -> None:
        with self.lock:
            former, self._looked_up = self._looked_up, connection
        if former is not None:
            former.close()

    def _key(self, seq: int, log: EventLog | None) -> _Key | None:
        """Return by what a kept view of a position is found; None without a log to compare with."""
        if log is None:
            return None
        # The mark, because a log that was restored may have another event there.
        mark, epoch = log.mark(seq), log.erasures()
        # A file that somebody changed is not read any more, also where it is open.
        believed = not self.sealed or builder.is_sealed(self.path)
        with suppress(OSError):
            return seq, mark, epoch, self.path.stat().st_ino, believed
        return seq, mark, epoch, 0, believed

    def _kept_view(self, key: _Key | None) -> View | None:
        from rbank_es.projections.view import View

        with self.lock:
            shared = self._kept.get(key) if key is not None else None
            return View(shared, key[0]) if shared is not None and key is not None else None

    def _keep(self, key: _Key, shared: ViewConnection) -> None:
        with self.lock:
            dropped = [self._kept.pop(key, None), *self._oldest()]
            self._kept[key] = shared.hold()
        for one in dropped:
            if one is not None:
                one.release()

    def _oldest(self) -> Iterator[ViewConnection]:
        while len(self._kept) >= VIEWS_KEPT:
            yield self._kept.pop(next(iter(self._kept)))

    def _any_connection(
        self, seq: int, log: EventLog | None, found: tuple[sqlite3.Connection, int] | None
    ) -> sqlite3.Connection:
        """Return a connection to rows of a position: that to the file, or one to rows made in memory, in its place.

        Raises `ProjectionError`.
        """
        if found is not None and found[1] >= seq:
            return found[0]
        if log is None:
            if found is not None:
                found[0].close()
            raise ProjectionError(
                f"the read models in {self.path} are missing, broken or behind position {seq:,}; "
                "run: rbank-es project BANK"
            )
        return _in_memory(log, seq, None if found is None else found[0])

    def _as_it_is(self, log: EventLog, chosen: Sequence[Projection], target: int) -> Applied | None:
        """Return the result if there is nothing to do; neither locks nor writes."""
        # A doubt about any projection sends the caller to the writer, which names the reason.
        if (found := self._opened(log)) is None:
            return None
        with suppress(sqlite3.Error), closing(found[0]) as connection:
            points = builder.checkpoints_in(connection)
            here = min(points[projection.name].position for projection in chosen)
            if here >= target and builder.views_in(connection) == builder.declared_views():
                return Applied(position=here)
        return None

    def _write(
        self,
        log: EventLog,
        upto: int | None,
        chosen: Sequence[Projection],
        stale: Mapping[str, str],
        on_batch: OnProgress | None,
    ) -> Applied:
        if self.read_only:
            raise ProjectionError(f"the read models in {self.path} were opened for reading only; nothing was written")
        with _refusing(self.path), builder.exclusive(self.path):
            written = _Writer(self.path, log, chosen, _target(log, upto), on_batch, sealed=self.sealed).run(stale)
        if written.rebuilt:
            self._look_up_by(None)  # the file before may have words that are erased now, as long as it is open
        return written


def rebuild(
    path: str | Path,
    log: EventLog,
    upto: int | None = None,
    only: Collection[str] | None = None,
    on_batch: OnProgress | None = None,
    *,
    replace: bool = True,
) -> Applied:
    """Build the read models, as of position `upto`, in a file outside of any bank.

    As `ReadModels.rebuild`, but without the lock file of a bank's folder, which would stay there. Without `replace`,
    raises `BadInput` for a file that is there, or is there once this one is built.
    """
    place = Path(path)
    with _refusing(place):
        place = replaceable(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not replace:
            builder.refuse_existing(place)

        def work() -> Applied:
            chosen = chosen_projections(only)
            writer = _Writer(place, log, chosen, _target(log, upto), on_batch, exclusive=not replace)
            return writer.run({p.name: "asked for" for p in chosen})

        return _without_failing(work)


def _without_failing(work: Callable[[], T]) -> T:
    """Do some work with all projections, again without each projection of a plugin that fails at it."""
    while True:
        try:
            return work()
        except ProjectionDefect as defect:
            if not set_aside(defect.projection, defect):
                raise


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise builder.refused(path, "write", error) from error


class _Writer:
    """A catch-up or rebuild by the holder of the lock."""

    def __init__(
        self,
        path: Path,
        log: EventLog,
        chosen: Sequence[Projection],
        target: int,
        on_batch: OnProgress | None,
        *,
        sealed: bool = False,
        exclusive: bool = False,
    ) -> None:
        self.path, self.log, self.chosen, self.target, self.on_batch = path, log, chosen, target, on_batch
        self.sealed, self.exclusive = sealed, exclusive
        # Read before any event: a later erasure then leaves a higher epoch behind, which means a rebuild.
        self.epoch = log.erasures()

    def run(self, stale: Mapping[str, str]) -> Applied:
        sweep_scratch(self.path.parent, self.path.name)
        if self.sealed:
            builder.clear_way(self.path)
        everything = len(stale) == len(all_projections())
        doubts = dict(stale) if everything else self._doubts_of_file()
        rebuilt = {p.name: stale.get(p.name) or doubts[p.name] for p in self.chosen if p.name in {**doubts, **stale}}
        events = self._rebuild(rebuilt, doubts) if rebuilt else 0
        try:
            more, before, after = self._advance()
        except sqlite3.DatabaseError as error:
            if not builder.is_damage(error):
                raise
            rebuilt = {projection.name: f"the file is damaged: {error}" for projection in self.chosen}
            more = self._rebuild(rebuilt, {p.name: "damaged" for p in all_projections()})
            _, before, after = self._advance()
        self._seal()
        moved = {name for name, point in after.items() if point != before[name]}
        return Applied(
            position=min(after[projection.name].position for projection in self.chosen),
            events=events + more,
            projections=tuple(p.name for p in self.chosen if p.name in rebuilt or p.name in moved),
            rebuilt=rebuilt,
        )

    def _seal(self) -> None:
        if self.sealed:
            builder.seal(self.path)

    def _batch_done(self, reached: int, wanted: int) -> None:
        self._seal()
        if self.on_batch:
            self.on_batch(reached, wanted)

    def _doubts_of_file(self) -> dict[str, str]:
        kind = kind_of(self.path)
        if kind != "a file":
            reason = "not built before" if kind is None else f"there is {kind} in its place"
            return {projection.name: reason for projection in all_projections()}
        if self.sealed and not builder.is_sealed(self.path):
            reason = "its file is not as its last writer left it"
            return {projection.name: reason for projection in all_projections()}
        try:
            # Open for writing, because SQLite must play back the journal of a writer that died.
            with closing(builder.connect(self.path, "rw")) as connection:
                return builder.doubts_of(connection, builder.checkpoints_in(connection), self.log)
        except sqlite3.DatabaseError as error:
            # "no such table" is another program's SQLite file, or one without checkpoints: as good as damaged.
            if not builder.is_damage(error) and "no such" not in str(error):
                raise
            return {projection.name: f"the file is damaged: {error}" for projection in all_projections()}

    def _rebuild(self, rebuilt: Collection[str], doubts: Collection[str]) -> int:
        """Build a new file: sound projections are copied, the rebuilt ones filled, all others left empty."""
        kept = [p for p in all_projections() if p.name not in rebuilt and p.name not in doubts]
        fresh = [p for p in all_projections() if p not in kept]
        with (
            builder.replacing(self.path, exclusive=self.exclusive) as new,
            closing(builder.connect(new, "rw")) as connection,
        ):
            builder.tune_for_building(connection)
            # Copied page by page, which is far quicker than reading the log again for them.
            if kept:
                with closing(builder.connect(self.path, "ro")) as old:
                    old.backup(connection)
            filled = [p for p in fresh if p.name in rebuilt]
            events = builder.build(connection, self.log, fresh, filled, self.target, self.epoch, self.on_batch)
            connection.close()  # before the file gets its name
        self._seal()
        return events

    def _advance(self) -> tuple[int, dict[str, Checkpoint], dict[str, Checkpoint]]:
        """Apply the events beyond the checkpoints; return their number, and the checkpoints before and after."""
        with closing(builder.connect(self.path, "rw")) as connection:
            if builder.views_in(connection) != builder.declared_views():
                with builder.transaction(connection):
                    builder.remake_views(connection)
            before = builder.checkpoints_in(connection)
            events = builder.advance(connection, self.log, self.chosen, self.target, self.epoch, self._batch_done)
            return events, before, builder.checkpoints_in(connection)


def _target(log: EventLog, upto: int | None) -> int:
    position = log.position()
    if upto is not None and not 0 <= upto <= position:
        raise BadPoint(str(upto), f"the log ends at position {position:,}")
    return position if upto is None else upto


def _in_memory(log: EventLog, seq: int, begun: sqlite3.Connection | None) -> sqlite3.Connection:
    """Return the rows of a position in memory: those of a connection, which is closed, and of the events behind them;
    all built anew where there is none, or where it can't be read."""
    made = builder.in_memory()
    try:
        if begun is not None:
            with closing(begun):
                begun.backup(made)
            # All of them: views join tables of several projections.
            builder.advance(made, log, all_projections(), seq, log.erasures(), lasting=False)
        else:
            builder.build(made, log, all_projections(), all_projections(), seq, log.erasures(), lasting=False)
        return made
    except BaseException as error:
        made.close()
        if begun is not None and isinstance(error, sqlite3.Error):
            return _in_memory(log, seq, None)
        raise
