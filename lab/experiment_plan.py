"""Plans of experiments: the trials, the order of tasks in each, and what they will cost in calls."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.context.layer_sections import budgets_of
from rbank_es.events.run_events import Trial
from rbank_es.lab.experiment_definition import Condition, Experiment
from rbank_es.lab.experiment_inputs import Materials
from rbank_es.loop.call_estimate import ANSWER_TOKENS, CallEstimate, estimate_calls, manual_chars
from rbank_es.loop.settings import task_context
from rbank_es.loop.tasks import Task
from rbank_es.models.scripted_model import CHARS_A_TOKEN

if TYPE_CHECKING:
    from rbank_es.loop.settings import LoopSettings

TOKENS_A_PRICE = 1_000_000
"""Providers name prices for so many tokens."""


def trials(experiment: Experiment) -> tuple[Trial, ...]:
    """Return the trials: every condition in every order and repetition.

    Conditions vary first, so that an experiment that is cut short has compared them all on what it has.
    """
    numbers = product(range(experiment.repetitions), range(experiment.orders), experiment.condition)
    return tuple(
        Trial(experiment=experiment.name, condition=condition.name, order=order, repetition=repetition)
        for repetition, order, condition in numbers
    )


def ordered_tasks(tasks: Iterable[Task], seed: int, order: int) -> tuple[Task, ...]:
    """Return tasks in a shuffled order, which depends on seed, number and ids alone: all conditions share it."""

    def key(task: Task) -> bytes:
        # By a digest, not by a generator: a task that is added or removed leaves the order of the others.
        return hashlib.sha256(f"{seed}\n{order}\n{task.id}".encode()).digest()

    return tuple(sorted(tasks, key=key))


# ---------------------------------------------------------------- what it will cost


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Prices of a model in US dollars per million tokens, of prompts and of answers."""

    usd_in: float
    usd_out: float


class RolePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one role in all trials of a condition. Characters and cost are those of the most calls."""

    role: str
    model: str
    calls_least: int
    calls_most: int
    chars_in_most: int
    chars_out_most: int
    usd_most: float | None = None


class ConditionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The work of the trials of a condition; `context_chars` is the longest context of the first run of a trial."""

    condition: str
    about: str
    trials: int
    runs: int
    context_chars: int
    roles: tuple[RolePlan, ...]


class ExperimentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The work of an experiment. `guide` are the calls of the run that writes a guide, `ratings` those by rubric."""

    experiment: str
    tasks: int
    orders: int
    repetitions: int
    trials: int
    conditions: tuple[ConditionPlan, ...]
    guide: tuple[RolePlan, ...] = ()
    ratings: tuple[RolePlan, ...] = ()

    @property
    def roles(self) -> tuple[RolePlan, ...]:
        """The calls of all roles of all conditions, of the guide, and of the ratings."""
        return (*self.guide, *self.ratings, *(role for each in self.conditions for role in each.roles))

    @property
    def runs(self) -> int:
        """The number of runs of all trials."""
        return sum(each.runs for each in self.conditions)

    @property
    def usd_most(self) -> float | None:
        """The cost of the most calls; None without prices."""
        costs = [role.usd_most for role in self.roles if role.usd_most is not None]
        return sum(costs) if costs else None


def planned(materials: Materials, prices: Prices | None = None) -> ExperimentPlan:
    """Return the plan of an experiment, with estimates of its calls. No model is called and no file is written.

    Later tasks of a trial may get more context, from what earlier ones teach, up to the layers' budgets.
    """
    experiment = materials.experiment
    return ExperimentPlan(
        experiment=experiment.name,
        tasks=len(materials.suite.tasks),
        orders=experiment.orders,
        repetitions=experiment.repetitions,
        trials=experiment.trials,
        conditions=tuple(_condition(materials, each, prices) for each in experiment.condition),
        guide=_guide(materials, prices),
        ratings=_ratings(materials, prices),
    )


def _condition(materials: Materials, condition: Condition, prices: Prices | None) -> ConditionPlan:
    count = materials.experiment.orders * materials.experiment.repetitions
    settings, tasks = materials.settings(condition), materials.suite.tasks
    with Bank.create("memory:", policies=condition.choices()) as bank:
        _seed(bank, materials, condition)
        texts = [task_context(task, settings, materials.source_of(task), bank).text for task in tasks]
        manual = manual_chars(settings, materials.source)
        # No guide is written yet: its summary will fill its budget.
        manual += budgets_of(settings.preset, settings.budgets)["L3"] if condition.needs_guide else 0
        each = [
            estimate_calls(len(text) + len(task.question) + manual, settings, bank)
            for text, task in zip(texts, tasks, strict=True)
        ]
    return ConditionPlan(
        condition=condition.name,
        about=condition.about,
        trials=count,
        runs=count * len(tasks) * condition.rollouts,
        context_chars=max(map(len, texts)),
        roles=_summed(each, count, prices),
    )


def _seed(bank: Bank, materials: Materials, condition: Condition) -> None:
    from rbank_es.exchange.file_import import import_paths

    for name in condition.seeds:
        import_paths(bank, [materials.seeds[name].path])


def _guide(materials: Materials, prices: Prices | None) -> tuple[RolePlan, ...]:
    from rbank_es.loop.guide_run import QUESTION, guide_settings

    wanting = next((each for each in materials.experiment.condition if each.needs_guide), None)
    if wanting is None:
        return ()
    settings: LoopSettings = guide_settings(materials.settings(wanting))
    task = Task(id="guide", question=QUESTION)
    text = task_context(task, settings, materials.source, None).text
    chars = len(text) + len(QUESTION) + manual_chars(settings, materials.source)
    return _summed([estimate_calls(chars, settings)], 1, prices)


def _ratings(materials: Materials, prices: Prices | None) -> tuple[RolePlan, ...]:
    experiment, models = materials.experiment, materials.experiment.models
    answers = experiment.orders * experiment.repetitions * len(materials.suite.tasks)
    answers *= sum(each.rollouts for each in experiment.condition)
    guides = int(any(each.needs_guide for each in experiment.condition))
    texts = answers * ("answer" in experiment.rubrics) + guides * ("guide" in experiment.rubrics)
    if not texts:
        return ()
    # Of the longest text that a rubric is asked about, because no answer exists yet.
    tokens = limits.RUBRIC_TEXT_CHARS // CHARS_A_TOKEN + ANSWER_TOKENS
    most = limits.JUDGE_TRIES
    model = models.get("judge", models["agent"]).name
    one = CallEstimate(role="judge", model=model, least=1, most=most, tokens_most=most * tokens)
    return _summed([[one]] * texts, 1, prices)


def _summed(tasks: Sequence[Sequence[CallEstimate]], trial_count: int, prices: Prices | None) -> tuple[RolePlan, ...]:
    """Return the estimates of all tasks as one for each role, for so many trials."""
    found: dict[tuple[str, str], list[CallEstimate]] = {}
    for calls in tasks:
        for one in calls:
            found.setdefault((one.role, one.model), []).append(one)
    return tuple(_role(role, model, each, trial_count, prices) for (role, model), each in found.items())


def _role(role: str, model: str, each: Sequence[CallEstimate], trial_count: int, prices: Prices | None) -> RolePlan:
    most = trial_count * sum(one.most for one in each)
    tokens_out = most * ANSWER_TOKENS
    # An estimate's tokens are those of prompts and answers together.
    tokens_in = trial_count * sum(one.tokens_most for one in each) - tokens_out
    usd = None
    if prices is not None:
        usd = (tokens_in * prices.usd_in + tokens_out * prices.usd_out) / TOKENS_A_PRICE
    return RolePlan(
        role=role,
        model=model,
        calls_least=trial_count * sum(one.least for one in each),
        calls_most=most,
        chars_in_most=tokens_in * CHARS_A_TOKEN,
        chars_out_most=tokens_out * CHARS_A_TOKEN,
        usd_most=usd,
    )
