"""Simulations as an experiment: a folder with definition, suite and a real bank per trial, marked SIMULATED.

What `experiment run` makes with models is made here by the simulated learner, so that the same rows, report, check and
page come of it. A repetition is an order of the tasks of one world.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import ExperimentFinished, ExperimentStarted
from rbank_es.events.run_events import Trial
from rbank_es.lab.beginnings import begin, fork_point
from rbank_es.lab.definition import Condition, Experiment
from rbank_es.lab.materials import MaterialDigests
from rbank_es.lab.plan import ordered_tasks, trials
from rbank_es.lab.run_rows import rows_of
from rbank_es.lab.simulated.learner_memory import SIMULATED, LearnerMemory
from rbank_es.lab.simulated.simulation import SimulationPlan, simulate
from rbank_es.lab.simulated.study import MARK, Study, StudyCell
from rbank_es.lab.simulated.world import Assumptions, World
from rbank_es.lab.task_suite import Suite, suite_json
from rbank_es.lab.trial import tables_of
from rbank_es.lab.trial_log import TrialLog
from rbank_es.lab.trial_place import DEFINITION, ENVIRONMENT, SUITE, TrialPlace, base_place
from rbank_es.lab.trial_record import results_digest
from rbank_es.limits import experiment_limits
from rbank_es.loop.resources import origin
from rbank_es.loop.tasks import Task
from rbank_es.models.choice import LmChoice
from rbank_es.system.files import write_replacing
from rbank_es.system.progress import OnProgress, reported

LEARNER = LmChoice(model="simulated/learner")
WITHOUT = "no-memory"
"""The condition that stands beside all others."""


class SimulatedCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of a study as one of an experiment: its name, and the simulation that it means."""

    name: str
    about: str
    assumptions: Assumptions
    plan: SimulationPlan


def simulate_experiment(
    study: Study, cells: Sequence[StudyCell], orders: int, folder: Path, progress: OnProgress | None = None
) -> Experiment:
    """Simulate some cells of a study in real banks, in so many orders of one world's tasks, into a new folder.

    Return its experiment. Raises `BadInput` for a folder that is there, and for cells that can't be trials: those in
    which the bank is emptied, which then isn't one bank.
    """
    conditions = _conditions(study, cells)
    experiment, suite = _experiment(study, conditions, orders), _suite(study)
    _prepare(folder, experiment, suite, conditions)
    planned = trials(experiment)
    by_name = {each.name: each for each in conditions}
    with Bank.create(base_place(folder), purpose=f"{SIMULATED} {study.title}", unsafe_no_sync=True) as base:
        for trial in reported(planned, progress):
            place = TrialPlace(folder, trial).bank
            place.parent.mkdir(exist_ok=True)
            base.fork(place, fork_point(base)).close()
            # Without syncs, which are most of the time, because a simulation that a power cut ends is made again.
            bank = Bank.open(place, unsafe_no_sync=True)
            _simulate(folder, base, bank, trial, experiment, suite, by_name[trial.condition])
    return experiment


def _conditions(study: Study, cells: Sequence[StudyCell]) -> list[SimulatedCondition]:
    without = SimulationPlan(memory=False)
    found = [SimulatedCondition(name=WITHOUT, about="", assumptions=study.assumptions, plan=without)]
    for cell in cells:
        if cell.plan.emptied_at:
            raise BadInput(f"{cell.name}: an emptied bank is another bank, so this cell is no trial; leave it out")
        words = "-".join(str(value) for value in cell.factors.values())
        name = re.sub(r"[^A-Za-z0-9.]+", "-", words).strip("-.")[: experiment_limits.EXPERIMENT_NAME_CHARS]
        about = f"{SIMULATED}: {cell.name}"
        own = cell.assumptions or study.assumptions
        found.append(SimulatedCondition(name=name, about=about, assumptions=own, plan=cell.plan))
    return found


def _experiment(study: Study, conditions: Sequence[SimulatedCondition], orders: int) -> Experiment:
    return Experiment(
        name=f"{SIMULATED}-{study.name}",
        title=f"{SIMULATED}: {study.title}",
        question=MARK,
        suite=_suite_name(study),
        orders=orders,
        baseline=WITHOUT,
        models={"agent": LEARNER},
        condition=tuple(
            Condition(
                name=each.name,
                about=each.about or f"{SIMULATED}: the same tasks; no item is given or drawn.",
                layers=("L2",) if each.plan.memory else (),
                judge="lm",
                extract=each.plan.memory,
                leave_one_out=each.plan.leave_one_out,
                policies=each.plan.policies,
            )
            for each in conditions
        ),
    )


def _suite_name(study: Study) -> str:
    return f"{SIMULATED}-{study.name}"


def _suite(study: Study) -> Suite:
    """Return the tasks of the study's world. They have no right answer to be compared with: the solver knows it."""
    tasks = World(study.assumptions).tasks
    return Suite.of(
        _suite_name(study), [Task(id=task.id, question=task.question, family=f"family-{task.family}") for task in tasks]
    )


def _prepare(folder: Path, experiment: Experiment, suite: Suite, conditions: Sequence[SimulatedCondition]) -> None:
    """Write the files of a new folder, the definition last."""
    if folder.exists():
        raise BadInput(f"{folder} exists; choose another folder")
    folder.mkdir(parents=True)
    facts = {
        "kind": MARK,
        **origin(),
        "definition": experiment.digest,
        "suite": suite.digest,
        "simulated": {each.name: {"assumptions": each.assumptions, "plan": each.plan} for each in conditions},
    }
    files: Mapping[str, bytes] = {
        SUITE: suite_json(suite, MARK),
        ENVIRONMENT: msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n",
        DEFINITION: experiment.to_toml().encode(),
    }
    for name, content in files.items():
        write_replacing(folder / name, [content])


def _simulate(
    folder: Path,
    base: Bank,
    bank: Bank,
    trial: Trial,
    experiment: Experiment,
    suite: Suite,
    condition: SimulatedCondition,
) -> None:
    """Simulate one trial in its bank, and close it."""
    chosen = experiment.named(trial.condition)
    digests, models = MaterialDigests(), experiment.models
    world = World(condition.assumptions, 0, trial.order)
    # The planned order and not the world's own, because reports refuse a trial that departs from it.
    order = [task.id for task in ordered_tasks(suite.tasks, experiment.seed, trial.order)]
    world.tasks = tuple(sorted(world.tasks, key=lambda task: order.index(task.id)))
    declared: dict[str, Any] = {"config_digest": digests.config_digest(chosen, models), "suite": suite.digest}
    bank.set_policies(tables_of(chosen.choices()))
    begin(folder, base, bank, ExperimentStarted(trial=trial, tasks=tuple(order), **declared), experiment)
    facts = {
        "trial": trial,
        "suite": suite.digest,
        "config_digest": digests.settings_digest(chosen, models),
        **origin(),
    }
    memory = _TrialMemory(bank, facts, lambda: _finished(bank, trial, suite, declared))
    simulate(world, condition.plan, lambda: memory)


def _finished(bank: Bank, trial: Trial, suite: Suite, declared: Mapping[str, Any]) -> ExperimentFinished:
    return ExperimentFinished(trial=trial, result_digest=results_digest(rows_of(TrialLog.of(bank), suite)), **declared)


class _TrialMemory(LearnerMemory):
    """The bank of a simulation that is a trial: it records the trial's end as the simulation is over."""

    def __init__(self, bank: Bank, facts: Mapping[str, Any], finished: Callable[[], ExperimentFinished]) -> None:
        super().__init__(bank, facts)
        self._finished = finished

    def close(self) -> None:
        """Record the scores and the end of the trial, and release the bank."""
        self.record_scores()
        self.bank.append(self._finished())
        self.bank.close()
