"""Faults of a server and of the way to it: slow, torn, full, serializable, behind, cut off in time."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
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


def test_an_append_takes_one_round_trip_alone_and_two_among_others(server: PostgresServer, tmp_path: Path) -> None:
    """Who met another asks for the lock first, until nobody else wrote meanwhile."""
    bank = name()
    ENGINE.create(server.url(bank), [note("one")])
    with Relay(server.home, tmp_path) as relay:
        log, other = (ENGINE.open(server.url(bank, host=str(relay.folder))) for _ in range(2))
        for writer in (log, other, log, other):
            writer.append([note("more")])

        def trips() -> int:
            before = relay.trips
            log.append([note("and more")])
            return relay.trips - before

        assert [trips(), trips(), trips()] == [2, 2, 1]  # behind the other, behind itself, and so on
        other.append([note("in between")])
        assert trips() == 3  # one in vain
        other.append([note("again")])
        assert trips() == 2


def test_a_connection_that_is_torn_behind_the_commit_is_answered(server: PostgresServer, tmp_path: Path) -> None:
    """In one round trip, and in two among other writers: the events are there once, and the append returns them."""
    bank = name()
    ENGINE.create(server.url(bank), [note("one")])
    with Relay(server.home, tmp_path) as relay:
        log, other = (ENGINE.open(server.url(bank, host=str(relay.folder))) for _ in range(2))
        log.append([note("two")])
        relay.break_behind(b"rbank.append")
        assert log.append([note("three")]).last == 3 and relay.is_broken
        other.append([note("four")])
        log.append([note("five")])
        relay.break_behind(b"rbank.append")
        assert log.append([note("six"), note("seven")]).first == 6 and relay.is_broken
    assert ENGINE.open(server.url(bank)).verify().events == 7


@pytest.fixture
def small_disk(server: PostgresServer) -> Iterator[Path]:
    """A disk of 24 MiB that is the server's; left out where this user may mount none."""
    folder = server.home / name()
    folder.mkdir()
    options = f"size=24m,uid={server.home.stat().st_uid}"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
def test_a_disk_that_is_full_refuses_an_append_and_keeps_the_log(server: PostgresServer, small_disk: Path) -> None:
    """In one round trip as in two; what the server said is told. With room again, the same handles go on."""
    made = name()
    server.execute(f"CREATE TABLESPACE {made} LOCATION '{small_disk}'")
    server.execute(f"CREATE DATABASE {made} TABLESPACE {made}")
    place, filler = server.url(name(), database=made), small_disk / "filler"
    log = ENGINE.create(place, [note("one")])
    log.append([note("two")])
    filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - 2**17))
    try:
        for writer in (log, ENGINE.open(place)):
            with pytest.raises(errors.LogUnavailable, match="No space left on device; the log is as it was"):
                for _ in range(60):
                    writer.append([note("x" * 1_900) for _ in range(30)])
            end = writer.position()
            assert writer.verify().events == end
        filler.unlink()
        assert log.append([note("more")]).first == end + 1
    finally:
        log.close()
        server.execute(f"DROP DATABASE {made} WITH (FORCE)")
        server.execute(f"DROP TABLESPACE {made}")


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


def test_a_password_is_found_by_the_ways_of_libpq(
    server: PostgresServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one, or with a wrong one, the server's reason is told, and no password."""
    place = server.url(name(), database=database)
    ENGINE.create(place, [note("one")])
    server.execute(f"CREATE ROLE {database} LOGIN SUPERUSER PASSWORD 'right-one'")
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all {database} scram-sha-256\n{before}")
    server.execute("SELECT pg_reload_conf()")
    locked = place.replace("postgres@", f"{database}@", 1)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    try:
        with pytest.raises(errors.LogUnavailable, match="no password supplied"):
            ENGINE.open(locked)
        monkeypatch.setenv("PGPASSWORD", "wrong-one")
        with pytest.raises(errors.LogUnavailable, match="password authentication failed") as refused:
            ENGINE.open(locked)
        assert "wrong-one" not in str(refused.value)
        monkeypatch.delenv("PGPASSWORD")
        (tmp_path / "pgpass").write_text(f"*:*:*:{database}:right-one\n")
        (tmp_path / "pgpass").chmod(0o600)
        log = ENGINE.open(locked)
        assert log.append([note("two")]).last == 2
        log.close()
    finally:
        rules.write_text(before)
        server.execute("SELECT pg_reload_conf()")
        server.execute(f"DROP ROLE {database}")


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
