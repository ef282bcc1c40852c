"""Writers are killed, the server crashes: what was acknowledged is there, whole and once. The controls lose some."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rbank_es.log.postgres import postgres_server
from rbank_es.log.postgres.postgres_engine import ENGINE
from rbank_es.log.rows.row_log import RowLog
from rbank_es.testing import note
from tests.cli_runner import ROOT
from tests.postgres_server import Pooler, PostgresServer, binaries

pytestmark = [pytest.mark.xdist_group("postgres-kills"), pytest.mark.slow, pytest.mark.timeout(240)]

WRITER = """
import os, sys
from rbank_es.log.postgres.postgres_engine import ENGINE
from rbank_es.log.postgres.postgres_server import Server
from rbank_es.testing import event_id, note

url, number, folder, synced = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "synced"
if not synced:  # the control: acknowledged before the disk has it
    real = Server.once
    Server.once = lambda self, statement, values: real(
        self, statement, [*values[:-2], False, values[-1]] if "append" in statement else values
    )
log = ENGINE.open(url)
acked = open(f"{folder}/acked{number}", "ab", 0)
turn = int(sys.argv[5])
while True:
    turn += 1
    own = turn % 2  # ids of the writer's own, or drawn by the engine
    ids = [number * 10**7 + turn * 10 + i if own else None for i in range(3)]
    with open(f"{folder}/sent{number}", "ab", 0) as sent:
        sent.write(b"%d\\n" % turn)
    log.append([note(f"{number}:{turn}:{i}", event, run=f"w{number}") for i, event in enumerate(ids)])
    acked.write(b"%d\\n" % turn)
"""


class Writers:
    """Processes that append for ever, each with the record of what it sent and what was acknowledged to it."""

    def __init__(self, url: str, folder: Path, count: int, *, synced: bool = True) -> None:
        self.url, self.folder, self._synced = url, folder, synced
        self._turns = Counter[int]()
        self._processes = {number: self._start(number) for number in range(count)}

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        self._turns[number] += 100_000
        given = [self.url, str(number), str(self.folder), "synced" if self._synced else "not", str(self._turns[number])]
        with (self.folder / "errors").open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-c", WRITER, *given],
                cwd=ROOT,
                stderr=errors,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )

    def kill_one(self, chance: random.Random) -> None:
        number = chance.choice(sorted(self._processes))
        self._processes[number].kill()
        self._processes[number].wait()
        self._processes[number] = self._start(number)

    def stop(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGKILL)
            process.wait()

    def turns(self, kind: str) -> list[tuple[int, int]]:
        found = [(number, self.folder / f"{kind}{number}") for number in self._processes]
        return [(n, int(line)) for n, path in found if path.exists() for line in path.read_text().split()]

    def faults(self, log: RowLog) -> Counter[str]:
        """Return how many acknowledged groups are lost, and how many are partial or doubled."""
        notes = Counter(str(getattr(event, "note", "")) for event in log.read())
        faults = Counter[str](acknowledged=len(self.turns("acked")), lost=0, partial=0, doubled=0)
        for number, turn in self.turns("sent"):
            seen = [notes[f"{number}:{turn}:{i}"] for i in range(3)]
            faults["partial"] += len(set(seen)) > 1
            faults["doubled"] += max(seen) > 1
        faults["lost"] = sum(notes[f"{number}:{turn}:0"] == 0 for number, turn in self.turns("acked"))
        return faults


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that may be broken."""
    found = binaries()
    made = PostgresServer(next(iter(found.values())), wal_writer_delay="10s", max_connections="40")
    yield made
    made.remove()


def wait_for(writers: Writers, more: int) -> None:
    """Wait until so many more groups were acknowledged."""
    wanted = len(writers.turns("acked")) + more
    wait_until(lambda: len(writers.turns("acked")) >= wanted, writers.folder / "errors")


def wait_until(holds: Callable[[], bool], errors: Path | None = None) -> None:
    """Wait for a condition; where it takes too long, show the end of a file of errors."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, errors and errors.read_text()[-2000:]
        time.sleep(0.05)


def test_nothing_acknowledged_is_lost_when_writers_and_the_server_are_killed(
    own_server: PostgresServer, tmp_path: Path
) -> None:
    """Ten processes write one bank through a pooler with a smaller pool; all are killed, and the server crashes."""
    pooler = Pooler(own_server, connections=4)
    url = own_server.url("one", host=str(pooler.folder), port="6432")
    ENGINE.create(url)
    writers = Writers(url, tmp_path, 10)
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
    faults = writers.faults(log)
    assert (faults["lost"], faults["partial"], faults["doubled"]) == (0, 0, 0), faults
    assert faults["acknowledged"] > 80 and log.verify().events == log.position()


def test_without_the_sync_acknowledged_groups_are_lost(own_server: PostgresServer, tmp_path: Path) -> None:
    """The control of the test above: the same crash takes what was acknowledged before the disk had it."""
    for attempt in range(5):  # a server may have written all a moment before
        url, folder = own_server.url(f"one{attempt}"), tmp_path / str(attempt)
        folder.mkdir()
        ENGINE.create(url)
        writers = Writers(url, folder, 1, synced=False)
        wait_for(writers, 200)
        own_server.crash_and_start()
        writers.stop()
        faults = writers.faults(ENGINE.open(url))
        if faults["lost"]:
            break
    assert faults["lost"] > 0 and (faults["partial"], faults["doubled"]) == (0, 0), faults


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
