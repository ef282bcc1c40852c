"""Writers that are killed: processes that append for ever, and what is missing behind them."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from rbank_es.errors import LogUnavailable
from rbank_es.log.postgres.postgres_engine import ENGINE
from rbank_es.testing import note

# Forked from a process that has loaded all: a writer begins within milliseconds.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])


def _write(url: str, number: int, folder: Path, turn: int) -> None:
    """Append for ever; note what was sent, and what was acknowledged."""
    os.environ["RBANK_CACHE"] = str(folder / "cache")
    os.dup2(os.open(folder / "errors", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    log = None
    while log is None:
        with suppress(LogUnavailable):  # the server restarts
            log = ENGINE.open(url)
    with (folder / f"sent{number}").open("ab", 0) as sent, (folder / f"acked{number}").open("ab", 0) as acked:
        while True:
            turn += 1
            own = turn % 2  # ids of the writer's own, or drawn by the engine
            ids = [turn * 1000 + number * 10 + i if own else None for i in range(3)]
            sent.write(b"%d\n" % turn)
            log.append([note(f"{number}:{turn}:{i}", event, run=f"w{number}") for i, event in enumerate(ids)])
            acked.write(b"%d\n" % turn)


class Writers:
    """Processes that append for ever, each with the record of what it sent and what was acknowledged to it.

    They share out some banks, each writing to one.
    """

    def __init__(self, urls: Sequence[str], folder: Path, count: int) -> None:
        self._urls, self.folder = urls, folder
        self._turns, self._begun = Counter[int](), Counter[int]()
        self._processes = {number: self._start(number) for number in range(count)}

    def _start(self, number: int) -> BaseProcess:
        self._turns[number] += 100_000
        self._begun[number] = self._acked_bytes(number)
        given = (self._urls[number % len(self._urls)], number, self.folder, self._turns[number])
        process = _PROCESSES.Process(target=_write, args=given, daemon=True)
        process.start()
        return process

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
        self._processes[number].join()
        self._processes[number] = self._start(number)

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.join()

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
