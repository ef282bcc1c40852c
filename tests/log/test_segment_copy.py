"""Copies of logs: the same up to a position, whatever the position, and a log of their own from there on."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.errors import LogCorruption
from rbank_es.events import Event, NoteLogged, RunStarted
from rbank_es.events.codec import TYPES
from rbank_es.log import Erasing
from rbank_es.log.file.file_log import FileLog

GROUPS = (1, 3, 2, 5, 1, 4)


def note(number: int) -> Event:
    """A note; every third with a text that is stored apart, and some of those the same."""
    words = f"{number % 6} " + "long " * 600 if number % 3 == 0 else f"short {number}"
    return NoteLogged(note=f'"{words}"') if number % 2 else RunStarted(run=f"run-{number}", task=words)


@pytest.fixture(params=[limits.SEGMENT_BYTES, 9_000], ids=["one segment", "many segments"])
def log(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileLog:
    monkeypatch.setattr(limits, "SEGMENT_BYTES", request.param)
    log = FileLog.create(tmp_path / "bank")
    number = 0
    for size in GROUPS:
        log.append([note(number + index) for index in range(size)])
        number += size
    return log


def events_of(log: FileLog, upto: int | None = None) -> list[Event]:
    """All events with their texts, without what counts the rest of their group."""
    return [event for event in log.read(upto=upto, resolve=TYPES)]


def without_counts(log: FileLog, upto: int | None = None) -> list[dict[str, object]]:
    names = [(event, event.__struct_fields__) for event in events_of(log, upto)]
    return [{name: getattr(event, name) for name in fields if name not in ("more", "crc")} for event, fields in names]


def test_a_copy_has_no_more_of_what_was_erased_than_the_log_has(log: FileLog, tmp_path: Path) -> None:
    before = log.position()
    log.erase(Erasing(events=frozenset({1, 4})))
    with log.copy(before, str(tmp_path / "copy")) as copy:
        assert without_counts(copy) == without_counts(log, before)
        assert copy.head() == log.head(before)
    with log.copy(log.position(), str(tmp_path / "whole")) as copy:
        assert copy.verify().head == log.head()


@pytest.mark.slow
def test_a_damaged_line_in_the_way_is_said(log: FileLog, tmp_path: Path) -> None:
    path = max(log.directory.glob("*.jsonl"))
    path.write_bytes(path.read_bytes().replace(b'"seq":16', b'"seq":xx'))
    with pytest.raises(LogCorruption):
        log.copy(16, str(tmp_path / "copy"))
