"""Statements and their rows in one round trip: parameters of each type, errors, large parameters."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest
from psycopg import errors as states

from rbank_es.log.postgres.postgres_exchange import Connection, ServerCommand, exchange
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.xdist_group("postgres")

ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
VALUES: dict[str, list[object]] = {
    "bigint": [0, -(2**63), 2**63 - 1],
    "text": ["", "é\n'\\ {1,2}"],
    "bytea": [b"", b"\0\xff" * 3],
    "boolean": [True, False],
    "float8": [0.5],
    "uuid": [ID],
    "bigint[]": [[1, None, 3], [], [None]],
    "text[]": [["a", None, '{"b"}'], [], [None, None]],
    "bytea[]": [[b"\0", b""], [None, b"x"], [None]],
    "uuid[]": [[ID, ID], []],
}


@pytest.fixture
def db(server: PostgresServer) -> Iterator[Connection]:
    with psycopg.connect(server.conninfo(), autocommit=True) as opened:
        yield opened


def test_parameters_come_back_as_they_were_sent(db: Connection) -> None:
    for kind, values in VALUES.items():
        for value in (*values, None):
            assert exchange(db, [ServerCommand(f"SELECT $1::{kind}", [value])]) == [[(value,)]], kind
    assert exchange(db, [ServerCommand("SELECT 5 < $1", [2**80])]) == [[(True,)]]  # a position that no log reaches
    with pytest.raises(TypeError, match="can't be a dict"):
        exchange(db, [ServerCommand("SELECT $1", [{}])])
    large = b"x" * 2**24
    assert exchange(db, [ServerCommand("SELECT $1::bytea", [large]), ServerCommand("SELECT 2")]) == [[(large,)], [(2,)]]


def test_what_comes_behind_an_error_is_not_run(db: Connection) -> None:
    """And the connection goes on; one that broke says so."""
    exchange(db, [ServerCommand("CREATE TEMP TABLE seen (number bigint)")])
    failing = [ServerCommand("INSERT INTO seen VALUES (1 / $1)", [0]), ServerCommand("INSERT INTO seen VALUES (2)")]
    with pytest.raises(states.DivisionByZero):
        exchange(db, failing)
    assert exchange(db, [ServerCommand("SELECT count(*) FROM seen")]) == [[(0,)]]
    with pytest.raises(psycopg.OperationalError):
        exchange(db, [ServerCommand("SELECT pg_terminate_backend(pg_backend_pid())"), ServerCommand("SELECT 1")])
    with pytest.raises(psycopg.OperationalError):
        exchange(db, [ServerCommand("SELECT 1")])
