"""Forked children."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path

import msgspec
import pytest

import rbank_es
from rbank_es.events import NoteLogged
from rbank_es.events.codec import decoder_of
from rbank_es.system.forks import told_of_forks
from tests.processes import alone

PACKAGE = Path(rbank_es.__file__).parent


class Lock:
    """An object that counts the forks that it is told of."""

    def __init__(self) -> None:
        self.forks = 0
        told_of_forks.add(self)

    def forget_parent(self) -> None:
        self.forks += 1


class Failing:
    """An object that can't let go of what belongs to the parent."""

    def __init__(self) -> None:
        told_of_forks.add(self)

    def forget_parent(self) -> None:
        raise OSError("a descriptor that somebody closed")


def in_a_child(*locks: Lock) -> int:
    """Return how many forks the child's copies were told of."""
    pid = os.fork()
    if pid == 0:
        os._exit(sum(lock.forks for lock in locks))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python warns of forks where threads are
def test_an_object_is_told_of_a_fork_in_the_child_and_not_in_the_parent() -> None:
    lock = Lock()
    assert in_a_child(lock) == 1
    assert lock.forks == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_object_is_told_of_a_fork_although_another_one_fails() -> None:
    """They are told in any order, so there are many of both."""
    pairs = [(Lock(), Failing()) for _ in range(8)]
    assert in_a_child(*(lock for lock, _ in pairs)) == len(pairs)


def fork_while_a_decoder_is_made() -> None:
    begun, real = threading.Event(), msgspec.json.Decoder

    def slow(type_: type) -> object:
        begun.set()
        time.sleep(0.2)
        return real(type_)

    decoder_of.cache_clear()
    msgspec.json.Decoder = slow  # type: ignore[assignment,misc]
    thread = threading.Thread(target=decoder_of, args=(NoteLogged,))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        decoder_of(NoteLogged)
        os._exit(0)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_child_decodes_that_was_forked_while_a_thread_made_the_first_decoder() -> None:
    """It would wait for ever for a lock of that thread, which it has not; without the lock, msgspec would crash."""
    assert alone(fork_while_a_decoder_is_made) == 0


def test_a_lock_of_a_module_is_held_by_no_thread_of_a_parent() -> None:
    """A module has one lock, which is held over a fork: any other would stay locked in a child for ever."""
    locks = re.compile(r"^\w+ = (?:threading\.)?(?:R?Lock|Condition)\(", re.MULTILINE)
    assert [path.name for path in PACKAGE.rglob("*.py") if locks.search(path.read_text())] == ["forks.py"]


def test_forks_are_followed_in_one_place_only() -> None:
    """A function that is registered with Python can't be taken back, so nothing else registers one."""
    registered = [path.name for path in PACKAGE.rglob("*.py") if "os.register_at_fork(" in path.read_text()]
    assert registered == ["forks.py"]
