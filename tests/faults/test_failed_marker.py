"""After a failed sync nobody writes: also where the disk has no room, or no grace, for the marker that says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.errors import LogBusy, LogFailed
from rbank_es.log import disk
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import note
from tests.faults.disk import Disk, broken, no_space
from tests.odd_files import KINDS, put

ANOTHER = (
    "import sys; from pathlib import Path; from rbank_es import limits; from rbank_es.testing import note; "
    "from rbank_es.log.file.file_log import FileLog; limits.LOCK_WAIT_S = 0.2; log = FileLog.open(Path(sys.argv[1])); "
    "print(len(list(log.read()))); log.append([note('x')])"
)


def another(place: Path) -> subprocess.CompletedProcess[str]:
    """Another process that reads the log, and then appends."""
    return subprocess.run([sys.executable, "-c", ANOTHER, str(place)], capture_output=True, text=True)


def failed(place: Path) -> tuple[FileLog, str]:
    """A log whose sync just failed, and what its writer was told."""
    disk = Disk()
    log = FileLog.create(place, calls=disk)
    log.append([note("a")])
    disk.fail = lambda name, number: broken() if name == "sync_data" else None
    with pytest.raises(LogFailed) as caught:
        log.append([note("b")])
    disk.fail = lambda name, number: None
    return log, str(caught.value)


def refuse_new_files(monkeypatch: pytest.MonkeyPatch, *, links: bool) -> None:
    def refused(*_: object, **__: object) -> int:
        raise no_space()

    monkeypatch.setattr(disk, "create_new", refused)
    if links:
        monkeypatch.setattr(os, "link", refused)


def test_a_full_disk_has_room_for_a_second_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The marker is then another name of the lock file; it stops other processes, and `verify` removes it."""
    refuse_new_files(monkeypatch, links=False)
    log, _ = failed(tmp_path / "bank")
    assert (log.directory / "FAILED").samefile(log.directory / "lock")
    with pytest.raises(LogFailed):
        FileLog.open(log.directory).append([note("c")])
    assert FileLog.open(log.directory).verify().cleared and log.append([note("c")]).last == 3
    assert (log.directory / "lock").exists() and not (log.directory / "FAILED").exists()


@pytest.mark.slow
def test_where_no_marker_can_be_made_the_writer_keeps_all_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops by itself, says what could not be done, and holds the lock, closed or not, until it has verified."""
    refuse_new_files(monkeypatch, links=True)
    log, said = failed(tmp_path / "bank")
    monkeypatch.undo()
    assert "FAILED can't be made (No space left on device)" in said and "as long as this process lives" in said
    monkeypatch.setattr(limits, "LOCK_WAIT_S", 0.1)
    for _ in range(2):
        with pytest.raises(LogFailed, match="can't be made"):
            log.append([note("c")])
        with pytest.raises(LogBusy):
            FileLog.open(log.directory).append([note("c")])
        log.close()
    done = another(log.directory)
    assert done.stdout.strip() == "2" and "LogBusy" in done.stderr
    assert log.verify().cleared and not log.verify().cleared
    assert FileLog.open(log.directory).append([note("c")]).last == 3


CONTENTS = (b"", b"\xff\xfe\x00", b"\x1b[2J" * 10, b"x" * 10_000_000, *KINDS)


@pytest.mark.parametrize("content", CONTENTS)
def test_whatever_is_called_failed_stops_writers_and_nobody_else(tmp_path: Path, content: bytes | str) -> None:
    """A marker is damaged like any file: it is still a marker."""
    log = FileLog.create(tmp_path / "bank", unsafe_no_sync=True)
    log.append([note("a")])
    path = log.directory / "FAILED"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        put(path, content, tmp_path)
    fresh = FileLog.open(log.directory)
    with pytest.raises(LogFailed, match="verify") as stopped:
        fresh.append([note("b")])
    assert len(str(stopped.value)) < 10_000
    assert len(list(fresh.read())) == 1 and fresh.position() == 1
