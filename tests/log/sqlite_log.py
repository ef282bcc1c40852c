"""A log engine of somebody else's, in one file: each log is a SQLite file, `sqlite:PATH`.

It has the statements. What a line is, and what may be written, searched, erased, copied and verified, is decided by
`RowLog` and the functions that all engines share.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import astuple

from rbank_es import errors, limits
from rbank_es.log import groups, lines
from rbank_es.log.disk import locked
from rbank_es.log.groups import Clock, Entropy
from rbank_es.log.protocol import Ancestor, Lease, Storage
from rbank_es.log.rows.line_rows import Access, End, LineRow, TextRow
from rbank_es.log.rows.row_engine import RowEngine
from rbank_es.log.rows.row_log import RowLog
from rbank_es.system.files import BankCache

_SCHEMA = """
CREATE TABLE bank (id TEXT NOT NULL, ancestors TEXT NOT NULL);
CREATE TABLE kinds (kind TEXT PRIMARY KEY);
CREATE TABLE texts (key TEXT PRIMARY KEY, seq INTEGER NOT NULL, number INTEGER NOT NULL, digest BLOB,
                    line BLOB NOT NULL);
CREATE INDEX texts_by_place ON texts (seq, number);
CREATE INDEX texts_by_digest ON texts (digest);
CREATE TABLE events (seq INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, type TEXT NOT NULL, run TEXT,
                     digest BLOB NOT NULL, line BLOB NOT NULL);
CREATE INDEX events_of_runs ON events (run, seq);
"""
SYNCHRONOUS = "FULL"
"""How SQLite waits for the disk; tests turn it off."""


class SqliteRows:
    """The rows of a log in a transaction; see `Rows`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def position(self) -> int:
        return int(self.db.execute("SELECT ifnull(max(seq), 0) FROM events").fetchone()[0])

    def end(self) -> End:
        last = self.db.execute("SELECT seq, digest, line FROM events ORDER BY seq DESC LIMIT 1").fetchone()
        kinds = [kind for (kind,) in self.db.execute("SELECT kind FROM kinds")]
        if last is None:
            return End(0, "", lines.GENESIS, None, kinds)
        return End(last[0], lines.event_of(last[2]).at, last[1], last[2], kinds)

    def lines(
        self, after: int, upto: int, types: Collection[str] | None, run: str | None, most: int
    ) -> Sequence[tuple[int, bytes]]:
        where, values = "seq > ? AND seq <= ?", list[Any]()
        if types is not None:
            where, values = f"{where} AND type IN ({', '.join('?' * len(types))})", [*types]
        if run is not None:
            where, values = f"{where} AND run = ?", [*values, run]
        statement = f"SELECT seq, line FROM events WHERE {where} ORDER BY seq LIMIT {most}"
        return self.db.execute(statement, (after, upto, *values)).fetchall()

    def page(self, after: int, most: int) -> Sequence[LineRow]:
        found = self.db.execute("SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT ?", (after, most))
        return [LineRow(*row) for row in found]

    def texts(self, after: int, upto: int) -> Iterable[tuple[int, bytes]]:
        where = "seq > ? AND seq <= ? ORDER BY seq, number"
        return self.db.execute(f"SELECT seq, line FROM texts WHERE {where}", (after, upto))

    def digest(self, seq: int) -> bytes | None:
        found: bytes | None = self._one("SELECT digest FROM events WHERE seq = ?", seq)
        return found

    def positions(self, ids: Sequence[str]) -> dict[str, int]:
        found = {event_id: self._one("SELECT seq FROM events WHERE id = ?", event_id) for event_id in ids}
        return {event_id: seq for event_id, seq in found.items() if seq is not None}

    def text(self, key: str) -> bytes | None:
        found: bytes | None = self._one("SELECT line FROM texts WHERE key = ?", key)
        return found

    def keys(self, digests: Collection[bytes]) -> dict[bytes, str]:
        found = {digest: self._one("SELECT key FROM texts WHERE digest = ?", digest) for digest in digests}
        return {digest: key for digest, key in found.items() if key is not None}

    def erasures(self) -> int:
        return int(self._one("SELECT ifnull(max(seq), 0) FROM events WHERE type = ?", "content_erased"))

    def add(self, events: Sequence[LineRow], texts: Sequence[TextRow], kinds: Collection[str]) -> None:
        self.db.executemany("INSERT INTO texts VALUES (?, ?, ?, ?, ?)", texts)
        self.db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", events)
        self.db.executemany("INSERT OR IGNORE INTO kinds VALUES (?)", [(kind,) for kind in kinds])

    def rewrite(self, events: Sequence[tuple[int, bytes]], texts: Sequence[tuple[str, bytes]]) -> None:
        self.db.executemany("UPDATE events SET line = ? WHERE seq = ?", [(line, seq) for seq, line in events])
        # Without a digest: a text that is appended again is stored again, under another key.
        erased = [(line, key) for key, line in texts]
        self.db.executemany("UPDATE texts SET digest = NULL, line = ? WHERE key = ?", erased)

    def _one(self, statement: str, value: object) -> Any:
        found = self.db.execute(statement, (value,)).fetchone()
        return found[0] if found else None


class SqliteLog(RowLog):
    """A log in a SQLite file. Each call has its own connection, so that threads and forked children share none."""

    scheme = "sqlite"

    def __init__(self, path: Path, *, clock: Clock = groups.system_clock, entropy: Entropy = os.urandom) -> None:
        self.path, self.engine, place = path, ENGINE, f"sqlite:{path}"
        with _connected(path, place) as db:
            bank_id, chain = db.execute("SELECT id, ancestors FROM bank").fetchone()
        ancestors = [Ancestor(*each) for each in json.loads(chain)]
        super().__init__(str(bank_id), ancestors, place, BankCache(str(bank_id), path), clock, entropy)

    @contextmanager
    def rows(self, access: Access = "read") -> Iterator[SqliteRows]:
        with _connected(self.path, self.place, "BEGIN IMMEDIATE" if access == "write" else "BEGIN") as db:
            yield SqliteRows(db)

    def storage(self) -> Storage:
        return Storage(1, 0, self.path.stat().st_size, 0)

    def owns(self, path: Path) -> bool:
        own, resolved = self.path.resolve(), path.resolve()
        if resolved.parent == own.parent:
            return resolved.name == own.name or resolved.name.startswith((f"{own.name}-journal", f"{own.name}.lock-"))
        return super().owns(path)

    @contextmanager
    def exclusive(self, name: str) -> Iterator[Lease]:
        with locked(self.path.with_name(f"{self.path.name}.lock-{name}"), self.place, wait_s=0):
            yield Lease()


@contextmanager
def _connected(path: Path, place: str, begin: str = "BEGIN") -> Iterator[sqlite3.Connection]:
    """Yield a connection in a transaction, which is committed at the end of the `with` or leaves no trace."""
    try:
        uri = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=limits.LOCK_WAIT_S)) as db:
            db.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
            db.execute("PRAGMA secure_delete = ON")
            db.execute(begin)
            yield db
            db.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise errors.LogBusy(place, limits.LOCK_WAIT_S) from None
        raise errors.LogUnavailable(place, "use", error) from error
    except sqlite3.DatabaseError as error:
        raise errors.LogCorruption(place, str(error)) from error


def _path_in(locator: str) -> Path:
    path = locator.removeprefix("sqlite:")
    if not path or path.endswith("/"):
        raise errors.BadBankName(locator, "the path of a file must come behind sqlite:")
    return Path(path)


class SqliteEngine(RowEngine[SqliteLog]):
    """The engine of `sqlite:PATH`."""

    def name_of(self, locator: str) -> str:
        return _path_in(locator).stem

    def open(self, locator: str, **options: Any) -> SqliteLog:
        if not (path := _path_in(locator)).is_file():
            raise errors.BankNotFound(locator)
        return SqliteLog(path, **options)

    def _make(
        self,
        locator: str,
        bank_id: str,
        ancestors: Sequence[Ancestor],
        fill: Callable[[SqliteLog], object],
        **options: Any,
    ) -> SqliteLog:
        """Make a log beside its place, and put it there when it is filled."""
        path = _path_in(locator)
        draft = path.with_name(f".{path.name}.{os.urandom(16).hex()}.part")
        if path.exists():
            raise errors.BankExists(locator)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(draft)) as db:
                db.executescript(f"PRAGMA synchronous = {SYNCHRONOUS}; {_SCHEMA}")
                db.execute("INSERT INTO bank VALUES (?, ?)", (bank_id, json.dumps([*map(astuple, ancestors)])))
                db.commit()
            fill(SqliteLog(draft, **options))
            os.link(draft, path)
        except FileExistsError:
            raise errors.BankExists(locator) from None
        except (OSError, sqlite3.OperationalError) as error:
            raise errors.LogUnavailable(locator, "make", error) from error
        finally:
            draft.unlink(missing_ok=True)
        return SqliteLog(path, **options)


ENGINE = SqliteEngine()


def add() -> None:
    """Add the engine: what the entry point of its package names."""
    from rbank_es.log import LOG_ENGINES

    LOG_ENGINES.add("sqlite", ENGINE)
