"""The file log: the contract of every engine, and what only files have."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.log import EventLog
from rbank_es.log import lines as line_format
from rbank_es.log.file import run_index
from rbank_es.log.file.file_log import ENGINE
from rbank_es.testing import EventLogContract


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
