"""The document on extending: each of its examples, installed as a package of somebody else's, does what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.plugins import install, run_with

DOCUMENT = (Path(__file__).resolve().parents[1] / "docs" / "extending.md").read_text()
POLICY, EXECUTOR, ENGINE = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.M | re.S)
TOML = re.findall(r"^```toml\n(.*?)^```", DOCUMENT, re.M | re.S)[1]
ITEMS = [
    {"title": "Count the lamps of every lighthouse", "content": "Count lamps."},
    {"title": "Lamps", "content": "A lamp is a light."},
    {"title": "Buoys", "content": "No light."},
]
SCRIPT = """
name = "one"
[[task]]
id = "*"
[[task.agent]]
text = "There are three."
"""


def test_the_retrieval_policy_ranks_in_python_and_on_the_command_line(tmp_path: Path) -> None:
    install(tmp_path, "shortest_title", POLICY)
    (tmp_path / "policies.toml").write_text(TOML)
    (tmp_path / "items.json").write_text(json.dumps(ITEMS))
    result = run_with(
        tmp_path,
        """
assert not command("init", "./bank", "--policy", "policies.toml")[0]
assert not command("import", "./bank", "items.json")[0]
found = json.loads(command("search", "./bank", "the lamps", "--json")[1])["hits"]
with Bank.open("./bank") as bank:
    result = [[hit["title"] for hit in found], [hit.title for hit in bank.search("the lamps")]]
""",
        tmp_path,
    )
    assert result == [["Lamps", "Count the lamps of every lighthouse"]] * 2


@pytest.mark.slow
def test_the_executor_runs_a_task_on_the_command_line(tmp_path: Path) -> None:
    install(tmp_path, "oneshot", EXECUTOR)
    (tmp_path / "script.toml").write_text(SCRIPT)
    result = run_with(
        tmp_path,
        """
options = ["--ont", "lights", "--task", "How many?", "--lm", "script:script.toml", "--judge", "none"]
code, out = command("run", "./bank", *options, "--executor", "oneshot")
with Bank.open("./bank") as bank:
    [ended] = bank.events(types={"run_finished"}, resolve=True)
result = [code, ended.outcome, ended.answer]
""",
        tmp_path,
    )
    assert result == [0, "submitted", "There are three."]


@pytest.mark.slow
def test_the_log_engine_keeps_a_bank_in_python_and_in_a_loop(tmp_path: Path) -> None:
    install(tmp_path, "loud", ENGINE)
    install(tmp_path, "oneshot", EXECUTOR)
    (tmp_path / "script.toml").write_text(SCRIPT)
    result = run_with(
        tmp_path,
        """
from rbank_es.events import RunStarted
with contextlib.redirect_stderr(io.StringIO()) as said, Bank.create("loud:x") as bank:
    bank.append(RunStarted(run="r1", task="t"))
    position = Bank.open("loud:x").position
options = ["--ont", "lights", "--task", "How many?", "--lm", "script:script.toml", "--judge", "none"]
code, out = command("run", "loud:", *options, "--executor", "oneshot")
result = [position, "loud: 1 events, up to 3" in said.getvalue(), code, "loud: " in out]
""",
        tmp_path,
    )
    assert result == [3, True, 0, True]
