"""Real processes that are killed, forked, and kept waiting."""

from __future__ import annotations

import codecs
import fcntl
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.errors import LogBusy, LogUnavailable
from rbank_es.events import NoteLogged
from rbank_es.log import Erasing
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import event_id, note
from tests.faults.disk import Disk
from tests.faults.writers import append_expecting, write_until_killed
from tests.processes import PROCESSES, alone

SIZES = (1, 1, 5, 50)


class Writers:
    """Four writers, each killed at a random moment and started again."""

    def __init__(self, place: Path, side: Path, segment_bytes: int) -> None:
        self.place, self.segment_bytes = place, segment_bytes
        self.side = side
        self.children: list[Any] = [None] * len(SIZES)

    def start(self, writer: int) -> None:
        args = (self.place, self.side, writer, SIZES[writer], self.segment_bytes)
        self.children[writer] = PROCESSES.Process(target=write_until_killed, args=args, daemon=True)
        self.children[writer].start()

    def kill(self, writer: int) -> None:
        os.kill(self.children[writer].pid, signal.SIGKILL)
        self.children[writer].join()

    def _wait_for_a_group(self) -> None:
        """Wait until a writer has got further: on a busy machine all might be killed before they begin."""
        before = self.side.stat().st_size if self.side.exists() else 0
        wait_until(lambda: self.side.exists() and self.side.stat().st_size > before)

    def storm(
        self,
        kills: int,
        chance: random.Random,
        between: Callable[[], object] = lambda: None,
        enough: Callable[[], bool] = lambda: True,
    ) -> None:
        """Kill writers so many times, and all of them once there is enough."""
        for writer in range(len(SIZES)):
            self.start(writer)
        for _ in range(kills):
            self._wait_for_a_group()
            time.sleep(chance.uniform(0.0, 0.03))
            victim = chance.randrange(len(SIZES))
            assert self.children[victim].is_alive(), "a writer failed"
            self.kill(victim)
            self.start(victim)
            between()
        wait_until(enough)
        for writer in range(len(SIZES)):
            self.kill(writer)


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "the writers don't get on"
        time.sleep(0.001)


def tail(place: Path, stop: threading.Event, seen: list[int], problems: list[BaseException]) -> None:
    """Follow the log like a projection does; nothing may ever look wrong, and nothing is seen twice."""
    try:
        log, last = FileLog.open(place), 0
        while not stop.is_set():
            for event in log.read(after=last, resolve={"note_logged"}):
                assert event.seq == last + 1
                last = event.seq
            seen.append(last)
            log.head()
            time.sleep(0.002)
    except BaseException as error:
        problems.append(error)


def check_nothing_lost(place: Path, side: Path) -> int:
    """Every acknowledged group stands whole where its writer was told, and no group stands in part."""
    log = FileLog.open(place)
    log.append([note("the next writer", run="last/1")])
    groups: dict[str, list[int]] = {}
    for event in log.read():
        assert isinstance(event, NoteLogged) and event.run
        groups.setdefault(event.run, []).append(event.seq)
    for run, positions in groups.items():
        assert len(positions) == int(run.rpartition("/")[2])
        assert positions == list(range(positions[0], positions[0] + len(positions)))
    acknowledged = [line.split() for line in side.read_text().splitlines()]
    for run, first, last in acknowledged:
        assert (groups[run][0], groups[run][-1]) == (int(first), int(last))
    assert log.verify().events == log.position()
    return len(acknowledged)


@pytest.mark.parametrize("kills", [12, pytest.param(500, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_writers_are_killed(tmp_path: Path, kills: int) -> None:
    """SIGKILLs under four writers: no acknowledged group is lost, none is there in part, a reader never stumbles."""
    place, side = tmp_path / "bank", tmp_path / "acknowledged"
    FileLog.create(place).close()
    stop, seen, problems = threading.Event(), list[int](), list[BaseException]()
    writers = Writers(place, side, 200_000)
    follower = threading.Thread(target=tail, args=(place, stop, seen, problems))
    writers.storm(1, random.Random(0), follower.start)

    def enough() -> bool:
        """On a busy machine the writers come to nothing between two kills."""
        return bool(problems) or (len(list(place.glob("*.jsonl"))) > 3 and max(seen, default=0) > 100)

    writers.storm(kills, random.Random(kills), enough=enough)
    stop.set()
    follower.join()
    assert not problems, problems
    assert check_nothing_lost(place, side) > min(kills, 25)


@pytest.mark.slow
def test_processes_with_the_same_expectation(tmp_path: Path) -> None:
    """Over many rounds, each position is won by exactly one of the processes that expect it."""
    place, out = tmp_path / "bank", tmp_path / "won"
    FileLog.create(place).close()
    args = (place, 150, time.monotonic() + 0.5, out)
    children = [PROCESSES.Process(target=append_expecting, args=args) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    won = sorted(map(int, out.read_text().split()))
    assert won == list(range(1, FileLog.open(place).position() + 1)) and len(won) >= 150


class Gate(Disk):
    """Writes and syncs that wait until they may go on."""

    def __init__(self, gated: str) -> None:
        super().__init__()
        self.gated, self.reached, self.open = gated, threading.Event(), threading.Event()
        self.synced: list[int] = []
        self.armed = False

    def wait(self, name: str) -> None:
        if self.armed and name == self.gated:
            self.armed = False
            self.reached.set()
            assert self.open.wait(20)

    def write(self, fd: int, data: bytes) -> None:
        self.wait("write")
        super().write(fd, data)

    def sync_data(self, fd: int) -> None:
        self.wait("sync_data")
        self.synced.append(os.fstat(fd).st_ino)
        super().sync_data(fd)


def is_locked(place: Path) -> bool:
    with (place / "lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


@contextmanager
def writing_at(place: Path) -> Iterator[tuple[FileLog, Gate, threading.Thread]]:
    """A thread that holds the lock, in the middle of a write."""
    gate = Gate("write")
    log = FileLog.create(place, calls=gate)
    log.append([note("a")])
    gate.armed = True
    thread = threading.Thread(target=log.append, args=([note("b")],))
    thread.start()
    assert gate.reached.wait(60)
    yield log, gate, thread
    gate.open.set()
    thread.join()


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[tuple[FileLog, Gate, threading.Thread]]:
    with writing_at(tmp_path / "bank") as held:
        yield held


Writing = tuple[FileLog, Gate, threading.Thread]


def test_closing_another_handle_keeps_the_lock(writing: Writing) -> None:
    """Opening, reading and closing the same log elsewhere in the process lets nobody in."""
    log, gate, thread = writing
    for _ in range(3):
        with FileLog.open(log.directory) as other:
            other.position()
            list(other.read())
    assert is_locked(log.directory)
    gate.open.set()
    thread.join()
    assert not is_locked(log.directory) and log.position() == 2


def fork_amid_a_write(place: Path) -> None:
    with writing_at(place) as (log, gate, thread):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            ok = log.append([note("c")]).last == 3
            os._exit(0 if ok else 1)
        time.sleep(0.2)
        assert is_locked(log.directory) and os.waitpid(child, os.WNOHANG) == (0, 0)
        gate.open.set()
        thread.join()
        assert os.waitpid(child, 0)[1] == 0
        assert log.append([note("d")]).last == 4
        assert [getattr(event, "note", "") for event in log.read()] == ["a", "b", "c", "d"]


def test_forked_child_keeps_out_and_gets_in(tmp_path: Path) -> None:
    """A child that is forked while a thread of its parent writes waits for the parent, and doesn't let go for it."""
    assert alone(fork_amid_a_write, tmp_path / "bank") == 0


def fork_and_close(place: Path) -> None:
    with writing_at(place) as (log, gate, _):
        child = os.fork()
        if child == 0:
            log.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert is_locked(log.directory)
        gate.open.set()


def test_forked_child_that_exits_does_not_unlock_for_its_parent(tmp_path: Path) -> None:
    """A child that never wrote, and ends, or closes its copy, leaves the parent's lock alone."""
    assert alone(fork_and_close, tmp_path / "bank") == 0


@pytest.mark.slow
def test_parent_and_forked_children_write_at_once(tmp_path: Path) -> None:
    """A log that was used before a fork works on both sides of it."""
    assert alone(write_on_both_sides, tmp_path / "bank") == 0


def write_on_both_sides(place: Path) -> None:
    log = FileLog.create(place)
    log.append([note("before", 0)])
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            for index in range(20):
                log.append([note("x", 100 * (number + 1) + index), note("y", 1_000 * (number + 1) + index)])
            os._exit(0)
        children.append(child)
    for index in range(20):
        log.append([note("parent", 10_000 + index)])
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert log.verify().events == 1 + 3 * 40 + 20
    assert log.append([note("x", 100), note("y", 1_000)]).duplicate


def test_busy_log(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that waits for too long is told so, and may try again."""
    log, gate, thread = writing
    other = FileLog.open(log.directory)
    monkeypatch.setattr(limits, "LOCK_WAIT_S", 0.2)
    with pytest.raises(LogBusy, match="retry"):
        other.append([note("c")])
    gate.open.set()
    thread.join()
    assert other.append([note("c")]).last == 3


def test_sync_goes_to_the_file_that_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer whose sync is still to come, while others close the segment and begin another, syncs its own."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 1_000)
    gate = Gate("sync_data")
    log = FileLog.create(tmp_path / "bank", calls=gate)
    first = next(log.directory.glob("*.jsonl")).stat().st_ino
    gate.armed = True
    thread = threading.Thread(target=log.append, args=([note("a" * 600)],))
    thread.start()
    assert gate.reached.wait(60)
    log.append([note("b" * 600)])
    gate.synced.clear()
    gate.open.set()
    thread.join()
    assert gate.synced == [first] and len(list(log.directory.glob("*.jsonl"))) == 2


def test_lock_file_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through rolls, healing, erasing and verifying it is the same file: who waits for it waits for the right one."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 1_000)
    log = FileLog.create(tmp_path / "bank")
    inode = (log.directory / "lock").stat().st_ino
    for number in range(6):
        log.append([note("x" * 400, number)])
    with max(log.directory.glob("*.jsonl")).open("ab") as file:
        file.write(b"torn")
    log.append([note("y")])
    log.erase(Erasing(events=frozenset({1})))
    log.verify()
    assert log.seq_of_id(event_id(3)) == 4
    assert (log.directory / "lock").stat().st_ino == inode


def read_without_writing(place: Path) -> None:
    signal.alarm(30)
    # Loaded before, because Python itself may be in a folder that nobody else can read.
    for name in ("utf-16-le", "utf-16-be"):
        codecs.lookup(name)
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    log = FileLog.open(place)
    assert len(list(log.read(resolve={"note_logged"}))) == log.position() == 12
    assert log.verify().events == 12 and log.head(5).seq == 5
    assert log.seq_of_id(event_id(3)) == 4 and log.erasures() == 0
    assert log.erase(Erasing(words=("a long enough text",)), dry_run=True).places == ()
    for write in (lambda: log.append([note("x")]), lambda: log.erase(Erasing(events=frozenset({1})))):
        with pytest.raises(LogUnavailable, match="the log is as it was"):
            write()
    log.close()


def test_read_only_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing may be written, everything can be read and verified, and writing is refused in plain words."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 2_000)
    base = Path(tempfile.mkdtemp())
    try:
        log = FileLog.create(base / "bank")
        for number in range(12):
            log.append([note("x" * 400, number)])
        paths = [base / "bank", base]
        for path in [*(base / "bank").glob("*"), *paths]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        assert alone(read_without_writing, base / "bank") == 0
    finally:
        for path in [base, base / "bank"]:
            path.chmod(0o755)
        shutil.rmtree(base)


def test_clock_goes_backwards_between_processes(tmp_path: Path) -> None:
    """`at` grows from append to append, also where each process has a clock of its own."""
    for number, clock in enumerate((3_000_000, 1_000_000, 2_000_000, 5_000_000, 4_000_000)):
        kind = FileLog.open if number else FileLog.create
        log = kind(tmp_path / "bank", clock=lambda clock=clock: clock)
        log.position()
        log.append([note(str(number))])
        if number % 2:
            log.close()
    times = [event.at for event in log.read()]
    assert times == sorted(times) and len(set(times)) == len(times) == 5
