"""The closed loop: retrieve, run, judge, extract and consolidate, for one task after the other.

Tasks never run side by side, because later ones use the memory of earlier ones. Progress is in the log, so an
interrupted loop resumes where it stopped. A task that was finished, judged and learned from under the same settings is
not repeated. A run that was cut off is closed as failed (`interrupted`) and its task run again. A finished run is
judged, and a judged one learned from, without a new run. At most the calls of the one stage that was cut off are made
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from rbank_es.bank.run_end import close_run
from rbank_es.errors import BadInput, JudgeFailed, LogBusy, LoopStopped, RBankError
from rbank_es.events.memory_events import flaw_of
from rbank_es.events.run_events import TaskChoice, VerdictValue
from rbank_es.events.run_totals import known_sum
from rbank_es.judging.run_outcome import is_agents_own
from rbank_es.judging.verdict import NOBODY
from rbank_es.loop.curriculum import Curriculum, CurriculumPlace, TaskOutcome
from rbank_es.loop.loop_spend import LoopBounds, LoopSpend
from rbank_es.loop.resources import LoopResources, check_source
from rbank_es.loop.rollouts import Rollout, Spread, side_by_side, spread_of
from rbank_es.loop.run_stages import NewRun, PostRun, begin_runs, execute
from rbank_es.loop.settings import LoopSettings
from rbank_es.loop.task_history import (
    INTERRUPTED,
    ExtractionProgress,
    History,
    RunProgress,
    group_id,
    is_of_proposals,
    task_key,
)
from rbank_es.loop.tasks import Task
from rbank_es.policies import BestOf, selection_policy

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.sparql.data_source import SourceLike

How = Literal["ran", "continued", "known"]
"""How a result came about: it ran now; it ran before and was judged or learned from now; all was in the bank."""


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one task.

    `run` is the run that counts: of several rollouts the best. `verdict` is the one that stands for learning, `scored`
    that of the right answer, None without one. `unjudged` are the runs that the judge gave no verdict on, `undrawn`
    those that were to teach and whose extractor gave no answer. `added` and `supported` are ids of items: new ones, and
    those that candidates landed on. Totals leave out runs that were cut off, or repeated after a failure that the agent
    didn't cause; None is unknown, never 0. `notes` name stages left undone, with the reason.
    """

    task: str
    run: str
    runs: tuple[str, ...]
    how: How
    outcome: str
    scripted: bool = False
    verdict: VerdictValue | None = None
    reason: str = ""
    scored: VerdictValue | None = None
    score_reason: str = ""
    unjudged: tuple[str, ...] = ()
    undrawn: tuple[str, ...] = ()
    candidates: int = 0
    added: tuple[str, ...] = ()
    supported: tuple[str, ...] = ()
    iterations: int = 0
    lm_calls: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    answer: str = ""
    sparql: str = ""
    error_code: str | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()
    spread: Spread | None = None

    @property
    def tokens(self) -> int | None:
        """The tokens of prompts and answers together."""
        return known_sum((self.tokens_in, self.tokens_out))

    @property
    def undone(self) -> bool:
        """Whether every run failed for a reason outside the agent, so that the next loop runs the task again."""
        return not is_agents_own(self.outcome, self.error_code)


GOES_ON = "The same command goes on from here"
FROM_THE_FIRST = "The same command begins with the first task again, because all are to be run again"

OnTask = Callable[[Task, int, int], None]
"""Called before each task, with its number from 1 and the number of tasks."""
OnResult = Callable[[TaskResult], None]


def run_closed_loop(
    tasks: Iterable[Task],
    bank: Bank,
    settings: LoopSettings,
    source: SourceLike | None = None,
    *,
    again: bool = False,
    curriculum: Curriculum | None = None,
    bounds: LoopBounds | None = None,
    on_task: OnTask | None = None,
    on_result: OnResult | None = None,
    **parts: Any,
) -> list[TaskResult]:
    """Run tasks one after the other, each with the memory of those before; return the results in the order of the runs.

    Args:
        tasks: with distinct ids; about the source, or about no ontology by name.
        bank: records everything and provides the memory.
        settings: every choice; with `rollouts` over 1, that many runs of each task side by side.
        source: the ontology or endpoint that agents ask; see `SourceLike`.
        again: whether to repeat the tasks that this bank has under these settings.
        curriculum: when the level of tasks rises; without it, they are run as given. An interrupted loop goes on with
            what was begun, in its order, and decides about the others by what came of that.
        bounds: what the loop may spend; once that is spent, no further task is begun.
        on_task: called before each task.
        on_result: called with each result.
        parts: of `LoopResources`, for those who bring a model, an interpreter or an executor of their own.

    Raises:
        BadInput: repeated ids, a task about another ontology, another process with the same loop.
        LmFailed, SandboxUnavailable, MissingExtra: every run would fail; nothing was recorded.
        LoopStopped: a run failed, and the next would fail in the same way; or a bound of the loop is spent.
        LogError: the bank can't be written.
    """
    todo = tuple(tasks)
    # Two tasks with one id would share their runs.
    twice = {task.id for task in todo if [other.id for other in todo].count(task.id) > 1}
    if twice:
        raise BadInput(f"there is more than one task with the id {min(twice)!r}")
    with LoopResources(bank, settings, source, **parts) as resources:
        check_source(todo, resources.source)
        # Before anything is recorded, because every run would fail in the same way.
        resources.check()
        results: list[TaskResult] = []
        with _alone(bank, settings.digest):
            loop = ClosedLoop(resources, again=again)
            resources.runs_to_come = loop.runs_to_come(todo)
            if resources.runs_to_come:
                resources.require_tool_calls()
            spend = LoopSpend(bank, bounds or LoopBounds())
            for number, (task, chosen) in enumerate(loop.order(todo, results, curriculum), 1):
                with _resumable(again):
                    spend.check(results[-1].run if results else "")
                if on_task is not None:
                    on_task(task, number, len(todo))
                with _resumable(again):
                    results.append(loop.run(task, chosen))
                if on_result is not None:
                    on_result(results[-1])
        return results


def run_matts_parallel(
    task: Task,
    bank: Bank,
    settings: LoopSettings,
    source: SourceLike | None = None,
    *,
    k: int | None = None,
    **parts: Any,
) -> TaskResult:
    """Run one task `k` times side by side with one context, judge all, select the best, and learn by comparing them.

    `k` is that of the bank's selection policy unless given. See `run_closed_loop` for the rest.
    """
    policy = selection_policy(bank.policy_choice("selection"))
    several = msgspec.structs.replace(settings, rollouts=policy.k if k is None else k)
    return run_closed_loop([task], bank, several, source, **parts)[0]


def advice(again: bool) -> str:
    """Return how to resume a loop that stopped; `again` as for `run_closed_loop`."""
    return FROM_THE_FIRST if again else GOES_ON


@contextmanager
def _resumable(again: bool) -> Iterator[None]:
    """Add to the error of a loop that stops how to resume it."""
    try:
        yield
    except LoopStopped as stopped:
        stopped.advice = advice(again)
        raise


@contextmanager
def _alone(bank: Bank, digest: str) -> Iterator[None]:
    """Keep other processes from the same loop, because each would close the other's runs as cut off."""
    with ExitStack() as stack:
        try:
            stack.enter_context(bank.log.exclusive(f"loop-{digest[:16]}"))
        except LogBusy:
            advice = "wait for it, or use other settings or another bank"
            raise BadInput(f"another process runs this very loop in {bank.name}; {advice}") from None
        yield


class ClosedLoop:
    """A closed loop over one bank, task by task."""

    def __init__(self, resources: LoopResources, *, again: bool = False) -> None:
        """Read the history of the bank; with `again`, nothing recorded before this moment counts as done."""
        self.resources = resources
        self.history = History(resources.bank).catch_up()
        self._post_run = PostRun(resources)
        self._since = self.history.position if again else 0
        self._notes: list[str] = []
        self._sought: set[str] = set()

    def runs_to_come(self, tasks: Iterable[Task]) -> int:
        """Return the number of runs that the tasks still need."""
        return sum(len(self._to_run(self._work(task))) for task in tasks)

    def order(
        self, tasks: Sequence[Task], results: Sequence[TaskResult], curriculum: Curriculum | None
    ) -> Iterator[tuple[Task, TaskChoice | None]]:
        """Yield each task when its turn comes, and why it does, if what came of those before decides that.

        `results` are those of the tasks yielded so far. Of a curriculum, the tasks that were begun in an earlier
        process come first, in the order in which they were begun.
        """
        if curriculum is None:
            yield from ((task, None) for task in tasks)
            return
        place, left = CurriculumPlace(tasks, curriculum), {task.id: task for task in tasks}
        for task in (*self._begun(tasks), *([None] * len(tasks))):
            if not left:
                return
            expected, chosen = place.next()
            turn = task or expected
            del left[turn.id]
            yield turn, chosen if turn.id == expected.id else None
            place.take(TaskOutcome(turn.id, results[-1].verdict))

    def _begun(self, tasks: Iterable[Task]) -> list[Task]:
        """Return the tasks that have runs, in the order in which they were begun."""
        runs = [(task, self._all(self._work(task))) for task in tasks]
        return [
            task for task, own in sorted((each for each in runs if each[1]), key=lambda each: each[1][0].started.seq)
        ]

    def verdict_on(self, task: Task) -> VerdictValue | None:
        """Return the verdict that stands on the run of a task that was selected; None if there is none."""
        runs = {ran.run: ran for ran in self._runs(self._work(task))}
        return self._best(runs)[0].verdict if runs else None

    def is_done(self, task: Task) -> bool:
        """Return whether a task needs no further call of any model."""
        work, chosen = self._work(task), self.resources.settings
        runs = self._runs(work)
        judged = chosen.judge == NOBODY or all(ran.judged for ran in runs if ran.is_usable)
        undecided = all(ran.judged.verdict == "undecided" for ran in runs if ran.judged is not None)
        learned = not chosen.extract or undecided or not all(map(is_of_proposals, self._extractions(runs)))
        return not self._to_run(work) and judged and learned

    def run(self, task: Task, chosen: TaskChoice | None = None) -> TaskResult:
        """Run, judge and learn from one task, as far as that is not done: see `run_closed_loop`.

        `chosen` says why it is the next one.
        """
        work = self._work(task)
        self._notes, self._sought = [], set()
        self._close_interrupted(work)
        before = self.history.position
        ran_now = self._run_missing(work, chosen)
        self._judge(work)
        self._learn(work)
        self.history.catch_up()
        # Without a new run, a new event is a verdict or a lesson that an interrupted loop left out.
        how: How = "ran" if ran_now else "continued" if self.history.position > before else "known"
        return self._result(work, how)

    # ---------------------------------------------------------------- in the bank

    def _work(self, task: Task) -> _Work:
        return _Work(task, task_key(task, self.resources.settings.digest, self.resources.source_digest))

    def _runs(self, work: _Work) -> list[RunProgress]:
        """Return the runs of the task that count: of its latest group, by rollout, without those cut off."""
        runs = [ran for ran in self._all(work) if ran.finished is not None and not ran.interrupted]
        # A single run needs no group: its tries are numbered by their ids alone.
        if self.resources.settings.rollouts == 1:
            own = [ran for ran in runs if ran.is_usable]
            return own[-1:] or runs[-1:]
        present = {ran.index: ran for ran in runs if ran.group == self._group(work)}
        # A usable run replaces a failed one of the same rollout, whatever their order.
        present |= {ran.index: ran for ran in runs if ran.group == self._group(work) and ran.is_usable}
        return [present[index] for index in sorted(index for index in present if index is not None)]

    def _all(self, work: _Work) -> list[RunProgress]:
        return [ran for ran in self.history.catch_up().runs_of(work.task, work.key) if ran.started.seq > self._since]

    def _group(self, work: _Work) -> str:
        """Return the id of the latest group of rollouts, else a new one."""
        groups = dict.fromkeys(ran.group for ran in self._all(work) if ran.group is not None)
        if groups:
            return list(groups)[-1]
        # Count the groups of all time, because the id of a run is never used again.
        known = {ran.group for ran in self.history.runs_of(work.task, work.key)}
        return group_id(work.task, work.key, len(known) + 1)

    def _extractions(self, runs: Iterable[RunProgress]) -> list[ExtractionProgress]:
        ids = dict.fromkeys(id for ran in runs for id in ran.extractions)
        return [self.history.extractions[id] for id in ids]

    def _close_interrupted(self, work: _Work) -> None:
        for ran in self.history.catch_up().runs_of(work.task, work.key):
            if ran.finished is not None:
                continue
            close_run(self.resources.bank, ran.run, INTERRUPTED, "the run was interrupted; the task is run again")
        self.history.catch_up()

    # ---------------------------------------------------------------- running

    def _run_missing(self, work: _Work, chosen: TaskChoice | None) -> bool:
        """Execute the missing runs of a task; return whether there were any."""
        if not self._to_run(work):
            return False
        try:
            begun = begin_runs(self.resources, work.task, partial(self._missing, work), chosen)
            works = [partial(self._one, work.task, begun.context.text, each) for each in begun.runs]
            if len(works) > 1 and self.resources.at_once:
                side_by_side(self.resources.bank, works)
            else:
                for one in works:
                    one(self.resources.bank)
        except KeyboardInterrupt:
            # Those that no thread closes any more. The interruption matters more than a failure to record it.
            with suppress(RBankError, OSError):
                self._close_interrupted(work)
            raise
        return True

    def _to_run(self, work: _Work) -> list[NewRun]:
        """Return the missing runs of a task; none once something was learned from it."""
        # A run after the extraction would not be among the runs that the extraction relied on.
        return [] if self._extractions(self._runs(work)) else self._missing(work)

    def _missing(self, work: _Work) -> list[NewRun]:
        k = self.resources.settings.rollouts
        usable = [ran for ran in self._runs(work) if ran.is_usable]
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
        """Execute one run; judge a rollout at once, while the others still run."""
        result = execute(self.resources, task, context, new, bank=bank)
        if new.index is not None and is_agents_own(result.outcome, result.error_code):
            self._judge_one(task, result.run, new.index, bank)

    # ---------------------------------------------------------------- judging and learning

    def _judge(self, work: _Work) -> None:
        """Judge and score the usable runs that lack it, each once."""
        for ran in self._runs(work):
            if ran.is_usable and ran.run not in self._sought:
                self._judge_one(work.task, ran.run, ran.index or 0, self.resources.bank, ran)

    def _judge_one(self, task: Task, run: str, index: int, bank: Bank, known: RunProgress | None = None) -> None:
        self._sought.add(run)
        wanted = self.resources.settings.judge != NOBODY
        for needed, judging in (
            (wanted and (known is None or known.judged is None), self._post_run.judge),
            (known is None or known.scored is None, self._post_run.score),
        ):
            try:
                if needed:
                    judging(task, run, index, bank)
            except JudgeFailed as error:
                if str(error) not in self._notes:  # because both may lack the right answer
                    self._notes.append(str(error))

    def _learn(self, work: _Work) -> None:
        """Extract items unless that was done. Proposals alone don't count, because no model may have answered."""
        runs = [ran for ran in self._runs(work) if ran.is_usable and ran.judged is not None]
        if self.resources.settings.extract and runs and all(map(is_of_proposals, self._extractions(runs))):
            kept = self.history.with_proposals_kept(ran.run for ran in runs)
            self._post_run.learn(work.task, [ran.rollout(self.resources.bank) for ran in runs], kept)

    # ---------------------------------------------------------------- the result

    def _result(self, work: _Work, how: How) -> TaskResult:
        runs = {ran.run: ran for ran in self._runs(work)}
        best, telling = self._best(runs)
        ran, text = runs[best.run], self.resources.bank.text
        end = ran.finished
        assert end is not None
        return TaskResult(
            task=work.task.id,
            run=best.run,
            runs=tuple(runs),
            how=how,
            outcome=best.outcome,
            scripted=self.resources.settings.scripted,
            verdict=best.verdict,
            reason=(text(ran.judged.reason) or "") if ran.judged is not None else "",
            scored=best.scored,
            unjudged=tuple(ran.run for ran in runs.values() if self._lacks_verdict(ran)),
            undrawn=self._undrawn(runs.values()),
            score_reason=(text(ran.scored.reason) or "") if ran.scored is not None else "",
            iterations=best.iterations,
            **msgspec.structs.asdict(self.history.spent(runs)),
            answer=best.answer,
            sparql=best.sparql,
            error_code=end.error_code,
            error=text(end.error),
            notes=(
                *self._notes,
                *(self._left_out(ran) for ran in runs.values() if telling and not ran.is_usable),
                *(f"nothing was learned from it ({flaw})" for flaw in self._flaws(runs.values())),
            ),
            spread=spread_of(telling, self._selection) if telling and len(runs) > 1 else None,
            **self._learned(runs.values()),
        )

    def _best(self, runs: Mapping[str, RunProgress]) -> tuple[Rollout, list[Rollout]]:
        """Return the selected one of some runs, and those that say something about the agent."""
        rollouts = [ran.rollout(self.resources.bank) for ran in runs.values()]
        telling = [one for one in rollouts if runs[one.run].is_usable]
        # Failures from outside the agent count only if there is nothing else.
        return self._selection.best(telling or rollouts), telling

    @property
    def _selection(self) -> BestOf:
        return selection_policy(self.resources.bank.policy_choice("selection"))

    def _lacks_verdict(self, ran: RunProgress) -> bool:
        return self.resources.settings.judge != NOBODY and ran.is_usable and ran.judged is None

    def _undrawn(self, runs: Iterable[RunProgress]) -> tuple[str, ...]:
        """Return the decided runs that are to be learned from again, because no model answered."""
        given = list(runs)
        decided = [ran.run for ran in given if ran.is_usable and ran.judged and ran.judged.verdict != "undecided"]
        left = self.resources.settings.extract and all(map(is_of_proposals, self._extractions(given)))
        return tuple(decided) if left else ()

    def _flaws(self, runs: Iterable[RunProgress]) -> Iterator[str]:
        return filter(None, (flaw_of(each.event) for each in self._extractions(runs)))

    def _left_out(self, ran: RunProgress) -> str:
        """Return the note on a rollout that says nothing about the agent, beside others that do."""
        end = ran.finished
        assert end is not None  # `_runs` gives no others
        return f"rollout {ran.index} failed ({end.error_code}) and is left out: {self.resources.bank.text(end.error)}"

    def _learned(self, runs: Iterable[RunProgress]) -> dict[str, Any]:
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


def _rollout_id(group: str, index: int, runs: Sequence[RunProgress]) -> str:
    """Return the id of a new run of a rollout; repeated runs of one rollout are numbered."""
    tried = sum(ran.group == group and ran.index == index for ran in runs)
    return f"{group}.r{index}" + (f"-{tried + 1}" if tried else "")
