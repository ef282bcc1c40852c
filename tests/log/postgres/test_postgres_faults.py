"""Faults of a server and of the way to it: slow, torn, full, serializable, behind, cut off in time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rbank_es.log.postgres.postgres_engine import ENGINE
from rbank_es.testing import note
from tests.postgres_relay import Relay
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.xdist_group("postgres")


def name() -> str:
    return f"b{os.urandom(6).hex()}"


def test_an_append_takes_one_round_trip_alone_and_two_among_others(server: PostgresServer, tmp_path: Path) -> None:
    """Told by the time that a slow network takes. Who met another asks for the lock first, until nobody else wrote."""
    bank = name()
    ENGINE.create(server.url(bank), [note("one")])
    with Relay(server.home, tmp_path) as relay:
        log, other = (ENGINE.open(server.url(bank, host=str(relay.folder))) for _ in range(2))
        for writer in (log, other, log, other):
            writer.append([note("more")])

        def trips() -> float:
            begun = time.monotonic()
            log.append([note("and more")])
            return (time.monotonic() - begun) / (2 * relay.delay_s)

        relay.delay_s = 0.1
        assert 2 <= trips() < 2.9  # another wrote since the last one
        assert 2 <= trips() < 2.9  # nobody did
        assert 1 <= trips() < 1.9
        other.append([note("in between")])
        assert 3 <= trips() < 3.9  # one in vain
        other.append([note("again")])
        assert 2 <= trips() < 2.9
