"""Checkpoints: how far each projection has got, on which log, and whether its rows can still be trusted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from msgspec import Struct

from rbank_es.errors import ProjectionError
from rbank_es.projections import ALL
from rbank_es.projections.engine import LogReader, Projection

TABLE = """
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


def objects_in(connection: sqlite3.Connection) -> dict[str, str]:
    """All tables and indexes in the file by name, with the statements that created them."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type <> 'view' AND sql IS NOT NULL"))


def read_all(connection: sqlite3.Connection) -> dict[str, Checkpoint]:
    """All checkpoints in the file, by projection. Raises `sqlite3.Error` if it is none of read models."""
    rows = connection.execute("SELECT projection, position, crc, erasures, version, digest FROM checkpoints")
    return {
        name: Checkpoint(position=position, crc=crc, erasures=erasures, version=version, digest=digest)
        for name, position, crc, erasures, version, digest in rows
    }


def check_in(
    connection: sqlite3.Connection, log: LogReader, projections: Iterable[Projection], position: int, epoch: int
) -> None:
    """Note that the projections are at `position`. Raises `ProjectionError` if the log no longer reaches there."""
    crc = log.crc_at(position) if position else ""
    if crc is None:
        raise ProjectionError(f"the log has no line at position {position:,} any more; nothing of that batch was kept")
    connection.executemany(
        "UPDATE checkpoints SET position = ?, crc = ?, erasures = ? WHERE projection = ?",
        [(position, crc, epoch, projection.name) for projection in projections],
    )


def doubts_of(
    connection: sqlite3.Connection, points: Mapping[str, Checkpoint], log: LogReader | None
) -> dict[str, str]:
    """Why the rows of a projection can't be used, by name; those without doubt are left out.

    Without a log, only what the file says of itself is looked at.
    """
    there = objects_in(connection)
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
