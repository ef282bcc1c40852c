"""Power is lost after any real system call of a fork: the parent keeps what was acknowledged, and what bears the fork's
name is a whole fork."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.log import Erasing, Head
from rbank_es.log.disk import System
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import note
from tests.faults.disk import Quick
from tests.faults.power import Trace, states, traced


class ForkTrace(Trace):
    """A trace in which a draft becomes a fork: the names that the disk has of its files move with it."""

    def __init__(self, world: Path) -> None:
        super().__init__([world])
        self.parent, self.fork = world / "bank", world / "fork"
        self.is_named = False

    def note(self, call: str, fd: int | None) -> None:
        """Note the moment after a call, and whether the disk has the fork's own name."""
        for folder in [each for each in self._entries if not Path(each).exists()]:
            moved = self._entries.pop(folder)
            self._entries[str(self.fork)] = {str(self.fork / Path(path).name): n for path, n in moved.items()}
        if fd is not None and call == "fsync" and Path(f"/proc/self/fd/{fd}").readlink() == self.fork.parent:
            self.is_named = self.fork.exists()
        super().note(call, fd)


def forked(world: Path, erased: bool, trace: ForkTrace, patch: pytest.MonkeyPatch) -> tuple[list[Head], int]:
    """Make a bank of several segments and a fork of it; return its heads, and the number of calls before the fork."""
    with traced(trace, patch):
        log = FileLog.create(trace.parent)
        for text in ("a", "b" * 300, "c" * 700, "d" * 500):
            log.append([note(text), note("more")])
        heads = [log.head()]
        if erased:
            log.erase(Erasing(events=frozenset({2})))
        trace.acknowledged |= {event.id: event.seq for event in log.read()}
        before = len(trace.moments)
        log.fork(heads[0].seq, str(trace.fork))
    return heads, before


def check(trace: ForkTrace, heads: list[Head], before: int, tmp_path: Path, seeds: int) -> int:
    """Check what any loss of power during the fork leaves of both banks; return the number of forks that were there."""
    found = 0
    for number, moment in enumerate(trace.moments[before:]):
        for folder in (trace.parent, trace.fork):
            is_there = any(Path(path).parent == folder for path in moment.memory)
            for kind, files in states(moment, folder, seeds) if is_there else ():
                place = tmp_path / f"after-{number}-{folder.name}-{kind}"
                place.mkdir()
                for name, data in files.items():
                    (place / name).write_bytes(data)
                try:
                    with FileLog.open(place, calls=Quick()) as log:
                        log.verify(heads)
                        log.append([note("the next writer")])
                        log.verify(heads)
                        if folder == trace.parent:
                            there = {event.id: event.seq for event in log.read()}
                            assert there.items() >= moment.acknowledged.items()
                        found += folder == trace.fork
                except BaseException as error:
                    error.add_note(f"after call {number} of the fork ({moment.call}), with {kind}")
                    raise
                shutil.rmtree(place)
    return found


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 1_400)
    monkeypatch.setattr(limits, "INLINE_TEXT_BYTES", 300)
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("erased", "seeds"),
    [(False, 0), pytest.param(False, 6, marks=pytest.mark.slow), pytest.param(True, 6, marks=pytest.mark.slow)],
)
def test_power_is_lost_after_any_call_of_a_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, erased: bool, seeds: int
) -> None:
    """Also where the fork's name survived though nobody had asked for that yet; when it returned, the name is there."""
    (tmp_path / "world").mkdir()
    trace = ForkTrace(tmp_path / "world")
    heads, before = forked(tmp_path / "world", erased, trace, monkeypatch)
    assert check(trace, heads, before, tmp_path, seeds) and trace.is_named


@pytest.mark.parametrize("call", ["sync_data", "sync_directory"])
def test_the_trace_of_a_fork_notices_what_was_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The means of this test: a fork whose bytes, or names, are never synced is no whole one after a loss of power."""
    (tmp_path / "world").mkdir()
    trace = ForkTrace(tmp_path / "world")
    monkeypatch.setattr(System, call, lambda *given: None)
    heads, before = forked(tmp_path / "world", False, trace, monkeypatch)
    with pytest.raises(Exception) as caught:  # noqa: PT011  gone, cut, or damaged
        check(trace, heads, before, tmp_path, 0)
    assert "with at least" in caught.value.__notes__[0]
