"""What an interrupted append left: said, kept beside the log and recorded when it is cut off, and erased on demand."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path
from shutil import which

import pytest

from rbank_es import limits
from rbank_es.errors import BadEvent, InterruptedAppend, LogUnavailable, PositionConflict
from rbank_es.log import Erasing
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import note
from tests.cli_runner import run
from tests.faults.disk import Disk, Quick, no_space
from tests.places import active

TORN = b'{"type":"note_logged","seq":2,"at":"2026'


def torn(log: FileLog, data: bytes = TORN) -> None:
    with active(log.directory).open("ab") as file:
        file.write(data)


@pytest.fixture
def log(tmp_path: Path) -> FileLog:
    made = FileLog.create(tmp_path / "bank", calls=Quick())
    made.append([note("a", 1)])
    return made


def test_a_cut_is_said_kept_and_recorded(log: FileLog) -> None:
    """The notice names place, size and file; the file holds the bytes as they were; `verify` lists both."""
    size = active(log.directory).stat().st_size
    torn(log)
    with pytest.warns(InterruptedAppend, match=r"40 bytes .* kept in the file torn-1") as said:
        log.append([note("b", 2)])
    notice = said[0].message
    assert isinstance(notice, InterruptedAppend)
    assert (notice.size_bytes, notice.kept, notice.where) == (
        40,
        "torn-1",
        f"segment {active(log.directory).name}, byte {size}",
    )
    kept = log.directory / "torn-1"
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (TORN, 0o600)
    seen = FileLog.open(log.directory).verify()
    (cut,) = seen.cuts
    assert (cut.after_seq, cut.size_bytes, cut.kept, seen.kept, seen.torn) == (1, 40, "torn-1", {"torn-1": 40}, None)


def test_the_record_does_not_change_positions_or_heads(log: FileLog) -> None:
    """It is no event: whoever expects a position finds it, ids and heads are as without it."""
    torn(log)
    assert log.append([note("b", 2)], expected=1).last == 2
    copy = log.copy(2)
    assert copy.head() == log.head() == FileLog.open(log.directory).head()
    assert [event.seq for event in FileLog.open(log.directory).read()] == [1, 2]
    assert log.append([note("b", 2)]).duplicate and FileLog.open(log.directory).append([note("c")]).last == 3


def test_a_record_before_a_roll_and_an_erasure(log: FileLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record may be the last line before the one that closes the segment, and outlives a rewriting."""
    torn(log)
    monkeypatch.setattr(limits, "SEGMENT_BYTES", active(log.directory).stat().st_size)
    log.append([note("b" * 100)])
    torn(log)
    assert log.erase(Erasing(events=frozenset({1}))).places
    seen = log.verify()
    assert [cut.after_seq for cut in seen.cuts] == [1, 2] and seen.kept == {}


@pytest.mark.skipif(which("node") is None, reason="node is not installed")
def test_a_reader_in_another_language_skips_the_record(log: FileLog) -> None:
    torn(log)
    log.append([note("b", 2)])
    told = subprocess.run(["node", "tests/reader.js", log.directory], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(log.head())


def test_an_append_that_is_refused_cuts_nothing_and_the_next_records_its_own_cut(log: FileLog) -> None:
    """Whoever is refused records nothing; others then write where the remains were, and the log stays sound."""
    refused, other = FileLog.open(log.directory), FileLog.open(log.directory)
    torn(log)
    with pytest.raises(PositionConflict):
        refused.append([note("b")], expected=7)
    assert refused.append([note("a", 1)]).duplicate
    other.append([note("c")])
    refused.append([note("d")])
    assert [cut.after_seq for cut in log.verify().cuts] == [1] and log.verify().head.seq == 3


def test_an_erasure_that_finds_nothing_leaves_no_record_for_later(log: FileLog) -> None:
    """It removes what an interrupted append left; a record that others overtook would stand in the wrong place."""
    eraser, other = FileLog.open(log.directory), FileLog.open(log.directory)
    torn(log, b"a secret of somebody")
    assert not eraser.erase(Erasing(words=("words that are nowhere",))).places
    other.append([note("c")])
    eraser.append([note("d")])
    assert log.verify().head.seq == 3 and not list(log.directory.glob("torn-*"))


def test_a_damaged_record_is_damage(log: FileLog) -> None:
    torn(log)
    log.append([note("b", 2)])
    log.append([note("c", 3)])
    path, sound = active(log.directory), active(log.directory).read_bytes()
    at = sound.index(b'"size":40') + 8
    path.write_bytes(sound[:at] + b"1" + sound[at + 1 :])
    with pytest.raises(Exception, match="checksum|damaged"):
        FileLog.open(log.directory).verify()


def test_a_notice_that_is_an_error_cuts_nothing(log: FileLog) -> None:
    """With the warning turned into an error, a program decides itself; the bytes are where they were."""
    torn(log)
    before = active(log.directory).read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error", InterruptedAppend)
        with pytest.raises(InterruptedAppend):
            log.append([note("b")])
    assert active(log.directory).read_bytes() == before and not list(log.directory.glob("torn-*"))


def test_bytes_that_cannot_be_kept_are_not_cut_off(log: FileLog) -> None:
    """A disk without room for the file refuses the append; the torn bytes stay, and no part of a file does."""
    torn(log)
    disk = Disk()
    disk.fail = lambda name, number: no_space() if name == "write" else None
    before = active(log.directory).read_bytes()
    with pytest.raises(LogUnavailable):
        FileLog.open(log.directory, calls=disk).append([note("b")])
    assert active(log.directory).read_bytes() == before and not list(log.directory.glob("torn-*"))


def test_the_number_and_the_size_of_kept_files_are_limited(log: FileLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are kept; of many bytes, the first ones."""
    monkeypatch.setattr(limits, "TORN_FILES", 3)
    monkeypatch.setattr(limits, "TORN_FILE_BYTES", 30)
    for number in range(5):
        torn(log)
        log.append([note(str(number))])
    seen = log.verify()
    assert seen.kept == {"torn-3": 30, "torn-4": 30, "torn-5": 30} and [cut.size_bytes for cut in seen.cuts] == [40] * 5


def test_names_that_somebody_took_are_left_alone(log: FileLog, tmp_path: Path) -> None:
    """A link or a folder in the place of a kept file is neither followed nor replaced nor removed."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (log.directory / "torn-1").symlink_to(elsewhere)
    (log.directory / "torn-7").mkdir()
    (log.directory / "torn-x").write_text("mine too")
    torn(log)
    log.append([note("b")])
    assert (log.directory / "torn-8").read_bytes() == TORN and elsewhere.read_text() == "mine"
    log.erase(Erasing(events=frozenset({1})))
    assert {path.name for path in log.directory.glob("torn-*")} == {"torn-1", "torn-7", "torn-x"}


@pytest.mark.parametrize("words", ["a torn secret", "words that stand nowhere"])
def test_any_erasure_removes_what_was_kept(log: FileLog, words: str) -> None:
    """Damaged bytes can't be searched, so an erasure doesn't ask what they hold, even if it finds nothing else."""
    torn(log, b'{"type":"text","id":"' + b"0" * 64 + b'","salt":"x","text":"a torn secret')
    log.append([note("b")])
    assert list(log.directory.glob("torn-*"))
    log.erase(Erasing(words=(words,)))
    assert not list(log.directory.glob("torn-*"))
    assert not any(b"a torn secret" in path.read_bytes() for path in log.directory.iterdir())


def test_a_refused_append_after_a_cut_keeps_the_record_for_the_next(log: FileLog) -> None:
    torn(log)
    with pytest.raises(BadEvent):
        log.append([note("x", 2), note("y", 2)])
    log.append([note("b", 2)])
    assert len(log.verify().cuts) == 1


@pytest.mark.slow
def test_a_command_says_what_it_cuts_off(tmp_path: Path) -> None:
    """On standard error, in one line, without a word of Python's; `verify` tells before and after."""
    run("init", "notes", cwd=tmp_path)
    with FileLog.open(tmp_path / "logs" / "notes") as log:
        torn(log)
    said = run("verify", "notes", cwd=tmp_path).out
    assert "its 40 bytes at the end are ignored" in said
    done = run("append", "notes", cwd=tmp_path, stdin='{"type":"note_logged","note":1}')
    assert done.err.count("\n") == 1 and "an append was interrupted; 40 bytes" in done.err and ".py" not in done.err
    said = run("verify", "notes", cwd=tmp_path).out
    assert "40 bytes behind position 2 were cut off into torn-1" in said and "torn-1 keeps 40 bytes" in said


@pytest.mark.parametrize("cut", [True, False], ids=["in a file", "still in the log"])
def test_words_that_only_an_interrupted_append_left_are_erased_by_command(log: FileLog, cut: bool) -> None:
    """No event holds them; the report names what is removed, before and after."""
    torn(log, b'{"type":"note_logged","note":"a secret of somebody"')
    if cut:
        with pytest.warns(InterruptedAppend):
            log.append([note("b", 2)])
    words = log.directory.parent / "words.txt"
    words.write_text("a secret of somebody")
    planned = run("erase", str(log.directory), "--text", str(words), "--dry-run", cwd=log.directory)
    assert planned.code == 0 and "51 bytes, removed whole by any erasure" in planned.out
    done = run("erase", str(log.directory), "--text", str(words), "--yes", cwd=log.directory)
    assert done.code == 0 and "removed what interrupted appends left: torn-1" in done.out
    assert not any(b"a secret" in path.read_bytes() for path in log.directory.iterdir())


def test_an_erasure_counts_the_remains_that_it_removes(log: FileLog) -> None:
    """Beside the texts of events."""
    torn(log)
    with pytest.warns(InterruptedAppend):
        log.append([note("b", 2)])
    planned = log.erase(Erasing(events=frozenset({2})), dry_run=True)
    done = log.erase(Erasing(events=frozenset({2})))
    assert planned.remains == done.remains == {"torn-1": len(TORN)} and done.appended is not None
    assert not (log.directory / "torn-1").exists()


@pytest.mark.slow
def test_the_last_number_of_remains_taken_by_somebody_stops_no_writer(log: FileLog) -> None:
    """Cut bytes go to a free number, and to no name that an erasure wouldn't know."""
    (log.directory / "torn-999999999").write_text("placed here")
    for number in (2, 3):
        torn(log)
        with pytest.warns(InterruptedAppend):
            log.append([note("b", number)])
    assert log.erase(Erasing(events=frozenset({2}))).remains.keys() == {"torn-1", "torn-2", "torn-999999999"}
    assert not list(log.directory.glob("torn-*"))
