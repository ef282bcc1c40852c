"""A log engine of somebody else's, in one file: each log is a SQLite file, `sqlite:PATH`.

It stores and finds lines. What a line is, and what may be written, searched, erased and verified, is decided by the
functions that all engines share. The methods without a docstring are documented in `EventLog` and `LogEngine`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event as Signal
from typing import Any

import msgspec
from msgspec.structs import astuple

from rbank_es import errors, limits
from rbank_es.events import ContentErased
from rbank_es.events.codec import refs_of, resolved, type_of, unknown_types
from rbank_es.events.event import Event, Ref
from rbank_es.log import ancestry, erasure, groups, lines
from rbank_es.log.disk import locked
from rbank_es.log.erasure_residue import ResidueSearch, clear_derived
from rbank_es.log.groups import Clock, Entropy, Prepared
from rbank_es.log.lines import Head
from rbank_es.log.protocol import (
    ANY,
    DERIVED_LOCK,
    EMPTY,
    Ancestor,
    Appended,
    Erasing,
    Erasure,
    EventLog,
    Expected,
    Relative,
    Storage,
    Verification,
)
from rbank_es.log.verification import LogCheck
from rbank_es.system.files import BankCache, remove_temporary, temporary_folder

_SCHEMA = """
CREATE TABLE bank (id TEXT NOT NULL, ancestors TEXT NOT NULL);
CREATE TABLE texts (key TEXT PRIMARY KEY, digest BLOB, line BLOB NOT NULL);
CREATE TABLE events (seq INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, type TEXT NOT NULL, run TEXT,
                     digest BLOB NOT NULL, line BLOB NOT NULL);
CREATE INDEX events_of_runs ON events (run, seq);
"""
_PAGE = 500  # lines that are read at once
_WAIT_S = 0.01  # between two looks for news
SYNCHRONOUS = "FULL"
"""How SQLite waits for the disk; tests turn it off."""


class SqliteLog:
    """A log in a SQLite file. Each call has its own connection, so that threads and forked children share none."""

    scheme = "sqlite"

    def __init__(self, path: Path, *, clock: Clock = groups.system_clock, entropy: Entropy = os.urandom) -> None:
        self.path, self._clock, self._entropy = path, clock, entropy
        with self._connected() as db:
            bank_id, ancestors = db.execute("SELECT id, ancestors FROM bank").fetchone()
        self._bank_id = str(bank_id)
        self._ancestors = tuple(Ancestor(*each) for each in json.loads(ancestors))
        self.seed = lines.seed_of(ancestry.lineage_of(self))
        self._cache = BankCache(self._bank_id, path)
        self._known = 0
        self.is_scratch = False

    @contextmanager
    def _connected(self, begin: str = "BEGIN") -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction, which is committed at the end of the `with` or leaves no trace."""
        try:
            place = f"{self.path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(place, uri=True, isolation_level=None, timeout=limits.LOCK_WAIT_S)) as db:
                db.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
                db.execute("PRAGMA secure_delete = ON")
                db.execute(begin)
                yield db
                db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise errors.LogBusy(self.place, limits.LOCK_WAIT_S) from None
            raise errors.LogUnavailable(self.place, "use", error) from error
        except sqlite3.DatabaseError as error:
            raise errors.LogCorruption(self.place, str(error)) from error

    @property
    def bank_id(self) -> str:
        return self._bank_id

    @property
    def place(self) -> str:
        return f"sqlite:{self.path}"

    @property
    def derived_directory(self) -> Path:
        return self._cache.folder()

    def ancestors(self) -> tuple[Ancestor, ...]:
        return self._ancestors

    def relatives(self) -> tuple[Relative, ...]:
        return tuple(Relative(each.bank, "", each.upto) for each in self._ancestors)

    def storage(self) -> Storage:
        return Storage(1, 0, self.path.stat().st_size, 0)

    def owns(self, path: Path) -> bool:
        own, path = self.path.resolve(), path.resolve()
        if path.parent == own.parent:
            return path.name == own.name or path.name.startswith((f"{own.name}-journal", f"{own.name}.lock-"))
        return path.is_relative_to(self.derived_directory.resolve())

    # ---------------------------------------------------------------- reading

    def read(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Collection[str] | None = None,
        run: str | None = None,
        resolve: Collection[str] = (),
    ) -> Iterator[Event]:
        for line in self.lines(after=after, upto=upto, types=types, run=run):
            event = lines.event_of(line)
            yield resolved(event, self.text) if type_of(event) in resolve else event

    def lines(
        self, *, after: int = 0, upto: int | None = None, types: Collection[str] | None = None, run: str | None = None
    ) -> Iterator[bytes]:
        if types is not None and (strange := unknown_types(types)):
            raise errors.UnknownEvent(min(strange), None, None)
        end = self.position() if run is not None else limits.COUNT_MOST
        where, values = "seq > ? AND seq <= ?", list[Any]()
        if types is not None:
            where, values = f"{where} AND type IN ({', '.join('?' * len(types))})", [*types]
        if run is not None:
            where, values = f"{where} AND run = ?", [*values, run]
        statement = f"SELECT seq, line FROM events WHERE {where} ORDER BY seq LIMIT {_PAGE}"
        while True:
            with self._connected() as db:
                page = db.execute(statement, (after, end if upto is None else min(end, upto), *values)).fetchall()
            for after, line in page:
                if not lines.is_intact(line, self.seed) or lines.seq_of(line) != after:
                    raise errors.LogCorruption(f"{self.place}, position {after:,}", "bytes were changed or lost")
                yield line
            if not page:
                return

    def new_id(self) -> str:
        return groups.new_id(self._clock, self._entropy)

    def position(self) -> int:
        with self._connected() as db:
            return _end(db)

    def head(self, at: int | None = None) -> Head:
        with self._connected() as db:
            seq = _end(db) if at is None else at
            digest = _digest(db, seq)
        if digest is None:
            raise errors.LogCorruption(self.place, f"position {seq:,} is missing", "")
        return Head(seq, digest.hex())

    def mark(self, position: int) -> str | None:
        with self._connected() as db:
            digest = _digest(db, position)
        return None if digest is None else digest.hex() if position else ""

    def seq_of_id(self, event_id: str) -> int | None:
        with self._connected() as db:
            return _positions(db, [event_id]).get(event_id)

    def text(self, ref: Ref) -> str | None:
        with self._connected() as db:
            return self._text(db, ref)

    def _text(self, db: sqlite3.Connection, ref: Ref) -> str | None:
        found = db.execute("SELECT line FROM texts WHERE key = ?", (ref.key,)).fetchone()
        if found is None:
            raise errors.LogCorruption(self.place, f"the text {ref.key[:12]}… is missing")
        try:
            return lines.read_text(found[0], self.seed)
        except ValueError as error:
            raise errors.LogCorruption(self.place, f"the text {ref.key[:12]}…: {error}") from None

    def wait(self, seen: int, timeout_s: float, stop: Signal | None = None) -> None:
        end = time.monotonic() + timeout_s
        while self.position() <= seen and time.monotonic() < end and not (stop and stop.is_set()):
            time.sleep(_WAIT_S)

    # ---------------------------------------------------------------- writing

    def append(self, events: Sequence[Event], *, expected: int | Expected = ANY) -> Appended:
        with self._connected("BEGIN IMMEDIATE") as db:
            prepared = self._prepare(db, events)
            if known := groups.known_group(prepared, partial(_positions, db), partial(self._stored_at, db)):
                return known
            groups.refuse_erasure_records(prepared)
            groups.check_expected(self.place, expected, _end(db))
            return self._store(db, prepared)

    def _prepare(self, db: sqlite3.Connection, events: Sequence[Event]) -> list[Prepared]:
        for seq, line in db.execute("SELECT seq, line FROM events WHERE seq > ?", (self._known,)):
            lines.event_of(line)  # raises where another release wrote what this one doesn't know
            self._known = seq
        keys = {key for (key,) in db.execute("SELECT key FROM texts")}
        read = partial(self._text, db)
        return groups.prepare_new(events, self._clock, self._entropy, lambda ref: ref.key in keys, read)

    def _stored_at(self, db: sqlite3.Connection, seq: int) -> tuple[Event, Event]:
        event = lines.event_of(_line(db, seq))
        return event, resolved(event, partial(self._text, db))

    def _store(self, db: sqlite3.Connection, prepared: Sequence[Prepared]) -> Appended:
        end, stored = _end(db), dict[bytes, str]()
        digest = _digest(db, end) or lines.GENESIS
        at = groups.time_after(self._clock(), lines.event_of(_line(db, end)).at if end else "")
        if any(item.long for item in prepared):
            stored = dict(db.execute("SELECT digest, key FROM texts WHERE digest IS NOT NULL"))
        now = groups.Circumstances(end + 1, at, end, self.seed, stored, partial(groups.new_salt, self._entropy))
        composed = groups.compose(prepared, now)
        digest_of = {key: digest for digest, key in composed.texts.items()}
        for line in composed.data.split(b"\n")[:-1]:
            if line.startswith(lines.ANY_TEXT):
                key = lines.key_of_text(line)
                db.execute("INSERT INTO texts VALUES (?, ?, ?)", (key, digest_of[key], line))
            else:
                found, digest = lines.key_of(line), lines.chain(digest, line)
                row = (found.seq, lines.id_of(line), found.type, found.run if type(found.run) is str else None)
                db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (*row, digest, line))
        return Appended(end + 1, end + len(prepared), composed.events)

    def exclusive(self, name: str) -> AbstractContextManager[None]:
        return locked(self.path.with_name(f"{self.path.name}.lock-{name}"), self.place, wait_s=0)

    def add_witness(self, witness: Callable[[], int]) -> None:
        pass

    def sync(self) -> None:
        pass

    def verify(self, noted: Sequence[Head] = ()) -> Verification:
        place = ""
        check = LogCheck(self.seed, noted, lambda reason: errors.LogCorruption(f"{self.place}, {place}", reason))
        writers = [*(each.bank for each in self._ancestors[1:]), self._bank_id]
        begun = {each.upto + 1: writer for each, writer in zip(self._ancestors, writers, strict=False)}
        with self._connected() as db:
            for key, line in db.execute("SELECT key, line FROM texts ORDER BY key"):
                place = f"text {key[:12]}…"
                check.line(line)
            for seq, event_id, digest, line in db.execute("SELECT seq, id, digest, line FROM events ORDER BY seq"):
                place = f"position {seq:,}"
                if seq in begun:
                    check.begin_fork(begun[seq])
                check.line(line)
                if (seq, event_id, digest) != (check.seq, lines.id_of(line), check.digest):
                    raise check.damage("what is stored beside the line is not of it")
        check.finish(erasing=False)
        return Verification(
            head=Head(check.seq, check.digest.hex()),
            events=check.seq,
            texts=check.texts,
            erased=check.erased,
            noted=tuple(noted),
        )

    def erasures(self) -> int:
        with self._connected() as db:
            return int(db.execute("SELECT ifnull(max(seq), 0) FROM events WHERE type = 'content_erased'").fetchone()[0])

    def erase(
        self,
        what: Erasing,
        *,
        reason: str = "",
        by: str | None = None,
        dry_run: bool = False,
        rebuild: Callable[[], object] | None = None,
    ) -> Erasure:
        with (
            locked(self.derived_directory / DERIVED_LOCK, self.place),
            self._connected("BEGIN" if dry_run else "BEGIN IMMEDIATE") as db,
        ):
            planned = erasure.plan(_Source(self, db), what, reason, by)
            if planned.found:
                holders = ancestry.holders(self.relatives(), planned.erasure.places)
                planned = planned._replace(erasure=msgspec.structs.replace(planned.erasure, relatives=holders))
            if dry_run:
                return planned.erasure
            if not planned.found and not planned.erasure.texts:
                return planned.carried_out(None, {}).erasure
            records = erasure.records_of(planned, reason, by)
            planned = planned.carried_out(self._store(db, self._prepare(db, records)), {})
            self._rewrite(db, erasure.Targets.of(records))
            clear_derived(self.derived_directory)
        if rebuild is not None:
            rebuild()
        search = ResidueSearch(planned.sought)
        with self._connected() as db:
            search.look_through_lines(self.path.name, (block for _, block in _Source(self, db).blocks("")))
        search.look_through_files(self.derived_directory)
        return msgspec.structs.replace(planned.erasure, residue=search.residue())

    def _rewrite(self, db: sqlite3.Connection, targets: erasure.Targets) -> None:
        rewritten = [(targets.erased_line(_line(db, seq), self.seed)[:-1], seq) for seq in targets.paths]
        db.executemany("UPDATE events SET line = ? WHERE seq = ?", rewritten)
        # Without a digest: a text that is appended again is stored again, under another key.
        erased = [(lines.text_erased_line(key, self.seed)[:-1], key) for key in targets.keys]
        db.executemany("UPDATE texts SET digest = NULL, line = ? WHERE key = ?", erased)

    # ---------------------------------------------------------------- copies and forks

    def copy(self, upto: int, into: str | None = None) -> SqliteLog:
        self.head(upto)  # raises where there is none
        return self._branch(upto, into, self._bank_id, self._ancestors, lambda made: None)

    def fork(self, upto: int, into: str | None = None, *, name: str = "", by: str | None = None) -> SqliteLog:
        ancestry.check_fork_point(self, upto)
        head, made_id = self.head(upto), self._entropy(16).hex()
        chain = [each for each in self._ancestors if each.upto < upto]
        writer = [*(each.bank for each in self._ancestors), self._bank_id][len(chain)]

        def begin(made: SqliteLog) -> None:
            with made._connected("BEGIN IMMEDIATE") as db:
                erased = [key for (key,) in db.execute("SELECT key FROM texts WHERE digest IS NULL")]
                opening = ancestry.opening_events(self, head, made_id, erased, name=name, by=by)
                made._store(db, made._prepare(db, opening))

        return self._branch(upto, into, made_id, (*chain, Ancestor(writer, upto)), begin)

    def _branch(
        self,
        upto: int,
        into: str | None,
        bank_id: str,
        ancestors: Sequence[Ancestor],
        begin: Callable[[SqliteLog], object],
    ) -> SqliteLog:
        """Return a log of another place with the events up to a position, and the texts that they name."""
        path = temporary_folder("branch") / self.path.name if into is None else _path_in(into)
        with self._connected() as db:
            rows = db.execute("SELECT * FROM events WHERE seq <= ? ORDER BY seq", (upto,)).fetchall()
            named = {key for row in rows for key in _keys_in(row[-1])}
            texts = [row for row in db.execute("SELECT * FROM texts") if row[0] in named]
        if rows and (more := lines.counters_of(rows[-1][-1])[0]):
            whole = lines.shorten_group([row[-1] for row in rows], more, self.seed)
            rows = [(*row[:-1], line) for row, line in zip(rows, whole, strict=True)]

        def fill(made: SqliteLog) -> None:
            with made._connected("BEGIN IMMEDIATE") as db:
                db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", rows)
                db.executemany("INSERT INTO texts VALUES (?, ?, ?)", texts)
            begin(made)

        made = _made(path, bank_id, ancestors, fill, clock=self._clock, entropy=self._entropy)
        made.is_scratch = into is None
        return made

    def close(self) -> None:
        if self.is_scratch:
            remove_temporary(self.path.parent)

    def __enter__(self) -> SqliteLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Source:
    """The lines of a log, as erasure searches them: all in one part."""

    def __init__(self, log: SqliteLog, db: sqlite3.Connection) -> None:
        self.seed, self._log, self._db = log.seed, log, db

    def parts(self) -> Collection[str]:
        return ("",)

    def line_at(self, seq: int) -> tuple[str, bytes] | None:
        return ("", _line(self._db, seq)) if 0 < seq <= _end(self._db) else None

    def lines_with(self, part: str, needle: bytes) -> Iterator[bytes]:
        return (line for _, line in self.blocks(part) if needle in line)

    def blocks(self, part: str) -> Iterator[tuple[str, bytes]]:
        yield from self._db.execute("SELECT 'text ' || key, line FROM texts ORDER BY key")
        yield from self._db.execute("SELECT 'position ' || seq, line FROM events ORDER BY seq")

    def text(self, ref: Ref, part: str) -> str | None:
        return self._log._text(self._db, ref)


def _end(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT ifnull(max(seq), 0) FROM events").fetchone()[0])


def _line(db: sqlite3.Connection, seq: int) -> bytes:
    return bytes(db.execute("SELECT line FROM events WHERE seq = ?", (seq,)).fetchone()[0])


def _digest(db: sqlite3.Connection, seq: int) -> bytes | None:
    """Return the digest of the head at a position; None where the log has no such position."""
    found = db.execute("SELECT digest FROM events WHERE seq = ?", (seq,)).fetchone() if seq else (lines.GENESIS,)
    return found[0] if found else None


def _positions(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    found = (db.execute("SELECT id, seq FROM events WHERE id = ?", (event_id,)).fetchone() for event_id in ids)
    return dict(each for each in found if each)


def _keys_in(line: bytes) -> Iterator[str]:
    """Yield the keys of the texts that a line names, or records as erased."""
    event = lines.event_of(line)
    yield from event.texts if isinstance(event, ContentErased) else (ref.key for ref in refs_of(event))


def _path_in(locator: str) -> Path:
    path = locator.removeprefix("sqlite:")
    if not path or path.endswith("/"):
        raise errors.BadBankName(locator, "the path of a file must come behind sqlite:")
    return Path(path)


def _made(
    path: Path, bank_id: str, ancestors: Sequence[Ancestor], fill: Callable[[SqliteLog], object], **options: Any
) -> SqliteLog:
    """Make a log beside its place, and put it there when it is filled."""
    draft = path.with_name(f".{path.name}.{os.urandom(16).hex()}.part")
    if path.exists():
        raise errors.BankExists(f"sqlite:{path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(draft)) as db:
            db.executescript(f"PRAGMA synchronous = {SYNCHRONOUS}; {_SCHEMA}")
            db.execute("INSERT INTO bank VALUES (?, ?)", (bank_id, json.dumps([*map(astuple, ancestors)])))
            db.commit()
        fill(SqliteLog(draft, **options))
        os.link(draft, path)
    except FileExistsError:
        raise errors.BankExists(f"sqlite:{path}") from None
    except (OSError, sqlite3.OperationalError) as error:
        raise errors.LogUnavailable(f"sqlite:{path}", "make", error) from error
    finally:
        draft.unlink(missing_ok=True)
    return SqliteLog(path, **options)


class SqliteEngine:
    """The engine of `sqlite:PATH`."""

    outlives_process = True

    def name_of(self, locator: str) -> str:
        return _path_in(locator).stem

    def open(self, locator: str, **options: Any) -> SqliteLog:
        if not (path := _path_in(locator)).is_file():
            raise errors.BankNotFound(locator)
        return SqliteLog(path, **options)

    def create(
        self,
        locator: str,
        events: Sequence[Event] = (),
        *,
        fill: Callable[[EventLog], object] | None = None,
        **options: Any,
    ) -> SqliteLog:
        def begin(made: SqliteLog) -> None:
            if events:
                made.append(events, expected=EMPTY)
            if fill is not None:
                fill(made)

        bank_id = options.get("entropy", os.urandom)(16).hex()
        return _made(_path_in(locator), bank_id, (), begin, **options)


ENGINE = SqliteEngine()


def add() -> None:
    """Add the engine: what the entry point of its package names."""
    from rbank_es.log import LOG_ENGINES

    LOG_ENGINES.add("sqlite", ENGINE)
