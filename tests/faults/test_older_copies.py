"""An older copy of a bank, put back at its place by another program: refused at first, with advice that works."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rbank_es import Bank
from tests.cli_runner import fails, run

NOTE = '{"type":"note_logged","note":{"n":9}}'
COMMANDS = ("log ./bank", "project ./bank --rebuild", "search ./bank words", "append ./bank")


def append(place: Path, *numbers: int) -> None:
    with Bank.open(place) as bank:
        for number in numbers:
            bank.append({"type": "note_logged", "note": {"n": number}})


def replaced(old: Path, bank: Path) -> None:
    """As `git checkout` and `tar -x` do: files removed and made again."""
    shutil.rmtree(bank)
    shutil.copytree(old, bank)


def overwritten(old: Path, bank: Path) -> None:
    """As `rsync --inplace` does: other bytes in the same files."""
    for path in old.iterdir():
        with (bank / path.name).open("r+b") as file:
            file.write(path.read_bytes())
            file.truncate()


def without_receipts(old: Path, bank: Path) -> None:
    """Read models and indexes vouch by themselves."""
    replaced(old, bank)
    (receipts,) = (bank.parent / "cache").rglob("receipts")
    receipts.unlink()


slow = pytest.mark.slow


@pytest.mark.parametrize(
    "put_back", [replaced, pytest.param(overwritten, marks=slow), pytest.param(without_receipts, marks=slow)]
)
def test_an_older_copy_is_refused_until_the_folder_that_the_error_names_is_removed(
    tmp_path: Path, put_back: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Afterwards every command works: nothing but the folder's files had known of the lost events."""
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "cache"))
    Bank.create(tmp_path / "bank").close()
    append(tmp_path / "bank", 1, 2)
    shutil.copytree(tmp_path / "bank", tmp_path / "old")
    append(tmp_path / "bank", 3, 4)
    with Bank.open(tmp_path / "bank") as bank:
        bank.project()
    put_back(tmp_path / "old", tmp_path / "bank")
    said = fails("verify", "./bank", cwd=tmp_path, code=3)
    if put_back is not without_receipts:
        assert {fails(*line.split(), cwd=tmp_path, stdin=NOTE, code=3) for line in COMMANDS} == {said}
    assert len(run("log", "./bank@4", cwd=tmp_path).lines) == 4
    found = re.search(r"older copy was put there on purpose, remove the folder (\S+): ", said)
    assert found is not None
    shutil.rmtree(found[1])
    for line in COMMANDS:
        run(*line.split(), cwd=tmp_path, stdin=NOTE)
    assert "the log of bank is sound" in run("verify", "./bank", cwd=tmp_path).out


@pytest.mark.slow
@pytest.mark.parametrize("put_back", [replaced, overwritten])
def test_a_copy_that_went_on_elsewhere_and_is_longer_is_believed(
    tmp_path: Path, put_back: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was derived of other events at the same positions is made again, and the reason reported."""
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "cache"))
    Bank.create(tmp_path / "bank").close()
    append(tmp_path / "bank", 1)
    shutil.copytree(tmp_path / "bank", tmp_path / "copy")
    append(tmp_path / "bank", 2)
    run("project", "./bank", cwd=tmp_path)
    append(tmp_path / "copy", 3, 4, 5)
    put_back(tmp_path / "copy", tmp_path / "bank")
    assert "another event is there" in run("project", "./bank", cwd=tmp_path).out
    append(tmp_path / "bank", 6)
    assert "the log of bank is sound" in run("verify", "./bank", cwd=tmp_path).out
    notes = [line["note"] for line in run("log", "./bank", "--type", "note_logged", cwd=tmp_path).lines]
    assert notes == [f'{{"n":{number}}}' for number in (1, 3, 4, 5, 6)]
