"""The process dies at every system call of a busy life; what was promised still holds. Power: see `test_power.py`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.errors import BankNotFound
from rbank_es.events import Event, type_of
from rbank_es.log import Erasing, Head
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import SECRET, event_id, forms_of, note, run
from tests.faults.disk import Disk, calls_of, dying

GROUPS: list[list[Event]] = [
    [run("r", "a task", 1)],
    [note("one", 2), note(f"{SECRET}, briefly", 3), note("three", 4)],
    [note(f"{SECRET} at length " * 40, 5)],
    [note("x" * 500, 6), note("y" * 500, 7)],
    [note(f"again {SECRET}", 8)],
]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 1_400)
    monkeypatch.setattr(limits, "INLINE_TEXT_BYTES", 300)
    monkeypatch.setattr("rbank_es.log.disk.boot_id", lambda: "")  # no hint is believed, as after a reboot
    yield


class Life:
    """A log's life on a disk, and what it was promised on the way."""

    def __init__(self, place: Path, disk: Disk) -> None:
        self.place, self.disk = place, disk
        self.acknowledged: dict[str, int] = {}
        self.noted: list[Head] = []
        self.erased = False

    def live(self) -> None:
        log = FileLog.create(self.place, calls=self.disk)
        for group in GROUPS[:4]:
            self.append(log, group)
        self.append(log, GROUPS[2])
        log.erase(Erasing(words=(SECRET,)), reason="asked for")
        self.erased = True
        self.append(log, [note("between", 20)])
        log.close()
        self.append(FileLog.open(self.place, calls=self.disk), [note("z" * 900, 21), note("end", 22)])

    def append(self, log: FileLog, group: list[Event]) -> None:
        appended = log.append(group)
        self.acknowledged |= {event.id: event.seq for event in appended.events}
        self.noted.append(log.head(appended.last))

    def check(self, place: Path, disk: Disk) -> FileLog:
        """All that was acknowledged is there, nothing is there in part, and a writer goes on."""
        try:
            log = FileLog.open(place, calls=disk)
        except BankNotFound:
            assert not self.acknowledged
            log = FileLog.create(place, calls=disk)
        log.append([note("the next writer")])
        log.verify(self.noted)
        stored = {event.id: event.seq for event in log.read()}
        assert stored.items() >= self.acknowledged.items()
        assert all(log.seq_of_id(event_id) == seq for event_id, seq in self.acknowledged.items())
        for group in GROUPS[:4]:
            assert sum(event.id in stored for event in group) in (0, len(group))
        self.check_erasure(place, log)
        return log

    def check_erasure(self, place: Path, log: FileLog) -> None:
        """The erasure is complete or never began: never the record with the text, nor the text gone unrecorded."""
        assert not (place / "ERASING").exists()
        recorded = any(type_of(event) == "content_erased" for event in log.read())
        assert recorded or not self.erased
        stored = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
        assert not recorded or not [form for form in forms_of(SECRET) if form in stored]


def lives(tmp_path: Path) -> Iterator[tuple[int, Life]]:
    """The same life, cut short at each of its system calls."""
    count = calls_of(lambda disk: Life(tmp_path / "whole", disk).live())
    assert count > 60
    for number in range(1, count + 1):
        life = Life(tmp_path / f"life-{number}", Disk(die_at=number))
        life.disk.part = (0.0, 0.5, 1.0)[number % 3]
        with dying():
            life.live()
        assert life.disk.dead
        yield number, life


@pytest.mark.slow
def test_process_dies_at_every_call(tmp_path: Path) -> None:
    """The next writer finds all that was acknowledged, completes a roll or an erasure, and goes on."""
    for _, life in lives(tmp_path):
        log = life.check(life.place, life.disk.revive())
        again = FileLog.open(life.place, calls=life.disk)
        assert again.append(GROUPS[0]).duplicate == (
            GROUPS[0][0].id in life.acknowledged or log.seq_of_id(event_id(1)) == 1
        )
        shutil.rmtree(life.place)
