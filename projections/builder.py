"""Filling read models from the log: all at once into empty tables, or batch by batch into those that are there."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from rbank_es.projections import ALL, checkpoints
from rbank_es.projections.engine import Gatherer, LogReader, OnBatch, Projection, json_of, settle


def build(
    connection: sqlite3.Connection,
    log: LogReader,
    fresh: Collection[Projection],
    filled: Collection[Projection],
    upto: int,
    epoch: int,
    on_batch: OnBatch | None = None,
    *,
    lasting: bool = True,
) -> int:
    """Make the tables of `fresh` projections anew and fill those in `filled`; returns the number of events read.

    Rows first, then indexes, then all that is settled, in one transaction: each is quickest when done at once.
    `lasting`: whether the rows may outlive a power cut, so that their events must be on disk before.
    """
    events = 0
    with transaction(connection):
        _remake(connection, fresh, epoch)
        gatherer = Gatherer(list(filled))
        for reached, count in gatherer.batches(log, 0, upto):
            gatherer.batch.write(connection)
            events += count
            if on_batch:
                on_batch(reached, upto)
        for projection in fresh:
            _run(connection, projection.index_ddl.values())
        for projection in filled:
            _run(connection, projection.bulk_begin)
        settle(connection, filled, 0, upto)
        for projection in filled:
            _run(connection, projection.bulk_end)
        if lasting:
            log.sync()
        checkpoints.check_in(connection, log, filled, upto, epoch)
    return events


def advance(
    connection: sqlite3.Connection,
    log: LogReader,
    chosen: Iterable[Projection],
    upto: int,
    epoch: int,
    on_batch: OnBatch | None = None,
    *,
    lasting: bool = True,
) -> int:
    """Apply what lies between the checkpoints and `upto`, batch by batch; returns the number of events read.

    `lasting`: as for `build`.
    """
    groups: dict[int, list[Projection]] = {}
    points, events = checkpoints.read_all(connection), 0
    for projection in chosen:
        groups.setdefault(points[projection.name].position, []).append(projection)
    for start, group in sorted(groups.items()):
        if start >= upto:
            break
        after, gatherer = start, Gatherer(group)
        for reached, count in gatherer.batches(log, start, upto):
            with transaction(connection):
                gatherer.batch.write(connection)
                settle(connection, group, after, reached)
                if lasting:
                    # Synced first: rows of events that a power cut takes back must not outlive them.
                    log.sync()
                checkpoints.check_in(connection, log, group, reached, epoch)
            after, events = reached, events + count
            if on_batch:
                on_batch(reached, upto)
    return events


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what is written inside, or, if anything is raised there, none of it."""
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


def _remake(connection: sqlite3.Connection, projections: Iterable[Projection], epoch: int) -> None:
    """Empty tables for the projections, at position 0; whatever an earlier version of them had is dropped."""
    if "checkpoints" not in checkpoints.objects_in(connection):
        connection.execute(checkpoints.TABLE)
    recorded = dict(connection.execute("SELECT projection, objects FROM checkpoints"))
    for projection in projections:
        old = msgspec.json.decode(recorded.get(projection.name, "[]"), type=list[str])
        there = checkpoints.objects_in(connection)
        for name in (name for name in old if name in there):
            connection.execute(f'DROP TABLE "{name}"')
        _run(connection, projection.table_ddl.values())
        connection.execute(
            "INSERT OR REPLACE INTO checkpoints VALUES (?, 0, '', ?, ?, ?, ?)",
            (projection.name, epoch, projection.version, projection.digest, json_of([*projection.table_ddl])),
        )
    remake_views(connection)


def remake_views(connection: sqlite3.Connection) -> None:
    """Put the views of this release in place of those in the file."""
    for name in views_in(connection):
        connection.execute(f'DROP VIEW "{name}"')
    _run(connection, declared_views().values())


def declared_views() -> dict[str, str]:
    """All views of this release by name, with the statements that create them."""
    views = {name: text for projection in ALL for name, text in projection.views.items()}
    return {name: f"CREATE VIEW {name} AS {text.strip()}" for name, text in views.items()}


def views_in(connection: sqlite3.Connection) -> dict[str, str]:
    """All views in the file by name, with the statements that created them."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'"))
