"""Commands that go on: `project --watch` and `log --follow` while another process appends, and Ctrl-C."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.cli.shared.main import main
from rbank_es.log.file.file_log import FileLog
from tests.cli_runner import interrupt, read_until, run, start
from tests.places import derived


def note(number: int, **more: str) -> str:
    return json.dumps({"type": "note_logged", "note": {"n": number}} | more)


def begin(run_id: str) -> str:
    return json.dumps({"type": "run_started", "run": run_id, "task": "Which kilns are there?"})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working directory with a new bank `notes`."""
    run("init", "notes", cwd=tmp_path)
    return tmp_path


@pytest.fixture
def watching(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`project notes --watch`, past its beginning."""
    process = start("project", "notes", "--watch", cwd=place)
    try:
        read_until(process, "Ctrl-C")
        yield process
    finally:
        process.kill()
        process.communicate()


def runs_projected(cwd: Path) -> int:
    (path,) = derived(cwd / "logs" / "notes").glob("projections.sqlite")
    with sqlite3.connect(path) as connection:
        count: int = connection.execute("SELECT count(*) FROM runs").fetchone()[0]
        return count


@pytest.mark.slow
def test_watch_applies_what_a_second_process_appends(place: Path, watching: subprocess.Popen[bytes]) -> None:
    """Each append shows up with its types and is in the read models when it is printed; Ctrl-C ends it with 0."""
    for number in range(1, 4):
        run("append", "notes", cwd=place, stdin=begin(f"r{number}"))
        said = read_until(watching, f"position {number + 2}\n")
        assert "notes: 1 event (1 run_started); read models at position" in said
        assert runs_projected(place) == number
    ended = interrupt(watching)
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.slow
def test_watch_rebuilds_after_an_erasure(place: Path, watching: subprocess.Popen[bytes]) -> None:
    """An erasure by another process is an event like others, and the read models are made anew without the text."""
    run("append", "notes", cwd=place, stdin=begin("r1"))
    read_until(watching, "position 3\n")
    run("erase", "notes", "--run", "r1", "--yes", cwd=place)
    read_until(watching, "1 content_erased.*position 4\n")
    (path,) = derived(place / "logs" / "notes").glob("projections.sqlite")
    assert b"Which kilns" not in path.read_bytes()


@pytest.mark.slow
def test_watch_in_json_is_one_line_each_time(place: Path) -> None:
    """With `--json` a line of JSON says what was applied, first and then again and again."""
    process = start("project", "notes", "--watch", "--json", cwd=place)
    try:
        assert json.loads(read_until(process, "\n"))["position"] == 2
        run("append", "notes", cwd=place, stdin=begin("r1"))
        applied = json.loads(read_until(process, "\n"))
        assert (applied["position"], applied["events"], applied["rebuilt"]) == (3, 1, {})
        assert interrupt(process).code == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_log_follow_prints_events_as_they_come(place: Path) -> None:
    """The tail first, then what other processes append, filtered, each line as it is stored; Ctrl-C ends it with 0."""
    process = start("log", "notes", "--follow", "--tail", "1", "--type", "policy_set,note_logged", cwd=place)
    try:
        assert json.loads(read_until(process, "\n"))["type"] == "policy_set"
        for number in range(3):
            run("append", "notes", cwd=place, stdin=f"{begin(f'r{number}')}\n{note(number)}\n")
            line = read_until(process, "\n")
            assert line.count("\n") == 1 and json.loads(line)["note"] == json.dumps(
                {"n": number}, separators=(",", ":")
            )
        ended = interrupt(process)
        assert (ended.code, ended.out, ended.err) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("command", [("project", "--watch"), ("log", "--follow")])
@pytest.mark.parametrize("moment", ["before", "while waiting"])
def test_ctrl_c_ends_following_alike_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, str], moment: str
) -> None:
    """Both commands go on until Ctrl-C, so it ends them in good order, also while they catch up with the log."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    Bank.create(tmp_path / "notes").close()
    patched = {
        "before": (Bank, {"project": "project", "log": "resolve"}[command[0]]),
        "while waiting": (FileLog, "wait"),
    }
    monkeypatch.setattr(*patched[moment], interrupted)
    assert main([command[0], str(tmp_path / "notes"), command[1]]) == 0
