"""Points in time, `replay` and `project`."""

from __future__ import annotations

import re
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


@pytest.mark.slow
def test_replay_prints_what_the_bank_was(place: Path) -> None:
    """Items by state and source, runs, uses, wins, and digests that are the same at every replay."""
    first = run("replay", "notes", "--json", cwd=place).json
    assert first["items"]["by_state"]["active"] == 1 and first["items"]["by_source"]["seed"] == 1
    assert (first["runs"]["total"], first["runs"]["submitted"], first["uses"], first["wins"]) == (1, 1, 1, 1)
    assert run("replay", "notes", "--json", cwd=place).json["digests"] == first["digests"]
    said = run("replay", "notes@3", cwd=place).out
    assert said.startswith("bank notes at position 3 of 9, 20") and "no items yet" in said
    assert all(digest in run("replay", "notes", cwd=place).out for digest in first["digests"].values())


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


def test_project_brings_read_models_up_to_date(place: Path) -> None:
    """The first time all are made, then nothing is left to do; `--list` shows how far behind each one is."""
    before = run("project", "notes", "--list", "--json", cwd=place).json
    assert {entry["behind"] for entry in before["projections"]} == {9}
    done = run("project", "notes", "--json", cwd=place).json
    assert done["position"] == 9 and done["rebuilt"].keys() == {entry["name"] for entry in before["projections"]}
    assert "nothing to apply" in run("project", "notes", cwd=place).out
    run("append", "notes", cwd=place, stdin=NOTE)
    assert run("project", "notes", "--only", "usage", "--json", cwd=place).json["position"] == 10
    listed = run("project", "notes", "--list", "--json", cwd=place).json["projections"]
    assert {entry["name"]: entry["behind"] for entry in listed}["usage"] == 0
    assert "rebuilt (asked for): usage" in run("project", "notes", "--only", "usage", "--rebuild", cwd=place).out
    assert re.search(r"^usage +\d+ +10 +0 ", run("project", "notes", "--list", cwd=place).out, re.MULTILINE)


def test_project_refuses_what_makes_no_sense(place: Path) -> None:
    """Unknown names and contradictory flags are usage errors."""
    assert "no projection 'uses'; there are: " in fails("project", "notes", "--only", "uses", cwd=place)
    assert "holds no names" in fails("project", "notes", "--only", ",", cwd=place)
    assert "--list only looks" in fails("project", "notes", "--list", "--rebuild", cwd=place)
