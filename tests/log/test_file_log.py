"""The file log: the contract of every engine, and what only files have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.events.derived_ids import decisions_id
from rbank_es.log import EventLog
from rbank_es.log import lines as line_format
from rbank_es.log.file import position_index, run_index
from rbank_es.log.file.file_log import ENGINE, FileLog
from rbank_es.log.file.segments import blocks
from rbank_es.testing import EventLogContract
from rbank_es.testing.contract_base import event_id, note


class TestFileLog(EventLogContract):
    """The file log keeps the contract."""

    engine = ENGINE

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> Iterator[None]:
        self.places = map(str, map(tmp_path.joinpath, map("bank-{}".format, count())))
        yield
        self.close_logs()

    def free_place(self) -> str:
        return next(self.places)

    def stored_bytes(self, log: EventLog) -> bytes:
        return b"\n".join(path.read_bytes() for path in Path(log.place).rglob("*") if path.is_file())

    def replace_last_line(self, log: EventLog, line: bytes) -> None:
        path = max(Path(log.place).glob("*.jsonl"))
        *kept, _, _ = path.read_bytes().split(b"\n")
        body = line[: -line_format.CRC_TAIL]
        path.write_bytes(b"\n".join(kept) + b"\n" + line_format.close_line(body, line_format.seed_of(log.bank_id)))


class TestFileLogOfManySegments(TestFileLog):
    """The same with segments so small that nearly every group begins one."""

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "SEGMENT_BYTES", 1_500)
        # Reading by run and type goes through index files, however few events there are.
        for name in ("SAVED_BYTES", "SPARSE_EVENTS", "SPARSE_SHARE"):
            monkeypatch.setattr(run_index, name, 1)


class TestFileLogInSmallBlocks(TestFileLog):
    """The same, read in blocks about as long as a line."""

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "READ_BLOCK_BYTES", 300)
        monkeypatch.setattr(limits, "SEGMENT_BYTES", 20_000)


def test_an_id_that_was_made_here_is_sought_behind_the_end_that_the_log_had_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of the decisions about it; who else appends an event of this id is found."""
    begins = list[int]()
    sought = position_index.find_id
    monkeypatch.setattr(position_index, "find_id", lambda *given: begins.append(given[3]) or sought(*given))
    with FileLog.create(tmp_path / "bank") as log, FileLog.open(tmp_path / "bank") as other:
        log.append([note(str(number), number) for number in range(1, 20)])
        begins.clear()
        ended = max((tmp_path / "bank").glob("*.jsonl")).stat().st_size
        for number in range(40):
            made = log.new_id()
            group = [replace(note("new", number), id=id) for id in (made, decisions_id(made))]
            first = log.append(group)
            again = log.append(group)
            assert again.duplicate and not first.duplicate and again.first == first.first == log.seq_of_id(made)
        assert min(begins) >= ended
        made = log.new_id()
        other.append([replace(note("new", 40), id=made)])
        assert log.seq_of_id(made) == log.position()


def test_ids_sought_often_cost_what_was_appended_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some lookups the active segment is not searched again, by readers as by writers, whoever appended."""
    with FileLog.create(tmp_path / "bank") as log, FileLog.open(tmp_path / "bank") as other:
        log.append([note(str(number), number) for number in range(1, 50)])
        ids = [event_id(number) for number in range(100)]
        assert [log.seq_of_id(id) for id in ids] == [None, *range(1, 50), *[None] * 50]
        active, offsets = max((tmp_path / "bank").glob("*.jsonl")), list[int]()
        size = active.stat().st_size
        other.append([note("50", 50)])
        *_, last = active.read_bytes().splitlines(keepends=True)
        # What an interrupted append left behind the whole groups is known to nobody.
        with active.open("ab") as file:
            file.write(last.replace(ids[50].encode(), ids[51].encode()))
        monkeypatch.setattr(position_index, "find_id", lambda *_: pytest.fail("searched"))
        monkeypatch.setattr(position_index, "blocks", lambda fd, at, end: offsets.append(at) or blocks(fd, at, end))
        assert [log.seq_of_id(id) for id in ids[49:52]] == [49, 50, None]
        assert log.append([note("50", 50)]).duplicate and offsets == [size]


def test_positions_some_groups_back_are_found_by_places_that_were_read(tmp_path: Path) -> None:
    """By few reads, and as a log finds them that was opened anew; the marks that an append made stay right."""
    with FileLog.create(tmp_path / "bank") as log, FileLog.open(tmp_path / "bank") as anew:
        log.append([note("x" * 500) for _ in range(2_000)])
        ends = list[int]()
        for _ in range(40):
            ends.append(log.append([note("y") for _ in range(3)]).last)
            assert len([*log.read(after=ends[-1] - 3)]) == 3
        for end in [*ends[:-1], 1, 77, 2_000]:
            with patch.object(os, "pread", wraps=os.pread) as pread:
                found = log.mark(end + 1)
            assert found == anew.mark(end + 1)
            if end >= ends[10]:
                assert pread.call_count < 8
