"""E1 to E9 and E12 with a script as every model, through the real sandbox: the path of every condition is executed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.data import lights
from rbank_es.events import ContextBuilt, ExperimentFinished, MemoriesExtracted, RunStarted, ToolCalled
from rbank_es.experiments.definition import Experiment, load_experiment
from rbank_es.experiments.experiment_run import run_experiment
from rbank_es.experiments.materials import gather
from rbank_es.experiments.suite import Suite
from rbank_es.loop.tasks import load_tasks
from rbank_es.models.choice import LmChoice
from tests.experiments.test_ratings import GUIDE_RATED
from tests.loop.loops import source
from tests.loop.test_closed_loop import of_type
from tests.loop.test_guide_run import SCRIPT as GUIDE_SCRIPT
from tests.sandbox.sandboxes import Lender, require_dspy

require_dspy()

# The sandbox is one for all of these; a task takes half a second then.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox"), pytest.mark.timeout(300)]

TASKS = ("lights-L1-1", "lights-L2-2")
LEARNING = ("E9", "E12")
NO_FLOOR = {"retrieval": {"coverage": 0.0, "coverage_alone": 0.0}}
"""The two tasks have few words in common: without a floor, each is given what the other taught."""
NAMES = [*(f"E{number}" for number in range(1, 9)), *LEARNING]


def chosen(name: str, script: Path) -> Experiment:
    """A shipped experiment, each condition once."""
    script.write_text(lights().script.read_text() + GUIDE_SCRIPT + GUIDE_RATED)
    models = {"agent": LmChoice(model=f"script:{script}")}
    experiment = load_experiment(name)
    if name in LEARNING:
        conditions = (msgspec.structs.replace(each, policies=each.policies | NO_FLOOR) for each in experiment.condition)
        experiment = msgspec.structs.replace(experiment, condition=tuple(conditions))
    return msgspec.structs.replace(experiment, models=models, orders=1, repetitions=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_every_condition_is_run_to_its_end(tmp_path: Path, name: str) -> None:
    experiment = chosen(name, tmp_path / "script.toml")
    tasks = [task for task in load_tasks(lights().tasks) if task.id in (TASKS if name in LEARNING else TASKS[:1])]
    materials = gather(experiment, Suite.of("two", tasks), source(), constraints=lights().constraints.read_text())
    outcomes = run_experiment(materials, tmp_path / "run", interpreters=Lender(), at_once=False)
    assert [each.trial.condition for each in outcomes] == [each.name for each in experiment.condition]
    for condition, outcome in zip(experiment.condition, outcomes, strict=True):
        assert (outcome.runs, outcome.right, outcome.wrong) == (len(tasks) * condition.rollouts,) * 2 + (0,)
        with Bank.open(tmp_path / "run" / outcome.place) as bank:
            assert len(of_type(bank, ExperimentFinished)) == 1
            assert {run.layers for run in of_type(bank, RunStarted)[-outcome.runs :]} == {condition.layers}
            contexts = of_type(bank, ContextBuilt)
            shown = {use.layer for each in contexts for use in each.layers if use.chars} - {"base"}
            # With tools alone, L2 is not put in the context.
            assert shown == {*condition.layers} - ({"L2"} if condition.mode == "tools" else set())
            assert bool(of_type(bank, MemoriesExtracted)) == bool(condition.extract or condition.seeds)
            naive = [call.chars for call in of_type(bank, ToolCalled)]
            assert naive, "the agent's code called tools in the sandbox"
