"""Heads noted elsewhere: `head` writes them, `verify --head` reads them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.bank.noted_heads import head_line
from rbank_es.events import NoteLogged
from tests.cli_runner import fails, run


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working directory with the banks `notes` and `other`, and their heads in `heads.txt`."""
    lines = ["# noted on paper as well", ""]
    for name in ("notes", "other"):
        with Bank.create(tmp_path / "logs" / name) as bank:
            lines.append(head_line(bank))
    (tmp_path / "heads.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def append(place: Path) -> None:
    with Bank.open(place / "logs" / "notes") as bank:
        bank.append(NoteLogged(note="1"))


def test_noted_heads_of_a_bank_hold_and_those_of_others_are_left_out(place: Path) -> None:
    """A file serves many banks: lines of others are counted, comments are not."""
    append(place)
    with (place / "heads.txt").open("a") as file:
        file.write(run("head", "notes", cwd=place).out)
    seen = run("verify", "notes", "--head", "heads.txt", cwd=place)
    assert "noted heads that hold  2" in seen.out and "left out 1 noted head of other banks" in seen.err
    facts = run("verify", "notes", "--head", "heads.txt", "--json", cwd=place).json
    assert len(facts["noted"]) == 2


@pytest.mark.slow
def test_heads_of_a_parent_hold_in_its_fork(place: Path) -> None:
    """Up to where it was forked; later ones are those of another bank, and so are the fork's in its parent."""
    run("fork", "notes", "trial", cwd=place)
    append(place)
    with (place / "heads.txt").open("a") as file:
        file.write(run("head", "notes", cwd=place).out + run("head", "trial", cwd=place).out)
    facts = run("verify", "trial", "--head", "heads.txt", "--json", cwd=place).json
    assert [head.partition(":")[0] for head in facts["noted"]] == ["2", "3"]
    facts = run("verify", "notes", "--head", "heads.txt", "--json", cwd=place).json
    assert [head.partition(":")[0] for head in facts["noted"]] == ["2", "3"]


@pytest.mark.slow
def test_a_log_that_was_cut_does_not_hold_its_noted_head(place: Path) -> None:
    """A log made shorter, in a place where nothing else vouches for it, fails with exit code 1."""
    append(place)
    (place / "heads.txt").write_text(run("head", "notes", cwd=place).out)
    shutil.copytree(place / "logs" / "notes", place / "copy")
    (path,) = (place / "copy").glob("*.jsonl")
    os.truncate(path, path.read_bytes()[:-1].rindex(b"\n") + 1)
    shutil.rmtree(place / "copy" / "derived", ignore_errors=True)
    assert "events were cut off" in fails("verify", "./copy", "--head", "heads.txt", cwd=place, code=1)
