"""The tour of the architecture: every file that a walk names exists, and is entered on that walk."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli_runner import CACHE
from tests.effort import one_in
from tests.sandbox.sandboxes import require_dspy, runtime

ROOT = Path(__file__).resolve().parents[1]
TOUR = ROOT / "docs" / "architecture.md"
MOST_LINES = 150

# Prints the files of this project in which a function is entered while CALL runs, in the order of first entry.
PROFILE = """
import contextlib, io, json, os, pathlib, sys, threading
from rbank_es.cli import main
def command(*words):
    with contextlib.suppress(SystemExit):
        main([str(word) for word in words])
{prepare}
seen = {{}}
def profile(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith({root!r}) and frame.f_code.co_name != "<module>":
        seen.setdefault(str(pathlib.Path(frame.f_code.co_filename).resolve().relative_to({root!r})))
sys.setprofile(profile)
threading.setprofile(profile)
with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):
{call}
sys.setprofile(None)
threading.setprofile(None)
print("entered", json.dumps(list(seen)), flush=True)
os._exit(0)
"""
EVENT = '{"type": "run_started", "run": "r1", "task": "Which lights are in service?"}\n'
SCRIPT = '''
name = "one"
[[task]]
id = "*"
[[task.agent]]
reasoning = "count"
code = """
found = sparql_query('SELECT (COUNT(?l) AS ?n) WHERE { ?l a lt:Lighthouse }')
rows = sparql_slice(found)['rows']
SUBMIT(answer=str(rows[0]['n']), sparql='SELECT (COUNT(?l) AS ?n) WHERE { ?l a lt:Lighthouse }', evidence={})
"""
[[task.judge]]
fields = {success = true, reason = "counted"}
[[task.extractor]]
text = '{"memory_items": [], "why_none": "nothing new"}'
'''
EXPERIMENT = """
name = "heights"
title = "Does one lesson help?"
suite = "tasks.json"
baseline = "without"
contrasts = [["with", "without"]]
[shared]
executor = "react"
judge = "checks"
[[condition]]
name = "without"
[[condition]]
name = "with"
layers = ["L2"]
seeds = ["lights"]
"""
TASKS = """{"ontology": "lights", "tasks": [{"id": "height", "question": "How high is the light of Cormorant Rock?",
 "level": 1, "family": "heights", "gold_sparql": "SELECT ?m { ?l lt:name 'Cormorant Rock' ; lt:focalHeight ?m }"}]}"""
TURNS = """
[[task]]
id = "*"
[[task.agent]]
fields.next_thought = "That is it."
fields.next_tool_name = "SUBMIT"
fields.next_tool_args = { answer = "45", sparql = "SELECT ?m { ?l lt:name 'Cormorant Rock' ; lt:focalHeight ?m }" }
"""
WALKS = {
    "An event": ('command("init", "./b")', 'command("append", "./b", "event.jsonl"); command("project", "./b")'),
    "A query": (
        "from rbank_es import Bank, build_tools, load_ontology\n"
        "from rbank_es.data import lights\n"
        "from rbank_es.events import RunStarted\n"
        'bank = Bank.create("./b")\n'
        'bank.append(RunStarted(run="r1", task="t"))\n'
        'tools = build_tools(bank, run="r1", source=load_ontology(lights().ontology))',
        'tools.call("sparql_query", {"query": "SELECT ?l ?m WHERE { ?l lt:towerHeight ?m } LIMIT 5"})',
    ),
    "A task": (
        'command("init", "./b")',
        'command("run", "./b", "--ont", "lights", "--task", "How many lighthouses are there?", '
        '"--lm", "script:script.toml", "--extract")',
    ),
    "A trial": (
        "",
        'command("experiment", "run", "heights.toml", "--lm", "script:turns.toml"); '
        'command("experiment", "report", "experiments/heights")',
    ),
}
FILES = {
    "event.jsonl": EVENT,
    "script.toml": SCRIPT,
    "heights.toml": EXPERIMENT,
    "tasks.json": TASKS,
    "turns.toml": TURNS,
}


def walk(title: str) -> list[str]:
    """Return the files that the walk of this title names, in order."""
    [section] = re.findall(rf"^## {title}\b.*?$(.*?)(?=^## |\Z)", TOUR.read_text(encoding="utf-8"), re.M | re.S)
    return list(dict.fromkeys(re.findall(r"`((?:rbank_es|lab|projections|tools)/[\w/]+\.py)`", section)))


def entered(title: str, place: Path, cache: Path) -> list[str]:
    prepare, call = WALKS[title]
    for name, text in FILES.items():
        (place / name).write_text(text)
    code = PROFILE.format(prepare=prepare, root=f"{ROOT}/", call="    " + call)
    env = {"PYTHONPATH": str(ROOT), "RBANK_CACHE": str(cache), "HOME": str(place), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], cwd=place, env=env, capture_output=True, text=True, timeout=110)
    assert "entered " in done.stdout, done.stderr
    found: list[str] = json.loads(done.stdout.rsplit("entered ", 1)[1])
    return found


def test_the_tour_is_short_and_has_four_walks() -> None:
    text = TOUR.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    assert all(len(walk(title)) >= 5 for title in WALKS)
    assert [
        path
        for path in re.findall(r"`((?:rbank_es|lab|projections|tools)/[\w/]+\.\w+)`", text)
        if not (ROOT / path).exists()
    ] == []


@pytest.mark.parametrize("title", one_in(2, ["An event", "A query"]))
def test_every_file_of_a_walk_is_entered_on_it(title: str, tmp_path: Path) -> None:
    found = entered(title, tmp_path, CACHE)
    assert [path for path in walk(title) if path not in found] == []


@pytest.mark.slow
@pytest.mark.xdist_group("sandbox")
def test_every_file_of_the_walk_of_a_task_is_entered_on_it(tmp_path: Path) -> None:
    require_dspy()
    found = entered("A task", tmp_path, runtime().cache.parent)
    assert [path for path in walk("A task") if path not in found] == []


@pytest.mark.slow
def test_every_file_of_the_walk_of_a_trial_is_entered_on_it(tmp_path: Path) -> None:
    require_dspy()
    found = entered("A trial", tmp_path, CACHE)
    assert [path for path in walk("A trial") if path not in found] == []
