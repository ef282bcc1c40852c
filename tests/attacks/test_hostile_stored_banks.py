"""Files in the place of a bank, as `--into` writes them: opened for reading, believed only if they are ours."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.misled import misled_bank
from tests.cli_runner import run

CHANGES = {
    "another table": "ALTER TABLE item_states RENAME TO other; CREATE TABLE item_states (item TEXT)",
    "a view for a table": "ALTER TABLE verdicts RENAME TO v2; CREATE VIEW verdicts AS SELECT * FROM v2",
    "settings that are no JSON": "UPDATE policy_choices SET settings = '{'",
    "settings of another type": "UPDATE policy_choices SET settings = x'ff00'",
    "a policy that nobody knows": "UPDATE policy_choices SET name = 'evil' WHERE kind = 'retrieval'",
    "bytes for words": "UPDATE candidates SET title = x'ff', content = x'00ff'",
    "a position without end": "UPDATE checkpoints SET position = 'x'",
    "no position": "DELETE FROM checkpoints",
    "numbers for lists": "UPDATE item_states SET domains = 7",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    misled_bank(folder / "logs" / "misled").close()
    run("replay", "misled", "--into", "there.sqlite", cwd=folder)
    return folder / "there.sqlite"


@pytest.fixture
def stored(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(written, tmp_path / "there.sqlite"))


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_refused_or_read_without_a_traceback(stored: Path, change: str) -> None:
    with closing(sqlite3.connect(stored)) as connection:
        connection.executescript(CHANGES[change])
    here = "./there.sqlite"
    for line in (("search", here, "focal height"), ("show", here, "item:"), ("items", here), ("runs", here)):
        done = run(*line, cwd=stored.parent, code=None)
        assert done.code in (0, 2) and "Traceback" not in done.err, done.err


def test_control_characters_in_a_file_reach_no_terminal(stored: Path) -> None:
    with closing(sqlite3.connect(stored)) as connection:
        connection.executescript("UPDATE candidates SET title = 'a' || char(27) || ']0;x' || char(7)")
    out = run("search", "./there.sqlite", "focal height", cwd=stored.parent).out
    assert "\x1b" not in out and "\x07" not in out


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def _scramble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:40960] = bytes(36864)
    path.write_bytes(data)


def _text(path: Path) -> None:
    path.write_text("not a database")


@pytest.mark.parametrize("damage", [_cut, _scramble, _text])
def test_a_damaged_file_is_refused(stored: Path, damage: Callable[[Path], None]) -> None:
    damage(stored)
    done = run("search", "./there.sqlite", "focal height", cwd=stored.parent, code=None)
    assert done.code == 2 and "Traceback" not in done.err


def test_a_link_and_a_pipe_are_not_followed(stored: Path) -> None:
    (stored.parent / "link.sqlite").symlink_to(stored)
    os.mkfifo(stored.parent / "pipe.sqlite")
    for name in ("link.sqlite", "pipe.sqlite"):
        assert run("search", f"./{name}", "focal height", cwd=stored.parent, code=None).code == 2


def test_reading_a_file_changes_nothing_beside_it(stored: Path) -> None:
    before, there = stored.read_bytes(), sorted(stored.parent.iterdir())
    run("search", "./there.sqlite", "focal height", cwd=stored.parent)
    assert stored.read_bytes() == before and sorted(stored.parent.iterdir()) == there
