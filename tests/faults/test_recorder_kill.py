"""A process that records runs is killed at any moment: nothing acknowledged is lost, nothing is doubled."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.bank.run_locks import close_left_runs
from rbank_es.events import RunFinished, RunJudged, RunStarted, ToolCalled

WRITER = """
import sys
from rbank_es import Bank
say = lambda *facts: (print(*facts, flush=True))
with Bank.open(sys.argv[1]) as bank:
    while True:
        with bank.record("Which lamps are lit?") as run:
            say("began", run.id)
            run.recall()
            for number in range(5):
                run.tool("search", {"n": number}, "hall " * 20)
                say("called", run.id, number)
            run.finish("the hall's")
        say("ended", run.id)
        run.judge(True, by="tests")
        say("judged", run.id)
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_killed_at_random_a_recorder_loses_and_doubles_nothing(tmp_path: Path) -> None:
    dice, told = random.Random(7), list[list[str]]()
    Bank.create(tmp_path / "bank").close()
    for _ in range(20):
        heard = tmp_path / "heard"
        with heard.open("w") as out:
            writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "bank")], stdout=out)
            while not heard.stat().st_size and writer.poll() is None:
                time.sleep(0.005)
            time.sleep(dice.uniform(0, 1.2))
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()
        # What was printed when it was killed may be half a line.
        told += [line.split() for line in heard.read_text().rpartition("\n")[0].splitlines()]
    with Bank.open(tmp_path / "bank") as bank:
        closed = close_left_runs(bank)
        events = list(bank.events(resolve=True))
        starts = Counter(event.run for event in events if isinstance(event, RunStarted))
        ends = Counter(event.run for event in events if isinstance(event, RunFinished))
        calls = Counter((e.run, json.loads(str(e.arguments))["n"]) for e in events if isinstance(e, ToolCalled))
        judged = Counter(event.run for event in events if isinstance(event, RunJudged))
        assert max((*starts.values(), *ends.values(), *calls.values(), *judged.values())) == 1
        assert starts.keys() == ends.keys() and {run for kind, run, *_ in told if kind == "began"} <= starts.keys()
        assert {(run, int(rest[0])) for kind, run, *rest in told if kind == "called"} <= calls.keys()
        acknowledged = {run for kind, run, *_ in told if kind == "ended"}
        codes = {event.run: event.error_code for event in events if isinstance(event, RunFinished)}
        assert all(codes[run] is None for run in acknowledged)
        assert {run for kind, run, *_ in told if kind == "judged"} <= judged.keys()
        assert set(codes.values()) == {None, "process_ended"} and set(closed) <= codes.keys()
        assert 0 < list(codes.values()).count("process_ended") <= 20
        assert bank.check(retrievals=True).events == bank.position
        assert close_left_runs(bank) == ()
