"""Commands of other packages: an installed plugin adds one, by following docs/seams.md alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.events import RunStarted
from tests.cli_runner import COMMAND, ROOT
from tests.plugins import install, run_with

BROKEN = "def add() -> None:\n    raise OSError('no licence')\n"


def rbank(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that finds the packages installed in `cwd`."""
    env = {**os.environ, "PYTHONPATH": f"{cwd}{os.pathsep}{ROOT}"}
    return subprocess.run([*COMMAND, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=60)


def test_a_broken_plugin_stops_no_command_of_ours(tmp_path: Path) -> None:
    """Commands of this package don't look at plugins; where plugins are needed, a broken one is named."""
    install(tmp_path, "broken", BROKEN)
    assert rbank("init", "./notes", cwd=tmp_path).returncode == 0
    refused = rbank("tasks", "./notes", cwd=tmp_path)
    assert refused.returncode == 2 and "broken" in refused.stderr and "no licence" in refused.stderr


POLICY_THAT_FAILS = '''\
from rbank_es.policies import POLICIES, RetrievalPolicy, query_words


class Divides(RetrievalPolicy, frozen=True, kw_only=True):
    """It divides by nothing, or gives this project what it can't take."""

    name = "divides"
    version = 1

    def words(self, query):
        return query_words(3 if query == "three" else query, "none")

    def rank(self, query, k, filters, index):
        return 1 / 0


def add():
    POLICIES.add("retrieval:divides-1", Divides)
'''


@pytest.mark.slow
def test_a_defect_of_a_plugin_is_told_as_one(tmp_path: Path) -> None:
    """By the package, wherever it fails; where this project fails, its own is told."""
    install(tmp_path, "dividing", POLICY_THAT_FAILS)
    assert rbank("init", "./notes", cwd=tmp_path).returncode == 0
    assert rbank("policy", "./notes", "--set", "retrieval=divides", cwd=tmp_path).returncode == 0
    failed = rbank("search", "./notes", "lamps", cwd=tmp_path)
    assert failed.returncode == 70 and failed.stderr == (
        "rbank-es: unexpected ZeroDivisionError: division by zero. This is a defect of the plugin dividing: please "
        "tell its authors; --debug shows where it happened.\n"
    )
    assert "of rbank-es: please report it" in rbank("search", "./notes", "three", cwd=tmp_path).stderr


LYING = '''\
import sys

from rbank_es.cli.shared.command_registry import COMMANDS
from rbank_es.events import NoteLogged, RunStarted
from rbank_es.policies import POLICIES, RankedItem, RetrievalPolicy
from rbank_es.projections import PROJECTIONS, Projection
from rbank_es.projections.projection import Insert, Table


class Lying(RetrievalPolicy, frozen=True, kw_only=True):
    """It returns what the query asks for, instead of ranked items."""

    name = "lying"
    version = 1

    def words(self, query):
        return (query,)

    def rank(self, query, k, filters, index):
        score = {"nan": float("nan"), "text": "high"}.get(query, 1.0)
        found = [row[0] for row in index.rows("SELECT item FROM active_items")]
        return {
            "none": None,
            "tuples": [(id, 1.0) for id in found],
            "unknown": [RankedItem("nowhere", 1.0)],
            "number": [RankedItem(7, 1.0)],
            "exit": "exit",
        }.get(query, [RankedItem(id, score) for id in found]) if query != "exit" else sys.exit(5)


TABLE = Table(name="lies", columns="lie TEXT NOT NULL", key=("from_seq",))


def raising(event):
    raise RuntimeError("no disk of mine")


def misshapen(event):
    return (Insert("lies", ("one", "two", "three", event.seq)),)


def elsewhere(event):
    return (Insert("nowhere", ("one", event.seq)),)


def projection(**parts):
    whole = {"name": "lies", "version": 1, "title": "", "handlers": {RunStarted: lambda event: ()}, "tables": (TABLE,)}
    return Projection(**whole | parts)


RAISING = projection(handlers={RunStarted: raising})
MISSHAPEN = projection(handlers={RunStarted: misshapen})
ELSEWHERE = projection(handlers={RunStarted: elsewhere})
SETTLING = projection(settle=("DELETE FROM nowhere",))
VIEWING = projection(views={"lies_told": "SELEKT 1"})
TAKEN = projection(views={"items": "SELECT 1"})
OTHER = projection(name="other")
NONE = None


def add():
    POLICIES.add("retrieval:lying-1", Lying)
    COMMANDS.add("tell", "lying:add")
    KIND
'''


@pytest.mark.slow
def test_a_policy_that_returns_anything_else_is_named_with_its_package(tmp_path: Path) -> None:
    install(tmp_path, "lying", LYING.replace("KIND", "pass"))
    with Bank.create(tmp_path / "b") as bank:
        bank.remember("Sort by height", "By the tower.", src="success")
    assert rbank("policy", "./b", "--set", "retrieval=lying", cwd=tmp_path).returncode == 0
    queries = ["none", "tuples", "unknown", "number", "nan", "text", "exit", "towers"]
    program = f"result = [command('search', './b', query) for query in {queries}]"
    *refused, (code, found) = run_with(tmp_path, program, tmp_path)
    assert code == 0 and "Sort by height" in found
    for query, (code, said) in zip(queries, refused, strict=False):
        assert code == 2 and "lying" in said and "uninstall that package" in said, (query, said)


@pytest.mark.slow
@pytest.mark.parametrize(
    "lie", ["RAISING", "MISSHAPEN", "ELSEWHERE", "SETTLING", "VIEWING", "TAKEN", "OTHER", "NONE", "NOT_THERE"]
)
def test_a_projection_that_fails_is_named_and_all_others_go_on(lie: str, tmp_path: Path) -> None:
    install(tmp_path, "lying", LYING.replace("KIND", f"PROJECTIONS.add('lies', 'lying:{lie}')"))
    with Bank.create(tmp_path / "b") as bank:
        bank.append(RunStarted(run="r1", task="Which lamps are lit?"))
        bank.remember("Sort by height", "By the tower.", src="success")
    lines = ["search ./b tower", "search ./b@2 tower", "items ./b", "project ./b --rebuild", "search ./b tower"]
    program = f"result = [command(*line.split()) for line in {lines}]"
    done = run_with(tmp_path, program, tmp_path)
    assert [code for code, _ in done] == [0] * len(lines), done
    assert "lying" in done[0][1] and "goes on without it" in done[0][1]
    assert "Sort by height" in done[0][1] and "Sort by height" in done[-1][1]


def test_what_is_no_command_breaks_no_help(tmp_path: Path) -> None:
    install(tmp_path, "lying", LYING.replace("KIND", "pass"))
    helped = rbank("--help", cwd=tmp_path)
    assert helped.returncode == 0 and "tell" in helped.stdout and "can't be used" in helped.stdout
    refused = rbank("tell", cwd=tmp_path)
    assert refused.returncode == 2 and "the plugin 'tell' of the package lying" in refused.stderr


def test_a_plugin_that_ends_the_process_ends_no_command_of_ours(tmp_path: Path) -> None:
    install(tmp_path, "leaving", "import sys\n\n\ndef add():\n    sys.exit(0)\n")
    with Bank.create(tmp_path / "b") as bank:
        bank.remember("Sort by height", "By the tower.", src="success")
    done = rbank("search", "./b", "tower", cwd=tmp_path)
    assert done.returncode == 0 and "Sort by height" in done.stdout and "'leaving' can't be used" in done.stderr
