"""Folders of experiments for tests, written by hand in a moment: no model, no loop, no sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import msgspec

from rbank_es.bank import Bank
from rbank_es.events import (
    ContextBuilt,
    Event,
    ExperimentFinished,
    ExperimentStarted,
    LmCalled,
    RunFinished,
    RunJudged,
    RunStarted,
)
from rbank_es.events.run_events import LayerUse, Trial
from rbank_es.lab.experiment_definition import Experiment, parse_experiment
from rbank_es.lab.experiment_inputs import MaterialDigests
from rbank_es.lab.experiment_plan import ordered_tasks, trials
from rbank_es.lab.run_rows import rows_of
from rbank_es.lab.tamper_evidence import begin, fork_point
from rbank_es.lab.task_suite import Suite, suite_json
from rbank_es.lab.trial import tables_of
from rbank_es.lab.trial_log import TrialLog
from rbank_es.lab.trial_place import DEFINITION, ENVIRONMENT, SUITE, TrialPlace, base_place
from rbank_es.lab.trial_record import results_digest
from rbank_es.loop.tasks import Task

DEFINITION_TEXT = """\
name = "pair"
title = "With memory and without"
question = "Does it help?"
orders = {orders}
seed = 1
baseline = "without"
contrasts = [["with", "without"]]
[models.agent]
model = "script:none"
[[condition]]
name = "without"
layers = ["L0"]
[[condition]]
name = "with"
layers = ["L0", "L2"]
"""

Right = Callable[[Trial, int, Task], bool]
"""Whether the run at a position of a trial is right."""

CALLS = {"without": 2, "with": 3}


def pair(orders: int = 3) -> Experiment:
    return parse_experiment(DEFINITION_TEXT.format(orders=orders).encode())


def suite_of(tasks: int = 4) -> Suite:
    return Suite.of(
        "numbers",
        [Task(id=f"t{n}", question=f"What is {n}?", answer=f"{n} metres", level=1 + n % 3) for n in range(tasks)],
    )


def alternating(trial: Trial, position: int, task: Task) -> bool:
    """With memory, more and more is right."""
    return (position + trial.order) % 2 == 0 or (trial.condition == "with" and position > trial.order + 1)


def written(
    folder: Path, experiment: Experiment | None = None, suite: Suite | None = None, right: Right = alternating,
    *, environment_commit: str = "c" * 40, **changes: Any,
) -> Path:  # fmt: skip
    """Write the folder of an experiment that was run, and return it; `changes` are to each `run_started`."""
    experiment, suite = experiment or pair(), suite or suite_of()
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        "release": "0.1.0",
        "commit": environment_commit,
        "definition": experiment.digest,
        "suite": suite.digest,
    }
    (folder / DEFINITION).write_text(experiment.to_toml())
    (folder / SUITE).write_bytes(suite_json(suite))
    (folder / ENVIRONMENT).write_bytes(msgspec.json.encode(environment))
    with Bank.create(base_place(folder), purpose="base", unsafe_no_sync=True) as base:
        for trial in trials(experiment):
            place = TrialPlace(folder, trial).bank
            place.parent.mkdir(exist_ok=True)
            with base.fork(place, fork_point(base)) as bank:
                record_trial(folder, base, bank, trial, experiment, suite, right, **{"commit": "c" * 40} | changes)
    return folder


def record_trial(
    folder: Path, base: Bank, bank: Bank, trial: Trial, experiment: Experiment, suite: Suite, right: Right,
    **changes: Any,
) -> None:  # fmt: skip
    """Record a trial in its bank, from its policies to its end, and its beginning in the common one."""
    bank.set_policies(tables_of(experiment.named(trial.condition).choices()))
    # In several groups, as a loop appends them: of one at the end that is damaged a log is only cut.
    started, *events = trial_events(trial, experiment, suite, right, changes)
    assert isinstance(started, ExperimentStarted)
    begin(folder, base, bank, started, experiment)
    for group in groups(events):
        bank.append(group)
    bank.append(end(bank, trial, experiment, suite))


def end(bank: Bank, trial: Trial, experiment: Experiment, suite: Suite) -> ExperimentFinished:
    """The event that ends a trial, with the digest of its results as they are now."""
    digest = results_digest(rows_of(TrialLog.of(bank), suite))
    return ExperimentFinished(trial=trial, result_digest=digest, **digests(trial, experiment, suite))


def digests(trial: Trial, experiment: Experiment, suite: Suite) -> dict[str, str]:
    config = MaterialDigests().config_digest(experiment.named(trial.condition), experiment.models)
    return {"config_digest": config, "suite": suite.digest}


def groups(events: list[Event]) -> Iterator[list[Event]]:
    """Yield events in groups, each begun by a run."""
    starts = [at for at, event in enumerate(events) if isinstance(event, RunStarted)]
    yield from (events[start:end] for start, end in pairwise([*starts, len(events)]))


def trial_events(
    trial: Trial, experiment: Experiment, suite: Suite, right: Right, changes: dict[str, Any]
) -> list[Event]:
    """The events of a trial, up to its last run."""
    tasks = ordered_tasks(suite.tasks, experiment.seed, trial.order)
    settings = MaterialDigests().settings_digest(experiment.named(trial.condition), experiment.models)
    declared = digests(trial, experiment, suite)
    events: list[Event] = [ExperimentStarted(trial=trial, tasks=tuple(task.id for task in tasks), **declared)]
    rollouts = experiment.named(trial.condition).rollouts
    for (position, task), rollout in product(enumerate(tasks, 1), range(rollouts)):
        run = f"{task.id}-{trial.condition}-{trial.order}"
        # Of several rollouts every other one is right, and the judge passes two of three, whatever they are.
        verdict = "success" if right(trial, position, task) ^ (rollout % 2) else "failure"
        passed = verdict if rollouts == 1 else "success" if (position + rollout) % 3 else "failure"
        if rollouts > 1:
            changes = {**changes, "rollout_group": run, "rollout_index": rollout}
            run = f"{run}.r{rollout}"
        given = {"release": "0.1.0", "settings": "{}", "scripted": True, "trial": trial, "task": task.question}
        named = {"task_id": task.id, "level": task.level, "family": task.family, "suite": suite.digest}
        facts: dict[str, Any] = {"config_digest": settings, **given, **named, **changes}
        layer = LayerUse(layer="base", chars=3, budget=800)
        judged = {"run": run, "judge_version": "1"}
        events += [
            RunStarted(run=run, **facts),
            ContextBuilt(run=run, chars=3, layers=(layer,), texts=("abc",)),
            *(
                LmCalled(run=run, role="agent", model="m", tokens_in=100 * position, tokens_out=10)
                for _ in range(CALLS.get(trial.condition, 1))
            ),
            RunFinished(run=run, outcome="submitted", iterations=position, answer="a"),
            RunJudged(purpose="learning", judge="lm", kind="lm", verdict=passed, **judged),
            RunJudged(purpose="scoring", judge="gold", kind="gold", suite=suite.digest, verdict=verdict, **judged),
        ]
    return events
