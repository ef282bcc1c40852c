"""The file log when the machine is not its friend: torn writes, full disks, failed syncs, power cuts, damage."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.errors import BankNotFound, CheckFailed, LogCorruption, LogFailed, LogUnavailable, UnknownEvent
from rbank_es.events import NoteLogged, Ref
from rbank_es.events.codec import TYPES
from rbank_es.log import Erasing
from rbank_es.log import lines as line_format
from rbank_es.log.disk import Receipts
from rbank_es.log.file.file_log import FileLog
from rbank_es.system.files import BankCache
from rbank_es.testing import event_id, note
from tests.faults.disk import Disk, Quick, broken, no_space
from tests.places import active, derived, flip


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 1_500)


@pytest.fixture
def short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INLINE_TEXT_BYTES", 40)


def create(place: Path, **options: Any) -> FileLog:
    return FileLog.create(place, unsafe_no_sync=True, **options)


def texts_in(log: FileLog) -> list[str]:
    return [str(event.note) for event in log.read(resolve=TYPES) if isinstance(event, NoteLogged)]


def no_receipts(place: Path) -> None:
    (derived(place) / "receipts").unlink(missing_ok=True)


def files_of(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.glob("*") if path.is_file()}


class TestTornTail:
    """A group that was cut off anywhere: nobody sees it, the next writer removes it, nothing else goes.

    Any cut of any log is tried in `tests/laws/test_log.py`.
    """

    def test_second_healer_finds_nothing(self, tmp_path: Path) -> None:
        """Two writers meet one torn tail: one cuts it off, both append."""
        log = create(tmp_path / "bank")
        log.append([note("a")])
        with active(tmp_path / "bank").open("ab") as file:
            file.write(b'{"type":"note_logged","seq":2,"at":"20')
        first, second = (FileLog.open(tmp_path / "bank") for _ in range(2))
        assert first.position() == second.position() == 1
        assert first.append([note("b")]).last == 2
        assert second.append([note("c")]).last == 3
        assert texts_in(log) == ["a", "b", "c"] and log.verify().torn is None

    def test_reader_and_verify_report_but_do_not_heal(self, tmp_path: Path) -> None:
        """`verify` says where the remains are and how many bytes; only a writer cuts them off."""
        log = create(tmp_path / "bank")
        log.append([note("a")])
        end = active(log.directory).stat().st_size
        with active(log.directory).open("ab") as file:
            file.write(b"x" * 100)
        torn = log.verify().torn
        assert torn is not None and torn.where.endswith(f"byte {end:,}") and torn.size_bytes == 100
        assert active(log.directory).stat().st_size == end + 100

    def test_whole_text_lines_of_a_torn_group_go_too(self, tmp_path: Path, short_texts: None) -> None:
        """A reader that met a torn group's texts finds the texts that were written in their place later."""
        place = tmp_path / "bank"
        log = create(place)
        log.append([note("first long text " * 10)])
        size = active(place).stat().st_size
        log.append([note("second long text " * 10)])
        data = active(place).read_bytes()
        cut = data.index(b"\n", size) + 1
        os.truncate(active(place), cut + 20)
        no_receipts(place)
        reader, writer = FileLog.open(place), FileLog.open(place)
        assert texts_in(reader) == ["first long text " * 10]
        writer.append([note("third, and shorter, text " * 4)])
        assert texts_in(reader)[1:] == ["third, and shorter, text " * 4]

    def test_a_page_of_a_text_that_never_reached_the_disk(self, tmp_path: Path) -> None:
        """A group is not whole without its texts, though its events may be: pages reach the disk in any order."""
        place = tmp_path / "bank"
        FileLog.create(place).append([note("a")])
        log = FileLog.open(place)
        log.append([note("long " * 5_000), note("b")])
        data = bytearray(active(place).read_bytes())
        data[8_192:12_288] = bytes(4_096)
        active(place).write_bytes(data)
        no_receipts(place)
        again = FileLog.open(place)
        assert texts_in(again) == ["a"] and again.verify().torn is not None
        assert again.append([note("c")]).last == 2 and again.verify().torn is None
        assert texts_in(again) == ["a", "c"]

    @pytest.mark.parametrize("ids", [2, 40])  # looked for in the file, and in a dictionary of all its ids
    def test_a_long_text_of_a_torn_append_is_written_again_with_it(self, tmp_path: Path, ids: int) -> None:
        """The text was found in the remains, which were cut off before the group that named it was written."""
        place, long = tmp_path / "bank", "a long text " * 500
        log = create(place)
        log.append([note("a", 1)])
        group = [note(long, number) for number in range(2, ids + 1)] + [note("end", ids + 1)]
        log.append(group)
        data = active(place).read_bytes()
        active(place).write_bytes(data[: data.rstrip(b"\n").rindex(b"\n") + 1])
        no_receipts(place)
        again = FileLog.open(place)
        assert not again.append(group).duplicate and again.append(group).duplicate
        assert texts_in(again) == ["a", *[long] * (ids - 1), "end"]
        assert again.verify().torn is None

    def test_id_of_a_torn_event_is_not_known(self, tmp_path: Path) -> None:
        """The id of an event whose group isn't whole: no position for readers, no duplicate for writers."""
        place = tmp_path / "bank"
        log = create(place)
        log.append([note("a", 1)])
        log.append([note("b", 2), note("c", 3)])
        data = active(place).read_bytes()
        active(place).write_bytes(data[: data.rstrip(b"\n").rindex(b"\n") + 1])
        no_receipts(place)
        again = FileLog.open(place)
        assert again.position() == 1 and again.seq_of_id(event_id(2)) is None
        assert not again.append([note("b", 2), note("c", 3)]).duplicate
        assert again.seq_of_id(event_id(3)) == 3


class TestDamage:
    """Bytes that changed: raised wherever something vouches for them, never guessed, never skipped."""

    def vouched(self, place: Path) -> FileLog:
        log = FileLog.create(place)
        for text in "abcd":
            log.append([note(text * 20)])
        return log

    def test_in_the_active_segment_with_a_later_group_that_vouches(self, tmp_path: Path) -> None:
        """Damage before a position that a later line knows to be on disk is corruption: raised, not healed."""
        log = self.vouched(tmp_path / "bank")
        no_receipts(log.directory)
        path = active(log.directory)
        flip(path, path.read_bytes().index(b"bbbb" * 5))
        before = path.read_bytes()
        fresh = FileLog.open(log.directory)
        for use in (lambda: list(fresh.read()), fresh.verify, fresh.position, lambda: fresh.append([note("x")])):
            with pytest.raises(LogCorruption) as caught:
                use()
            assert caught.value.segment == path.name and caught.value.byte_offset > 0
        assert path.read_bytes() == before
        assert [event.seq for event in fresh.read(upto=1)] == [1]

    def test_in_the_last_group_is_an_interrupted_append(self, tmp_path: Path) -> None:
        """Damage that nothing vouches for can't be told from an interrupted append: cut off, and reported."""
        log = self.vouched(tmp_path / "bank")
        no_receipts(log.directory)
        path = active(log.directory)
        flip(path, path.read_bytes().index(b"dddd" * 5))
        fresh = FileLog.open(log.directory)
        assert fresh.verify().torn is not None and len(list(fresh.read())) == 3
        assert fresh.append([note("e")]).last == 4

    def test_a_noted_head_tells_that_a_group_was_cut_off(self, tmp_path: Path) -> None:
        """What can't be told from the bytes alone is told by a head noted elsewhere."""
        log = self.vouched(tmp_path / "bank")
        noted = log.head()
        path = active(log.directory)
        data = path.read_bytes()
        path.write_bytes(data[: data.rstrip(b"\n").rindex(b"\n") + 1])
        no_receipts(log.directory)
        with pytest.raises(CheckFailed):
            FileLog.open(log.directory).verify([noted])

    @pytest.mark.parametrize("closed", [True, False])
    def test_events_before_damage_can_be_read(self, tmp_path: Path, closed: bool, monkeypatch: Any) -> None:
        """Reading up to a position before the damage works; reading on yields what is sound, then raises."""
        log = self.vouched(tmp_path / "bank")
        path = active(log.directory)
        if closed:
            monkeypatch.setattr(limits, "SEGMENT_BYTES", 100)
            log.append([note("next segment")])
        flip(path, path.read_bytes().index(b"cccc" * 5))
        fresh, seen = FileLog.open(log.directory), list[int]()
        assert [event.seq for event in fresh.read(upto=2)] == [1, 2]
        with pytest.raises(LogCorruption) as caught:
            seen.extend(event.seq for event in fresh.read())
        assert caught.value.segment == path.name
        before, line = path.read_bytes()[: caught.value.byte_offset], path.read_bytes()[caught.value.byte_offset :]
        assert before.endswith(b"\n") and caught.value.line == before.count(b"\n") + 1
        assert b'"seq":3,' in line.partition(b"\n")[0]

    def test_a_text_that_a_closed_segment_holds_is_written_again_into_the_next(
        self, tmp_path: Path, monkeypatch: Any, short_texts: None
    ) -> None:
        """A writer that knows a text from a segment that another one closed doesn't refer to it there."""
        one = create(tmp_path / "bank")
        text, other = "known to the first writer " * 9, FileLog.open(tmp_path / "bank")
        one.append([note(text)])
        monkeypatch.setattr(limits, "SEGMENT_BYTES", 100)
        other.append([note("begins the next segment " * 99)])
        monkeypatch.undo()
        monkeypatch.setattr(limits, "INLINE_TEXT_BYTES", 40)
        one.append([note(text)])
        assert text.encode() in active(tmp_path / "bank").read_bytes()
        assert texts_in(FileLog.open(tmp_path / "bank"))[-1] == text

    def test_retry_that_meets_damage_says_so_at_once(self, tmp_path: Path) -> None:
        """A writer that finds damage while it holds the lock raises it, and doesn't wait for itself."""
        place = tmp_path / "bank"
        with self.vouched(place) as log:
            log.append([note("e", 5)])
            log.append([note("f", 6)])
        flip(active(place), active(place).read_bytes().index(b"aaaa" * 5))
        fresh = FileLog.open(place)
        with pytest.raises(LogCorruption):
            fresh.append([note("e", 5)])

    def test_missing_segments(self, tmp_path: Path, small_segments: None) -> None:
        """A first or middle segment that is gone is noticed by readers, writers of retries, and `verify`."""
        log = create(tmp_path / "bank")
        for number in range(30):
            log.append([note(f"note {number} " * 10, number)])
        noted, segments = log.head(), sorted(log.directory.glob("*.jsonl"))
        assert len(segments) > 4
        for victim in (segments[0], segments[2]):
            copy = Path(shutil.copytree(log.directory, tmp_path / victim.stem))
            (copy / victim.name).unlink()
            for use in (lambda log: list(log.read()), lambda log: log.verify()):
                with pytest.raises(LogCorruption):
                    use(FileLog.open(copy))
        copy = Path(shutil.copytree(log.directory, tmp_path / "last"))
        (copy / segments[-1].name).unlink()
        with pytest.raises(CheckFailed):
            FileLog.open(copy).verify([noted])

    @pytest.mark.parametrize("which", [0, 2, -1])
    def test_foreign_segment(self, tmp_path: Path, small_segments: None, which: int) -> None:
        """A segment of another bank is refused by name, and never written to."""
        logs = [create(tmp_path / name) for name in ("one", "two")]
        for log in logs:
            for number in range(30):
                log.append([note(f"note {number:02d} " * 10, number)])
            log.close()
        mine, theirs = (sorted(log.directory.glob("*.jsonl")) for log in logs)
        assert [path.name for path in mine] == [path.name for path in theirs]
        shutil.copy(theirs[which], mine[which])
        before = files_of(logs[0].directory)
        uses: tuple[Callable[[FileLog], object], ...] = (
            lambda log: list(log.read()),
            lambda log: log.verify(),
            lambda log: log.append([note("x")]) and list(log.read()),
        )
        for use in uses[: 3 if which else 2]:
            with pytest.raises(LogCorruption):
                use(FileLog.open(logs[0].directory))
        assert which != -1 or files_of(logs[0].directory) == before

    def test_log_of_a_newer_format(self, tmp_path: Path) -> None:
        """A segment of a format from the future says so, instead of passing for damage."""
        log = create(tmp_path / "bank")
        log.append([note("a")])
        path = active(log.directory)
        first, rest = path.read_bytes().split(b"\n", 1)
        body = first[: -line_format.CRC_TAIL].replace(b'"format":1', b'"format":2,"new":true')
        path.write_bytes(line_format.close_line(body, line_format.seed_of(log.bank_id)) + rest)
        with pytest.raises(UnknownEvent, match="newer release"):
            list(FileLog.open(log.directory).read())

    def test_empty_or_strange_files(self, tmp_path: Path) -> None:
        """A segment that is empty, or no segment, is damage; other files in the directory are left alone."""
        with pytest.raises(BankNotFound):
            FileLog.open(tmp_path)
        log = create(tmp_path / "bank")
        log.append([note("a")])
        (log.directory / "notes.txt").write_text("mine")
        (log.directory / f".00000000000000000009.jsonl.{'0' * 32}.tmp").write_text("left over")
        (log.directory / f".00000000000000000001.jsonl.{'1' * 32}.tmp").write_text("left over")
        assert texts_in(FileLog.open(log.directory)) == ["a"]
        log.append([note("b")])
        assert (log.directory / "notes.txt").read_text() == "mine"
        active(log.directory).write_bytes(b"")
        with pytest.raises(LogCorruption):
            FileLog.open(log.directory)

    def test_what_the_system_refuses_is_said_in_words(self, tmp_path: Path) -> None:
        """A segment that can't be read, or a bank that is gone, is an error of ours, from every way in."""
        log = create(tmp_path / "bank")
        log.append([note("a", 1)])
        path, uses = active(log.directory), self.ways_in(event_id(1))
        kept = path.read_bytes()
        path.unlink()
        path.mkdir()
        for use in uses:
            with pytest.raises(
                (LogUnavailable, LogCorruption), match="it is a directory, where a regular file must be"
            ):
                use(log)
        path.rmdir()
        for use in (*uses, FileLog.sync):
            with pytest.raises(BankNotFound):
                use(log)
        path.write_bytes(kept)
        assert log.append([note("b")]).last == 2

    @staticmethod
    def ways_in(known_id: str) -> list[Callable[[FileLog], object]]:
        return [
            lambda log: list(log.read()),
            lambda log: list(log.lines()),
            lambda log: log.position(),
            lambda log: log.head(),
            lambda log: log.seq_of_id(known_id),
            lambda log: log.text(Ref("0" * 64, "text", 1, "x")),
            lambda log: log.erasures(),
            lambda log: log.verify(),
            lambda log: log.append([note("x")]),
            lambda log: log.erase(Erasing(events=frozenset({1}))),
            lambda log: log.erase(Erasing(events=frozenset({1})), dry_run=True),
        ]


class TestDerived:
    """Indexes and hints may be wrong or gone at any time."""

    JUNK = (b"", b"rbankid1", b"x" * 500, b"\0" * 36, b"rbankid1" + b"\xff" * 100)

    @pytest.mark.parametrize("junk", [None, *JUNK])
    def test_id_index(self, tmp_path: Path, small_segments: None, junk: bytes | None) -> None:
        """Whatever an id index holds, every id is found at its position, and no other."""
        log = create(tmp_path / "bank")
        for number in range(30):
            log.append([note(f"note {number} " * 10, number)])
        assert log.seq_of_id(event_id(0)) == 1
        indexes = sorted(log.derived_directory.glob("*.ids"))
        assert indexes
        for index in indexes:
            if junk is None:
                index.unlink()
            else:
                index.write_bytes(junk)
        fresh = FileLog.open(log.directory)
        assert [fresh.seq_of_id(event_id(number)) for number in range(31)] == [*range(1, 31), None]
        assert FileLog.open(log.directory).append([note("note 3 " * 10, 3)]).duplicate

    def test_id_index_of_another_segment(self, tmp_path: Path, small_segments: None) -> None:
        """An index that was made for another segment, or is damaged in one bit, is not believed."""
        log = create(tmp_path / "bank")
        for number in range(30):
            log.append([note(f"note {number:02d} " * 10, number)])
        log.seq_of_id(event_id(99))
        indexes = sorted(log.derived_directory.glob("*.ids"))
        shutil.copy(indexes[1], indexes[0])
        flip(indexes[2], 60)
        fresh = FileLog.open(log.directory)
        assert [fresh.seq_of_id(event_id(number)) for number in range(30)] == list(range(1, 31))

    def test_a_position_in_an_id_index_was_durable(self, tmp_path: Path, small_segments: None) -> None:
        """Without receipts too, a log that ends before a position in an index is damaged: nothing of it is cut off."""
        log = create(tmp_path / "bank")
        for number in range(30):
            log.append([note(f"note {number:02d} " * 10, number)])
        log.seq_of_id(event_id(99))
        assert sorted(log.derived_directory.glob("*.ids"))
        no_receipts(log.directory)
        first, *others = sorted(log.directory.glob("*.jsonl"))
        for path in others:
            path.unlink()
        first.write_bytes(first.read_bytes()[:-200])
        before = files_of(log.directory)
        for act in (lambda log: log.append([note("x")]), FileLog.verify):
            with pytest.raises(LogCorruption):
                act(FileLog.open(log.directory))
        assert files_of(log.directory) == before

    def test_damaged_closed_segment_is_not_indexed(self, tmp_path: Path, small_segments: None) -> None:
        """An index is made from sound lines only: a damaged id raises instead of being forgotten."""
        log = create(tmp_path / "bank")
        for number in range(30):
            log.append([note(f"note {number} " * 10, number)])
        path = min(log.directory.glob("*.jsonl"))
        for name in log.derived_directory.glob("*.ids"):
            name.unlink()
        for bit in (0, 6):
            clean = path.read_bytes()
            flip(path, clean.index(event_id(1).encode()) + 30, bit)
            with pytest.raises(LogCorruption):
                FileLog.open(log.directory).append([note("note 1 " * 10, 1)])
            path.write_bytes(clean)

    @pytest.mark.parametrize("junk", [*JUNK, b"rbankrc1" * 512, b"\xff" * 10_000])
    def test_receipts(self, tmp_path: Path, junk: bytes) -> None:
        """Receipts that are damaged are not believed, and stop nobody."""
        place = tmp_path / "bank"
        with FileLog.create(place) as log:
            log.append([note("a")])
        (derived(place) / "receipts").write_bytes(junk)
        with FileLog.open(place) as log:
            assert log.position() == 1 and log.append([note("b")]).last == 2
        assert FileLog.open(place).verify().events == 2

    @pytest.mark.slow
    def test_no_flipped_bit_in_a_receipt_is_believed_or_stops_anybody(self, tmp_path: Path) -> None:
        """A receipt of which one bit was flipped says nothing: neither where to go on, nor what was acknowledged."""
        place = tmp_path / "bank"
        with FileLog.create(place) as log:
            log.append([note("a")])
        path = derived(place) / "receipts"
        sound = path.read_bytes()
        for offset in (offset for offset, byte in enumerate(sound) if byte):
            for bit in range(8):
                flip(path, offset, bit)
                assert Receipts(BankCache(log.bank_id, place), log.bank_id).all() == [], offset
                path.write_bytes(sound)
        flip(path, sound.index(b"rbankrc1") + 15)
        assert FileLog.open(place).append([note("b")]).last == 2

    def test_receipt_for_other_bytes(self, tmp_path: Path) -> None:
        """A receipt for other bytes under the same name and inode, as a backup put back leaves it, cuts nothing."""
        place = tmp_path / "bank"
        with FileLog.create(place) as log:
            log.append([note("a" * 100)])
        others = [Path(shutil.copytree(place, tmp_path / name)) for name in ("one", "two")]
        for other, texts in zip(others, (["c" * 10] * 9, ["d" * 30, "d" * 40]), strict=True):
            with FileLog.open(other) as log:
                log.append([note(text) for text in texts])
        with FileLog.open(place) as log:
            log.append([note("b" * 20)])
        receipts = (derived(place) / "receipts").read_bytes()
        for other in others:
            active(place).write_bytes(active(other).read_bytes())
            (derived(place) / "receipts").write_bytes(receipts)
            with FileLog.open(place) as log:
                before = texts_in(log)
                assert log.position() == len(before)
                log.append([note("next")])
            assert texts_in(FileLog.open(place)) == [*before, "next"]

    @pytest.mark.parametrize(("before", "now"), [("one boot", "another boot"), ("", "")])
    def test_receipt_of_an_earlier_boot(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, now: str
    ) -> None:
        """After a reboot, and where the system names no boot, the whole active segment is checked again."""
        place = tmp_path / "bank"
        monkeypatch.setattr("rbank_es.log.disk.boot_id", lambda: before)
        with FileLog.create(place) as log:
            for text in "abc":
                log.append([note(text * 20)])
        flip(active(place), active(place).read_bytes().index(b"aaaa" * 5))
        monkeypatch.setattr("rbank_es.log.disk.boot_id", lambda: now)
        with pytest.raises(LogCorruption):
            FileLog.open(place).append([note("d")])

    def test_folder_may_be_deleted(self, tmp_path: Path, small_segments: None) -> None:
        """Without the folder of derived files, everything works, erasure included."""
        log = create(tmp_path / "bank")
        for number in range(10):
            log.append([note(f"note {number} " * 10, number)])
        shutil.rmtree(log.derived_directory)
        fresh = FileLog.open(log.directory)
        assert fresh.seq_of_id(event_id(3)) == 4 and fresh.append([note("b")]).last == 11
        fresh.close()
        shutil.rmtree(log.derived_directory, ignore_errors=True)
        assert fresh.erase(Erasing(events=frozenset({1}))).places


class TestFullDisk:
    """No space, short writes, signals in the middle of a write."""

    @pytest.mark.parametrize("part", [0.0, 0.3, 0.99])
    def test_no_space(self, tmp_path: Path, part: float) -> None:
        """A write that fails part way is taken back: the log is as it was, byte for byte, and goes on later."""
        disk = Disk()
        log = FileLog.create(tmp_path / "bank", calls=disk)
        log.append([note("a")])
        before, disk.part = files_of(log.directory), part
        disk.fail = lambda name, number: no_space() if name == "write" else None
        with pytest.raises(LogUnavailable, match="No space left"):
            log.append([note("b " * 2_000), note("c")])
        assert files_of(log.directory) == before
        disk.fail = lambda name, number: None
        assert log.append([note("d")]).last == 2 and texts_in(FileLog.open(log.directory)) == ["a", "d"]

    def test_no_space_and_the_truncation_fails_too(self, tmp_path: Path) -> None:
        """Then the group is incomplete: nobody sees it, and the next writer cuts it off."""
        disk = Disk()
        log = FileLog.create(tmp_path / "bank", calls=disk)
        log.append([note("a")])
        size = active(log.directory).stat().st_size
        disk.fail = lambda name, number: no_space() if name in ("write", "truncate") else None
        with pytest.raises(LogUnavailable):
            log.append([note("b"), note("c")])
        assert active(log.directory).stat().st_size > size and log.position() == 1
        assert FileLog.open(log.directory).append([note("d")]).last == 2
        disk.fail = lambda name, number: None
        assert log.append([note("e")]).last == 3 and log.verify().torn is None

    def test_no_space_for_a_new_segment(self, tmp_path: Path, small_segments: None) -> None:
        """Where the next segment can't be begun, the append is refused; the next writer begins it."""
        for victim in range(1, 12):
            disk = Disk()
            place = tmp_path / str(victim)
            log = FileLog.create(place, calls=disk)
            log.append([note("x" * 1_000)])
            begun = len(disk.calls)
            disk.fail = lambda name, number, at=begun + victim: no_space() if number >= at else None  # type: ignore[misc]
            try:
                log.append([note("y" * 1_000)])
            except LogUnavailable:
                assert len(list(FileLog.open(place).read())) == 1
            except LogFailed:
                disk.fail = lambda name, number: None
                log.verify()
            disk.fail = lambda name, number: None
            last = log.append([note("z")]).last
            assert last == log.position() in (2, 3) and log.verify().events == last

    def test_short_writes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A system that writes fewer bytes than asked is asked again."""
        log = create(tmp_path / "bank")
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
        log.append([note("a" * 100), note("b" * 100)])
        monkeypatch.undo()
        assert texts_in(FileLog.open(log.directory)) == ["a" * 100, "b" * 100]

    @pytest.mark.parametrize("after", [0, 100, 10**6])
    def test_interrupted_in_mid_write(self, tmp_path: Path, after: int) -> None:
        """Ctrl-C in a write leaves a log that goes on, in the same process and in others, with nothing twice."""

        class Interrupted(Disk):
            armed = False

            def write(self, fd: int, data: bytes) -> None:
                os.write(fd, data[:after] if self.armed else data)
                if self.armed:
                    raise KeyboardInterrupt

        disk = Interrupted()
        log = FileLog.create(tmp_path / "bank", calls=disk)
        log.append([note("a", 1)])
        reader = FileLog.open(log.directory)
        disk.armed = True
        with pytest.raises(KeyboardInterrupt):
            log.append([note("b", 2), note("c", 3)])
        disk.armed = False
        seen = len(list(reader.read()))
        assert seen in (1, 3)
        assert log.append([note("b", 2), note("c", 3)]).last == 3
        assert FileLog.open(log.directory).append([note("d", 4)]).last == 4
        assert texts_in(log) == texts_in(reader) == ["a", "b", "c", "d"]

    def test_what_a_reader_saw_is_not_taken_back(self, tmp_path: Path) -> None:
        """A group that was written whole stays, even if its writer was interrupted right then."""

        class Interrupted(Disk):
            def write(self, fd: int, data: bytes) -> None:
                super().write(fd, data)
                if reader:
                    seen.extend(texts_in(reader[0]))
                    raise KeyboardInterrupt

        reader, seen = list[FileLog](), list[str]()
        log = FileLog.create(tmp_path / "bank", calls=Interrupted())
        log.append([note("a")])
        reader.append(FileLog.open(log.directory))
        with pytest.raises(KeyboardInterrupt):
            log.append([note("b")])
        assert seen == ["a", "b"] == texts_in(FileLog.open(log.directory))


class TestFailedSync:
    """After one failed sync nobody may trust the next."""

    def failed(self, place: Path) -> tuple[FileLog, Disk]:
        disk = Disk()
        log = FileLog.create(place, calls=disk)
        log.append([note("a")])
        disk.fail = lambda name, number: broken() if name == "sync_data" else None
        with pytest.raises(LogFailed):
            log.append([note("b")])
        disk.fail = lambda name, number: None
        return log, disk

    @pytest.mark.slow
    def test_all_writers_stop(self, tmp_path: Path) -> None:
        """The writer that saw it, others of its process, and other processes are refused; readers are not."""
        log, _ = self.failed(tmp_path / "bank")
        for writer in (log, FileLog.open(log.directory)):
            with pytest.raises(LogFailed, match="verify"):
                writer.append([note("c")])
        program = (
            "import sys; from pathlib import Path; from rbank_es.log.file.file_log import FileLog; "
            "from rbank_es.testing import note"
        )
        program += "; FileLog.open(Path(sys.argv[1])).append([note('x')])"
        done = subprocess.run([sys.executable, "-c", program, str(log.directory)], capture_output=True, text=True)
        assert "LogFailed" in done.stderr
        assert texts_in(FileLog.open(log.directory))[0] == "a"

    def test_verify_opens_the_log_again(self, tmp_path: Path) -> None:
        """A sound log is open to writers again after `verify`, which says so; a second `verify` has nothing to say."""
        log, _ = self.failed(tmp_path / "bank")
        fresh = FileLog.open(log.directory)
        assert fresh.verify().cleared and not fresh.verify().cleared
        assert log.append([note("c")]).last == 3 and fresh.append([note("d")]).last == 4

    def test_verify_of_a_damaged_log_does_not(self, tmp_path: Path) -> None:
        """Where `verify` finds damage, writers stay out."""
        log, _ = self.failed(tmp_path / "bank")
        flip(active(log.directory), 30)
        with pytest.raises(LogCorruption):
            FileLog.open(log.directory).verify()
        assert (log.directory / "FAILED").exists()

    def test_pages_that_a_failed_sync_dropped(self, tmp_path: Path) -> None:
        """Linux counts pages as clean after a failed sync: `verify` writes them anew before it lets writers in."""
        log, disk = self.failed(tmp_path / "bank")
        assert FileLog.open(log.directory, calls=disk).verify().cleared
        acknowledged = log.append([note("c")]).last
        disk.survivors(log.directory, tmp_path / "after")
        after = FileLog.open(tmp_path / "after")
        assert after.verify().events >= acknowledged and texts_in(after)[0] == "a"

    def test_failed_sync_of_a_retry(self, tmp_path: Path) -> None:
        """A retry that is answered from the log is synced before it is acknowledged; if that fails, it is not."""
        disk = Disk()
        FileLog.create(tmp_path / "bank", unsafe_no_sync=True).append([note("a", 1)])
        log = FileLog.open(tmp_path / "bank", calls=disk)
        assert log.append([note("a", 1)]).duplicate and disk.calls[-1] == "sync_data"
        disk.fail = lambda name, number: broken() if name == "sync_data" else None
        with pytest.raises(LogFailed):
            log.append([note("a", 1)])

    def test_failed_sync_at_a_roll(self, tmp_path: Path, small_segments: None) -> None:
        """A segment whose last sync failed is not followed by another."""
        disk = Disk()
        log = FileLog.create(tmp_path / "bank", calls=disk)
        log.append([note("x" * 1_000)])
        disk.fail = lambda name, number: broken() if name == "sync_data" else None
        with pytest.raises(LogFailed):
            log.append([note("y" * 1_000)])
        assert len(list(log.directory.glob("*.jsonl"))) == 1
        disk.fail = lambda name, number: None
        fresh = FileLog.open(log.directory, calls=disk)
        seen = fresh.verify()
        assert seen.cleared and seen.torn is None
        assert fresh.append([note("z")]).last == seen.events + 1 and fresh.verify().events == seen.events + 1


class TestTailing:
    """Readers of a tail that is being healed, or grows, while they read it."""

    @pytest.mark.slow
    @pytest.mark.parametrize("cut", [1, 60, 200, 700])
    def test_healed_in_the_middle_of_a_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
        """Whenever in a read the torn tail is replaced by other groups, the reader sees a prefix of the truth."""
        monkeypatch.setattr(limits, "READ_BLOCK_BYTES", 150)
        monkeypatch.setattr(limits, "INLINE_TEXT_BYTES", 100)
        with create(tmp_path / "model") as log:
            log.append([note("a")])
            size = active(log.directory).stat().st_size
            log.append([note("torn " * 30), note("torn"), note("torn " * 5)])
        torn = active(log.directory).read_bytes()[:-cut]
        assert len(torn) > size
        for moment in range(1, 40):
            place = Path(shutil.copytree(tmp_path / "model", tmp_path / f"{cut}-{moment}"))
            active(place).write_bytes(torn)
            no_receipts(place)
            self.read_while(place, moment, monkeypatch)
            shutil.rmtree(place)

    def read_while(self, place: Path, moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
        reader, writer, calls, pread = FileLog.open(place), FileLog.open(place, calls=Quick()), [0], os.pread

        def interrupted(fd: int, length: int, offset: int) -> bytes:
            calls[0] += 1
            if calls[0] == moment:
                for number in range(6):
                    writer.append([note("healed " * (number * 7 % 5)), note("x" * number * 20)])
            return pread(fd, length, offset)

        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", interrupted)
            seen = texts_in(reader)
        if calls[0] < moment:
            writer.append([note("after")])
        truth = texts_in(FileLog.open(place))
        assert seen == truth[: len(seen)] and "torn" not in truth
        assert texts_in(reader) == truth and len(truth) > 1

    @pytest.mark.slow
    def test_erased_and_rolled_in_the_middle_of_a_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The same with segments that are closed, rewritten and followed by others meanwhile."""
        monkeypatch.setattr(limits, "READ_BLOCK_BYTES", 300)
        monkeypatch.setattr(limits, "INLINE_TEXT_BYTES", 100)
        with create(tmp_path / "model") as log:
            for number in range(5):
                log.append([note(f"number {number} " * 12), note("short")])
        for moment in range(1, 60):
            place = Path(shutil.copytree(tmp_path / "model", tmp_path / f"at-{moment}"))
            reader, writer, calls, pread = FileLog.open(place), FileLog.open(place, calls=Quick()), [0], os.pread

            def interrupted(fd: int, length: int, offset: int) -> bytes:
                calls[0] += 1  # noqa: B023
                if calls[0] == moment:  # noqa: B023
                    writer.append([note("more " * 30)])  # noqa: B023
                    writer.erase(Erasing(events=frozenset({3, 9})))  # noqa: B023
                    writer.append([note("and more " * 30)])  # noqa: B023
                return pread(fd, length, offset)  # noqa: B023

            with monkeypatch.context() as patch:
                patch.setattr(os, "pread", interrupted)
                seen = list(reader.read(resolve=TYPES))
                head, position = reader.head(10), reader.position()
            assert [event.seq for event in seen] == list(range(1, len(seen) + 1)) and len(seen) >= 10
            assert head == log.head(10) and position >= 10
            assert [event.seq for event in reader.read(resolve=TYPES)] == list(range(1, reader.position() + 1))
            assert reader.verify([head]).events == reader.position()
            shutil.rmtree(place)
