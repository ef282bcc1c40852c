"""Forks of logs in files: shared bytes, proofs of what is shared, and whatever may be in the way."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.errors import BadInput, BankExists, LogCorruption
from rbank_es.log import Erasing, lines
from rbank_es.log.file import related_banks
from rbank_es.log.file.file_log import FileLog
from rbank_es.log.file.segments import segment_path
from rbank_es.system.files import cache_folder
from rbank_es.testing import SECRET, note


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 1_500)


@pytest.fixture
def log(tmp_path: Path) -> Iterable[FileLog]:
    """A log of several segments; every third note holds the secret."""
    with FileLog.create(tmp_path / "bank") as log:
        for number in range(12):
            log.append([note(f"{SECRET if number % 3 == 0 else 'words'} {number} " + "x" * 200)])
        yield log


def names(log: FileLog) -> list[Path]:
    return sorted(log.directory.glob("*.jsonl"))


def test_a_place_is_noted_although_another_process_removes_the_empty_folder(
    log: FileLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes fork at once: one sweeps the notes between the other's making of a folder and its note there."""
    sweeps = [1]

    def swept(*names: str) -> Path | None:
        folder = cache_folder(*names)
        if folder is not None and len(names) == 2 and sweeps:
            sweeps.clear()
            folder.rmdir()
        return folder

    monkeypatch.setattr(related_banks, "cache_folder", swept)
    with log.fork(log.position(), str(tmp_path / "fork")) as fork:
        assert not sweeps
        assert [each.place for each in fork.relatives()] == [str(log.directory)]
        assert [each.place for each in log.relatives()] == [str(fork.directory)]


def test_an_erasure_breaks_the_link_and_names_the_other_banks(log: FileLog, tmp_path: Path) -> None:
    """The fork is named in the parent's erasure, the parent in the fork's, each with its place."""
    with log.fork(log.position(), str(tmp_path / "fork")) as fork, fork.fork(3, str(tmp_path / "early")) as early:
        last = Erasing(events=frozenset({8}))
        planned = log.erase(last, dry_run=True)
        assert {each.place for each in planned.relatives} == {str(fork.directory)}  # `early` ends before it
        assert planned.shared_parts == 1
        erased = fork.erase(Erasing(words=(SECRET,)))
        found = {(each.bank, each.place, each.shared) for each in erased.relatives}
        assert found == {(log.bank_id, str(log.directory), 12), (early.bank_id, str(early.directory), 3)}
        assert erased.shared_parts > 1
        assert {each.place for each in log.erase(last).relatives} == {str(fork.directory)}
        shared = [log.erase(Erasing(events=frozenset({seq})), dry_run=True).shared_parts for seq in (2, 8)]
        assert shared == [1, 0]  # the first segment with `early`; the other banks have no file in common any more


def test_notes_of_banks_that_are_gone_are_removed(
    log: FileLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a fork was removed, and no bank of its lineage is left, nothing stays in the user's cache."""
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "cache"))
    notes = tmp_path / "cache" / "lineages"
    log.fork(3, str(tmp_path / "fork")).close()
    assert len(list(notes.glob("*/*"))) == 2
    shutil.rmtree(tmp_path / "fork")
    assert log.relatives() == () and len(list(notes.glob("*/*"))) == 1
    shutil.rmtree(log.directory)
    with FileLog.create(tmp_path / "other") as other:
        related_banks.sweep_lineages.cache_clear()
        other.fork(0, str(tmp_path / "fork")).close()
    assert len(list(notes.iterdir())) == 1 and len(list(notes.glob("*/*"))) == 2


def test_a_fork_by_a_clock_that_is_behind_is_no_earlier_than_what_it_shares(log: FileLog, tmp_path: Path) -> None:
    """`at` never decreases from position to position, in a fork as in any log."""
    with (
        FileLog.open(log.directory, clock=lambda: 1_000_000) as behind,
        behind.fork(log.position(), str(tmp_path / "fork")) as fork,
    ):
        times = [event.at for event in fork.read()]
        assert len(times) == log.position() + 1 and times == sorted(times)


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no second file system")
def test_a_fork_onto_another_disk(log: FileLog) -> None:
    """The system refuses the link, and the segments are copied."""
    place = Path("/dev/shm") / f"rbank-es-test-{os.getpid()}"
    try:
        with log.fork(log.position(), str(place / "fork")) as fork:
            assert fork.storage().shared_parts == 0 and fork.verify().events == 13
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_places_that_are_refused(log: FileLog, tmp_path: Path) -> None:
    """Where anything is, and inside the bank itself; nothing is changed there."""
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    kinds = {"there": "a directory already", "file": "it is a file", "link": "a link already"}
    for place, kind in kinds.items():
        with pytest.raises(BankExists, match=kind):
            log.fork(3, str(tmp_path / place))
    with pytest.raises(BadInput):
        log.fork(3, str(tmp_path / "bank"))
    for place in (log.directory / "inside", log.directory / "deep" / "inside"):
        with pytest.raises(BadInput, match="inside the bank's own directory"):
            log.fork(3, str(place))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank", "file", "link", "there"]
    assert not any((tmp_path / "there").iterdir()) and (tmp_path / "file").read_text() == "mine"
    assert all(path.is_file() for path in log.directory.iterdir())


@pytest.mark.parametrize("where", ["the first line", "the last line", "the part to copy"])
def test_a_damaged_segment_is_not_forked(log: FileLog, tmp_path: Path, where: str) -> None:
    """Damage at the ends of a shared segment, or anywhere in what is copied, is said; nothing is left behind."""
    end = log.position()
    log.close()
    path = names(log)[-1] if where == "the part to copy" else names(log)[1]
    data = path.read_bytes()
    at = {"the first line": data.index(b'"head"'), "the last line": data.rindex(b'"head"')}.get(where, len(data) - 250)
    path.write_bytes(data[:at] + b"#" + data[at + 1 :])
    with pytest.raises(LogCorruption):
        FileLog.open(log.directory).fork(end, str(tmp_path / "fork"))
    assert [path.name for path in tmp_path.iterdir()] == ["bank"]


def test_a_fork_from_before_the_damage(log: FileLog, tmp_path: Path) -> None:
    """What can be read of a damaged log can be forked, and goes on."""
    for number in range(3):
        log.append([note(f"last {number}")])
    end = log.position()
    log.close()
    path = names(log)[-1]
    data = path.read_bytes()
    damaged = f'"seq":{end - 1}'.encode()
    path.write_bytes(data.replace(damaged, b'"seq":xx'))
    with FileLog.open(log.directory) as parent:
        with pytest.raises(LogCorruption):
            parent.fork(end, str(tmp_path / "fork"))
        with parent.fork(end - 2, str(tmp_path / "fork")) as fork:
            fork.append([note("on")])
            assert fork.verify().events == end


def test_the_fork_of_a_log_with_an_unfinished_erasure_is_refused(
    log: FileLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some segments may be without the texts and some not; the next writer completes the erasure."""

    def stop(*_: object) -> None:
        raise OSError(errno.EIO, "stop")

    with monkeypatch.context() as stopped, pytest.raises(Exception, match="can't be completed"):
        stopped.setattr("rbank_es.log.file.segment_rewrite.rewrite", stop)
        log.erase(Erasing(words=(SECRET,)))
    with pytest.raises(BadInput, match="complete it first"):
        log.fork(3, str(tmp_path / "fork"))
    log.append([note("next")])
    with log.fork(3, str(tmp_path / "fork")) as fork:
        assert fork.verify().erased == 1


def test_a_fork_that_claims_another_beginning_does_not_verify(log: FileLog, tmp_path: Path) -> None:
    """The first event of a fork must record the fork's id, and the position and the head where it began."""
    with log.fork(6, str(tmp_path / "fork")) as fork:
        path, seed = names(fork)[-1], lines.seed_of(log.bank_id)
        for old, new in (
            (b'"parent_seq":6', b'"parent_seq":5'),
            (b'"fork":"' + fork.bank_id.encode(), b'"fork":"' + b"0" * 32),
            (b'"parent_digest":"', b'"parent_digest":"0'),
        ):
            whole = path.read_bytes()
            opening, forked, rest = whole.split(b"\n", 2)
            assert old in forked
            body = forked.replace(old, new)[: -lines.CRC_TAIL]
            path.write_bytes(opening + b"\n" + lines.close_line(body, seed) + rest)
            with pytest.raises(LogCorruption, match="does not record that"), FileLog.open(fork.directory) as again:
                again.verify()
            path.write_bytes(whole)
        FileLog.open(fork.directory).verify()


def test_segments_of_parent_and_fork_do_not_mix(log: FileLog, tmp_path: Path) -> None:
    """A segment that the parent wrote later, behind the fork's own, is found by `verify`."""
    with log.fork(log.position(), str(tmp_path / "fork")) as fork:
        head, seed = fork.head(), lines.seed_of(log.bank_id)
        with names(fork)[-1].open("ab") as file:
            file.write(lines.sealed_line(head.seq, head.digest, seed))
        stranger = lines.opened_line(log.bank_id, log.bank_id, head.seq + 1, head.digest, 0)
        segment_path(fork.directory, head.seq + 1).write_bytes(stranger)
        with pytest.raises(LogCorruption, match="of its fork"), FileLog.open(fork.directory) as again:
            again.verify()


def test_the_line_that_closes_a_segment_names_its_last_event_and_its_head(log: FileLog) -> None:
    """Another number or another head, with a checksum that fits, is found by `verify`; so is a line cut short."""
    last, path, seed = int(names(log)[1].stem) - 1, names(log)[0], lines.seed_of(log.bank_id)
    whole = path.read_bytes()
    rest = whole[: whole.rindex(b"\n", 0, -1) + 1]
    assert whole == rest + lines.sealed_line(last, log.head(last).digest, seed)
    for wrong in (
        lines.sealed_line(last - 1, log.head(last).digest, seed),
        lines.sealed_line(last, log.head(last - 1).digest, seed),
        lines.close_line(lines.SEGMENT + b'closed"', seed),
    ):
        path.write_bytes(rest + wrong)
        with pytest.raises(LogCorruption, match="doesn't fit the lines before it"), FileLog.open(log.directory) as bad:
            bad.verify()


def test_files_of_others_are_copied_and_not_shared(
    log: FileLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns a file may write to it, also under the second name that the fork would have."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with log.fork(log.position(), str(tmp_path / "fork")) as fork:
        assert fork.storage().shared_parts == 0


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.jsonl"))}


def test_nothing_that_either_log_does_writes_through_a_shared_file(log: FileLog, tmp_path: Path) -> None:
    """Appends, rolls, healing, erasures, `verify` after a failed sync: the other's bytes and permissions stay."""
    with log.fork(log.position(), str(tmp_path / "fork")) as fork:
        for one, other in ((fork, log), (log, fork)):
            before = contents(other.directory)
            modes = {path: path.stat().st_mode for path in names(other)}
            for number in range(9):
                one.append([note(f"more {number} " + "y" * 300)])
            with names(one)[-1].open("ab") as file:
                file.write(b'{"type":"note_logged","seq"')
            one.close()
            with pytest.warns(Warning, match="was interrupted"):
                one.append([note("healed")])
            (one.directory / "FAILED").write_text("a sync failed")
            assert one.verify().cleared
            one.erase(Erasing(words=(SECRET,)))
            one.verify()
            assert contents(other.directory) == before
            assert {path: path.stat().st_mode for path in names(other)} == modes
            other.verify()
