"""Attacks on the index by run: whatever stands in its files, a run reads as the log has it, or the log is damaged."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from rbank_es import limits
from rbank_es.log.file import run_index
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing.contract_base import called, note
from tests.places import derived

Change = Callable[[bytes], bytes]


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(limits, "SEGMENT_BYTES", 6_000)
    monkeypatch.setattr(run_index, "SAVED_BYTES", 1)
    with FileLog.create(tmp_path / "bank", unsafe_no_sync=True) as log:
        for number in range(40):
            log.append([called(f"r{number % 3}", "x" * 50), note("n")])
        list(log.read(run="r1"))
    return tmp_path / "bank"


def signed(change: Callable[[list[object]], object]) -> Change:
    """Return a change of the decoded index, with a right checksum."""

    def changed(data: bytes) -> bytes:
        stored = msgspec.msgpack.decode(data[:-4])
        change(stored)
        body = msgspec.msgpack.encode(stored)
        return body + crc32(body).to_bytes(4, "big")

    return changed


def at(index: int, value: object) -> Change:
    return signed(lambda stored: stored.__setitem__(index, value))


def swap_runs(stored: list[object]) -> None:
    runs = stored[6]
    assert isinstance(runs, dict)
    runs["r0"], runs["r1"] = runs["r1"], runs["r0"]


CHANGES: dict[str, Change] = {
    "empty": lambda _: b"",
    "one byte": lambda _: b"\0",
    "text": lambda _: b"this is no index",
    "cut in half": lambda data: data[: len(data) // 2],
    "its end twice": lambda data: data + data[-20:],
    "a huge array": lambda _: b"\xdd\xff\xff\xff\xff" + bytes(60),
    "deep nesting": lambda _: signed_bytes(b"\x91" * 100_000),
    "another form": at(0, "rbank-runs-9-little"),
    "an offset beyond the file": at(2, 1 << 50),
    "a negative position": at(3, -5),
    "no numbers": at(5, b""),
    "numbers of half a word": at(5, b"abc"),
    "no types": at(7, {}),
    "runs swapped": signed(swap_runs),
    "runs that point past the end": signed(lambda stored: stored[6].update(r1=b"\xff" * 8)),  # type: ignore[index,attr-defined]
    "offsets into the middle of lines": signed(lambda stored: stored.__setitem__(5, bytes(len(stored[5])))),  # type: ignore[arg-type]
}


def signed_bytes(body: bytes) -> bytes:
    return body + crc32(body).to_bytes(4, "big")


def check(bank: Path) -> None:
    with FileLog.open(bank) as log:
        everything = list(log.read())
        for name in ("r0", "r1", "r2", "r9"):
            wanted = [event for event in everything if getattr(event, "run", None) == name]
            assert list(log.read(run=name)) == wanted


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_index_never_changes_what_a_run_reads(bank: Path, name: str) -> None:
    paths = sorted(derived(bank).glob("*.runs"))
    assert len(paths) > 2
    for path in paths:
        path.write_bytes(CHANGES[name](path.read_bytes()))
    check(bank)


@pytest.mark.parametrize("name", ["another segment's", "another bank's"])
def test_an_index_of_something_else_is_not_believed(bank: Path, tmp_path: Path, name: str) -> None:
    first, second, *_ = sorted(derived(bank).glob("*.runs"))
    if name == "another bank's":
        with FileLog.create(tmp_path / "other", unsafe_no_sync=True) as other:
            for number in range(40):
                other.append([called(f"r{number % 2}", "y" * 50), note("n")])
            list(other.read(run="r1"))
        second = min(derived(tmp_path / "other").glob("*.runs"))
    first.write_bytes(second.read_bytes())
    check(bank)


def test_no_flipped_bit_of_an_index_changes_what_a_run_reads(bank: Path) -> None:
    chance = random.Random(11)
    path = min(derived(bank).glob("*.runs"))
    sound = path.read_bytes()
    for _ in range(60):
        bit = chance.randrange(len(sound) * 8)
        path.write_bytes(bytes([*sound[: bit // 8], sound[bit // 8] ^ 1 << bit % 8, *sound[bit // 8 + 1 :]]))
        check(bank)
