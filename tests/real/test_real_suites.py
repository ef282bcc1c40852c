"""Suites of real data: files of tasks that others wrote are imported, checked, and their known faults are found."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from rbank_es.lab.query_shape import with_shape
from rbank_es.lab.suite_check import EnginePair, check_suite
from rbank_es.lab.task_suite import load_suite
from rbank_es.loop.tasks import Task
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import open_source
from tests.cli_runner import CACHE, run

pytestmark = pytest.mark.real


@pytest.mark.slow
def test_the_tasks_over_real_ontologies_have_few_faults_and_these_are_known(data: Path) -> None:
    """No gold query is wrong, empty or tied; some tasks have no trap, or name a property of their query."""
    suite = load_suite(data / "tasks" / "ontology_tasks.json")
    opened: dict[str, EnginePair] = {}
    with ExitStack() as stack:

        def engines(task: Task) -> EnginePair:
            about = task.ontology or ""
            if about not in opened:
                files = [data / name for name in suite.files[about]]
                source = open_source(load_ontology(files, id=about, cache=CACHE))
                stack.callback(source.close)
                opened[about] = EnginePair(source)
            return opened[about]

        found = check_suite(suite, engines)
    assert len(found.tasks) == 29
    flaws = {(task.task, flaw.code) for task in found.failing for flaw in task.flaws if flaw.code != "no_family"}
    named = {(id, "names_property") for id in ("provd-L1-1", "provd-L5-1", "up-L1-2")}
    assert flaws == named | {(id, "no_trap") for id in ("prov-L1-2", "provd-L3-2", "brick-L1-1", "brick-L3-2")}


def test_levels_that_follow_from_the_shape_are_mostly_those_that_people_gave(data: Path) -> None:
    tasks = load_suite(data / "tasks" / "ontology_tasks.json").tasks
    estimated = [with_shape(Task(id=task.id, question="?", gold_sparql=task.gold_sparql)).level for task in tasks]
    near = [abs((told or 0) - (task.level or 0)) <= 1 for told, task in zip(estimated, tasks, strict=True)]
    assert sum(near) >= 0.9 * len(tasks)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniprot_subset_tasks.json", "judge_eval_tasks.json"])
def test_files_of_other_tools_become_suites_with_levels_and_families(name: str, data: Path, tmp_path: Path) -> None:
    run("suite", "import", data / "tasks" / name, "--endpoint", "uniprot", "--into", "made.json", cwd=tmp_path)
    suite = load_suite(tmp_path / "made.json")
    assert len(suite.tasks) == 10 and all(task.level and task.family for task in suite.tasks)
    assert "10 not run" in run("suite", "check", "made.json", cwd=tmp_path).out
