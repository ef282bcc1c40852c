"""`transcripts` and `import --watch`: what lies on a machine, and files that grow."""

import json
import random
import time
from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.agents.transcripts.found_transcripts import transcript_places
from rbank_es.exchange import import_paths
from tests.agents.transcripts.sessions import Turn, claude_lines, codex_lines, forked, write
from tests.cli_runner import interrupt, read_until, run, start

OF_RUNS = ("run_started", "lm_called", "tool_called", "run_finished", "run_judged")
TURNS = [Turn(0, (1, 0), False, False), Turn(1, (0,), False, False)]


def home_with(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    project = home / ".claude/projects/-srv-shop"
    project.mkdir(parents=True)
    write(project / "a.jsonl", claude_lines(TURNS))
    write(project / "fork.jsonl", forked(claude_lines(TURNS), "b"))
    (project / "notes.json").write_text('{"a": 1}')
    day = home / ".codex/sessions/2026/11/01"
    day.mkdir(parents=True)
    write(day / "rollout-a.jsonl", codex_lines(TURNS))
    (day / "rollout-b.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    return home


def test_it_says_what_lies_where_and_imports_nothing(tmp_path: Path) -> None:
    home = home_with(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*"))
    env = {"HOME": str(home), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "XDG_CONFIG_HOME": ""}
    found = run("transcripts", "--json", cwd=tmp_path, env=env).json["transcripts"]
    assert [
        (each["agent"], each["files"], each["turns"], each["unreadable"], each["compressed"]) for each in found
    ] == [
        ("claude-code", 3, 2, 1, 0),
        ("codex", 2, 2, 0, 1),
    ]
    assert all(each["bytes"] > 0 and each["last"].startswith("20") for each in found)
    shown = run("transcripts", cwd=tmp_path, env=env).out
    assert "4 turns; nothing was imported" in shown and "import BANK FOLDER" in shown
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_a_machine_without_any_says_so(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "XDG_CONFIG_HOME": ""}
    assert "no transcripts" in run("transcripts", cwd=tmp_path, env=env).out


@pytest.mark.parametrize(
    ("variable", "folder"),
    [
        ({}, ".claude/projects"),
        ({"CLAUDE_CONFIG_DIR": "{home}/other, {home}/more"}, "more/projects"),
        ({"XDG_CONFIG_HOME": "{home}/xdg"}, "xdg/claude/projects"),
        ({}, ".config/claude/projects"),
        ({"CODEX_HOME": "{home}/c"}, "c/sessions"),
        ({}, ".codex/archived_sessions"),
        ({}, ".gemini/tmp"),
    ],
)
def test_places_follow_the_variables_of_each_agent(variable: dict[str, str], folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(parents=True)
    given = {key: value.format(home=tmp_path) for key, value in variable.items()}
    assert [place.folder for place in transcript_places(given, tmp_path)] == [tmp_path / folder]


@pytest.mark.slow
def test_watch_imports_what_grows_and_what_comes_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    lines = claude_lines(TURNS)
    write(folder / "a.jsonl", lines[:6])
    process = start("import", "./bank", "projects", "--create", "--watch", cwd=tmp_path)
    try:
        read_until(process, "Ctrl-C")
        with (folder / "a.jsonl").open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines[6:]))
        read_until(process, "a.jsonl: 1 new run, 6 events")
        write(folder / "b.jsonl", codex_lines(TURNS[:1]))
        read_until(process, "b.jsonl: 1 new run")
        assert interrupt(process).code == 0
    finally:
        process.kill()
        process.communicate()
    whole = run("import", "./bank", "projects", "--json", cwd=tmp_path).json
    assert whole["appended"] == 0


def test_a_folder_is_watched_before_its_first_session(tmp_path: Path) -> None:
    (tmp_path / "projects").mkdir()
    process = start("import", "./bank", "projects", "--create", "--watch", cwd=tmp_path)
    try:
        read_until(process, "Ctrl-C")
        write(tmp_path / "projects" / "a.jsonl", claude_lines(TURNS[:1]))
        read_until(process, "a.jsonl: 1 new run")
        assert interrupt(process).code == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kill_9_of_an_import_at_random_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", claude_lines([Turn(number, (0, 1), False, False) for number in range(900)]))
    run("init", "./bank", cwd=tmp_path)
    chance, found = random.Random(5), set[int]()
    for attempt in range(5):
        process = start("import", "./bank", path, cwd=tmp_path)
        with Bank.open(tmp_path / "bank") as bank:
            before = bank.position
            # Until it is at work, and then a moment: on a busy machine all would be killed before they begin.
            ends = time.monotonic() + 60
            while bank.position == before and process.poll() is None and time.monotonic() < ends:
                time.sleep(0.001)
        # A group takes some 0.1 s: the first rounds fall into the middle of it on a fast machine too.
        time.sleep(chance.random() * 0.05 * attempt)
        process.kill()
        process.communicate()
        with Bank.open(tmp_path / "bank") as bank:
            found.add(bank.position)
    run("import", "./bank", path, cwd=tmp_path)
    with Bank.open(tmp_path / "bank") as bank, Bank.create("memory:") as whole:
        import_paths(whole, [path])
        ids = [[event.id for event in each.log.read(types=OF_RUNS)] for each in (bank, whole)]
        assert ids[0] == ids[1] and len(ids[0]) == 900 * 8
        bank.check(decisions=True)
    assert len(found) > 1
