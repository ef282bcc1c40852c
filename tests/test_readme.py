"""The README: every command and every program in it runs, and the session shows what is really printed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli_runner import CACHE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.M | re.S)
CONSOLE = [body for language, body in BLOCKS if language == "console"]
PYTHON = [body for language, body in BLOCKS if language == "python"]
EVENTS = """\
{"type": "run_started", "run": "run-1", "task": "Which lamps are lit?"}
{"type": "run_finished", "run": "run-1", "outcome": "submitted", "answer": "Three."}
"""
ITEMS = '[{"title": "Count with COUNT", "desc": "Let the query count.", "content": "SELECT (COUNT(?x) AS ?n)"}]\n'
TRAJECTORY = (
    '{"timestamp": "2026-01-31T12:00:00", "event_type": "run_start", "data": {"task": "What is a lamp?"}}\n'
    '{"timestamp": "2026-01-31T12:00:09", "event_type": "run_complete", "data": {"converged": true}}\n'
)
MODEL = """\
@prefix : <https://lamps.example/ns#> .
:Lamp a <http://www.w3.org/2002/07/owl#Class> .
"""
LAMPS = "<https://lamps.example/1> a <https://lamps.example/ns#Lamp> .\n"
KEY = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def run(command: str, cwd: Path) -> str:
    """What a command prints, run in a shell where `rbank-es` is the one under test."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "160", "PYTHONPATH": str(ROOT), "RBANK_CACHE": str(CACHE)}
    env.pop("RBANK_HOME", None)
    done = subprocess.run(command, shell=True, cwd=cwd, env=env, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def transcripts(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with the output that is shown under it."""
    parts = re.split(r"^\$ ", block, flags=re.M)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def lines_of(text: str) -> list[str]:
    """Lines without the spaces and empty lines at their ends."""
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the sample bank under ./logs, and files to import and append."""
    shutil.copytree(ROOT / "logs" / "sample", tmp_path / "logs" / "sample", ignore=shutil.ignore_patterns("derived"))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "lamp.jsonl").write_text(TRAJECTORY)
    (tmp_path / "items.json").write_text(ITEMS)
    (tmp_path / "events.jsonl").write_text(EVENTS)
    return tmp_path


def test_it_shows_what_it_promises_in_order():
    """First the two commands, then a session, then commands for one's own bank, then a program."""
    assert [command.split()[:2] for command, _ in transcripts(CONSOLE[0])] == [["make", "demo"], ["make", "test"]]
    assert len(CONSOLE) == 6 and len(PYTHON) == 1
    titles = ("## A session", "## What an agent gets", "docs/dashboard.png", "## Your own bank", "## Map of the code")
    assert sorted(titles, key=README.index) == list(titles)


def test_the_session_shows_what_is_printed(folder: Path):
    """Each command of the session, run on the sample bank, prints exactly what stands below it."""
    for command, shown in transcripts(CONSOLE[1]):
        assert lines_of(run(command, folder)) == lines_of(shown), command


@pytest.mark.parametrize("block", CONSOLE[2:4], ids=["context", "tools"])
def test_what_an_agent_gets_is_what_is_printed(block: str, folder: Path):
    """Context and calls over the shipped ontology are exactly those shown; only keys of handles differ each time."""
    for command, shown in transcripts(block):
        printed = lines_of(KEY.sub("KEY", run(command, folder)))
        assert printed == lines_of(KEY.sub("KEY", shown)), command


def test_the_commands_for_ones_own_ontology_run(folder: Path):
    """Files and directories are taken, and the manual of an endpoint asks nothing of it."""
    (folder / "model.ttl").write_text(MODEL)
    (folder / "data").mkdir()
    (folder / "data" / "lamps.ttl").write_text(LAMPS)
    for command, _ in transcripts(CONSOLE[4]):
        run(command, folder)
    assert "sparql_query(" in (folder / "manual.txt").read_text()


def test_the_commands_for_ones_own_bank_run(folder: Path):
    """Import, append, search, log, show, verify and dashboard work as written, on files of the forms named."""
    for command, _ in transcripts(CONSOLE[5]):
        run(command, folder)
    assert (folder / "mybank.html").stat().st_size > 100_000


def test_the_program_runs(folder: Path):
    """The Python example runs as written and prints what its comments say."""
    (folder / "program.py").write_text(PYTHON[0])
    printed = run(f"{sys.executable} program.py", folder).splitlines()
    assert printed == ["['Ask the ontology for its classes first']", "{}", "1"]


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_two_commands_exist(target: str):
    """`make demo` and `make test` are targets that set up what they need."""
    planned = run(f"make --dry-run {target}", ROOT)
    assert ("rbank-es demo" if target == "demo" else "pytest") in planned


def test_every_file_that_it_links_to_is_there():
    """No link of the README leads nowhere."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
