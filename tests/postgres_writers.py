"""Writers that are killed: processes that append for ever, and what is missing behind them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from rbank_es.log.postgres.postgres_engine import ENGINE
from tests.cli_runner import ROOT

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
    """Processes that append for ever, each with the record of what it sent and what was acknowledged to it.

    They share out some banks, each writing to one.
    """

    def __init__(self, urls: Sequence[str], folder: Path, count: int, *, synced: bool = True) -> None:
        self._urls, self.folder, self._synced = urls, folder, synced
        self._turns, self._begun = Counter[int](), Counter[int]()
        self._processes = {number: self._start(number) for number in range(count)}

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        self._turns[number] += 100_000
        self._begun[number] = self._acked_bytes(number)
        url = self._urls[number % len(self._urls)]
        given = [url, str(number), str(self.folder), "synced" if self._synced else "not", str(self._turns[number])]
        with (self.folder / "errors").open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-c", WRITER, *given],
                cwd=ROOT,
                stderr=errors,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )

    def _acked_bytes(self, number: int) -> int:
        path = self.folder / f"acked{number}"
        return path.stat().st_size if path.exists() else 0

    def kill_one(self, chance: random.Random) -> None:
        """Kill a process that is past its first append, and start another in its place."""

        def at_work() -> list[int]:
            return [number for number in self._processes if self._acked_bytes(number) > self._begun[number]]

        wait_until(lambda: bool(at_work()), self.folder / "errors")
        number = chance.choice(at_work())
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

    def faults(self, urls: Sequence[str]) -> Counter[str]:
        """Return how many groups were acknowledged and how many of these are lost; how many are partial or doubled."""
        notes = Counter(str(getattr(event, "note", "")) for url in urls for event in ENGINE.open(url).read())
        faults = Counter[str](acknowledged=len(self.turns("acked")), lost=0, partial=0, doubled=0)
        for number, turn in self.turns("sent"):
            seen = [notes[f"{number}:{turn}:{i}"] for i in range(3)]
            faults["partial"] += len(set(seen)) > 1
            faults["doubled"] += max(seen) > 1
        faults["lost"] = sum(notes[f"{number}:{turn}:0"] == 0 for number, turn in self.turns("acked"))
        return faults


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
