"""The memory log: the contract of every engine, and what only memory has."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.errors import BadBankName, BankExists, BankNotFound, CheckFailed, LogCorruption
from rbank_es.log import LOG_ENGINES, Erasing, EventLog, lines
from rbank_es.log.memory.memory_log import ENGINE, MemoryLog
from rbank_es.log.memory.memory_store import MemoryStore
from rbank_es.testing import EventLogContract, event_id, note, raises
from tests.processes import alone


def store_of(log: EventLog) -> MemoryStore:
    assert isinstance(log, MemoryLog)
    return log.store


class TestMemoryLog(EventLogContract):
    """The memory log keeps the contract."""

    engine = ENGINE
    numbers = count()

    def free_place(self) -> str:
        return f"memory:contract-{next(self.numbers)}"

    def stored_bytes(self, log: EventLog) -> bytes:
        store = store_of(log)
        files = [path.read_bytes() for path in store.derived_directory.rglob("*") if path.is_file()]
        return b"\n".join([*(row.line for row in (*store.long_texts.values(), *store.events)), *files])

    def replace_last_line(self, log: EventLog, line: bytes) -> None:
        store = store_of(log)
        store.events[-1] = store.events[-1]._replace(line=lines.close_line(line[: -lines.CRC_TAIL], store.seed)[:-1])


def test_damage_is_found() -> None:
    """A changed byte raises when it is read, and in `verify`; nothing is skipped."""
    log = MemoryLog(MemoryStore("ab" * 16))
    log.append([note("one"), note("two " * 1_000)])
    for rows, place in ((log.store.events, 0), (log.store.long_texts, next(iter(log.store.long_texts)))):
        whole = rows[place]  # type: ignore[call-overload]
        rows[place] = whole._replace(line=whole.line.replace(b"o", b"0"))  # type: ignore[call-overload]
        with raises(LogCorruption):
            log.verify()
        rows[place] = whole  # type: ignore[call-overload]
    assert log.verify().events == 2
    with raises(CheckFailed):
        log.verify([log.head(1), type(log.head())(1, "ab" * 32)])


def test_a_name_is_found_again_in_the_same_process() -> None:
    """`memory:NAME` is one log for all who open it; `memory:` is another one each time."""
    with Bank.create("memory:found-again") as bank:
        bank.append(note("here"))
        assert Bank.open("memory:found-again").head() == bank.head()
        with pytest.raises(BankExists):
            Bank.create("memory:found-again")
    assert Bank.create("memory:").id != Bank.create("memory:").id
    for place in ("memory:", "memory:never-made"):
        with pytest.raises(BankNotFound, match="in the process that made it"):
            Bank.open(place)
    with pytest.raises(BadBankName):
        Bank.create("memory:a/b")


def test_a_bank_says_that_it_will_be_lost() -> None:
    """Whoever looks at such a bank learns that it ends with the process."""
    bank = Bank.create("memory:")
    assert bank.place == "memory: (lost when this process ends)" and bank.name == "memory"
    assert repr(bank) == "Bank('memory: (lost when this process ends)')"
    assert not LOG_ENGINES.get("memory").outlives_process and LOG_ENGINES.get("file").outlives_process


@pytest.mark.slow
def test_derived_files_go_with_the_log() -> None:
    """The read models live in a temporary directory as long as the log does, and erasing empties it."""
    bank = Bank.create("memory:")
    bank.append(note("a secret that goes"))
    bank.project()
    directory = bank.log.derived_directory
    assert list(directory.iterdir()) and bank.log.owns(directory / "x") and not bank.log.owns(Path("/elsewhere"))
    bank.log.erase(Erasing(words=("a secret that goes",)))
    assert [path.suffix for path in directory.iterdir()] == [".lock"]
    del bank
    gc.collect()
    assert not directory.exists()


@pytest.mark.slow
def test_a_forked_child_has_a_log_of_its_own() -> None:
    """What a child appends is its own, even where a thread of the parent was appending; its end removes no file."""
    assert alone(append_in_a_fork) == 0


def append_in_a_fork() -> None:
    bank = Bank.create("memory:forked")
    bank.project()
    with bank.log.store.changed:  # type: ignore[attr-defined]
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                threading.Thread(target=lambda: os._exit(bank.append(note("x")).last)).run()
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert bank.position == 2 and any(bank.log.derived_directory.iterdir())


class SlowName(str):
    """A name that takes its time where a dictionary looks for it."""

    begun = threading.Event()

    def __hash__(self) -> int:
        self.begun.set()
        time.sleep(0.2)
        return super().__hash__()


def fork_while_a_log_gets_its_name() -> None:
    thread = threading.Thread(target=ENGINE.publish, args=(MemoryStore("ab" * 16, SlowName("slow")),))
    thread.start()
    SlowName.begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        Bank.create("memory:quick")
        os._exit(0)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_child_makes_a_bank_although_a_thread_of_its_parent_made_one() -> None:
    assert alone(fork_while_a_log_gets_its_name) == 0


def interrupted(work: Callable[[], object], function: FunctionType, line: int) -> bool:
    """Do a work, interrupted at one of the lines of a function; return whether that has so many."""
    left = line

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        if frame.f_code is not function.__code__:
            return None
        left -= event == "line"
        if left < 0:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_append_that_is_interrupted_leaves_nothing_that_a_later_one_meets() -> None:
    """Heads were wrong for ever, and events of a run were read twice: indexes were ahead of the events."""
    for line in count():
        log = MemoryLog(MemoryStore("ab" * 16))
        log.append([note("before", run="r")])
        group = [note("first " * 1_000, 1, "r"), note("second", 2, "r")]
        if not interrupted(partial(log.append, group), MemoryStore.add, line):
            break
        if log.position() == 1:  # else all was there already
            assert log.seq_of_id(event_id(1)) is None
            with raises(LogCorruption):
                log.head(2)
            log.append([note("another", 3, "r")])
        log.append([note("second", 2, "r")])  # a retry, if all was there
        assert log.position() == 3
        assert log.verify().head == log.head()
        assert [event.seq for event in log.read(run="r")] == [1, 2, 3]
    assert line > 8


def test_an_erasure_that_is_interrupted_is_whole_after_another_one() -> None:
    """The words were left in derived files, and read models in force, where only these were still to be dropped."""
    erasing = Erasing(words=("secret words",))
    for line in count():
        log = MemoryLog(MemoryStore("ab" * 16))
        log.append([note("secret words " * 1_000), note("secret words")])
        (log.derived_directory / "derived").write_text("secret words")
        if not interrupted(partial(log.erase, erasing), MemoryStore.rewrite, line):
            break
        log.erase(erasing)
        assert b"secret" not in TestMemoryLog().stored_bytes(log)
        assert log.erasures() > 2
        log.verify()
    assert line > 5


def test_a_forked_child_has_read_models_of_its_own() -> None:
    """What a child appends and projects is in no file of its parent, whose read models fit its own log as before."""
    assert alone(project_in_a_fork) == 0


def project_in_a_fork() -> None:
    bank = Bank.create("memory:forked")
    assert bank.project().position == 2
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            bank.append(note("x"))
            os._exit(bank.project().position)
        os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert bank.project().position == 2
