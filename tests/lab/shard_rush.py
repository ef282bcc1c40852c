"""Processes that share an experiment's folder while some are killed and some stand still: `python -m … FOLDER SEED`.

No lock of theirs reaches the others, and their clocks differ by hours. It prints what happened to them, as JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from rbank_es.lab.experiment_plan import trials
from rbank_es.lab.shards import Shard
from rbank_es.lab.trial_place import TrialPlace
from tests.lab.trials import materials, pair, ran

PROCESSES, LEASE_S, ORDERS = 8, 0.8, 4
TASK_S = 0.2
"""The seconds of a task: a trial of two of them is caught in the middle."""


def work(given: Any, folder: Path, number: int) -> None:
    """Do what this shard can until every trial is published, without locks and with a clock of its own."""
    fcntl.flock = lambda *_: None  # type: ignore[assignment]
    fcntl.lockf = lambda *_: None  # type: ignore[assignment]
    real = time.time
    time.time = lambda: real() + 7_200 * (number - PROCESSES // 2)
    while published(given, folder) < given.experiment.trials:
        options: dict[str, Any] = {"on_task": lambda *_: time.sleep(TASK_S), "sleep": time.sleep}
        ran(given, folder, shard=Shard(number, PROCESSES), lease_s=LEASE_S, **options)
        time.sleep(0.1)


def published(given: Any, folder: Path) -> int:
    return sum(TrialPlace(folder, trial).bank.is_dir() for trial in trials(given.experiment))


def start(given: Any, folder: Path, number: int) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work(given, folder, number)
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(folder: Path, seed: int) -> None:
    rush = random.Random(seed)
    given = materials(folder.parent / "materials", pair(ORDERS))
    alive = {number: start(given, folder, number) for number in range(1, PROCESSES + 1)}
    happened = {"kills": 0, "stops": 0, "failed": 0}
    resumed: dict[int, float] = {}
    end = time.monotonic() + 240
    while alive and time.monotonic() < end:
        time.sleep(0.05)
        for number, process in list(alive.items()):
            if resumed.get(process, time.monotonic() + 1) < time.monotonic():
                os.kill(process, signal.SIGCONT)
                del resumed[process]
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                resumed.pop(process, None)
                happened["failed"] += status != 0
                del alive[number]
        if not alive or rush.random() > 0.2 or happened["kills"] + happened["stops"] > 16:
            continue
        number = rush.choice(sorted(alive))
        if rush.random() < 0.5:
            os.kill(alive[number], signal.SIGKILL)
            os.waitpid(alive[number], 0)
            resumed.pop(alive[number], None)
            alive[number] = start(given, folder, number)
            happened["kills"] += 1
        elif alive[number] not in resumed:
            os.kill(alive[number], signal.SIGSTOP)
            resumed[alive[number]] = time.monotonic() + 2 * LEASE_S  # longer than its claims last
            happened["stops"] += 1
    for process in alive.values():
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    print(json.dumps(happened | {"published": published(given, folder), "left": len(alive)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
