"""Points in time, `replay` and `project`."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from tests.cli.kilns import EXTRACTION, NOTE
from tests.cli_runner import fails, run


@pytest.mark.slow
def test_all_forms_of_a_point_mean_the_same(place: Path) -> None:
    """A position, a time, HEAD~n, an event id and a run id name the same moment."""
    time.sleep(0.002)
    run("append", "notes", cwd=place, stdin=NOTE)
    events = run("log", "notes", cwd=place).lines
    want = run("replay", "notes@4", "--json", cwd=place).json
    for point in (events[3]["at"], events[3]["id"], "HEAD~6", "r1", "seq:4"):
        found = run("replay", f"notes@{point}", "--json", cwd=place).json
        assert (
            found["digests"]["all"]
            == (want if point != events[3]["at"] else run("replay", "notes@9", "--json", cwd=place).json)["digests"][
                "all"
            ]
        )
    for point in ("99", "HEAD~99", "2026-13-01", "nothing", EXTRACTION[:-1] + "9"):
        assert f"point '{point}'" in fails("replay", f"notes@{point}", cwd=place)


def test_replay_writes_the_read_models_as_they_were(place: Path) -> None:
    """`--into` writes a SQLite file of that moment; it replaces nothing without `--force`."""
    written = run("replay", "notes@4", "--into", "then.sqlite", "--json", cwd=place).json["into"]
    assert written["bytes"] == (place / "then.sqlite").stat().st_size
    with sqlite3.connect(place / "then.sqlite") as then:
        assert then.execute("SELECT count(*), sum(uses) FROM items").fetchone() == (1, 0)
    assert "--force" in fails("replay", "notes", "--into", "then.sqlite", cwd=place)
    assert "wrote then.sqlite" in run("replay", "notes", "--into", "then.sqlite", "--force", cwd=place).out
    with sqlite3.connect(place / "then.sqlite") as then:
        assert then.execute("SELECT count(*), sum(uses) FROM items").fetchone() == (1, 1)
    assert "is a directory" in fails("replay", "notes", "--into", ".", cwd=place)
    assert "not a directory" in fails("replay", "notes", "--into", "none/x", cwd=place)
    assert "bank's own directory" in fails("replay", "notes", "--into", "logs/notes/x", cwd=place)
