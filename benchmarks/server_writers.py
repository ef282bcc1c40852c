"""Appends a second of many writers at a PostgreSQL server, beside plain INSERTs of the same bytes and banks in files.

`python -m benchmarks.server_writers FOLDER-OF-SERVER-PROGRAMS [SECONDS]` starts a server of its own, for one that adds
nothing to a sync and for one that adds 5 ms (`commit_delay`): where a sync is nearly free, Python is measured.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg

from rbank_es import Bank
from rbank_es.log.postgres.postgres_engine import ENGINE
from rbank_es.testing import note
from tests.postgres_server import PostgresServer

SHAPES = ((1, 1), (8, 1), (8, 8), (8, 200))
"""Writers and banks."""


def _ours(server: PostgresServer, folder: Path, number: int, banks: int) -> Callable[[int], object]:
    logs = [ENGINE.open(server.url(f"b{each}")) for each in range(number % banks, banks, 8)]
    return lambda turn: logs[turn % len(logs)].append([note(f"{number}:{turn} " * 20, run=f"w{number}")])


def _inserts(server: PostgresServer, folder: Path, number: int, banks: int) -> Callable[[int], object]:
    db = psycopg.connect(server.conninfo(), autocommit=True)
    line = b"x" * 480
    return lambda turn: db.execute("INSERT INTO plain (line) VALUES (%s)", [line])


def _files(server: PostgresServer, folder: Path, number: int, banks: int) -> Callable[[int], object]:
    logs = [Bank.open(folder / f"b{each}").log for each in range(number % banks, banks, 8)]
    return lambda turn: logs[turn % len(logs)].append([note(f"{number}:{turn} " * 20, run=f"w{number}")])


CONTESTANTS = {"rbank-es": _ours, "plain INSERT": _inserts, "files": _files}


def _write(
    name: str,
    server: PostgresServer,
    folder: Path,
    number: int,
    banks: int,
    seconds: float,
    start: Barrier,
    done: object,
) -> None:
    act, turn = CONTESTANTS[name](server, folder, number, banks), 0
    act(turn)
    start.wait()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        turn += 1
        act(turn)
    done.put(turn)  # type: ignore[attr-defined]


def rate(name: str, server: PostgresServer, folder: Path, writers: int, banks: int, seconds: float) -> float:
    """Return the appends a second of so many processes, each on its share of the banks."""
    context = multiprocessing.get_context("fork")
    start, done = context.Barrier(writers), context.Queue()
    processes = [
        context.Process(target=_write, args=(name, server, folder, number, banks, seconds, start, done))
        for number in range(writers)
    ]
    for process in processes:
        process.start()
    total = sum(done.get() for _ in processes)
    for process in processes:
        process.join()
    return total / seconds


def main(programs: Path, seconds: float) -> None:
    """Print a table for each of the two servers."""
    for added_us in ("0", "5000"):
        server = PostgresServer(programs, commit_delay=added_us, commit_siblings="0")
        folder = Path(tempfile.mkdtemp())
        os.environ["RBANK_CACHE"] = str(folder / "cache")
        try:
            server.execute("CREATE TABLE plain (no bigserial PRIMARY KEY, line bytea)")
            made = 0
            print(f"sync with {int(added_us) // 1000} ms added; appends a second")
            for writers, banks in SHAPES:
                for each in range(made, banks):
                    ENGINE.create(server.url(f"b{each}"))
                    Bank.create(folder / f"b{each}").close()
                made = max(made, banks)
                rates = {name: rate(name, server, folder, writers, banks, seconds) for name in CONTESTANTS}
                shown = ", ".join(f"{name} {value:,.0f}" for name, value in rates.items())
                print(f"{writers} writers of {banks:,} banks: {shown}", flush=True)
        finally:
            server.remove()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 3.0)
