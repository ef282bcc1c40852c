"""The engine of banks on a server keeps the contract: directly, and through a pooler in transaction mode."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.log import EventLog, ancestry, lines
from rbank_es.log.postgres.postgres_engine import ENGINE
from rbank_es.log.postgres.postgres_log import PostgresLog
from rbank_es.testing import EventLogContract
from tests.postgres_server import Pooler, PostgresServer

pytestmark = pytest.mark.xdist_group("postgres")


@pytest.mark.slow
class TestPostgresLog(EventLogContract):
    """At the newest server, directly."""

    engine = ENGINE

    @pytest.fixture(autouse=True)
    def _place(self, server: PostgresServer) -> Iterator[None]:
        self.server, self.host, self.port = server, "", ""
        yield
        self.close_logs()

    def free_place(self) -> str:
        return self.server.url(f"b{os.urandom(8).hex()}", host=self.host, port=self.port)

    def stored_bytes(self, log: EventLog) -> bytes:
        if not isinstance(log, PostgresLog):  # a copy on this machine
            return b"".join(path.read_bytes() for path in Path(log.place).iterdir())
        found = [
            line
            for table in ("event", "text")
            for (line,) in self.server.execute(f"SELECT line FROM rbank.{table} WHERE bank = {log.number}")
        ]
        return b"".join(found)

    def replace_last_line(self, log: EventLog, line: bytes) -> None:
        assert isinstance(log, PostgresLog)
        whole = lines.close_line(line[: -lines.CRC_TAIL], lines.seed_of(ancestry.lineage_of(log)))[:-1]
        self.server.execute(
            f"UPDATE rbank.event e SET line = '\\x{whole.hex()}' FROM rbank.bank b"
            f" WHERE b.no = {log.number} AND e.bank = b.no AND e.seq = b.seq"
        )


class TestPostgresLogBehindPooler(TestPostgresLog):
    """At the oldest server, through pgbouncer, whose pool is smaller than the number of writers."""

    @pytest.fixture(autouse=True)
    def _place(self, older: PostgresServer, pooler: Pooler) -> Iterator[None]:
        self.server, self.host, self.port = older, str(pooler.folder), "6432"
        yield
        self.close_logs()
