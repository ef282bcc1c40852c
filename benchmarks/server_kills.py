"""Kills of writers and crashes of a PostgreSQL server, in the large: what was acknowledged must be there, once.

`python -m benchmarks.server_kills FOLDER-OF-SERVER-PROGRAMS [KILLS [CRASHES]]`, 500 and 20 unless given. Writers of one
bank wait for the disk behind the lock, writers of a bank each do in the commit. The controls must lose and skip some:
acknowledging before the disk has it, and reading behind the highest number of a `bigserial`.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import psycopg

from rbank_es.log.postgres.postgres_engine import ENGINE
from tests.postgres_server import PostgresServer
from tests.postgres_writers import Writers, wait_for

WRITERS = 10


def killed(server: PostgresServer, folder: Path, banks: int, kills: int, crashes: int, synced: bool) -> Counter[str]:
    """Return the faults of writers that were killed, at a server that crashed."""
    urls = [server.url(f"{folder.name}-{number}") for number in range(banks)]
    for url in urls:
        ENGINE.create(url)
    writers, chance = Writers(urls, folder, WRITERS, synced=synced), random.Random(7)
    wait_for(writers, WRITERS)
    every = max(1, kills // max(1, crashes))
    for turn in range(1, kills + 1):
        writers.kill_one(chance)
        time.sleep(chance.random() / 10)
        if turn % every == 0 and turn // every <= crashes:
            server.crash_and_start()
            wait_for(writers, WRITERS)
    writers.stop()
    for url in urls:
        ENGINE.open(url).verify()
    return writers.faults(urls)


def skipped(server: PostgresServer, seconds: float) -> tuple[int, int]:
    """Return how many rows a reader of a `bigserial` never saw, of how many."""
    server.execute("CREATE TABLE naive (no bigserial PRIMARY KEY)")
    end, seen, last = time.monotonic() + seconds, 0, 0

    def write() -> None:
        with psycopg.connect(server.conninfo(), autocommit=True) as db:
            while time.monotonic() < end:
                db.execute("INSERT INTO naive DEFAULT VALUES")

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    with psycopg.connect(server.conninfo(), autocommit=True) as db:
        while time.monotonic() < end + 1:
            rows = db.execute("SELECT no FROM naive WHERE no > %s ORDER BY no", (last,)).fetchall()
            seen, last = seen + len(rows), rows[-1][0] if rows else last
    for thread in threads:
        thread.join()
    [(total,)] = server.execute("SELECT count(*) FROM naive")
    return total - seen, total


def main(programs: Path, kills: int, crashes: int) -> None:
    """Print the faults of both modes and of the controls."""
    server = PostgresServer(programs, wal_writer_delay="10s")
    os.environ["RBANK_CACHE"] = tempfile.mkdtemp()
    modes = (("one bank", 1, kills, True), ("a bank each", WRITERS, kills, True), ("no sync", WRITERS, crashes, False))
    try:
        for what, banks, count, synced in modes:
            faults = killed(server, Path(tempfile.mkdtemp()), banks, count, crashes, synced)
            print(f"{what}, {count} kills and {crashes} crashes: {dict(faults)}", flush=True)
        missed, total = skipped(server, 5)
        print(f"a reader of a bigserial skipped {missed:,} of {total:,}")
    finally:
        server.remove()


if __name__ == "__main__":
    given = [int(number) for number in sys.argv[2:]]
    main(Path(sys.argv[1]), *(given + [500, 20][len(given) :]))
