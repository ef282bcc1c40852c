"""The README: every command and every program in it runs, and the session shows what is really printed."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rbank_es.models.scripted_model import rendered
from tests.cli_runner import CACHE
from tests.models.openai_server import openai_server
from tests.sandbox.sandboxes import require_dspy, runtime

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.M | re.S)
CONSOLE = [body for language, body in BLOCKS if language == "console"]
PYTHON = [body for language, body in BLOCKS if language == "python"]
PRINTED = [body for language, body in BLOCKS if language == "text"]
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
@prefix lamp: <https://lamps.example/ns#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
lamp:Lamp a owl:Class ; rdfs:label "lamp" .
lamp:DeskLamp a owl:Class ; rdfs:subClassOf lamp:Lamp ; rdfs:label "desk lamp" .
lamp:StreetLamp a owl:Class ; rdfs:subClassOf lamp:Lamp ; rdfs:label "street lamp" .
lamp:isLit a owl:DatatypeProperty ; rdfs:domain lamp:Lamp ; rdfs:label "is lit" .
lamp:desk1 a lamp:DeskLamp ; lamp:isLit true .
lamp:street1 a lamp:StreetLamp ; lamp:isLit true .
lamp:street2 a lamp:StreetLamp ; lamp:isLit false .
"""
LAMPS = "<https://lamps.example/1> a <https://lamps.example/ns#Lamp> .\n"
RUN = re.compile(r"\b(lit|all)-[0-9a-f]{8}-1\b")
MOST_LINES, LOOP_LINES = 200, 12
HEAD = re.compile(r"(?<=:)[0-9a-f]{64}\b")
SERVER = "http://localhost:8000/v1"

# ---------------------------------------------------------------- what the server that stands in for a model answers


def coded(reasoning: str, code: str) -> str:
    return rendered({"reasoning": reasoning, "code": f"```python\n{code}\n```"})


def asking(reasoning: str, query: str, answer: str) -> str:
    return coded(
        reasoning,
        f"query = {query!r}\nfound = sparql_query(query)\nrows = sparql_slice(found)['rows']\n"
        f"SUBMIT(answer={answer}, sparql=query, evidence={{'keys': [found['key']]}})",
    )


LESSON = {
    "title": "Follow subclasses when you ask for all of a kind",
    "description": "When a question asks how many lamps there are: a general class may have instances of subclasses "
    "only.",
    "content": "Write ?x a/rdfs:subClassOf* Class. An empty result for the class alone is no answer.",
}
ANSWERS = [
    asking(
        "I ask for lamps that are lit.",
        "SELECT ?lamp WHERE { ?lamp a lamp:Lamp ; lamp:isLit true }",
        "'No lamp is lit.'",
    ),
    rendered(
        {
            "verdict": "failure",
            "confidence": 0.9,
            "reason": "Only subclasses of lamp:Lamp have instances, so the empty result is no answer.",
        }
    ),
    rendered({"memory_items": [LESSON], "why_none": ""}),
    asking(
        "A guardrail says to follow subclasses.",
        "SELECT (COUNT(DISTINCT ?lamp) AS ?n) WHERE { ?lamp a/rdfs:subClassOf* lamp:Lamp }",
        "f\"There are {rows[0]['n']} lamps.\"",
    ),
    rendered({"verdict": "success", "confidence": 0.95, "reason": "All lamps are counted, of every subclass."}),
    rendered({"memory_items": [], "why_none": "The guardrail was known."}),
]

# ---------------------------------------------------------------- running what it says


def run(command: str, cwd: Path, more: Mapping[str, str] | None = None) -> str:
    """What a command prints, run in a shell where `rbank-es` is the one under test."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "160", "PYTHONPATH": str(ROOT), "RBANK_CACHE": str(CACHE)}
    env.pop("RBANK_HOME", None)
    env |= more or {}
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
    shutil.copytree(
        ROOT / "logs" / "sample", tmp_path / "logs" / "sample", ignore=shutil.ignore_patterns("derived", "*lock")
    )
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "lamp.jsonl").write_text(TRAJECTORY)
    (tmp_path / "items.json").write_text(ITEMS)
    (tmp_path / "events.jsonl").write_text(EVENTS)
    return tmp_path


def test_it_shows_what_it_promises_in_order():
    """First the two commands, then the two ways in, a session and a picture, then one's own bank, and a map."""
    assert [command.split()[:2] for command, _ in transcripts(CONSOLE[0])] == [["make", "demo"], ["make", "test"]]
    assert len(CONSOLE) == 5 and len(PYTHON) == 3
    ways = ("## Your agent", "pip install rbank-es", "## Agents over ontologies")
    titles = (*ways, "## A session", "docs/dashboard.png", "## Your own bank", "## Map")
    assert sorted(titles, key=README.index) == list(titles)
    assert README.count("\n") <= MOST_LINES


@pytest.mark.slow
def test_the_session_shows_what_is_printed(folder: Path):
    """Each command of the session, run on the sample bank, prints exactly what stands below it."""
    for command, shown in transcripts(CONSOLE[3]):
        assert lines_of(run(command, folder)) == lines_of(shown), command


def test_a_call_over_the_shipped_ontology_answers_as_shown(folder: Path):
    """The query names a term that doesn't exist; the answer names those that do."""
    for command, shown in transcripts(CONSOLE[1]):
        assert lines_of(run(command, folder)) == lines_of(shown), command


def masked(text: str) -> list[str]:
    """Lines without what is another each time: the digests in the ids of runs and of heads."""
    return lines_of(HEAD.sub("HEAD", RUN.sub(r"\1-KEY", text)))


def check_ones_own_model(folder: Path, more: Mapping[str, str], options: str) -> None:
    """Run the commands of the section one after the other, against a server; `options` are for those that ask it."""
    (folder / "model.ttl").write_text(MODEL)
    known: dict[str, str] = {}
    with openai_server(ANSWERS) as server:
        for command, shown in transcripts(CONSOLE[2]):
            if command == "cat tasks.json":
                (folder / "tasks.json").write_text(shown)
            asked = command.replace(SERVER, server.url) + (options if SERVER in command else "")
            for name, id in known.items():
                asked = re.sub(rf"\b{name}-[0-9a-f]{{8}}-1\b", id, asked)
            printed = run(asked, folder, more)
            known.update((found[1], found[0]) for found in RUN.finditer(printed))
            assert masked(printed) == masked(shown), f"{command}\n{printed}"
        assert len(server.requests) == len(ANSWERS)
        assert LESSON["title"] in json.dumps(server.requests[3]), "what the first task taught reached the second"
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {more['OPENAI_API_KEY']}"}


KEYED = {"OPENAI_API_KEY": "sk-of-a-test-0123456789abcdef"}


@pytest.mark.slow
def test_the_commands_for_ones_own_model_print_what_is_shown(folder: Path):
    """One command for one's own model and ontology, over HTTP; then the others. Code runs here, for it is quick."""
    require_dspy()
    check_ones_own_model(folder, KEYED, " --unsafe-local")


@pytest.mark.slow
@pytest.mark.xdist_group("sandbox")
def test_the_commands_for_ones_own_model_print_what_is_shown_in_the_sandbox(folder: Path):
    """The same commands, to the letter but for the server's address, in the real sandbox."""
    require_dspy()
    check_ones_own_model(folder, KEYED | {"RBANK_CACHE": str(runtime().cache.parent)}, "")


@pytest.mark.slow
def test_the_commands_for_ones_own_bank_run(folder: Path):
    """Import, append, show, review, verify, context and dashboard work as written, on files of the forms named."""
    (folder / "model.ttl").write_text(MODEL)
    (folder / "data").mkdir()
    (folder / "data" / "lamps.ttl").write_text(LAMPS)
    for command, _ in transcripts(CONSOLE[4]):
        run(command, folder)
    assert (folder / "mybank.html").stat().st_size > 100_000


def programs_of_a_loop(folder: Path) -> dict[str, list[str]]:
    """Write the programs of one's own loop into a folder; return the lines that each prints, by its file."""
    loop, correction, stand_in = PYTHON
    (folder / "my_agent.py").write_text(stand_in)
    (folder / "loop.py").write_text(loop)
    (folder / "correction.py").write_text(f"from rbank_es import Bank\n\n{correction}")
    return dict(zip(("loop.py", "correction.py"), map(lines_of, PRINTED), strict=True))


def test_the_lesson_of_a_first_failure_reaches_the_second_run_and_is_taken_back(folder: Path):
    """The programs run as written, and print what stands below them; `tests/test_packaging.py` runs them installed."""
    assert len(PYTHON[0].splitlines()) == LOOP_LINES
    for program, printed in programs_of_a_loop(folder).items():
        assert lines_of(run(f"{sys.executable} {program}", folder)) == printed


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
