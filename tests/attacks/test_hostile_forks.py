"""Attacks on who forks a stranger's bank, or forks beside a stranger's files: nothing outside is written or removed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from msgspec.json import decode
from msgspec.structs import replace

from rbank_es import Bank, limits
from rbank_es.errors import LogCorruption, RBankError
from rbank_es.events import BankForked, Event, NoteLogged
from rbank_es.events.codec import decode_event, encode_json
from rbank_es.log import Erasing
from rbank_es.log.ancestry import lineage_of
from rbank_es.log.file.file_log import FileLog
from rbank_es.log.lines import Opened, close_line, seed_of
from rbank_es.testing import SECRET, note


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterable[FileLog]:
    """A bank of several segments that a stranger made."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 1_500)
    with FileLog.create(tmp_path / "bank", unsafe_no_sync=True) as log:
        for number in range(9):
            log.append([note(f"{SECRET} {number} " + "x" * 200)])
        yield log


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of the user's, that no fork may touch."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "file").write_text("mine")
    return tmp_path / "home"


def segments(log: FileLog) -> list[Path]:
    return sorted(log.directory.glob("*.jsonl"))


def test_a_foreign_file_under_a_segments_name_is_never_written(log: FileLog, tmp_path: Path) -> None:
    """Hard links from a bank to files outside: forks, appends and erasures in both leave their bytes."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for path in segments(log)[:-1]:
        os.link(path, outside / path.name)
    before = {path.name: (path.read_bytes(), path.stat().st_mode) for path in outside.iterdir()}
    with log.fork(9, str(tmp_path / "fork")) as fork:
        for one in (fork, log):
            for number in range(9):
                one.append([note(f"more {number} " + "y" * 300)])
            one.erase(Erasing(words=(SECRET,)))
            one.verify()
    assert {path.name: (path.read_bytes(), path.stat().st_mode) for path in outside.iterdir()} == before


def test_what_is_no_segment_is_not_taken_over(log: FileLog, victim: Path, tmp_path: Path) -> None:
    """A link, a file that is no segment, one of another bank: refused, and nothing is left of the fork."""
    path = segments(log)[1]
    whole = path.read_bytes()
    with FileLog.create(tmp_path / "other", unsafe_no_sync=True) as other:
        other.append([note("x")])
    for put in (
        lambda: path.symlink_to(victim / "file"),
        lambda: os.mkfifo(path),
        lambda: os.link(victim / "file", path),
        lambda: shutil.copy(tmp_path / "other" / "00000000000000000001.jsonl", path),
    ):
        path.unlink()
        put()
        with pytest.raises(LogCorruption):
            FileLog.open(log.directory).fork(9, str(tmp_path / "fork"))
        assert sorted(each.name for each in tmp_path.iterdir()) == ["bank", "home", "other"]
    path.unlink()
    path.write_bytes(whole)
    assert (victim / "file").read_text() == "mine"


def test_a_segment_that_is_exchanged_while_it_is_shared_is_copied(
    log: FileLog, victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is looked up again when the link is made: another file under it is not taken."""
    real = os.link

    def exchanged(source: Path, target: Path, **options: bool) -> None:
        real(victim / "file", target, **options)

    monkeypatch.setattr(os, "link", exchanged)
    with log.fork(9, str(tmp_path / "fork")) as fork:
        assert fork.verify().events == 10 and fork.storage().shared_parts == 0
    assert (victim / "file").stat().st_nlink == 1


def test_drafts_that_a_stranger_laid_out(log: FileLog, victim: Path, tmp_path: Path) -> None:
    """A draft's name on a link to a folder, or a folder with links in it: what they lead to stays."""
    name = f".fork.{'0' * 32}.part"
    (tmp_path / name).symlink_to(victim)
    log.fork(3, str(tmp_path / "fork")).close()
    assert (tmp_path / name).is_symlink()
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    (tmp_path / name / "link").symlink_to(victim)
    shutil.rmtree(tmp_path / "fork")
    log.fork(3, str(tmp_path / "fork")).close()
    assert not (tmp_path / name).exists() and (victim / "file").read_text() == "mine"
    (tmp_path / f".fork.{'1' * 31}.part").mkdir()  # not a draft's name: somebody's own folder
    shutil.rmtree(tmp_path / "fork")
    log.fork(3, str(tmp_path / "fork")).close()
    assert (tmp_path / f".fork.{'1' * 31}.part").is_dir()


def test_an_id_of_any_text_is_not_believed(log: FileLog, tmp_path: Path) -> None:
    """A first line whose ids are paths or control characters: no file outside, no traceback."""
    from rbank_es.log import lines

    path = segments(log)[0]
    evil = "../../../etc/\x1b[31mpasswd"
    path.write_bytes(lines.opened_line(evil, evil + "2", 1, "0" * 64, 0))
    for other in segments(log)[1:]:
        other.unlink()
    with FileLog.open(log.directory) as opened:
        try:
            opened.fork(0, str(tmp_path / "fork")).close()
        except RBankError:
            return
    with FileLog.open(tmp_path / "fork") as fork:
        assert fork.ancestors()[0].bank == evil


FORGED: dict[str, Callable[[BankForked], Event]] = {
    "its own parent": lambda born: replace(born, parent=str(born.fork)),
    "another fork": lambda born: replace(born, fork="f" * 32),
    "another position": lambda born: replace(born, parent_seq=born.parent_seq - 1),
    "another head": lambda born: replace(born, parent_digest="0" * 64),
    "no record": lambda born: NoteLogged(
        seq=born.seq, at=born.at, id=born.id, more=born.more, dur=born.dur, note='"n"', salt="A" * 24
    ),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_parent_is_refused_by_whatever_takes_its_events(how: str, log: FileLog, tmp_path: Path) -> None:
    """By verify, by a fork of it and by an absorption, a dry one too, each before anything is written."""
    with log.fork(9, str(tmp_path / "fork")) as fork:
        fork.append([note("own")])
        place, seed, last = fork.directory, seed_of(lineage_of(fork)), segments(fork)[-1]
    lines = last.read_bytes().splitlines()
    born = decode_event(lines[1])
    assert isinstance(born, BankForked)
    made = encode_json(replace(FORGED[how](born), crc=""))[: -len(b"}")]
    lines[1] = close_line(made, seed)[:-1]
    last.write_bytes(b"\n".join(lines) + b"\n")
    with FileLog.open(place) as forged, Bank.create(tmp_path / "mine") as mine:
        head = mine.head()
        for taking in (
            forged.verify,
            lambda: forged.fork(forged.position(), str(tmp_path / "second")),
            lambda: mine.absorb(Bank(forged, "forged"), dry_run=True),
            lambda: mine.absorb(Bank(forged, "forged")),
        ):
            with pytest.raises(LogCorruption, match="the fork .* begins here"):
                taking()
        assert mine.head() == head and not (tmp_path / "second").exists()


def test_a_bank_that_is_called_its_own_fork_is_not_sound(log: FileLog) -> None:
    path = segments(log)[2]
    opening, *others = path.read_bytes().splitlines(keepends=True)
    first = decode(opening, type=Opened)
    made = encode_json(replace(first, fork=first.bank, crc=""))[: -len(b"}")]
    path.write_bytes(b"".join([close_line(made, seed_of(first.bank)), *others]))
    with pytest.raises(LogCorruption, match="its own fork"):
        log.verify()
