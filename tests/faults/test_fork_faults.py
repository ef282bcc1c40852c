"""A fork that is killed in the middle: nothing is there, or a whole fork; and nothing stays for ever."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.errors import BankExists, LogUnavailable
from rbank_es.log import Erasing
from rbank_es.log.disk import System
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import SECRET, note
from tests.processes import alone

CALLS = ("write", "truncate", "sync_data", "sync_directory", "replace", "remove", "link")


class Killed(System):
    """System calls of a process that is gone before call number `at`, as after SIGKILL."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in CALLS:
            return found
        return lambda *arguments: self._counted(found, arguments)

    def _counted(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        self.count += 1
        if self.count == self.at:
            os._exit(9)
        return call(*arguments)


def fork_and_die(parent: Path, place: Path, upto: int, at: int) -> None:
    """Fork a log; be gone at a call, or end with 0."""
    limits.SEGMENT_BYTES = 1_500
    FileLog.open(parent, calls=Killed(at)).fork(upto, str(place))
    os._exit(0)


@pytest.mark.slow
@pytest.mark.parametrize("erased", [False, True], ids=["plain", "from before an erasure"])
def test_a_killed_fork_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, erased: bool) -> None:
    """Killed at every system call; the next fork to that place removes what was left, and the parent is untouched."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 1_500)
    with FileLog.create(tmp_path / "bank") as log:
        for number in range(5):
            log.append([note(f"{SECRET} {number} " + "x" * 200)])
        head = log.head()
        if erased:
            log.erase(Erasing(events=frozenset({2})))
    before = {path.name: path.read_bytes() for path in (tmp_path / "bank").glob("*.jsonl")}
    at, done = 0, False
    while not done:
        at += 1
        place = tmp_path / f"fork-{at}"
        code = alone(fork_and_die, tmp_path / "bank", place, 5, at)
        assert code in (0, 9)
        done = code == 0
        if place.exists():
            with FileLog.open(place) as made:
                assert made.verify([head]).erased == erased
        else:
            with FileLog.open(tmp_path / "bank") as log, log.fork(5, str(place)) as made:
                made.verify([head])
        assert not list(tmp_path.glob(f".fork-{at}.*"))
    assert at > 8
    assert {path.name: path.read_bytes() for path in (tmp_path / "bank").glob("*.jsonl")} == before


def test_a_fork_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """An error of the disk at any call: nothing is there, and the error says what could not be made."""

    class Full(Killed):
        def _counted(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
            self.count += 1
            if self.count == self.at:
                raise OSError(28, os.strerror(28))
            return call(*arguments)

    with FileLog.create(tmp_path / "bank", unsafe_no_sync=True) as log:
        log.append([note("one")])
    # The first call syncs the parent itself.
    for at in range(2, 20):
        calls = Full(at)
        try:
            FileLog.open(tmp_path / "bank", calls=calls).fork(1, str(tmp_path / "deep" / "fork")).close()
        except LogUnavailable as error:
            assert "fork" in str(error)
            if not (tmp_path / "deep" / "fork").exists():
                assert sorted(path.name for path in tmp_path.iterdir()) == ["bank"]
                continue
        FileLog.open(tmp_path / "deep" / "fork").verify()
        with pytest.raises(BankExists):
            FileLog.open(tmp_path / "bank").fork(1, str(tmp_path / "deep" / "fork"))
        break
