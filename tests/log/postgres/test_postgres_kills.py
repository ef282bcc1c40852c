"""Writers are killed, the server crashes: what was acknowledged is there, whole and once."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.log.postgres import postgres_server
from rbank_es.log.postgres.postgres_engine import ENGINE
from rbank_es.testing import note
from tests.postgres_server import Pooler, PostgresServer, binaries
from tests.postgres_writers import Writers, wait_for, wait_until

pytestmark = [pytest.mark.xdist_group("postgres-kills"), pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that may be broken."""
    found = binaries()
    made = PostgresServer(next(iter(found.values())), wal_writer_delay="10s", max_connections="40")
    yield made
    made.remove()


def test_nothing_acknowledged_is_lost_when_writers_and_the_server_are_killed(
    own_server: PostgresServer, tmp_path: Path
) -> None:
    """Ten processes write one bank through a pooler with a smaller pool; all are killed, and the server crashes."""
    pooler = Pooler(own_server, connections=4)
    url = own_server.url("one", host=str(pooler.folder), port="6432")
    ENGINE.create(url)
    writers = Writers([url], tmp_path, 10)
    chance = random.Random(7)
    wait_for(writers, 30)
    for turn in range(12):
        writers.kill_one(chance)
        if turn % 5 == 4:
            own_server.crash_and_start()
        wait_for(writers, 5)
    writers.stop()
    pooler.close()
    log = ENGINE.open(own_server.url("one"))
    faults = writers.faults([own_server.url("one")])
    assert (faults["lost"], faults["partial"], faults["doubled"]) == (0, 0, 0), faults
    assert faults["acknowledged"] > 80 and log.verify().events == log.position()


def test_a_commit_that_a_crash_took_before_its_flush_is_made_again(
    own_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where writers contend, the flush comes after the commit: a crash between the two breaks its connection."""
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "cache"))
    url = own_server.url("one")
    log, other = ENGINE.create(url, [note("one")]), ENGINE.open(url)
    log.append([note("two")])
    other.append([note("three")])
    log.append([note("four")])  # the other was quicker: from now on this one waits for the disk behind the lock
    soon = postgres_server.FLUSH
    monkeypatch.setattr(postgres_server, "FLUSH", f"pg_sleep(60), {soon}")
    thread = threading.Thread(target=log.append, args=([note("five")],))
    thread.start()
    flushing = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"
    wait_until(lambda: bool(own_server.execute(flushing)))
    assert other.position() == 5
    monkeypatch.setattr(postgres_server, "FLUSH", soon)
    own_server.crash_and_start()
    thread.join()
    own_server.crash_and_start()
    assert [getattr(event, "note", "") for event in ENGINE.open(url).read()] == ["one", "two", "three", "four", "five"]
