"""The server of these tests: one for each version that is here, started once, as an unprivileged user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.log.postgres.postgres_engine import ENGINE
from tests.postgres_server import Pooler, PostgresServer, binaries

MISSING = "no PostgreSQL server is installed (initdb, postgres): the tests of postgresql: banks are left out"


def left_out(reason: str) -> None:
    """Leave a test out with a reason; in CI, fail."""
    pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """The server of the newest version that is here."""
    found = binaries()
    if not found:
        left_out(MISSING)
    made = PostgresServer(list(found.values())[-1])
    yield made
    made.remove()


@pytest.fixture(scope="session")
def older() -> Iterator[PostgresServer]:
    """The server of the oldest version that is here."""
    found = binaries()
    if not found:
        left_out(MISSING)
    made = PostgresServer(next(iter(found.values())))
    yield made
    made.remove()


@pytest.fixture(scope="session")
def pooler(older: PostgresServer) -> Iterator[Pooler]:
    """A pgbouncer before the older server, with fewer connections than writers."""
    if not Pooler.is_here():
        left_out("pgbouncer is not installed: the tests of a pooler are left out")
    made = Pooler(older, connections=3)
    yield made
    made.close()


@pytest.fixture(scope="module", autouse=True)
def _connections_closed() -> Iterator[None]:
    yield
    for each in ENGINE.servers.values():
        each.close_idle()


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "cache"))
