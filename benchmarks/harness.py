"""The harness of experiments: what a task costs beside the bare loop, and how much time trials side by side save.

SCRIPTED: the tasks of a generated suite, answered by their gold queries. For the overhead, the conditions of E9 are run
in turn by the loop, in a bank for each condition, and by the experiment, with its folder, its common bank, forks,
leave-one-out, and results. For jobs, the command itself runs an experiment; a server on the loopback answers its calls.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dspy
import msgspec

from benchmarks.measure import Goal, Row, duration, interleave, interval
from benchmarks.scripted import LATENCY_S
from benchmarks.sizes import Sizes
from rbank_es.bank import Bank
from rbank_es.lab.experiment_definition import Condition, load_experiment
from rbank_es.lab.experiment_inputs import Materials, gather
from rbank_es.lab.experiment_plan import ordered_tasks
from rbank_es.lab.experiment_run import run_experiment
from rbank_es.lab.generated_suite import ONTOLOGY_FILE, generate
from rbank_es.lab.suite_script import script_of
from rbank_es.lab.task_suite import Suite
from rbank_es.lab.trial import tables_of
from rbank_es.loop import run_closed_loop
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.scripted_model import Script, Turn
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import open_source

SEED = 7
TASKS = (10, 40)
"""Tasks of a short and of a long trial. Forty take half a minute: all subjects together have 25 minutes."""
GOAL_MS = 20

JOBS, ORDERS, JOB_TASKS = 8, 4, 10
"""Trials at a time; orders of the two conditions, which make as many trials; tasks of each trial."""
GOAL_RATIO = 5


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the overhead of a task in a short and in a long trial, and the time of eight jobs beside one."""
    for tasks in TASKS:
        # A long trial takes as long as four short ones, and its own start matters less.
        yield _overhead(place / str(tasks), tasks, sizes.harness_rounds if tasks == TASKS[0] else 1)
    yield _side_by_side(place / "react")


# ---------------------------------------------------------------- overhead


def _overhead(place: Path, tasks: int, rounds: int) -> Row:
    materials, numbers = _materials(place, tasks), itertools.count()
    processor: dict[str, list[float]] = {"experiment": [], "loop": []}

    def experiment() -> None:
        run_experiment(materials, place / f"experiment-{next(numbers)}", interpreters=dspy.LocalInterpreter)

    def loop() -> None:
        for condition in materials.experiment.condition:
            _looped(materials, condition, place / f"loop-{next(numbers)}")

    def turn(name: str, work: Callable[[], None]) -> float:
        began, busy = time.perf_counter(), time.process_time()
        work()
        processor[name].append(time.process_time() - busy)
        return time.perf_counter() - began

    contestants = {"experiment": partial(turn, "experiment", experiment), "loop": partial(turn, "loop", loop)}
    samples = interleave(contestants, rounds)
    runs = tasks * len(materials.experiment.condition)
    middle, low, high = (1e3 * each / runs for each in interval(samples.differences("experiment", "loop")))
    busy = 1e3 * (min(processor["experiment"]) - min(processor["loop"])) / runs
    return Row(
        "harness",
        f"SCRIPTED: a task in trials of {tasks} tasks, pairs: {rounds}",
        f"{duration(samples.median('experiment') / runs)}; over the loop {middle:.1f} ms ({low:.1f} to {high:.1f}), "
        f"of the processor {busy:.1f} ms",
        peer=f"the loop {duration(samples.median('loop') / runs)}",
        goal=Goal("≤", GOAL_MS, "ms over the loop"),
        value=middle,
    )


def _materials(place: Path, tasks: int) -> Materials:
    generated = generate(SEED, tasks)
    place.mkdir()
    for name, data in generated.files.items():
        (place / name).write_bytes(data)
    script = place / "script.toml"
    script.write_text(script_of(generated.suite))
    source = open_source(load_ontology(place / ONTOLOGY_FILE, id=generated.suite.name))
    models = {"agent": LmChoice(model=f"script:{script}")}
    experiment = msgspec.structs.replace(load_experiment("E9"), models=models, orders=1)
    return gather(experiment, generated.suite, source)


def _looped(materials: Materials, condition: Condition, place: Path) -> None:
    settings = msgspec.structs.replace(materials.settings(condition), leave_one_out=False)
    tasks = ordered_tasks(materials.suite.tasks, materials.experiment.seed, 0)
    with Bank.create(place) as bank:
        bank.set_policies(tables_of(condition.choices()))
        results = run_closed_loop(tasks, bank, settings, materials.source, interpreters=dspy.LocalInterpreter)
    assert all(result.scored == "success" for result in results), results


# ---------------------------------------------------------------- jobs


def _side_by_side(place: Path) -> Row:
    from tests.models.openai_server import openai_server

    generated = generate(SEED, JOB_TASKS)
    place.mkdir()
    for name, data in generated.files.items():
        (place / name).write_bytes(data)
    conditions = (msgspec.structs.replace(each, executor="react") for each in load_experiment("E9").condition)
    experiment = msgspec.structs.replace(load_experiment("E9"), orders=ORDERS, condition=tuple(conditions))
    (place / "jobs.toml").write_text(experiment.to_toml())
    with openai_server(_Answers(generated.suite)) as server:
        took = {jobs: _ran(place, jobs, server.url) for jobs in (1, JOBS)}
        model = LATENCY_S * len(server.requests) / len(took) / JOBS
    (one, busy), (several, _) = took[1], took[JOBS]
    cores, runs = os.cpu_count() or 1, JOB_TASKS * experiment.trials
    return Row(
        "harness",
        f"SCRIPTED: `experiment run --jobs {JOBS}`, {experiment.trials} trials of {JOB_TASKS} tasks by `react`, "
        f"{LATENCY_S * 1e3:.0f} ms for each answer of the model",
        f"{duration(several)}, {one / several:.1f} x faster; of the processor {duration(busy / runs)} a task",
        peer=f"`--jobs 1` {duration(one)}",
        floor=f"the model alone {duration(model)}; {cores} processors allow {one / max(model, busy / cores):.1f} x",
        goal=Goal("≥", GOAL_RATIO, "x one job"),
        value=one / several,
    )


def _ran(place: Path, jobs: int, url: str) -> tuple[float, float]:
    """Run the command; return the seconds that it took, and those of the processor, from its start to its end."""
    command = ["run", str(place / "jobs.toml"), "--tasks", str(place / "suite.json"), "--into", str(place / str(jobs))]
    model = ["--lm", "openai/stub", "--api-base", url, "--jobs", str(jobs)]
    environment = os.environ | {"OPENAI_API_KEY": "none"}
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "rbank_es", "experiment", *command, *model],
        env=environment, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class _Answers:
    """Answers to the calls of all roles, by the script of a suite: an agent first runs the gold query, then submits."""

    def __init__(self, suite: Suite) -> None:
        turns = {task.id: task for task in Script.parse(script_of(suite)).task}
        self._tasks = [(task, turns[task.id]) for task in suite.tasks]

    def __call__(self, request: dict[str, Any]) -> Callable[..., None]:
        """Return the behaviour of the server: it waits, then answers."""
        from tests.models.openai_server import JSON, completion
        from tests.sparql.fault_server import says

        reply = says(completion(self._turn(json.dumps(request["messages"], ensure_ascii=False)).answer), JSON)

        def behave(*connection: Any) -> None:
            time.sleep(LATENCY_S)
            reply(*connection)

        return behave

    def _turn(self, text: str) -> Turn:
        """Return the turn that a prompt asks for; lessons and precedents in it may quote other tasks before its own."""
        _, own = max(self._tasks, key=lambda each: text.rfind(_quoted(each[0].question)))
        if "memory_items ## ]]" in text:
            return own.extractor[0]
        if "[[ ## verdict ## ]]" in text:  # in an extractor's prompt too
            return own.judge[0]
        first, last = own.agent
        return last if (first.fields or {})["next_thought"] in text else first


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
