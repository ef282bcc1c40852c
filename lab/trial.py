"""One trial: one bank, from its fork to its last task. It may be cut off anywhere, and goes on from there.

A task counts whole or not at all. A trial may be interrupted inside a task, or a model fail outside of the agent's
power. Then a fork of the bank, as it was before that task, takes its place. So a trial ends with the same log as if
nothing had happened. The banks that were cut off are kept under `cut`, because their calls were paid for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, BankNotFound, LoopStopped
from rbank_es.events import ExperimentFinished, ExperimentStarted, LmCalled, PolicyChoice
from rbank_es.events.run_events import Trial
from rbank_es.events.run_totals import known_sum
from rbank_es.lab.experiment_inputs import Materials
from rbank_es.lab.experiment_plan import ordered_tasks
from rbank_es.lab.run_rows import rows_of
from rbank_es.lab.tamper_evidence import BEGINNING, begin, fork_point
from rbank_es.lab.trial_log import TrialLog
from rbank_es.lab.trial_place import TrialPlace, base_place, opened
from rbank_es.lab.trial_record import results_digest
from rbank_es.limits import experiment_limits
from rbank_es.log.run_reader import read_run, run_starts
from rbank_es.loop.closed_loop import GOES_ON, ClosedLoop, TaskResult
from rbank_es.loop.curriculum import CurriculumPlace, TaskOutcome
from rbank_es.loop.resources import LoopResources
from rbank_es.loop.run_stages import PASSING
from rbank_es.loop.task_history import INTERRUPTED, History
from rbank_es.loop.watched_bank import OnEvents, watched

if TYPE_CHECKING:
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.tasks import Task

T = TypeVar("T")

WAITED_FOR = PASSING - {INTERRUPTED} | {"unreachable"}
"""Error codes of failures that may be over in a while, so that the task is tried again."""

OnTaskEnd = Callable[[Trial, TaskResult], None]
"""Called after each task that counts; what it raises ends the trial between two tasks."""


class TrialOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a trial that was run to its end.

    `runs` leaves out those that were cut off, in banks of which there are `cuts`. `right` and `wrong` are runs by the
    right answer, `successes` and `failures` by the judge. Totals are of all of its runs; None is unknown.
    """

    trial: Trial
    place: str
    runs: int
    right: int
    wrong: int
    successes: int
    failures: int
    lm_calls: int | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    cuts: int

    @property
    def tokens(self) -> int | None:
        """The tokens of prompts and answers together."""
        return known_sum((self.tokens_in, self.tokens_out))


def run_trial(
    materials: Materials,
    place: TrialPlace,
    *,
    on_task: OnTaskEnd | None = None,
    on_events: OnEvents | None = None,
    patience_s: float = experiment_limits.EXPERIMENT_PATIENCE_S,
    sleep: Callable[[float], None] = time.sleep,
    **parts: Any,
) -> TrialOutcome:
    """Run a trial to its end, in its place, and return the outcome.

    `parts` are of `LoopResources`, for all tasks. A model that fails is waited for, `patience_s` seconds for one task.
    Raises `LoopStopped` after that, and for a failure that waiting doesn't mend; `BadInput` for the bank of another
    trial.
    """
    work = _Work(materials, place, parts, on_events)
    return patiently(partial(work.go_on, on_task), lambda: work.done, patience_s=patience_s, sleep=sleep)


def patiently(
    work: Callable[[], T], done: Callable[[], int], *, patience_s: float, sleep: Callable[[float], None]
) -> T:
    """Call `work` until it returns, waiting for a model that fails; return what it returns.

    `done` counts what was achieved: the patience, in seconds, is for one such part. Raises `LoopStopped` once it is
    spent, and for a failure that waiting doesn't mend, each with how to go on.
    """
    counted, next_s, left_s = done(), experiment_limits.EXPERIMENT_WAIT_S, patience_s
    while True:
        try:
            return work()
        except LoopStopped as stopped:
            stopped.advice = stopped.advice or GOES_ON
            if (now := done()) != counted:
                counted, next_s, left_s = now, experiment_limits.EXPERIMENT_WAIT_S, patience_s
            # An outage or a rate limit may pass: wait for it. Any other failure would repeat itself.
            if stopped.code not in WAITED_FOR or left_s <= 0:
                raise
            pause_s = min(next_s, left_s)
            sleep(pause_s)
            # Each wait is twice as long as the last, up to a limit.
            left_s, next_s = left_s - pause_s, min(2 * next_s, experiment_limits.EXPERIMENT_WAIT_MOST_S)


class _Work:
    """A trial on its way: everything that it needs, and how many of its tasks count so far."""

    def __init__(
        self,
        materials: Materials,
        place: TrialPlace,
        parts: Mapping[str, Any],
        on_events: OnEvents | None = None,
    ) -> None:
        experiment, self.materials = materials.experiment, materials
        self.trial, self.place, self.parts, self.on_events = place.trial, place, parts, on_events
        self.condition = experiment.named(place.trial.condition)
        self.settings: LoopSettings = materials.settings(self.condition)
        self.tasks = ordered_tasks(materials.suite.tasks, experiment.seed, place.trial.order)
        self.done = 0

    def go_on(self, on_task: OnTaskEnd | None) -> TrialOutcome:
        """Work on the tasks that are left; return the outcome when all count."""
        with self._opened() as opened:
            bank = watched(opened, self.on_events) if self.on_events is not None else opened
            self._begin(bank)
            if not is_finished(bank):
                self._recorded_tasks(bank, on_task)
                self._finish(bank)
            return self._outcome(bank)

    # ---------------------------------------------------------------- the bank

    def _opened(self) -> Bank:
        """Return the bank as it was after the last task that counts: forked, or cut back to that."""
        with suppress(BankNotFound):
            bank = Bank.open(self.place.bank)
            if is_finished(bank) or self._last_begun(bank) is None:
                return bank
            bank.close()
            self.place.next_cut.parent.mkdir(parents=True, exist_ok=True)
            # Renamed before the fork is made: if this process ends in between, the next one finds no bank and forks.
            self.place.bank.rename(self.place.next_cut)
        return self._forked()

    def _forked(self) -> Bank:
        """Return a new fork: of the bank that was cut off last, before the task it was cut off in, or of the base."""
        self.place.bank.parent.mkdir(parents=True, exist_ok=True)
        for earlier in reversed(self.place.earlier):
            older = opened(earlier)
            if older is None:
                continue
            with older:
                # One that ended before its beginning has nothing to go on from.
                if next(older.events(types={BEGINNING}), None) is not None:
                    return older.fork(self.place.bank, self._last_begun(older))
        with Bank.open(base_place(self.place.folder)) as base:
            return base.fork(self.place.bank, fork_point(base))

    def _last_begun(self, bank: Bank) -> str | None:
        """Return the point before the task that was begun last, None if it counts, or if none was begun."""
        own = [event for event in run_starts(bank.log) if event.trial == self.trial]
        if not own:
            return None
        task = next(each for each in self.tasks if each.id == own[-1].task_id)
        with LoopResources(bank, self.settings, self.materials.source_of(task), **self.parts) as resources:
            loop = ClosedLoop(resources)
            ended = [
                ran for event in own if event.task_id == task.id and (ran := loop.history.runs[event.run]).is_usable
            ]
            # A score needs no model, so a loop counts a task as done without it.
            scored = all(ran.scored is not None for ran in ended) or not (task.gold_sparql or task.answer)
            if scored and loop.is_done(task):
                return None
        # Its first run, because all rollouts of a task are done again together.
        return f"run:{next(event.run for event in own if event.task_id == task.id)}"

    def _begin(self, bank: Bank) -> None:
        """Put the condition's policies and seeds in place, and record that the trial began; each once.

        Raises `BadInput` if the bank is that of another trial.
        """
        started = ExperimentStarted(
            trial=self.trial,
            config_digest=self.materials.config_digest(self.condition),
            suite=self.materials.suite.digest,
            tasks=tuple(task.id for task in self.tasks),
        )
        there = next(bank.events(types={"experiment_started"}), None)
        if isinstance(there, ExperimentStarted):
            facts = (there.trial, there.config_digest, there.suite, there.tasks, there.definition)
            own = (started.trial, started.config_digest, started.suite, started.tasks)
            if facts != (*own, self.materials.experiment.digest):
                raise BadInput(
                    f"{self.place.bank} is the bank of another trial, or of other settings: run the experiment in "
                    "another folder with --into"
                )
            return
        from rbank_es.exchange.file_import import import_paths

        bank.set_policies(tables_of(self.condition.choices()), why=f"condition {self.condition.name}")
        for name in self.condition.seeds:
            import_paths(bank, [self.materials.seeds[name].path])
        with Bank.open(base_place(self.place.folder)) as base:
            removed = self.place.removed if self.place.generation is not None else None
            begin(self.place.folder, base, bank, started, self.materials.experiment, removed=removed)

    def _finish(self, bank: Bank) -> None:
        bank.append(
            ExperimentFinished(
                trial=self.trial,
                config_digest=self.materials.config_digest(self.condition),
                suite=self.materials.suite.digest,
                result_digest=results_digest(rows_of(TrialLog.of(bank), self.materials.suite)),
            )
        )

    # ---------------------------------------------------------------- the tasks

    def _recorded_tasks(self, bank: Bank, on_task: OnTaskEnd | None) -> None:
        """Work on each task that doesn't count yet. Raises `LoopStopped` where one doesn't count after it was run."""
        record: dict[str, Any] = {"suite": self.materials.suite.digest, "trial": self.trial}
        with ExitStack() as stack:
            # A loop asks one source; all of them take up what the others recorded, because they share the bank.
            loops = {
                source.id: ClosedLoop(
                    stack.enter_context(LoopResources(bank, self.settings, source, **record, **self.parts))
                )
                for source in self.materials.sources
            }
            begun, rule = self._begun(bank), self.condition.curriculum
            self.done = len(begun)
            place = CurriculumPlace(self.tasks, rule) if rule is not None else None
            if place is not None:
                for task in begun:
                    place.take(TaskOutcome(task.id, loops[self.materials.source_of(task).id].verdict_on(task)))
            for given in [task for task in self.tasks if task not in begun]:
                task, chosen = (given, None) if place is None else place.next()
                loop = loops[self.materials.source_of(task).id]
                result = loop.run(task, chosen)
                if place is not None:
                    place.take(TaskOutcome(task.id, result.verdict))
                if not loop.is_done(task):
                    _require_settled(bank, loop.history, result)
                self.done += 1
                if on_task is not None:
                    on_task(self.trial, result)

    def _begun(self, bank: Bank) -> list[Task]:
        """Return the tasks that were begun, in that order; each counts: `_opened` has cut off the one that didn't."""
        by_id = {task.id: task for task in self.tasks}
        begun = dict.fromkeys(str(event.task_id) for event in run_starts(bank.log))
        return [by_id[task] for task in begun if task in by_id]

    def _outcome(self, bank: Bank) -> TrialOutcome:
        history, started = History(bank).catch_up(), next(bank.events(types={"experiment_started"}))
        # Not the run that wrote the guide: the common bank had it before the trial began.
        runs = [ran for ran in history.runs.values() if ran.started.seq > started.seq]
        scored = [ran.scored.verdict for ran in runs if ran.scored is not None]
        judged = [ran.judged.verdict for ran in runs if ran.judged is not None]
        return TrialOutcome(
            trial=self.trial,
            place=str(self.place.bank.relative_to(self.place.folder)),
            runs=len(runs),
            right=scored.count("success"),
            wrong=scored.count("failure"),
            successes=judged.count("success"),
            failures=judged.count("failure"),
            **msgspec.structs.asdict(history.spent(ran.run for ran in runs)),
            cuts=len(self.place.earlier),
        )


# ---------------------------------------------------------------- parts


def tables_of(choices: Iterable[PolicyChoice]) -> dict[str, dict[str, Any]]:
    """Return policies as `Bank.set_policies` takes them, each whole."""
    return {each.kind: {"name": each.name, "version": each.version, **each.settings} for each in choices}


def is_finished(bank: Bank) -> bool:
    """Return whether the trial in a bank was run to its end."""
    return next(bank.events(types={"experiment_finished"}), None) is not None


def _require_settled(bank: Bank, history: History, result: TaskResult) -> None:
    """Raise `LoopStopped` if a task doesn't count, because something outside the agent failed that may be over later.

    Unreadable replies of a judge or an extractor are no such failure: the task counts, without a verdict.
    """
    for run in result.runs:
        end = history.runs[run].finished
        if end is not None and not history.runs[run].is_usable:
            raise LoopStopped(run, end.error_code or "unexpected", bank.text(end.error) or "it did not say why")
        last: dict[str, LmCalled] = {}
        for call in read_run(bank.log, run, types={"lm_called"}).lm_calls:
            if call.role in ("judge", "extractor"):
                # Only the last call of a role, because a failure before it was followed by another try.
                last[call.role] = call
        for call in last.values():
            if call.error_code in WAITED_FOR:
                raise LoopStopped(run, call.error_code, bank.text(call.error) or f"the {call.role} gave no answer")
