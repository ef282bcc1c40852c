"""The index by run of the file log: what it costs, and that it is never believed further than it was checked."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.errors import LogCorruption
from rbank_es.events import Event
from rbank_es.events.codec import type_of
from rbank_es.log.file import reader, run_index
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing.contract_base import called, note, run
from tests.effort import examples
from tests.processes import alone


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close a segment after few events, and write each index at once."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 6_000)
    monkeypatch.setattr(run_index, "SAVED_BYTES", 1)


@pytest.fixture
def log(tmp_path: Path) -> FileLog:
    return filled(FileLog.create(tmp_path / "bank"), 0, 60)


def filled(log: FileLog, first: int, count: int) -> FileLog:
    for number in range(first, first + count):
        log.append([called(f"r{number % 7}", f"{number} " * 20), note("between", run=None)])
    return log


def files(log: FileLog) -> list[Path]:
    return sorted(log.derived_directory.glob("*.runs"))


def of_run(log: FileLog, name: str, **window: int) -> list[int]:
    return [event.seq for event in log.read(run=name, **window)]


def truth(log: FileLog, name: str) -> list[int]:
    return [event.seq for event in log.read() if getattr(event, "run", None) == name]


def check_all(log: FileLog) -> None:
    for name in [*(f"r{number}" for number in range(7)), "nobody"]:
        assert of_run(log, name) == truth(log, name)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of events decoded by each step of a reader."""
    counts: list[int] = []

    def counting(of: Callable[..., list[Event]]) -> Callable[..., list[Event]]:
        def decode(lines: list[bytes]) -> list[Event]:
            counts.append(len(lines))
            return of(lines)

        return decode

    for module in (reader, run_index):
        monkeypatch.setattr(module, "decode_events", counting(module.decode_events))
    return counts


def test_rare_types_are_read_by_the_index_where_there_is_one(
    log: FileLog, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_index, "SPARSE_EVENTS", 10)
    log.append([run("r3", "rare")])
    of_run(log, "r3")
    decoded.clear()
    assert [event.seq for event in log.read(types={"run_started"})] == [121]
    assert sum(decoded) == 1
    assert len(list(log.read(types={"tool_called"}))) == 60


def test_where_no_index_can_be_written_reading_by_run_works(log: FileLog) -> None:
    directory = log.derived_directory
    shutil.rmtree(directory)
    directory.write_text("in the way")
    check_all(log)
    assert directory.read_text() == "in the way"


@pytest.mark.parametrize("indexed", [True, False], ids=["index there", "no index"])
def test_a_damaged_line_of_a_run_is_reported(log: FileLog, indexed: bool) -> None:
    later, stored = [seq for seq in truth(log, "r5") if seq > 40], list[bytes]()
    check_all(log)
    for file in () if indexed else files(log):
        file.unlink()
    path = min(log.directory.glob("*.jsonl"))
    path.write_bytes(path.read_bytes().replace(b'"3 3 3', b'"3 3 8'))
    with FileLog.open(log.directory) as damaged:
        with pytest.raises(LogCorruption) as caught:
            of_run(damaged, "r3")
        assert path.name in str(caught.value) and "line 0" not in str(caught.value)
        assert of_run(damaged, "r5", after=40) == later
        with pytest.raises(LogCorruption):
            stored.extend(damaged.lines())
        assert not any(b"3 3 8" in line for line in stored)


def test_events_that_a_power_cut_took_back_are_not_found_when_others_stand_in_their_place(tmp_path: Path) -> None:
    with FileLog.create(tmp_path / "bank", unsafe_no_sync=True) as log:
        log.append([called("kept", "1")])
        path = min(log.directory.glob("*.jsonl"))
        durable = path.read_bytes()
        log.append([called("lost", "2"), called("lost", "3")])
        assert of_run(log, "lost") == [2, 3]
        held = {file: file.read_bytes() for file in files(log)}
    with path.open("r+b") as file:  # the same inode, as after a power cut
        file.truncate(len(durable))
    with FileLog.open(tmp_path / "bank") as log:
        log.append([called("after", "2"), called("after", "3"), called("after", "4")])
        for file, content in held.items():
            file.write_bytes(content)
        log.close()
    with FileLog.open(tmp_path / "bank") as log:
        assert (of_run(log, "lost"), of_run(log, "after"), of_run(log, "kept")) == ([], [2, 3, 4], [1])


@pytest.mark.slow
def test_a_forked_child_and_many_threads_read_the_same(log: FileLog) -> None:
    expected = {f"r{number}": truth(log, f"r{number}") for number in range(7)}
    wrong: list[object] = []

    def read() -> None:
        for _ in range(20):
            wrong.extend(name for name, seqs in expected.items() if of_run(log, name, upto=120) != seqs)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    filled(log, 60, 10)
    for thread in threads:
        thread.join()
    assert not wrong
    assert alone(read_in_a_fork, log.directory, expected) == 0


def read_in_a_fork(place: Path, expected: dict[str, list[int]]) -> None:
    with FileLog.open(place) as log:
        assert all(of_run(log, name, upto=120) == seqs for name, seqs in expected.items())
        child = os.fork()
        if child == 0:
            os._exit(0 if all(of_run(log, name, upto=120) == seqs for name, seqs in expected.items()) else 1)
        assert os.waitpid(child, 0)[1] == 0


NAMES = ("a", "b", 'c"\\', "é\u2028")
runs = st.sampled_from(NAMES)
groups = st.lists(st.lists(st.tuples(runs, st.booleans(), st.integers(0, 3_000)), min_size=1, max_size=4), max_size=12)


@settings(max_examples=examples(30))
@given(groups=groups, saved=st.sampled_from([1, 2_000, 1 << 20]), after=st.integers(0, 20), upto=st.integers(0, 40))
def test_reading_by_run_is_reading_all_and_choosing(
    tmp_path_factory: pytest.TempPathFactory,
    groups: list[list[tuple[str, bool, int]]],
    saved: int,
    after: int,
    upto: int,
) -> None:
    place = tmp_path_factory.mktemp("law") / "bank"
    with pytest.MonkeyPatch.context() as patch, FileLog.create(place, unsafe_no_sync=True) as log:
        patch.setattr(run_index, "SAVED_BYTES", saved)
        for group in groups:
            log.append([called(name, "x" * n) if tool else note("x" * n, run=name) for name, tool, n in group])
            of_run(log, "a")
        everything = list(log.read())
        with FileLog.open(place) as later:
            for handle in (log, later):
                for name in NAMES:
                    for types in (None, {"tool_called"}, {"note_logged", "run_started"}):
                        wanted = [
                            event
                            for event in everything[after:upto]
                            if getattr(event, "run", None) == name and (types is None or type_of(event) in types)
                        ]
                        assert list(handle.read(run=name, after=after, upto=upto, types=types)) == wanted
