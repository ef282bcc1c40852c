"""Imported runs are in order of the time at which they happened, and that is the time shown, wherever one is shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from tests.cli_runner import on_terminal, run

DAYS = {"a": 3, "b": 1, "c": 2}
"""The day of January 2026 of each run, by the name of its file."""


def trajectory(day: int) -> str:
    """A run of that day, as a recorder writes it."""
    lines = [
        {"event_type": "run_start", "data": {"task": f"the task of day {day}"}},
        {"event_type": "run_complete", "data": {"converged": True, "answer_preview": "x", "iterations": 1}},
    ]
    return "".join(
        json.dumps({"timestamp": f"2026-01-{day:02}T1{at}:00:00", **line}) + "\n" for at, line in enumerate(lines)
    )


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    for name, day in DAYS.items():
        (folder / f"{name}.jsonl").write_text(trajectory(day))
    run("import", "./b", "runs", "--create", cwd=tmp_path)
    return tmp_path


@pytest.mark.slow
def test_every_list_shows_the_time_of_the_run_and_the_day_of_its_import(imported: Path) -> None:
    (imported / "early.jsonl").write_text(trajectory(1).replace("day 1", "a later import").replace("-01-01", "-01-01"))
    run("import", "./b", "early.jsonl", cwd=imported)
    with Bank.open(imported / "b") as bank:
        day = bank.time_at(bank.position)[:10]
    rows = run("runs", "./b", "--json", cwd=imported).json["runs"]
    began = [row["started_at"] for row in rows]
    assert began == sorted(began, reverse=True) and {row["imported_at"][:10] for row in rows} == {day}
    table = on_terminal("runs", "./b", cwd=imported, columns=120, env={"NO_COLOR": "1"}).out
    assert "imported" in table and "2026-01-03 10:00" in table and day in table
    shown = run("show", "./b", rows[0]["run"], cwd=imported).out
    assert re.search(r"started at +2026-01-03 10:00:00", shown) and "imported on" in shown
    assert "2026-01-03 11:00:00  run_finished" in shown
    logged = on_terminal("log", "./b", "--type", "run_started", cwd=imported, columns=140, env={"NO_COLOR": "1"}).out
    assert "2026-01-03 10:00:00" in logged and logged.count(f"imported on {day}: ") == 4
