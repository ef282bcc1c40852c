"""Appends a second of many writers at a PostgreSQL server, beside plain INSERTs of the same bytes and banks in files.

`python -m benchmarks.server_writers FOLDER-OF-SERVER-PROGRAMS [SECONDS]` starts a server of its own, for one that adds
nothing to a sync and for one that adds 5 ms (`commit_delay`): where a sync is nearly free, Python is measured. Each
figure is the median of three rounds, in which the contestants take turns, because others may use the machine. Then
come the bytes of a stored event, and the seconds until another process sees one.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg

from rbank_es import Bank
from rbank_es.log.postgres.postgres_engine import ENGINE
from rbank_es.testing import note
from tests.postgres_server import PostgresServer

SHAPES = ((1, 1), (8, 1), (32, 1), (8, 8), (32, 32), (8, 1000))
"""Writers and banks."""
_FORK = multiprocessing.get_context("fork")
_SEEN_EVENTS = 40
_ROUNDS = 3

Act = Callable[[int], object]


def _ours(server: PostgresServer, folder: Path, number: int, banks: range) -> Act:
    logs = [ENGINE.open(server.url(f"b{each}")) for each in banks]
    return lambda turn: logs[turn % len(logs)].append([note(f"{number}:{turn} " * 20, run=f"w{number}")])


def _inserts(server: PostgresServer, folder: Path, number: int, banks: range) -> Act:
    db = psycopg.connect(server.conninfo(), autocommit=True)
    line = b"x" * 480
    return lambda turn: db.execute("INSERT INTO plain (line) VALUES (%s)", [line])


def _files(server: PostgresServer, folder: Path, number: int, banks: range) -> Act:
    logs = [Bank.open(folder / f"b{each}").log for each in banks]
    return lambda turn: logs[turn % len(logs)].append([note(f"{number}:{turn} " * 20, run=f"w{number}")])


CONTESTANTS = {"rbank-es": _ours, "plain INSERT": _inserts, "files": _files}


def _write(act_of: Callable[[], Act], seconds: float, start: Barrier, done: Queue[int]) -> None:
    act, turn = act_of(), 0
    act(turn)
    start.wait()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        turn += 1
        act(turn)
    done.put(turn)


def rate(name: str, server: PostgresServer, folder: Path, writers: int, banks: int, seconds: float) -> float:
    """Return the appends a second of so many processes, each on its share of the banks."""
    start, done = _FORK.Barrier(writers), _FORK.Queue()

    def process(number: int) -> None:
        share = range(number % banks, banks, writers)
        _write(lambda: CONTESTANTS[name](server, folder, number, share), seconds, start, done)

    processes = [_FORK.Process(target=process, args=(number,)) for number in range(writers)]
    for each in processes:
        each.start()
    total = sum(done.get() for _ in processes)
    for each in processes:
        each.join()
    return total / seconds


def sight_s(server: PostgresServer) -> list[float]:
    """Return the seconds from each of some acknowledgements until a process that follows the bank has the event."""
    ENGINE.create(server.url("seen"))
    seen: Queue[float] = _FORK.Queue()

    def follow() -> None:
        log, position = ENGINE.open(server.url("seen")), 0
        while position < _SEEN_EVENTS:
            log.wait(position, 60)
            for event in log.read(after=position):
                position = event.seq
                seen.put(time.monotonic())

    reader = _FORK.Process(target=follow)
    reader.start()
    log, chance, found = ENGINE.open(server.url("seen")), random.Random(7), list[float]()
    for turn in range(_SEEN_EVENTS):
        time.sleep(chance.random() * 2)
        log.append([note(str(turn))])
        acknowledged = time.monotonic()
        found.append(max(0.0, seen.get() - acknowledged))
    reader.join()
    return sorted(found)


def bytes_an_event(server: PostgresServer) -> tuple[float, float]:
    """Return the bytes of an event in its line, and with all that tables and indexes take for it."""
    size = "pg_total_relation_size('rbank.event') + pg_total_relation_size('rbank.text')"
    [(lines, stored)] = server.execute(f"SELECT avg(octet_length(line)), ({size})::float / count(*) FROM rbank.event")
    return float(lines), stored


def main(programs: Path, seconds: float) -> None:
    """Print a table for each of the two servers, and what else was measured."""
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
                    Bank.create(folder / f"b{each}", unsafe_no_sync=True).close()
                made = max(made, banks)
                ENGINE.open(server.url("b0")).close()  # connections are not for children
                rounds = [
                    {name: rate(name, server, folder, writers, banks, seconds) for name in CONTESTANTS}
                    for _ in range(_ROUNDS)
                ]
                medians = {name: statistics.median(each[name] for each in rounds) for name in CONTESTANTS}
                part = statistics.median(each["rbank-es"] / each["plain INSERT"] for each in rounds)
                shown = ", ".join(f"{name} {value:,.0f}" for name, value in medians.items())
                print(f"{writers} writers of {banks:,} banks: {shown}; {part:.2f} of plain INSERT", flush=True)
            print("bytes of an event: {:.0f} in its line, {:.0f} on the server".format(*bytes_an_event(server)))
            seen = sight_s(server)
            print(f"seconds until another sees an event: {statistics.median(seen):.3f}, at most {seen[-1]:.3f}")
        finally:
            server.remove()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 3.0)
