"""Results: the numbers of an experiment, computed from its rows alone; the order of rows changes none of them.

A task counts by the run that was selected, unless that breaks a quality gate; what it cost is the cost of all its runs,
and a judge is measured on all that it judged (`rbank_es.lab.metrics`). Only finished trials count in metrics,
contrasts and curves. Everything left out is listed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from rbank_es.lab.condition_contrast import Contrast, ContrastResult, conclusion, contrast_results
from rbank_es.lab.contamination import Kind
from rbank_es.lab.experiment_definition import Condition, Experiment
from rbank_es.lab.experiment_folder import ExperimentData, TrialRead
from rbank_es.lab.guide_worth import COSTS, GuideWorth
from rbank_es.lab.learning_curve import (
    DIFFERENCES,
    SHARES,
    LearningCurve,
    gap_by_position,
    learning_curve,
    unit_curves,
)
from rbank_es.lab.metrics import METRICS, Over, measured
from rbank_es.lab.quality_gates import Gate
from rbank_es.lab.run_rows import TrialRun
from rbank_es.lab.statistics import Estimate, interval, mean_of, share_interval
from rbank_es.lab.trial_units import TrialKey, Unit, by_unit, unit_of

SCRIPTED = "SCRIPTED"
"""The mark of runs in which a script stood in for the model."""


class MetricResult(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of one condition: its value for each unit, by the unit's number, and their mean with its interval.

    `over` names the runs that it counts; see `rbank_es.lab.metrics`.
    """

    over: Over
    units: dict[int, float]
    estimate: Estimate | None


class ConditionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one condition.

    curriculum        whether the order of its tasks follows from what came of them
    trials, finished  planned, and run to their end
    runs, counted     that ended, and that stand for their tasks;  gates  runs left out, by the gate that they break
    contaminated      counted runs by how what they were given could hold the answer
    curve, gap        of successes, by position; and less those of the baseline. growth: of active items
    """

    name: str
    about: str
    baseline: bool
    leave_one_out: bool
    curriculum: bool
    trials: int
    finished: int
    runs: int
    counted: int
    marks: dict[str, int]
    gates: dict[Gate, int]
    contaminated: dict[Kind, int]
    metrics: dict[str, MetricResult]
    curve: LearningCurve
    gap: LearningCurve | None
    growth: LearningCurve


class ContrastSaid(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a contrast, and its reading in one sentence.

    `declared`: the trials recorded it as they began. One that was added to the definition later was perhaps chosen by
    what the data show; its p value is corrected for all, and it changes nothing about the declared ones.
    """

    said: str
    declared: bool
    result: ContrastResult


class BreakEven(msgspec.Struct, frozen=True, kw_only=True):
    """After how many tasks of a condition a guide has paid for its cost, by metric; None: never, or unknown."""

    condition: str
    baseline: str
    tasks: dict[str, int | None]


class GuideResult(msgspec.Struct, frozen=True, kw_only=True):
    """A guide with its cost, and when it has paid for it: in each contrast of a condition with L3 and one without."""

    worth: GuideWorth
    break_even: tuple[BreakEven, ...]


class TaskTally(msgspec.Struct, frozen=True, kw_only=True):
    """The right answers to one task: by condition, the number of right runs and of counted ones."""

    task_id: str
    level: int | None
    family: str | None
    right: dict[str, tuple[int, int]]


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A run that isn't counted because of the gates that it breaks."""

    run: str
    place: str
    task_id: str
    gates: tuple[Gate, ...]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report says in numbers.

    marks     SCRIPTED: the number of runs in which no model ran
    models    of the experiment, by role;  suite  its SHA-256
    files     SHA-256 of the definition, the suite and the environment
    source    SHA-256 of the ontology by which terms were checked; None: they were not
    rubrics   versions and models of the ratings;  ratings  the head of their log
    unit      what counts as one independent value
    level     of the intervals
    """

    experiment: str
    title: str
    question: str
    marks: dict[str, int]
    models: dict[str, str]
    release: str
    commit: str
    suite: str
    suite_name: str
    suite_tasks: int
    files: Mapping[str, str]
    source: str | None
    rubrics: tuple[str, ...]
    ratings: str
    unit: Unit
    runs: int
    trials: tuple[TrialRead, ...]
    unplanned: tuple[str, ...]
    conditions: tuple[ConditionResult, ...]
    contrasts: tuple[ContrastSaid, ...]
    guides: tuple[GuideResult, ...]
    tasks: tuple[TaskTally, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def incomplete(self) -> tuple[TrialRead, ...]:
        """The trials that are missing or unfinished."""
        return tuple(each for each in self.trials if each.state != "finished")

    def named(self, condition: str) -> ConditionResult | None:
        """Return the results of a condition; None if there is none of that name."""
        return next((each for each in self.conditions if each.name == condition), None)


def results_of(data: ExperimentData) -> Results:
    """Return the results of an experiment."""
    experiment, rows = data.experiment, sorted_rows(data)
    measures = _Measures.of(experiment, data.trials, rows)
    return Results(
        experiment=experiment.name,
        title=experiment.title,
        question=experiment.question,
        marks=marks_of(rows),
        models={role: choice.name for role, choice in experiment.models.items()},
        release=data.code[0],
        commit=data.code[1],
        suite=data.suite.digest,
        suite_name=data.suite.name,
        suite_tasks=len(data.suite.tasks),
        files=data.files,
        source=data.source,
        rubrics=data.ratings.rubrics,
        ratings=data.ratings.head,
        unit=measures.unit,
        runs=len(rows),
        trials=data.trials,
        unplanned=data.unplanned,
        conditions=tuple(_condition(each, data, rows, measures) for each in experiment.condition),
        contrasts=(*_contrasts(data, measures),),
        guides=tuple(_guide(worth, experiment, measures) for worth in data.guides),
        tasks=tuple(_tasks(data, rows)),
        left_out=tuple(_left_out(data, rows)),
    )


def sorted_rows(data: ExperimentData) -> list[TrialRun]:
    """Return the rows by condition as the definition has them, order, repetition and position."""
    rank = {condition.name: at for at, condition in enumerate(data.experiment.condition)}
    by_place = attrgetter("order", "repetition", "position", "rollout", "run")
    return sorted(data.rows, key=lambda row: (rank[row.condition], *by_place(row)))


def _guide(worth: GuideWorth, experiment: Experiment, measures: _Measures) -> GuideResult:
    layered = {condition.name for condition in experiment.condition if "L3" in condition.layers}

    def mean(metric: str, condition: str) -> float | None:
        estimate = measures.metric(metric, condition).estimate
        return estimate.mean if estimate is not None else None

    pairs = [pair for pair in experiment.contrasts if pair[0] in layered and pair[1] not in layered]
    paid = (
        BreakEven(
            condition=given,
            baseline=without,
            tasks={name: worth.break_even(name, mean(name, without), mean(name, given)) for name in COSTS},
        )
        for given, without in pairs
    )
    return GuideResult(worth=worth, break_even=tuple(paid))


def marks_of(rows: Iterable[TrialRun]) -> dict[str, int]:
    """Return how many runs no model ran in, by their mark."""
    scripted = sum(row.scripted for row in rows)
    return {SCRIPTED: scripted} if scripted else {}


# ---------------------------------------------------------------- metrics


class _Measures(NamedTuple):
    """Metrics of finished trials, and the rows that count in them."""

    planned: frozenset[TrialKey]
    unit: Unit
    rows: list[TrialRun]
    values: dict[str, dict[str, dict[TrialKey, float | None]]]
    """By metric and condition."""

    @classmethod
    def of(cls, experiment: Experiment, trials: Iterable[TrialRead], rows: Sequence[TrialRun]) -> _Measures:
        finished = {
            (each.condition, (each.order, each.repetition)): each for each in trials if each.state == "finished"
        }
        by_trial: defaultdict[tuple[str, TrialKey], list[TrialRun]] = defaultdict(list)
        for row in rows:
            by_trial[row.condition, (row.order, row.repetition)].append(row)
        planned = [(o, r) for o in range(experiment.orders) for r in range(experiment.repetitions)]
        values: dict[str, dict[str, dict[TrialKey, float | None]]] = {name: {} for name in METRICS}
        for condition in experiment.condition:
            # A trial without a value is kept as one: its unit is then left out, and not measured by its other trials.
            found = {
                trial: measured(by_trial[condition.name, trial], read.top_tenth)
                if (read := finished.get((condition.name, trial))) is not None
                else measured([])
                for trial in planned
            }
            for name in METRICS:
                values[name][condition.name] = {trial: found[trial][name] for trial in planned}
        counted = [row for row in rows if row.counted and (row.condition, (row.order, row.repetition)) in finished]
        return cls(frozenset(planned), unit_of(planned), counted, values)

    def metric(self, name: str, condition: str) -> MetricResult:
        """Return the values of a metric by unit, with their mean and its interval."""
        units = by_unit(self.values[name][condition], self.planned, self.unit, mean_of)
        return MetricResult(
            over=METRICS[name].over, units=units, estimate=_estimating(METRICS[name].unit)([*units.values()])
        )

    def curves(self, value: Callable[[TrialRun], float | None]) -> dict[str, dict[int, list[float | None]]]:
        """Return the values of runs by position of each unit, by condition."""
        return unit_curves(self.rows, value)


BOUNDED = ("share", "0 to 1")
"""The units of metrics whose values are within 0 and 1."""


def _estimating(unit: str) -> Callable[[Sequence[float]], Estimate | None]:
    return share_interval if unit in BOUNDED else interval


def _success(row: TrialRun) -> float | None:
    return None if row.score is None else float(row.success)


def _condition(
    condition: Condition, data: ExperimentData, rows: Sequence[TrialRun], measures: _Measures
) -> ConditionResult:
    own = [row for row in rows if row.condition == condition.name]
    trials = [each for each in data.trials if each.condition == condition.name]
    counted = [row for row in own if row.counted]
    kinds = Counter[Kind]()
    for row in counted:
        # A run counts once for each kind, however many items could hold the answer.
        found: set[Kind] = {each.kind for each in row.contamination}
        kinds.update(found)
    gates: Counter[Gate] = Counter(gate for row in own for gate in row.gates_broken)
    successes = measures.curves(_success)
    growth = measures.curves(lambda row: float(row.items_in_bank))
    return ConditionResult(
        name=condition.name,
        about=condition.about,
        baseline=condition.name == data.experiment.baseline,
        leave_one_out=condition.leave_one_out,
        curriculum=condition.curriculum is not None,
        trials=len(trials),
        finished=sum(each.state == "finished" for each in trials),
        runs=len(own),
        counted=len(counted),
        marks=marks_of(own),
        gates={gate: gates[gate] for gate in sorted(gates)},
        contaminated={kind: kinds[kind] for kind in sorted(kinds)},
        metrics={name: measures.metric(name, condition.name) for name in METRICS},
        curve=learning_curve([*successes.get(condition.name, {}).values()], bounds=SHARES),
        gap=_gap(condition.name, data.experiment.baseline, successes),
        # Of single positions, because the page names the size of a bank as one task began.
        growth=learning_curve([*growth.get(condition.name, {}).values()], 1),
    )


def _gap(
    condition: str, baseline: str | None, curves: Mapping[str, Mapping[int, list[float | None]]]
) -> LearningCurve | None:
    """Return the curve of a condition less that of the baseline, over the units that have both."""
    if baseline is None or condition == baseline:
        return None
    own, other = curves.get(condition, {}), curves.get(baseline, {})
    gaps = [gap_by_position(own[unit], other[unit]) for unit in sorted(own.keys() & other.keys())]
    return learning_curve(gaps, bounds=DIFFERENCES)


def _contrasts(data: ExperimentData, measures: _Measures) -> Iterator[ContrastSaid]:
    """Yield the results of the contrasts that the trials recorded, removed since or not, then of those added later."""
    kinds: dict[str, Any] = {
        "less_is_better": [name for name, metric in METRICS.items() if metric.better == "lower"],
        "shares": [name for name, metric in METRICS.items() if metric.unit in BOUNDED],
    }
    declared = contrasts_of(data.recorded)
    added = [each for each in contrasts_of(data.experiment) if each not in declared]
    for each in contrast_results(declared, measures.values, **kinds):
        yield ContrastSaid(said=conclusion(each), declared=True, result=each)
    # Of all together, so that whoever adds one corrects it for those declared as well.
    for each in contrast_results([*declared, *added], measures.values, **kinds)[len(declared) :]:
        yield ContrastSaid(said=conclusion(each), declared=False, result=each)


def contrasts_of(experiment: Experiment) -> list[Contrast]:
    """Return the contrasts and interactions of a definition, in each of its metrics."""
    pairs: list[tuple[str, str, tuple[str, str] | None]] = [(*pair, None) for pair in experiment.contrasts]
    pairs += [(one, other, (third, fourth)) for one, other, third, fourth in experiment.interactions]
    return [
        Contrast(condition=one, baseline=other, metric=metric, less=less)
        for metric in experiment.metrics
        for one, other, less in pairs
    ]


# ---------------------------------------------------------------- tasks and runs left out


def _tasks(data: ExperimentData, rows: Sequence[TrialRun]) -> Iterable[TaskTally]:
    right: defaultdict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.counted:
            right[row.task_id][row.condition].append(row.success)
    names = [condition.name for condition in data.experiment.condition]
    for task in data.suite.tasks:
        own = right.get(task.id, {})
        counts = {name: (sum(own[name]), len(own[name])) for name in names if name in own}
        yield TaskTally(task_id=task.id, level=task.level, family=task.family, right=counts)


def _left_out(data: ExperimentData, rows: Sequence[TrialRun]) -> Iterable[LeftOut]:
    places = {(each.condition, each.order, each.repetition): each.place for each in data.trials}
    for row in rows:
        if row.gates_broken:
            place = places[row.condition, row.order, row.repetition]
            yield LeftOut(run=row.run, place=place, task_id=row.task_id, gates=row.gates_broken)
