"""The suite that comes with the shipped ontology: sixty tasks in families, every one of them sound and answered."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.data import LIGHTS
from rbank_es.errors import BadInput
from rbank_es.lab.suite_script import script_of
from rbank_es.lab.task_suite import Suite, load_suite
from rbank_es.loop.tasks import LEVELS, Task
from rbank_es.models.scripted_model import Script
from tests.cli_runner import run

SUITE = load_suite(LIGHTS)


def test_each_family_has_one_task_of_each_level() -> None:
    levels = Counter((task.family, task.level) for task in SUITE.tasks)
    families = {family for family, _ in levels}
    assert len(families) == 12 and len(SUITE.tasks) == 60
    assert levels == Counter((family, level) for family in families for level in LEVELS)


@pytest.mark.slow
def test_the_suite_passes_its_check_in_both_engines(tmp_path: Path) -> None:
    """Gold queries that run, no ties, stored answers, two engines alike, and misleading queries that mislead."""
    found = run("suite", "check", LIGHTS, "--json", cwd=tmp_path).json
    assert [task["task"] for task in found["tasks"] if task["flaws"]] == []
    assert all(task["missed_by"] == "the misleading query" for task in found["tasks"])


# ---------------------------------------------------------------- the script that answers every task


def test_what_it_teaches_holds_no_literal_and_no_name_of_a_thing() -> None:
    taught = [
        script.fields["memory_items"][0] for task in Script.parse(script_of(SUITE)).task for script in task.extractor
    ]
    assert len(taught) == 2 * len(SUITE.tasks)
    for lesson in taught:
        assert not re.search(r"['\"]|(light|area|hazard|keeper):", lesson["content"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "tasks, words",
    [
        ([Task(id="t", question="How many?", answer="four")], "no gold query"),
        ([Task(id="t", question="How many?", gold_sparql="SELECT (")], "can't be read"),
        (
            [Task(id=f"t{n}", question="?", gold_sparql=f"ASK {{ ?s ?p '{'1' * 2_000}' }}") for n in range(1_000)],
            f"{limits.LM_SCRIPT_BYTES:,} bytes",
        ),
    ],
)
def test_what_no_script_can_answer_is_refused(tasks: list[Task], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        script_of(Suite.of("bad", tasks))
