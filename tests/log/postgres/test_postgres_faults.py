"""Faults of a server and of the way to it: slow, torn, full, serializable, behind, cut off in time."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rbank_es import errors
from rbank_es.limits import postgres_limits
from rbank_es.log.postgres.postgres_engine import ENGINE
from rbank_es.log.writer_errors import LogBehind
from rbank_es.testing import at_once, note
from tests.postgres_relay import Relay
from tests.postgres_server import PostgresServer
from tests.postgres_writers import wait_until

pytestmark = pytest.mark.xdist_group("postgres")


def name() -> str:
    return f"b{os.urandom(6).hex()}"


@pytest.fixture
def database(server: PostgresServer) -> Iterator[str]:
    """A database of this test."""
    made = name()
    server.execute(f"CREATE DATABASE {made}")
    yield made
    server.execute(f"DROP DATABASE {made} WITH (FORCE)")


@pytest.mark.slow
def test_a_file_that_may_not_grow_refuses_an_append_and_keeps_the_log(server: PostgresServer, database: str) -> None:
    """As on a full disk, where this user may mount none."""
    place = server.url(name(), database=database)
    log = ENGINE.create(place, [note("one")])
    log.append([note("two")])
    server.execute(
        "INSERT INTO rbank.event SELECT 0, n, gen_random_uuid(), 'x', NULL, '', (SELECT string_agg(sha256((n * 60 + k)"
        "::text::bytea), '') FROM generate_series(1, 60) k) FROM generate_series(1, 9000) n",
        database,
    )
    server.restart(file_bytes=17 * 2**20)
    try:
        for writer in (log, ENGINE.open(place)):
            with pytest.raises(errors.LogUnavailable, match="could not extend file .*the log is as it was"):
                for _ in range(60):
                    writer.append([note("x" * 1_900) for _ in range(30)])
            end = writer.position()
            assert writer.verify().events == end
    finally:
        server.restart(file_bytes=resource.RLIM_INFINITY)
    assert log.append([note("more")]).first == end + 1


def test_a_server_that_is_too_slow_for_its_own_limit_is_told(server: PostgresServer, database: str) -> None:
    """A statement that the server cancels left no trace; the writer goes on when the server is quicker."""
    bank = name()
    ENGINE.create(server.url(bank, database=database), [note("one")])
    server.execute(f"ALTER DATABASE {database} SET statement_timeout = '200ms'")
    # Options of its own: connections that are there keep their session's settings.
    log = ENGINE.open(server.url(bank, database=database) + "&application_name=slow")
    log.append([note("two")])
    with psycopg.connect(server.conninfo(database)) as slow:
        slow.execute("SELECT FROM rbank.bank FOR UPDATE")
        for _ in range(2):
            with pytest.raises(errors.LogUnavailable, match="statement timeout; the log is as it was"):
                log.append([note("three")])
    assert log.append([note("three")]).last == 3


def test_writers_of_a_serializable_database_come_in(server: PostgresServer, database: str) -> None:
    """Where transactions fail because of others, they are made again; a lease excludes as elsewhere."""
    bank = name()
    ENGINE.create(server.url(bank, database=database))
    server.execute(f"ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'")
    logs = [ENGINE.open(server.url(bank, database=database) + f"&application_name=w{number}") for number in range(4)]
    made = at_once(*[lambda log=log: [log.append([note("x")]).last for _ in range(8)] for log in logs])
    assert sorted(sum(made, [])) == list(range(1, 33)) and logs[0].verify().events == 32
    with logs[0].exclusive("a"), pytest.raises(errors.LogBusy), logs[1].exclusive("a"):
        pass


def test_an_append_that_was_the_victim_of_a_deadlock_is_made_again(server: PostgresServer, database: str) -> None:
    """With a transaction of the owner's, who locks tables in another order."""
    bank = name()
    ENGINE.create(server.url(bank, database=database), [note("one")])
    server.execute(f"ALTER DATABASE {database} SET deadlock_timeout = '300ms'")
    log = ENGINE.open(server.url(bank, database=database) + "&application_name=victim")
    with psycopg.connect(server.conninfo(database)) as owner:
        owner.execute("SET deadlock_timeout = '60s'")
        owner.execute("LOCK TABLE rbank.event IN SHARE MODE")
        thread = threading.Thread(target=log.append, args=([note("two")],))
        thread.start()
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%rbank.append%'"
        while not server.execute(waiting):
            time.sleep(0.01)
        owner.execute("SELECT FROM rbank.bank FOR UPDATE")  # the writer has it, and waits for the table
    thread.join()
    assert log.verify().events == 2
    log.close()  # a session counts what it met when it ends, else seconds later
    met = f"SELECT 1 FROM pg_stat_database WHERE datname = '{database}' AND deadlocks = 1"
    wait_until(lambda: bool(server.execute(met)))


@pytest.mark.slow
def test_a_replica_that_is_behind_is_read_and_never_written_behind(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers, and a change from one to the other by hand: what the second lacks is no end to write behind."""
    monkeypatch.setattr(postgres_limits, "RETRY_S", 0.3)
    bank = name()
    ENGINE.create(server.url(bank), [note("one")])
    replica = PostgresServer(server.binaries, replica_of=server)
    try:
        with Relay(server.home, tmp_path) as relay:
            url = server.url(bank, host=str(relay.folder))
            log = ENGINE.open(url)
            wait_until(lambda: ENGINE.open(replica.url(bank)).position() == 1)
            replica.execute("ALTER SYSTEM SET primary_conninfo = ''")
            replica.execute("SELECT pg_reload_conf()")
            wait_until(lambda: not replica.execute("SELECT pid FROM pg_stat_wal_receiver"))
            log.append([note("two")])
            log.close()
            relay.server = replica.home
            stale = ENGINE.open(url)
            assert log.position() == stale.position() == 1 and stale.verify().events == 1
            with pytest.raises(errors.LogUnavailable, match=r"as a replica does \(.*recovery\); name the one"):
                stale.append([note("three")])
            replica.execute("SELECT pg_promote(true, 30)")
            log.close()
            for writer in (log, stale, ENGINE.open(url)):
                with pytest.raises(LogBehind, match="lacks position 2"):
                    writer.append([note("another two")])
            assert log.position() == 1
    finally:
        replica.remove()
