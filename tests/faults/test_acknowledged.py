"""What was acknowledged is not dropped: whatever vouches for a group that can't be read makes this corruption."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.errors import BadEvent, LogCorruption
from rbank_es.events import NoteLogged, Ref
from rbank_es.log import Erasing
from rbank_es.log.disk import locked
from rbank_es.log.file.file_log import FileLog
from rbank_es.log.groups import utc_text
from rbank_es.testing import event_id, note
from tests.faults.disk import Quick
from tests.odd_files import KINDS, put
from tests.places import active, derived, flip

USES: dict[str, Callable[[FileLog], object]] = {
    "read": lambda log: list(log.read()),
    "position": lambda log: log.position(),
    "head": lambda log: log.head(),
    "verify": lambda log: log.verify(),
    "sync": lambda log: log.sync(),
    "append": lambda log: log.append([note("next")]),
    "retry": lambda log: log.append([note("c", 3)]),
    "erase": lambda log: log.erase(Erasing(events=frozenset({1}))),
}


def receipts(log: FileLog) -> Path:
    return log.derived_directory / "receipts"


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a flipped bit in the text": lambda path: flip(path, path.stat().st_size - 60),
    "a flipped bit in the checksum": lambda path: flip(path, path.stat().st_size - 5),
    "no newline": lambda path: os.truncate(path, path.stat().st_size - 1),
    "half a line": lambda path: os.truncate(path, path.stat().st_size - 90),
    "the whole line": lambda path: os.truncate(path, path.read_bytes()[:-1].rindex(b"\n") + 1),
    "all but the first line": lambda path: os.truncate(path, path.read_bytes().index(b"\n") + 1),
}


def acknowledged(place: Path, count: int = 3) -> FileLog:
    with FileLog.create(place, calls=Quick()) as log:
        for number in range(1, count + 1):
            log.append([note("abcdefgh"[number - 1], number)])
    return FileLog.open(place, calls=Quick())


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_the_last_acknowledged_group_is_corruption(tmp_path: Path, damage: str, use: str) -> None:
    """Nothing in the log vouches for its last group; its receipt does: raised with the place, and nothing is cut."""
    log = acknowledged(tmp_path / "bank")
    path = active(log.directory)
    DAMAGES[damage](path)
    before = path.read_bytes()
    with pytest.raises(LogCorruption, match="acknowledged") as caught:
        USES[use](log)
    assert caught.value.where.startswith(f"{path.parent}: segment {path.name}, line ")
    assert str(log.derived_directory) in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("end", ["closed", "killed", "synced by a reader"])
def test_receipts_need_no_orderly_end(tmp_path: Path, end: str) -> None:
    """A receipt is left when an append returns, or when a reader has synced what it read."""
    place = tmp_path / "bank"
    log = FileLog.create(place, unsafe_no_sync=end == "synced by a reader")
    log.append([note("a")])
    if end == "closed":
        log.close()
    elif end == "synced by a reader":
        assert not receipts(log).exists()
        FileLog.open(place).sync()
    DAMAGES["half a line"](active(place))
    with pytest.raises(LogCorruption):
        FileLog.open(place).append([note("b")])


def test_an_acknowledged_retry_is_vouched_for(tmp_path: Path) -> None:
    """A retry that is answered from the log is an acknowledgement too, though its first writer may have left none."""
    place = tmp_path / "bank"
    FileLog.create(place, unsafe_no_sync=True).append([note("a", 1)])
    assert FileLog.open(place).append([note("a", 1)]).duplicate
    DAMAGES["the whole line"](active(place))
    with pytest.raises(LogCorruption):
        FileLog.open(place).position()


def test_receipts_outlive_a_reboot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receipt of an earlier boot says nothing of where to go on, but what it vouches for was on disk."""
    log = acknowledged(tmp_path / "bank")
    monkeypatch.setattr("rbank_es.log.disk.boot_id", lambda: "another boot")
    DAMAGES["half a line"](active(log.directory))
    with pytest.raises(LogCorruption):
        log.append([note("next")])


def test_the_memory_of_a_writer_vouches_too(tmp_path: Path) -> None:
    """Where the receipts are gone, a writer still knows what it acknowledged itself."""
    log = FileLog.create(tmp_path / "bank")
    log.append([note("a")])
    receipts(log).unlink()
    DAMAGES["half a line"](active(log.directory))
    with pytest.raises(LogCorruption):
        log.append([note("b")])


def test_the_newest_receipt_of_any_writer_counts(tmp_path: Path) -> None:
    """Writers take turns, each in its own slot: a receipt is not overwritten by one of a lower position."""
    place = tmp_path / "bank"
    logs = [FileLog.create(place), *(FileLog.open(place, calls=Quick()) for _ in range(40))]
    for number, log in enumerate(logs):
        log.append([note("x", number)])
    logs[3].append([note("x", 3)])
    assert receipts(logs[0]).stat().st_size <= 4096
    DAMAGES["half a line"](active(place))
    with pytest.raises(LogCorruption, match="position 41 can't be read"):
        FileLog.open(place).position()


def test_receipts_after_a_roll_and_after_an_erasure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest segment gone as a file, with all its events, is noticed; an erasure leaves a receipt of its own."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 600)
    log = acknowledged(tmp_path / "bank", 8)
    log.erase(Erasing(events=frozenset({2})))
    assert log.position() == 9
    for victims in (1, 2):
        copy = Path(shutil.copytree(log.directory, tmp_path / f"without-{victims}"))
        shutil.copytree(log.derived_directory, derived(copy), dirs_exist_ok=True)
        for path in sorted(copy.glob("*.jsonl"))[-victims:]:
            path.unlink()
        if victims == 1:  # it held no event, only its first line: a writer that died in a roll leaves the same
            assert FileLog.open(copy).append([note("next")]).last == 10
        else:
            with pytest.raises(LogCorruption):
                FileLog.open(copy).append([note("next")])


def test_without_sync_there_is_no_receipt(tmp_path: Path) -> None:
    """What was never synced is not vouched for: a writer that gave up durability calls no loss corruption."""
    with FileLog.create(tmp_path / "bank", unsafe_no_sync=True) as log:
        log.append([note("a", 1)])
        log.append([note("b", 2)])
    DAMAGES["half a line"](active(log.directory))
    assert not receipts(log).exists() and FileLog.open(log.directory).append([note("c")]).last == 2


def test_a_copy_that_is_shorter_than_an_earlier_one(tmp_path: Path) -> None:
    """A copy made in the place of a longer one begins with no receipts."""
    log, place = acknowledged(tmp_path / "bank"), tmp_path / "copy"
    log.copy(3, str(place)).append([note("x")])
    kept = (derived(place) / "receipts").read_bytes()
    shutil.rmtree(place)
    copied = log.copy(1, str(place))
    assert kept and copied.append([note("y")]).last == 2


def test_an_older_copy_put_back_on_purpose(tmp_path: Path) -> None:
    """The error names the folder of what was derived; once that is removed, the older copy is a log like any other."""
    log = acknowledged(tmp_path / "bank")
    DAMAGES["the whole line"](active(log.directory))
    with pytest.raises(LogCorruption) as caught:
        log.append([note("next")])
    assert f"remove the folder {log.derived_directory}:" in str(caught.value)
    shutil.rmtree(log.derived_directory)
    assert FileLog.open(log.directory).append([note("next")]).last == 3


@pytest.mark.parametrize("kind", [*KINDS, "a file that nobody may write"])
def test_receipts_that_are_no_file_stop_nobody(tmp_path: Path, kind: str) -> None:
    """Anything else in the place of the receipts is neither believed nor followed nor waited for."""
    log = acknowledged(tmp_path / "bank")
    path, victim = receipts(log), tmp_path / "victim"
    victim.mkdir()
    before = path.read_bytes()
    (victim / "file").write_bytes(before)
    if kind in KINDS:
        put(path, kind, victim)
    else:
        path.unlink()
        path.touch(0o400)
    with FileLog.open(log.directory, calls=Quick()) as fresh:
        assert fresh.append([note("next", 9)]).last == 4 and fresh.verify().events == 4
    assert (victim / "file").read_bytes() == before and [*victim.iterdir()] == [victim / "file"]
    assert FileLog.open(log.directory).seq_of_id(event_id(9)) == 4


def test_a_text_that_stands_twice_fails_verify(tmp_path: Path) -> None:
    """A long text is stored once per segment, so a second line of the same text was put there."""
    log = FileLog.create(tmp_path / "bank", calls=Quick())
    log.append([note("long " * 1_000, 1), note("next", 2)])
    path = active(log.directory)
    *whole, end = path.read_bytes().split(b"\n")
    text = next(line for line in whole if line.startswith(b'{"type":"text"'))
    path.write_bytes(b"\n".join([*whole[:-1], text, whole[-1], end]))
    with pytest.raises(LogCorruption, match="a second time"):
        FileLog.open(log.directory).verify()


def test_a_damaged_stored_text_is_corruption_wherever_it_is_read(tmp_path: Path) -> None:
    """A bit that flips in the line of a text, or in the newline before it, never gives other words or another error."""
    log = FileLog.create(tmp_path / "bank", unsafe_no_sync=True)
    log.append([note("a")])
    before = active(log.directory).stat().st_size
    event = log.append([note("long " * 1_000)]).events[0]
    assert isinstance(event, NoteLogged) and isinstance(event.note, Ref)
    path, sound = active(log.directory), active(log.directory).read_bytes()
    length = sound.index(b"\n", before) - before
    for offset in (*range(before - 1, before + 130, 4), *range(before + length - 20, before + length, 3)):
        flip(path, offset)
        with pytest.raises(LogCorruption):
            FileLog.open(log.directory).text(event.note)
        path.write_bytes(sound)


@pytest.mark.parametrize("ahead_s", [1, 86_400])
def test_a_time_in_the_future_is_refused(tmp_path: Path, ahead_s: int) -> None:
    """`occurred_at` is a time that has been; the log stays as it was, byte for byte."""
    now = 1_800_000_000_000_000
    log = FileLog.create(tmp_path / "bank", clock=lambda: now, calls=Quick())
    before = active(log.directory).read_bytes()
    with pytest.raises(BadEvent, match="in the future"):
        log.append([NoteLogged(note="1", occurred_at=utc_text(now + ahead_s * 1_000_000))])
    assert active(log.directory).read_bytes() == before
    assert log.append([NoteLogged(note="1", occurred_at=utc_text(now))]).last == 1


@pytest.mark.parametrize("by", [1, -1])
def test_a_renamed_segment_is_not_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    """A segment under the name of another position is damage for readers, for writers who ask it, and for `verify`."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 600)
    log = acknowledged(tmp_path / "bank", 8)
    middle = sorted(log.directory.glob("*.jsonl"))[1]
    middle.rename(middle.with_name(f"{int(middle.stem) + by:020d}.jsonl"))
    for use in (lambda log: list(log.read()), lambda log: log.verify()):
        with pytest.raises(LogCorruption):
            use(FileLog.open(log.directory))


def test_apparent_damage_is_read_again_while_no_writer_moves(tmp_path: Path) -> None:
    """A tail that looks damaged while a writer holds the lock is judged only after the lock is free."""
    log = acknowledged(tmp_path / "bank")
    path, found = active(log.directory), list[object]()
    sound = path.read_bytes()
    receipts(log).unlink()

    def read() -> None:
        try:
            found.append(FileLog.open(log.directory).position())
        except LogCorruption as error:
            found.append(error)

    with locked(log.directory / "lock", "bank"):
        flip(path, sound.index(event_id(2).encode()))
        reader = threading.Thread(target=read)
        reader.start()
        reader.join(0.2)
        assert not found and reader.is_alive()
        path.write_bytes(sound)
    reader.join()
    assert found == [3]


def test_verify_reads_apparent_damage_again_while_no_writer_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An erasure that rewrites a closed segment looks like damage for a moment."""
    log = acknowledged(tmp_path / "bank")
    closed, found = active(log.directory), list[object]()
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 100)
    log.append([note("in the next segment")])
    sound = closed.read_bytes()

    def verify() -> None:
        try:
            found.append(log.verify().events)
        except LogCorruption as error:
            found.append(error)

    with locked(log.directory / "lock", "bank"):
        flip(closed, sound.index(event_id(2).encode()))
        reader = threading.Thread(target=verify)
        reader.start()
        reader.join(0.2)
        assert not found and reader.is_alive()
        closed.write_bytes(sound)
    reader.join()
    assert found == [4]
