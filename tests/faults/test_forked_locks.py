"""Locks and files of a process that forks: a child has none of them, however long it lives."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank, limits
from rbank_es.log import disk
from rbank_es.log.disk import System
from rbank_es.log.file import segment_copy, writer
from rbank_es.log.file.file_log import FileLog
from rbank_es.projections import builder
from rbank_es.system.files import open_regular
from rbank_es.testing import note
from tests.interleaving import BLOCKED_S, paused_at
from tests.processes import alone

WAIT_S = 20


@contextmanager
def forked_amid(act: Callable[[], object], module: Any, name: str) -> Iterator[None]:
    """Fork a child that only waits, while a thread does an act and has come to a function; then let it end the act."""
    begun, go_on, real = threading.Event(), threading.Event(), getattr(module, name)

    def waiting(*given: Any, **more: Any) -> Any:
        begun.set()
        go_on.wait()
        return real(*given, **more)

    setattr(module, name, waiting)
    thread = threading.Thread(target=act)
    thread.start()
    assert begun.wait(WAIT_S)
    setattr(module, name, real)
    child = os.fork()
    if child == 0:
        signal.alarm(3 * WAIT_S)
        signal.pause()
    go_on.set()
    thread.join()
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def project_beside_a_child(place: Path) -> None:
    signal.alarm(WAIT_S)
    with Bank.create(place) as bank, forked_amid(bank.project, builder, "advance"):
        bank.append(note("x"))
        assert bank.project().position == 3


def append_beside_a_child(place: Path) -> None:
    signal.alarm(WAIT_S)
    with Bank.create(place) as bank:
        fork = bank.fork
        with forked_amid(lambda: fork(place.with_name("fork")).close(), segment_copy, "take_over"):
            bank.append(note("x"))


def exclude_beside_a_child(place: Path) -> None:
    with Bank.create(place) as bank:
        with bank.log.exclusive("loop"):
            child = os.fork()
            if child == 0:
                signal.alarm(WAIT_S)
                signal.pause()
        with bank.log.exclusive("loop"):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.slow
@pytest.mark.parametrize("act", [project_beside_a_child, append_beside_a_child, exclude_beside_a_child])
def test_a_child_that_was_forked_amid_an_act_keeps_no_lock_of_it(act: Callable[[Path], None], tmp_path: Path) -> None:
    """Its copy of a locked file would hold the lock as long as the child lives, and nobody else could do the same."""
    assert alone(act, tmp_path / "bank") == 0


def fork_and_wait() -> None:
    if os.fork() == 0:
        signal.alarm(WAIT_S)
        signal.pause()


class Killing(System):
    """A disk whose first write is the end of the process."""

    def write(self, fd: int, data: bytes) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def be_killed_at_work(log: FileLog) -> None:
    with log.exclusive("loop"):
        time.sleep(2 * BLOCKED_S)
        os.kill(os.getpid(), signal.SIGKILL)


def be_killed_writing(log: FileLog) -> None:
    log.append([note("x")])


def be_killed_with_a_lock(place: Path, act: Callable[[FileLog], None]) -> None:
    real, log = open_regular, FileLog.open(place, calls=Killing())

    def opened(path: Path, flags: int) -> int:
        fd = real(path, flags)
        thread = threading.Thread(target=fork_and_wait)
        thread.start()
        thread.join(BLOCKED_S)
        return fd

    disk.open_regular = opened  # type: ignore[assignment,attr-defined]
    act(log)


@pytest.mark.parametrize("act", [be_killed_at_work, be_killed_writing])
def test_a_child_that_was_forked_as_a_lock_was_opened_does_not_keep_it(
    act: Callable[[FileLog], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock ends with the process that took it, though that is killed."""
    with Bank.create(tmp_path / "bank") as bank:
        assert alone(be_killed_with_a_lock, tmp_path / "bank", act) == -signal.SIGKILL
        monkeypatch.setattr(limits, "LOCK_WAIT_S", 1)
        with bank.log.exclusive("loop"):
            bank.append(note("x"))


def leave_a_child(place: Path) -> None:
    with Bank.create(place) as bank, bank.log.exclusive("loop"):
        child = os.fork()
        if child == 0:
            with bank.log.exclusive("another loop"):
                pass
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_child_leaves_an_act_of_its_parent_without_an_error(tmp_path: Path) -> None:
    """It is in the act, too, but the lock is not its own: leaving closes no file that has the same number by then."""
    assert alone(leave_a_child, tmp_path / "bank") == 0


def fork_again(place: Path) -> None:
    failures = list[object]()
    sys.unraisablehook = failures.append  # an error after a fork is raised nowhere
    with Bank.create(place) as bank, bank.log.exclusive("loop"):
        child = os.fork()
        if child == 0:
            grandchild = os.fork()
            os._exit(len(failures) if grandchild == 0 else os.waitpid(grandchild, 0)[1] >> 8)
        assert os.waitpid(child, 0)[1] == 0


def test_a_child_that_was_forked_amid_an_act_forks_again_without_an_error(tmp_path: Path) -> None:
    assert alone(fork_again, tmp_path / "bank") == 0


def fork_while_closing(place: Path) -> None:
    log, line, is_line = FileLog.create(place), 0, True
    while is_line:
        line += 1
        log.append([note("x")])
        ended = list[int]()

        def fork(ended: list[int] = ended) -> None:
            child = os.fork()
            if child == 0:
                signal.alarm(WAIT_S)
                try:
                    log.append([note("of the child")])
                    os._exit(0)
                finally:
                    os._exit(1)
            ended.append(os.waitpid(child, 0)[1])

        _, is_line = paused_at(line, [writer, disk], log.close, fork)
        assert ended == [0] * is_line
    assert line > 10
    log.verify()


@pytest.mark.slow
def test_a_child_appends_that_was_forked_while_a_thread_closed_the_log(tmp_path: Path) -> None:
    """At whichever line of it: a file that is closed already is not closed again, nor another one of that number."""
    assert alone(fork_while_closing, tmp_path / "bank") == 0
