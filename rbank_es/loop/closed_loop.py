"""The closed loop: retrieve, run, judge, extract, consolidate; one task after the other, for order is what it studies.

What is done is in the log, so a loop that was interrupted goes on where it stopped: a task that was finished, judged
and learnt from under the same settings is not repeated. A run that was cut off is closed as failed (`interrupted`), and
the task is run anew; a run that finished is judged, and a judged one learnt from, without being run again. At most the
calls of the one stage that was cut off are made twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from rbank_es.errors import BadInput, JudgeFailed, LogBusy, LoopStopped
from rbank_es.loop.history import (
    INTERRUPTED,
    Extracted,
    History,
    Ran,
    flaw_of,
    group_id,
    is_of_proposals,
    rollout_of,
    task_key,
)
from rbank_es.loop.post_run import Learning
from rbank_es.loop.rollouts import Spread, best_of, question_of, side_by_side, spread_of
from rbank_es.loop.run_context import Equipment, check_source
from rbank_es.loop.settings import LoopSettings
from rbank_es.loop.single_run import NewRun, begin_runs, close_run, execute, is_agents_own
from rbank_es.loop.tasks import Task

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.sparql.source import Source

How = Literal["ran", "continued", "known"]
"""It was run now; it had been run before and was judged or learnt from now; all was there."""


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one task.

    `run` is the run that counts: of several rollouts the best. `success` is the verdict for learning, `scored` that of
    the expected answer; None where there is none. `added` and `supported` are ids of items: new ones, and those that
    candidates landed on. Totals are of the runs that count: those that were cut off, or that were run anew because they
    failed of something that was not the agent's own, are left out. `notes` say what was left undone, and why.
    """

    task: str
    run: str
    runs: tuple[str, ...]
    how: How
    outcome: str
    scripted: bool = False
    success: bool | None = None
    reason: str = ""
    scored: bool | None = None
    score_reason: str = ""
    candidates: int = 0
    added: tuple[str, ...] = ()
    supported: tuple[str, ...] = ()
    iterations: int = 0
    lm_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    answer: str = ""
    sparql: str = ""
    error_code: str | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()
    spread: Spread | None = None

    @property
    def undone(self) -> bool:
        """Whether every run failed of something that was not the agent's own, so that the next loop runs it anew."""
        return not is_agents_own(self.outcome, self.error_code)


GOES_ON = "The same command goes on from here"
FROM_THE_FIRST = "The same command begins with the first task again, because all are to be run again"

OnTask = Callable[[Task, int, int], None]
"""Called before each task, with its number from 1 and how many there are."""
OnResult = Callable[[TaskResult], None]


def run_closed_loop(
    tasks: Iterable[Task],
    bank: Bank,
    settings: LoopSettings,
    source: Source | None = None,
    *,
    again: bool = False,
    on_task: OnTask | None = None,
    on_result: OnResult | None = None,
    **parts: Any,
) -> list[TaskResult]:
    """Run tasks one after the other; each may use what was learnt of those before. The results, in their order.

    Args:
        tasks: with distinct ids; about the source, or about no ontology by name.
        bank: where all is recorded, and where memories come from.
        settings: every choice; with `rollouts` over 1, each task is run so often side by side.
        source: what is asked.
        again: run also the tasks that this bank has under these settings.
        on_task: told of each task before it begins.
        on_result: told of each result.
        parts: of `Equipment`, for those who bring a model, an interpreter or an executor of their own.

    Raises:
        BadInput: ids that are there twice, a task about another ontology, another process with the same loop.
        LmFailed, SandboxUnavailable, MissingExtra: every run would fail of it; nothing was recorded.
        LoopStopped: a run failed of what the next would fail of too.
        LogError: the bank can't be written.
    """
    todo = tuple(tasks)
    twice = {task.id for task in todo if [other.id for other in todo].count(task.id) > 1}
    if twice:
        raise BadInput(f"there is more than one task with the id {min(twice)!r}")
    with Equipment(bank, settings, source, **parts) as equipment:
        check_source(todo, equipment.source_id)
        equipment.check()
        results: list[TaskResult] = []
        with _alone(bank, settings.digest):
            loop = ClosedLoop(equipment, again=again)
            equipment.runs_to_come = loop.runs_to_come(todo)
            for number, task in enumerate(todo, 1):
                if on_task is not None:
                    on_task(task, number, len(todo))
                with _resumable(again):
                    results.append(loop.run(task))
                if on_result is not None:
                    on_result(results[-1])
        return results


def run_matts_parallel(
    task: Task, bank: Bank, settings: LoopSettings, source: Source | None = None, *, k: int = 3, **parts: Any
) -> TaskResult:
    """Run one task `k` times side by side, judge all, select the best, and learn by comparing them.

    All get the same context. See `run_closed_loop` for the rest.
    """
    several = msgspec.structs.replace(settings, rollouts=k)
    return run_closed_loop([task], bank, several, source, **parts)[0]


def advice(again: bool) -> str:
    """How a loop that stopped is gone on with; `again` is whether all tasks were to be run again."""
    return FROM_THE_FIRST if again else GOES_ON


@contextmanager
def _resumable(again: bool) -> Iterator[None]:
    """Where a loop stops, say how it is gone on with."""
    try:
        yield
    except LoopStopped as stopped:
        stopped.advice = advice(again)
        raise


@contextmanager
def _alone(bank: Bank, digest: str) -> Iterator[None]:
    """Keep other processes from the same loop: each would close the runs of the other as cut off."""
    with ExitStack() as stack:
        try:
            stack.enter_context(bank.log.exclusive(f"loop-{digest[:16]}"))
        except LogBusy:
            advice = "wait for it, or use other settings or another bank"
            raise BadInput(f"another process runs this very loop in {bank.name}; {advice}") from None
        yield


class ClosedLoop:
    """A loop over one bank, task by task."""

    def __init__(self, equipment: Equipment, *, again: bool = False) -> None:
        """`again`: whatever the bank has from before this moment doesn't count as done."""
        self.equipment = equipment
        self.history = History(equipment.bank).catch_up()
        self._learning = Learning(equipment)
        self._since = self.history.position if again else 0
        self._notes: list[str] = []
        self._sought: set[str] = set()

    def runs_to_come(self, tasks: Iterable[Task]) -> int:
        """How many runs the tasks will take: of those that are there, none is made again."""
        return sum(len(self._to_run(self._work(task))) for task in tasks)

    def is_done(self, task: Task) -> bool:
        """Whether nothing is left to be asked of any model for a task."""
        work, chosen = self._work(task), self.equipment.settings
        runs = self._runs(work)
        judged = chosen.judge == "none" or all(ran.judged for ran in runs if _is_usable(ran))
        learnt = not chosen.extract or not all(map(is_of_proposals, self._extractions(runs)))
        return not self._to_run(work) and judged and learnt

    def run(self, task: Task) -> TaskResult:
        """Take one task as far as it goes: see `run_closed_loop`."""
        work = self._work(task)
        self._notes, self._sought = [], set()
        self._close_cut_off(work)
        before = self.history.position
        ran_now = self._run_missing(work)
        self._judge(work)
        self._learn(work)
        self.history.catch_up()
        how: How = "ran" if ran_now else "continued" if self.history.position > before else "known"
        return self._result(work, how)

    # ---------------------------------------------------------------- what is there

    def _work(self, task: Task) -> _Work:
        return _Work(task, task_key(task, self.equipment.settings.digest, self.equipment.source_digest))

    def _runs(self, work: _Work) -> list[Ran]:
        """The task's runs that count: of the present attempt, in the order of their rollouts, none of them cut off."""
        runs = [ran for ran in self._all(work) if ran.finished is not None and not ran.interrupted]
        if self.equipment.settings.rollouts == 1:
            own = [ran for ran in runs if _is_usable(ran)]
            return own[-1:] or runs[-1:]
        present = {ran.index: ran for ran in runs if ran.group == self._group(work)}
        present |= {ran.index: ran for ran in runs if ran.group == self._group(work) and _is_usable(ran)}
        return [present[index] for index in sorted(index for index in present if index is not None)]

    def _all(self, work: _Work) -> list[Ran]:
        return [ran for ran in self.history.catch_up().runs_of(work.task, work.key) if ran.started_seq > self._since]

    def _group(self, work: _Work) -> str:
        """Id of the present attempt with several rollouts: the last that began, else a new one."""
        groups = dict.fromkeys(ran.group for ran in self._all(work) if ran.group is not None)
        if groups:
            return list(groups)[-1]
        known = {ran.group for ran in self.history.runs_of(work.task, work.key)}
        return group_id(work.task, work.key, len(known) + 1)

    def _extractions(self, runs: Iterable[Ran]) -> list[Extracted]:
        ids = dict.fromkeys(id for ran in runs for id in ran.extractions)
        return [self.history.extractions[id] for id in ids]

    # ---------------------------------------------------------------- what was cut off

    def _close_cut_off(self, work: _Work) -> None:
        for ran in self.history.unfinished(self.history.catch_up().runs_of(work.task, work.key)):
            close_run(self.equipment.bank, ran.run, INTERRUPTED, "the run was cut off; the task is run anew")
        self.history.catch_up()

    # ---------------------------------------------------------------- running

    def _run_missing(self, work: _Work) -> bool:
        """Run what is missing of a task; whether anything was."""
        if not self._to_run(work):
            return False
        begun = begin_runs(self.equipment, work.task, partial(self._missing, work))
        works = [partial(self._one, work.task, begun.context.text, each) for each in begun.runs]
        if len(works) > 1 and self.equipment.at_once:
            side_by_side(self.equipment.bank, works)
        else:
            for one in works:
                one(self.equipment.bank)
        return True

    def _to_run(self, work: _Work) -> list[NewRun]:
        """What is missing of a task that nothing was learnt of yet."""
        return [] if self._extractions(self._runs(work)) else self._missing(work)

    def _missing(self, work: _Work) -> list[NewRun]:
        k = self.equipment.settings.rollouts
        usable = [ran for ran in self._runs(work) if _is_usable(ran)]
        every = self.history.runs_of(work.task, work.key)
        if k == 1:
            return [] if usable else [NewRun(run=group_id(work.task, work.key, len(every) + 1))]
        group, there = self._group(work), {ran.index for ran in usable}
        return [
            NewRun(run=_rollout_id(group, index, every), group=group, index=index)
            for index in range(k)
            if index not in there
        ]

    def _one(self, task: Task, context: str, new: NewRun, bank: Bank) -> None:
        """Run once; where there are several, judge at once, while the others still run."""
        settings = self.equipment.settings
        put = question_of(task.question, settings.perturbation, new.index or 0)
        result = execute(self.equipment, task, context, new, question=put, bank=bank)
        if new.index is not None and is_agents_own(result.outcome, result.error_code):
            self._judge_one(task, result.run, new.index, bank)

    # ---------------------------------------------------------------- judging and learning

    def _judge(self, work: _Work) -> None:
        """Judge and score those runs that say something about the agent and weren't yet, each once."""
        for ran in self._runs(work):
            if _is_usable(ran) and ran.run not in self._sought:
                self._judge_one(work.task, ran.run, ran.index or 0, self.equipment.bank, ran)

    def _judge_one(self, task: Task, run: str, index: int, bank: Bank, known: Ran | None = None) -> None:
        self._sought.add(run)
        wanted = self.equipment.settings.judge != "none"
        for needed, judging in (
            (wanted and (known is None or known.judged is None), self._learning.judge),
            (known is None or known.scored is None, self._learning.score),
        ):
            try:
                if needed:
                    judging(task, run, index, bank)
            except JudgeFailed as error:
                if str(error) not in self._notes:  # what is right may be needed for both
                    self._notes.append(str(error))

    def _learn(self, work: _Work) -> None:
        """Draw lessons, unless that was done; what tools had proposed is kept also where a model gave no answer."""
        runs = [ran for ran in self._runs(work) if _is_usable(ran) and ran.judged is not None]
        if self.equipment.settings.extract and runs and all(map(is_of_proposals, self._extractions(runs))):
            self._learning.learn(work.task, [rollout_of(self.equipment.bank, ran) for ran in runs])

    # ---------------------------------------------------------------- the result

    def _result(self, work: _Work, how: How) -> TaskResult:
        runs = {ran.run: ran for ran in self._runs(work)}
        rollouts = [rollout_of(self.equipment.bank, ran) for ran in runs.values()]
        telling = [one for one in rollouts if _is_usable(runs[one.run])]
        best = best_of(telling or rollouts)
        ran, text = runs[best.run], self.equipment.bank.text
        end = ran.finished
        assert end is not None
        costs = [each.cost_usd for each in runs.values() if each.cost_usd is not None]
        return TaskResult(
            task=work.task.id,
            run=best.run,
            runs=tuple(runs),
            how=how,
            outcome=best.outcome,
            scripted=self.equipment.settings.scripted,
            success=best.success,
            reason=(text(ran.judged.reason) or "") if ran.judged is not None else "",
            scored=best.scored,
            score_reason=(text(ran.scored.reason) or "") if ran.scored is not None else "",
            iterations=best.iterations,
            lm_calls=sum(each.lm_calls for each in runs.values()),
            tokens_in=sum(each.tokens_in for each in runs.values()),
            tokens_out=sum(each.tokens_out for each in runs.values()),
            cost_usd=sum(costs) if costs else None,
            answer=best.answer,
            sparql=best.sparql,
            error_code=end.error_code,
            error=text(end.error),
            notes=(
                *self._notes,
                *(self._left_out(ran) for ran in runs.values() if telling and not _is_usable(ran)),
                *(f"nothing was learnt of it ({flaw})" for flaw in self._flaws(runs.values())),
            ),
            spread=spread_of(telling) if telling and len(rollouts) > 1 else None,
            **self._learnt(runs.values()),
        )

    def _flaws(self, runs: Iterable[Ran]) -> Iterator[str]:
        return filter(None, (flaw_of(each.event) for each in self._extractions(runs)))

    def _left_out(self, ran: Ran) -> str:
        """What is said of a rollout that tells nothing of the agent, beside others that do."""
        end = ran.finished
        assert end is not None  # `_runs` gives no others
        return f"rollout {ran.index} failed ({end.error_code}) and is left out: {self.equipment.bank.text(end.error)}"

    def _learnt(self, runs: Iterable[Ran]) -> dict[str, Any]:
        extractions = self._extractions(runs)
        decisions = [decision for each in extractions if each.decided for decision in each.decided.decisions]
        return {
            "candidates": sum(len(each.event.heads) for each in extractions),
            "added": tuple(each.item for each in decisions if each.action not in ("skip", "discard")),
            "supported": tuple(target for each in decisions if each.action == "skip" for target in each.targets),
        }


class _Work(msgspec.Struct, frozen=True):
    """A task, and the key under which the log has it."""

    task: Task
    key: str


def _is_usable(ran: Ran) -> bool:
    """Whether the run says something about the agent."""
    return ran.finished is not None and is_agents_own(ran.finished.outcome, ran.finished.error_code)


def _rollout_id(group: str, index: int, runs: Sequence[Ran]) -> str:
    """Id of a new run of a rollout; a later one of the same rollout is numbered."""
    tried = sum(ran.group == group and ran.index == index for ran in runs)
    return f"{group}.r{index}" + (f"-{tried + 1}" if tried else "")
