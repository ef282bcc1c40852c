"""Every shipped experiment by the script of the suite, in the real sandbox: the path of every condition is executed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.data import LIGHTS, lights
from rbank_es.events import ContextBuilt, ExperimentFinished, MemoriesExtracted, RunStarted, ToolCalled
from rbank_es.lab.experiment_definition import Experiment, load_experiment, shipped_experiments
from rbank_es.lab.experiment_inputs import gather
from rbank_es.lab.experiment_run import run_experiment
from rbank_es.lab.suite_script import script_of
from rbank_es.lab.task_suite import Suite, load_suite
from rbank_es.models.model_choice import LmChoice
from tests.loop.loops import local, source
from tests.loop.test_closed_loop import of_type
from tests.sandbox.sandboxes import Lender, require_dspy

require_dspy()

# The sandbox is one for all of these; a task takes half a second then.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox"), pytest.mark.timeout(300)]

SUITE = load_suite(LIGHTS)
TASKS = SUITE.families["both-sides"][:2]
IN_PROCESS = ("E10", "E11", "E13", "E14", "E9a", "E9b", "E9c", "curriculum", "dedup", "judges", "ranking")
"""Experiments whose conditions run no code that others don't: without the sandbox, which takes half a second a task."""
NO_FLOOR = {"retrieval": {"coverage": 0.0, "share_of_best": 0.0}}
"""The two tasks have few words in common: without a floor, each is given what the other taught."""


def learns(experiment: Experiment) -> bool:
    return any(each.extract for each in experiment.condition)


def chosen(name: str, script: Path) -> Experiment:
    """A shipped experiment, each condition once."""
    script.write_text(script_of(SUITE))
    models = {"agent": LmChoice(model=f"script:{script}")}
    experiment = load_experiment(name)
    if learns(experiment):
        conditions = (msgspec.structs.replace(each, policies=each.policies | NO_FLOOR) for each in experiment.condition)
        experiment = msgspec.structs.replace(experiment, condition=tuple(conditions))
    return msgspec.structs.replace(experiment, models=models, orders=1, repetitions=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", shipped_experiments())
def test_every_condition_is_run_to_its_end(tmp_path: Path, name: str) -> None:
    experiment = chosen(name, tmp_path / "script.toml")
    tasks = [task for task in SUITE.tasks if task.id in TASKS[: 1 + learns(experiment)]]
    materials = gather(experiment, Suite.of("two", tasks), source(), constraints=lights().constraints.read_text())
    interpreters = local if name in IN_PROCESS else Lender()
    outcomes = run_experiment(materials, tmp_path / "run", interpreters=interpreters, at_once=False)
    assert [each.trial.condition for each in outcomes] == [each.name for each in experiment.condition]
    for condition, outcome in zip(experiment.condition, outcomes, strict=True):
        assert (outcome.runs, outcome.right, outcome.wrong) == (len(tasks) * condition.rollouts,) * 2 + (0,)
        with Bank.open(tmp_path / "run" / outcome.place) as bank:
            assert len(of_type(bank, ExperimentFinished)) == 1
            assert {run.layers for run in of_type(bank, RunStarted)[-outcome.runs :]} == {condition.layers}
            contexts = of_type(bank, ContextBuilt)[-outcome.runs :]
            shown = {use.layer for each in contexts for use in each.layers if use.chars} - {"base"}
            # With tools alone, L2 is not put in the context; checks alone decide nothing here, so nothing is learned.
            empty = condition.mode == "tools" or condition.judge == "checks"
            assert shown == {*condition.layers} - ({"L2"} if empty else set())
            taught = (condition.extract and condition.judge != "checks") or condition.seeds
            assert bool(of_type(bank, MemoriesExtracted)) == bool(taught)
            naive = [call.chars for call in of_type(bank, ToolCalled)]
            assert naive, "the agent's code called tools in the sandbox"
