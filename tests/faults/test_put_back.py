"""Files that were changed by other programs: an erased text put back, a time turned back."""

import shutil
from pathlib import Path

import pytest

from rbank_es.errors import LogCorruption
from rbank_es.events import NoteLogged
from rbank_es.log import Erasing, lines
from rbank_es.log.file.file_log import FileLog


@pytest.fixture
def log(tmp_path: Path):
    """A log of three notes."""
    with FileLog.create(tmp_path / "log") as made:
        for word in ("first secret", "second secret", "third secret"):
            made.append([NoteLogged(note=f'"{word}"')])
        yield made


def segment_of(log: FileLog) -> Path:
    """The oldest file of the log."""
    return min(log.directory.glob("*.jsonl"))


def test_an_erased_text_that_is_put_back_is_found(log: FileLog, tmp_path: Path):
    """An old copy of a file brings an erased text back; `verify` says so, and erasing again mends it."""
    shutil.copy(segment_of(log), tmp_path / "copy")
    log.append([NoteLogged(note="{}")])
    log.erase(Erasing(words=("second secret",)))
    erased = segment_of(log).read_bytes()
    assert log.verify().erased == 1
    old = (tmp_path / "copy").read_bytes().split(b"\n")
    new = erased.split(b"\n")
    segment_of(log).write_bytes(b"\n".join(old[:-1] + new[len(old) - 1 :]))
    with pytest.raises(LogCorruption, match="position 2: a text that was erased is back"):
        log.verify()
    log.erase(Erasing(words=("second secret",)))
    assert log.verify().erased == 1


def test_a_time_that_goes_backwards_is_found(log: FileLog):
    """A line whose time is before that of the line before it, checksum and all, does not pass `verify`."""
    seed = lines.seed_of(log.bank_id)
    written = segment_of(log).read_bytes().splitlines(keepends=True)
    body = written[-1][: -lines.CRC_TAIL - 1]
    start = body.index(b'"at":"') + 6
    written[-1] = lines.close_line(body[:start] + b"1999-01-01T00:00:00.000000Z" + body[start + 27 :], seed)
    segment_of(log).write_bytes(b"".join(written))
    with pytest.raises(LogCorruption, match="its time 1999"):
        log.verify()
