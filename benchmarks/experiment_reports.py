"""Reports of experiments: 6,000 runs in six banks, from their logs to the page, and the check of it.

Processor time, because the logs are read by one process, and others may be at work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.measure import Goal, Row
from benchmarks.sizes import Sizes
from rbank_es.bank import Bank
from rbank_es.events import (
    ContextBuilt,
    Event,
    ExperimentFinished,
    ExperimentStarted,
    RunFinished,
    RunJudged,
    RunStarted,
)
from rbank_es.events.run_events import LayerUse, Trial
from rbank_es.experiments.definition import Condition, Experiment
from rbank_es.experiments.experiment_folder import read_experiment
from rbank_es.experiments.experiment_run import DEFINITION, ENVIRONMENT, SUITE
from rbank_es.experiments.plan import trials
from rbank_es.experiments.report import write_report
from rbank_es.experiments.report_check import check_report
from rbank_es.experiments.suite import Suite, suite_json
from rbank_es.experiments.trial import TrialPlace, base_place
from rbank_es.loop.tasks import Task

TASKS, CONDITIONS = 1_000, 6
GOAL_S = 10
GROUP = 100
"""Tasks of one group of events: how they are grouped makes no difference to readers."""


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the times of a report, and of its check."""
    folder = place / "experiment"
    runs = _write(folder)
    begun = time.process_time()
    write_report(read_experiment(folder), folder)
    took = time.process_time() - begun
    begun = time.process_time()
    assert check_report(folder).holds
    checked = time.process_time() - begun
    what = f"SIMULATED: the report of {runs:,} runs, from their logs"
    yield Row("reports", what, f"{took:.1f} s", goal=Goal("≤", GOAL_S, "s"), value=took)
    what = f"SIMULATED: {runs:,} runs: every log verified, every number computed again"
    yield Row("reports", what, f"{checked:.1f} s")


def _write(folder: Path) -> int:
    """Write the folder of an experiment that was run, and return the number of its runs."""
    experiment = Experiment(
        name="size", title="Size", condition=tuple(Condition(name=f"c{n}") for n in range(CONDITIONS)),
        contrasts=(("c1", "c0"),),
    )  # fmt: skip
    suite = Suite.of("size", [Task(id=f"t{n}", question=f"What is {n}?", answer=f"{n} metres") for n in range(TASKS)])
    environment = {"release": "0", "commit": "0", "definition": experiment.digest, "suite": suite.digest}
    folder.mkdir()
    (folder / DEFINITION).write_text(experiment.to_toml())
    (folder / SUITE).write_bytes(suite_json(suite))
    (folder / ENVIRONMENT).write_bytes(msgspec.json.encode(environment))
    with Bank.create(base_place(folder), unsafe_no_sync=True) as base:
        for trial in trials(experiment):
            with base.fork(_made(TrialPlace(folder, trial).bank)) as bank:
                _live(bank, trial, suite)
    return experiment.lives * TASKS


def _made(place: Path) -> Path:
    place.parent.mkdir(exist_ok=True)
    return place


def _live(bank: Bank, trial: Trial, suite: Suite) -> None:
    digests = {"config_digest": "1" * 64, "suite": suite.digest}
    bank.append(ExperimentStarted(trial=trial, tasks=tuple(task.id for task in suite.tasks), **digests))
    for start in range(0, TASKS, GROUP):
        bank.append([event for task in suite.tasks[start : start + GROUP] for event in _run(trial, task, digests)])
    bank.append(ExperimentFinished(trial=trial, result_digest="2" * 64, **digests))


def _run(trial: Trial, task: Task, digests: dict[str, str]) -> Iterator[Event]:
    run, right = f"{task.id}-{trial.condition}", len(task.id) % 2 == 0
    facts: dict[str, Any] = {"release": "0", "commit": "0", "simulated": True, "task": task.question, **digests}
    judged: dict[str, Any] = {"judge_version": "1", "verdict": "success" if right else "failure"}
    yield RunStarted(run=run, task_id=task.id, trial=trial, **facts)
    yield ContextBuilt(run=run, chars=3, layers=(LayerUse(layer="base", chars=3, budget=800),), texts=("abc",))
    yield RunFinished(run=run, outcome="submitted", iterations=1, answer="a")
    yield RunJudged(run=run, purpose="learning", judge="lm", kind="lm", **judged)
    yield RunJudged(run=run, purpose="scoring", judge="gold", kind="gold", suite=digests["suite"], **judged)
