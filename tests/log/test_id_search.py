"""The search for an id while another thread erases or forks: an event that is in the log is found at every instant."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.log import Erasing
from rbank_es.log.file import position_index
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import event_id, note
from tests.interleaving import paused_at
from tests.processes import alone

LAST, CLOSED = limits.SEGMENT_BYTES, 900
"""Sizes of segments with which the id that is sought is in the last segment, or in a closed one."""


def make_log(place: Path) -> None:
    with FileLog.create(place) as log:
        log.append([note(str(number), number) for number in range(1, 5)])
        log.append([note("more")])


def opened(place: Path) -> FileLog:
    """Open a log, and seek there so often that a dictionary is made; the index of no closed segment is read yet."""
    log = FileLog.open(place)
    for _ in range(50):
        log.seq_of_id("no id")
    return log


@pytest.mark.parametrize("segment_bytes", [LAST, pytest.param(CLOSED, marks=pytest.mark.slow)])
def test_an_id_is_found_while_another_thread_erases(
    segment_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whichever line of the search the other thread begins."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES", segment_bytes)
    line, is_line = 0, True
    while is_line:
        line += 1
        make_log(place := tmp_path / f"bank-{line}")
        with opened(place) as log:
            log.append([note("one more")])  # to be added to the dictionary

            def erase(log: FileLog = log) -> None:
                log.erase(Erasing(events=frozenset({3})), reason="test")

            found, is_line = paused_at(line, [position_index], lambda log=log: log.seq_of_id(event_id(2)), erase)
        assert found == 2
    assert line > 10


@pytest.mark.parametrize("segment_bytes", [LAST, CLOSED])
def test_an_id_that_was_made_here_and_appended_elsewhere_is_found(
    segment_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what was written since it was made is searched: by whomever, in this segment or in later ones."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES", segment_bytes)
    make_log(tmp_path / "bank")
    with FileLog.open(tmp_path / "bank") as log, FileLog.open(tmp_path / "bank") as other:
        log.append([note("one more")])
        made = [log.new_id() for _ in range(8)]
        events = [replace(note(f"mine {number}"), id=id) for number, id in enumerate(made)]
        for event in events:
            other.append([event])
        assert [log.seq_of_id(id) for id in made] == [*range(7, 15)]
        assert log.append([events[3]]).duplicate
        log.erase(Erasing(events=frozenset({3})), reason="test")
        assert [log.seq_of_id(id) for id in made] == [*range(7, 15)]


def fork_at_each_line(place: Path, segment_bytes: int) -> None:
    limits.SEGMENT_BYTES = segment_bytes
    make_log(place)
    line, is_line = 0, True
    while is_line:
        line += 1
        ended = list[int]()
        with opened(place) as log:

            def fork(log: FileLog = log, ended: list[int] = ended) -> None:
                child = os.fork()
                if child == 0:
                    signal.alarm(20)
                    os._exit(0 if log.seq_of_id(event_id(2)) == 2 else 1)
                ended.append(os.waitpid(child, 0)[1])

            found, is_line = paused_at(line, [position_index], lambda log=log: log.seq_of_id(event_id(2)), fork)
        assert (found, ended) == (2, [0] * is_line)
    assert line > 10


@pytest.mark.slow
@pytest.mark.parametrize("segment_bytes", [LAST, CLOSED])
def test_a_forked_child_finds_an_id_while_a_thread_of_its_parent_searches(segment_bytes: int, tmp_path: Path) -> None:
    """At whichever line of its search that thread is, and whatever lock it holds there: the child has only a copy."""
    assert alone(fork_at_each_line, tmp_path / "bank", segment_bytes) == 0
