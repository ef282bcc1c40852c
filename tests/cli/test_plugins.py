"""Commands of other packages: an installed plugin adds one, by following CONTRIBUTING alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from rbank_es.bank import Bank
from rbank_es.events import RunStarted
from tests.cli_runner import COMMAND, ROOT
from tests.plugins import install

PLUGIN = '''\
import click

from rbank_es.cli.shared.application import COMMANDS, command


@command("tasks", "rbank-es tasks notes")
@click.argument("bank")
def tasks(bank: str, as_json: bool) -> None:
    """List the tasks of a bank's runs, the oldest first, one on each line."""
    from rbank_es.bank import Bank

    with Bank.open(bank) as opened:
        for event in opened.events(types={"run_started"}):
            click.echo(event.task)


def add() -> None:
    COMMANDS.add("tasks", "bank_tasks:tasks")
'''
BROKEN = "def add() -> None:\n    raise OSError('no licence')\n"


def rbank(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that finds the packages installed in `cwd`."""
    env = {**os.environ, "PYTHONPATH": f"{cwd}{os.pathsep}{ROOT}"}
    return subprocess.run([*COMMAND, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=60)


def test_a_plugin_adds_a_command(tmp_path: Path) -> None:
    """It runs, has a help with an example, is listed and is suggested, like every other command."""
    install(tmp_path, "bank_tasks", PLUGIN)
    with Bank.create(tmp_path / "notes") as bank:
        bank.append(RunStarted(run="r1", task="Which lamps are lit?"))
    assert rbank("tasks", "./notes", cwd=tmp_path).stdout == "Which lamps are lit?\n"
    assert "rbank-es tasks notes" in rbank("tasks", "--help", cwd=tmp_path).stdout
    listed = rbank("--help", cwd=tmp_path).stdout.split("Plugins:")[1]
    assert "tasks" in listed and "List the tasks of a bank's runs" in listed
    assert "did you mean 'tasks'?" in rbank("taskz", cwd=tmp_path).stderr


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
