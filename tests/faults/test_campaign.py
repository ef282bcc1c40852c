"""A campaign of faults over every file that the project writes: log, lock, markers, receipts, indexes, read models and
exports get flipped bits, cuts, links, pipes, other owners and modes, and full disks.

Whatever was done, each use of the bank ends in time, with the right answer or an error of ours. The campaign prints
how often which file led to which outcome. `RBANK_CAMPAIGN_S` is how long it takes; its seed is fixed.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from rbank_es import Bank, limits
from rbank_es.errors import RBankError
from rbank_es.events import RunStarted
from rbank_es.events.codec import TYPES
from rbank_es.exchange.people_database import write_people_database
from rbank_es.log.file import run_index
from rbank_es.testing import note

SEED, USES_S, TICK_S = 20261122, 60, 0.01
SECONDS = float(os.environ.get("RBANK_CAMPAIGN_S", "60"))
SAMPLE = Path(__file__).resolve().parents[2] / "logs" / "sample"
QUERY = "count lighthouse query classes"
NOBODY = 65534

Fault = Callable[[Path, random.Random], object]


def flip(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes() or b"\0")
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def swap(path: Path, dice: random.Random) -> None:
    """Give the path to something else."""
    path.unlink()
    kind = dice.choice(["link", "zeros", "pipe", "folder"])
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "zeros" else path.parent.parent / "victim")


def give_away(path: Path, dice: random.Random) -> None:
    if os.geteuid() == 0 and dice.random() < 0.5:
        os.chown(path, NOBODY, NOBODY)
    path.chmod(dice.choice([0o000, 0o400, 0o666, 0o4777]))


FAULTS: dict[str, Fault] = {
    "flip": flip,
    "cut": lambda path, dice: os.truncate(path, dice.randrange(path.stat().st_size + 1)),
    "empty": lambda path, dice: os.truncate(path, 0),
    "zeros": lambda path, dice: path.write_bytes(bytes(dice.randrange(1, 10_000))),
    "noise": lambda path, dice: path.write_bytes(dice.randbytes(dice.randrange(1, 10_000))),
    "more": lambda path, dice: path.write_bytes(path.read_bytes() + dice.randbytes(dice.randrange(1, 3_000))),
    "swap": swap,
    "owner and mode": give_away,
    "gone": lambda path, dice: path.unlink(),
}


class Answers:
    """The answers of the sound bank, which it must give whatever was done to its files, unless it refuses."""

    def __init__(self, place: Path) -> None:
        with Bank.open(place) as bank:
            self.events = list(bank.log.read(resolve=TYPES))
            self.found = found(bank)
        self.run = next(event.run for event in self.events if isinstance(event, RunStarted))
        self.of_run = [event for event in self.events if getattr(event, "run", "") == self.run]

    def check(self, place: Path) -> None:
        """Use the bank in every way. Raises AssertionError for a wrong answer."""
        with Bank.open(place) as bank:
            assert list(bank.log.read(resolve=TYPES))[: len(self.events)] == self.events
            assert list(bank.log.read(run=self.run, resolve=TYPES)) == self.of_run
            assert found(bank) == self.found
            assert bank.log.seq_of_id(self.events[2].id) == 3
            assert bank.check().events >= len(self.events)
            assert bank.append(note("after")).last > len(self.events)
            assert found(bank) == self.found
            write_people_database(bank, place.parent / "out.sqlite", force=True)


def found(bank: Bank) -> list[tuple[str, str, float]]:
    return [(hit.id, hit.title, hit.score) for hit in bank.search(QUERY)]


def outcome_of(use: Callable[[], object], most_bytes: int | None = None) -> str:
    """Run a use in a process of its own; return its outcome: right, refused, WRONG, TRACEBACK or HANG.

    `most_bytes`: no file may grow past that, as on a full disk.
    """
    child = os.fork()
    if child == 0:
        signal.alarm(USES_S)
        code = 3
        try:
            if most_bytes is not None:
                fill_disk(most_bytes)
            use()
            code = 0
        except RBankError:
            code = 1
        except AssertionError:
            traceback.print_exc()
            code = 2
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return "HANG" if os.WTERMSIG(status) == signal.SIGALRM else "TRACEBACK"
    return ("right", "refused", "WRONG", "TRACEBACK")[os.WEXITSTATUS(status)]


@pytest.fixture
def sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bank of several segments, from the first runs of the sample."""
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "trial" / "cache"))
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 60_000)
    monkeypatch.setattr(run_index, "SAVED_BYTES", 1)
    with Bank.open(SAMPLE) as sample:
        sample.copy(120, tmp_path / "sound").close()
    with Bank.open(tmp_path / "sound") as bank:
        for number in range(60):
            bank.append(note("x" * 2_000, number))
    return tmp_path / "sound"


def prepare(sound: Path, trial: Path) -> None:
    """Make the folder of a trial: the bank, all that is derived from it, and a file that nothing may touch."""
    shutil.rmtree(trial, ignore_errors=True)
    trial.mkdir()
    shutil.copytree(sound, trial / "bank")
    (trial / "victim").write_text("mine")
    with Bank.open(trial / "bank") as bank:
        bank.append(note("acknowledged"))
        found(bank)
        next(iter(bank.log.read(run="none")), None)
        bank.log.seq_of_id("none")
        write_people_database(bank, trial / "out.sqlite")


def kind_of_file(path: Path) -> str:
    return path.suffix.removeprefix(".") if path.suffix in (".jsonl", ".ids", ".runs") else path.name


def damaged(trial: Path, dice: random.Random) -> tuple[str, str]:
    """Do something to one file of the project; return which kind of file, and what."""
    files = sorted(path for path in trial.rglob("*") if path.is_file() and path.name != "victim")
    kinds = sorted({kind_of_file(path) for path in files} | {"FAILED", "ERASING"})
    kinds += ["jsonl", "projections.sqlite"] * 4  # most of what there is to damage
    kind, deed = dice.choice(kinds), dice.choice(sorted(FAULTS))
    path = dice.choice([path for path in files if kind_of_file(path) == kind] or [trial / "bank" / kind])
    if not path.exists():
        path.write_bytes(b'{"records":[]}')
    FAULTS[deed](path, dice)
    return kind, deed


def fill_disk(most_bytes: int) -> None:
    """Let no file of this process grow past a size, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


def trials(sound: Path, trial: Path, seconds: float) -> Iterator[tuple[str, str]]:
    """Yield file and outcome of one trial after the other; every fifth is a full disk."""
    dice, end, number = random.Random(SEED), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        prepare(sound, trial)
        check = partial(Answers(trial / "bank").check, trial / "bank")
        time.sleep(TICK_S)
        number += 1
        if number % 5:
            kind, _ = damaged(trial, dice)
            yield kind, outcome_of(check)
        else:
            most_bytes = dice.choice([0, 100, 4_000, 40_000, 70_000, 200_000])
            yield "full disk", outcome_of(check, most_bytes)
            yield "full disk, after", outcome_of(check)
        assert (trial / "victim").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_campaign_of_faults(sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Never a wrong answer, never a traceback, never a hang."""
    counts = Counter(trials(sound, tmp_path / "trial", SECONDS))
    outcomes = sorted({outcome for _, outcome in counts})
    with capsys.disabled():
        print(f"\n{counts.total()} trials, seed {SEED}")
        for kind in sorted({kind for kind, _ in counts}):
            print(f"{kind:20}", *(f"{outcome} {counts[kind, outcome]:4}" for outcome in outcomes))
    assert set(outcomes) <= {"right", "refused"}
    assert not counts["full disk, after", "refused"]
