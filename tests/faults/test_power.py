"""Power is lost after any real system call: what was acknowledged is there, and an honest loss is no corruption."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.noted_heads import note_head, parse_heads
from rbank_es.errors import BankNotFound
from rbank_es.events import type_of
from rbank_es.log import Erasing, EventLog, Head
from rbank_es.log.disk import System
from rbank_es.log.file.file_log import FileEngine, FileLog
from rbank_es.testing import note
from tests.faults.disk import Quick
from tests.faults.power import Moment, Trace, states, traced

WORDS = "words that are erased"


class Life:
    """A bank's life under a trace, and the heads noted on the way."""

    def __init__(self, world: Path) -> None:
        self.place = world / "bank"
        self.trace = Trace([world])
        self.heads: list[Head] = []

    def done(self, log: FileLog, *ids: str) -> None:
        """Count events as acknowledged: their append, or the sync of a reader who saw them, has returned."""
        self.trace.acknowledged |= {event.id: event.seq for event in log.read() if not ids or event.id in ids}
        self.heads.append(log.head())

    def short(self) -> None:
        """Appends, one of which a reader syncs, and a roll."""
        log = FileLog.create(self.place)
        for text in (WORDS, "b" * 300, "c" * 700):
            log.append([note(text), note("more")])
            self.done(log)
        lazy = FileLog.open(self.place, unsafe_no_sync=True)
        lazy.append([note("d" * 500)])
        FileLog.open(self.place).sync()
        self.done(log)
        log.append([note("e")])
        self.done(log)

    def long(self) -> None:
        """The same, then an erasure, the remains of a dead writer, and a writer that takes over."""
        self.short()
        log = FileLog.open(self.place)
        log.erase(Erasing(events=frozenset({1})))
        self.done(log)
        with max(self.place.glob("*.jsonl")).open("ab") as file:
            file.write(b'{"type":"note_logged","seq":')
        log = FileLog.open(self.place)
        log.append([note("f")])
        self.done(log)
        FileLog.open(self.place, unsafe_no_sync=True).append([note("g" * 900)])
        log.append([note("behind what another one left unsynced")])
        self.done(log)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 1_400)
    monkeypatch.setattr(limits, "INLINE_TEXT_BYTES", 300)


def check(moment: Moment, files: dict[str, bytes], heads: list[Head], place: Path, receipts: bytes | None) -> None:
    """What was acknowledged can be read; `verify` finds no damage, also where the newest receipts survived."""
    place.mkdir()
    for name, data in files.items():
        (place / name).write_bytes(data)
    try:
        log = FileLog.open(place, calls=Quick())
    except BankNotFound:
        assert not moment.acknowledged, "the bank is gone"
        return
    if receipts is not None:
        (log.derived_directory / "receipts").write_bytes(receipts)
    last = max(moment.acknowledged.values(), default=0)
    assert {event.id: event.seq for event in log.read()}.items() >= moment.acknowledged.items()
    log.verify([head for head in heads if head.seq <= last])
    log.append([note("the next writer")])
    log.verify([head for head in heads if head.seq <= last])
    if any(type_of(event) == "content_erased" for event in log.read()):
        assert not any(WORDS.encode() in path.read_bytes() for path in place.iterdir())


def receipts_in(moment: Moment) -> bytes | None:
    return next((data for path, (_, data) in moment.memory.items() if path.endswith("/receipts")), None)


def tried(life: Life, tmp_path: Path, seeds: int) -> int:
    """Check every state after every call; return how many there were."""
    count = 0
    for number, moment in enumerate(life.trace.moments):
        for kind, files in states(moment, life.place, seeds):
            place = tmp_path / f"after-{number}-{kind}"
            try:
                check(moment, files, life.heads, place, receipts_in(moment))
            except BaseException as error:
                error.add_note(f"after call {number} ({moment.call}), with {kind}")
                raise
            shutil.rmtree(place)
            count += 1
    return count


@pytest.mark.parametrize("length", ["short", pytest.param("long", marks=pytest.mark.slow)])
def test_power_is_lost_after_any_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: str) -> None:
    """Whatever of unsynced bytes and names survives, nothing acknowledged is lost, and nothing is called damaged."""
    (tmp_path / "world").mkdir()
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "world" / "cache"))
    life = Life(tmp_path / "world")
    with traced(life.trace, monkeypatch):
        getattr(life, length)()
    calls = {moment.call for moment in life.trace.moments}
    assert calls >= {"write", "pwrite", "fdatasync", "fsync", "open"} and life.trace.acknowledged
    assert tried(life, tmp_path, 0 if length == "short" else 4) > 100


@pytest.mark.parametrize("call", ["fdatasync", "fsync"])
def test_the_trace_does_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The means of this test: a disk that is not asked to sync bytes, or names, loses what was acknowledged."""
    (tmp_path / "world").mkdir()
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "world" / "cache"))
    monkeypatch.setattr(os, call, lambda fd: None)
    life = Life(tmp_path / "world")
    monkeypatch.setattr(
        "tests.faults.power.CHANGING", tuple({"open", "write", "fsync", "fdatasync", "replace"} - {call})
    )
    with traced(life.trace, monkeypatch):
        life.short()
    with pytest.raises(Exception) as caught:  # noqa: PT011  gone, cut, or damaged
        tried(life, tmp_path, 0)
    assert "with at least" in caught.value.__notes__[0]


@pytest.mark.parametrize("fill", [None, lambda log: log.append([note("imported")])], ids=["new", "filled at once"])
def test_every_folder_made_for_a_bank_survives_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: Callable[[EventLog], object] | None
) -> None:
    """A synced log is lost all the same if the name of a folder above it was not on disk."""
    names: dict[Path, list[str]] = {}
    fsync = os.fsync

    def noting(fd: int) -> None:
        place = Path(f"/proc/self/fd/{fd}").readlink()
        if place.is_dir():
            names[place] = [each.name for each in place.iterdir()]
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noting)
    place = tmp_path / "new" / "deeper" / "bank"
    FileEngine().create(str(place), [note("first")], fill=fill).close()
    assert [made.name in names[made.parent] for made in (place, *place.parents[:2])] == [True] * 3


def test_a_noted_head_survives_a_loss_of_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one with the name of the new file, which is for its owner alone, and each one after it."""
    (tmp_path / "notes").mkdir()
    trace = Trace([tmp_path / "notes"])
    with Bank.create(tmp_path / "bank", calls=Quick()) as bank:
        for count in (1, 2):
            with traced(trace, monkeypatch):
                note_head(bank, tmp_path / "notes" / "heads.txt")
            _, disk = next(states(trace.moments[-1], tmp_path / "notes", 0))
            assert parse_heads(disk["heads.txt"].decode(), bank.id).heads == (bank.head(),) * count
    assert (tmp_path / "notes" / "heads.txt").stat().st_mode & 0o777 == 0o600


def test_what_is_no_directory_is_not_synced_as_one(tmp_path: Path) -> None:
    """Least of all a pipe: opening it would wait for somebody who writes."""
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        System().sync_directory(tmp_path / "file")
