"""The stages of a run: begin, execute, judge, score, learn. Each is recorded when it ends.

Whatever fails while a run executes, the run is closed and keeps its steps. Later stages read only the bank's events. So
their outcome doesn't depend on whether the run ended in this process or in an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.bank.ontology_registrations import is_registered, registration
from rbank_es.bank.run_end import close_run
from rbank_es.errors import (
    JudgeFailed,
    LmFailed,
    LogError,
    LoopStopped,
    PositionConflict,
    RBankError,
    SandboxUnavailable,
)
from rbank_es.events import Event, MemoriesExtracted, RunStarted
from rbank_es.events.redaction import redact_event
from rbank_es.events.run_events import TaskChoice
from rbank_es.executors.executor import Recorder, RunResult
from rbank_es.extraction.candidates import Extraction, consolidate
from rbank_es.extraction.extractors import extract_from_rollouts
from rbank_es.extraction.judged_run import Judgment, past_run
from rbank_es.extraction.proposals import by_author, from_proposals, proposals_of, propose_merges
from rbank_es.judging.judge_protocol import JudgingPolicy
from rbank_es.judging.judges import decide, needs_of, policy_for
from rbank_es.judging.run_outcome import is_agents_own, outcome_of
from rbank_es.judging.verdict import Verdict
from rbank_es.loop.learnable_verdict import judgment_for_learning
from rbank_es.loop.resources import LoopResources
from rbank_es.loop.rollouts import Rollout
from rbank_es.loop.settings import consolidation_override, extraction_policy, overrides_of, question_of, task_context
from rbank_es.loop.task_history import INTERRUPTED
from rbank_es.loop.tasks import Task
from rbank_es.models.model_call import FATAL, STOPPING
from rbank_es.policies import selection_policy
from rbank_es.system.error_messages import foreign_words

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.context.assembly import Context
    from rbank_es.judging.gold_answers import Gold


PASSING = frozenset(
    {"timeout", "rate_limited", "server_error", "bad_response", "refused", "sandbox_failed", INTERRUPTED}
)
"""Error codes of failures that the next run may not meet. After any other that the agent didn't cause, a loop stops."""


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to begin: its id, and its place among the rollouts of its task."""

    run: str
    group: str | None = None
    index: int | None = None


class BegunRuns(NamedTuple):
    """Runs that have begun, and the context that all of them get."""

    runs: tuple[NewRun, ...]
    context: Context


def begin_runs(
    resources: LoopResources, task: Task, named: Callable[[], Sequence[NewRun]], chosen: TaskChoice | None = None
) -> BegunRuns:
    """Record that runs of a task begin, their retrievals and their one context, as one group.

    `chosen` says why this is the next task. `named` returns the runs; it is called again when another writer was
    faster, because the context is then built again. So no event lies between a retrieval and the memory that it
    read. Raises as `build_context` and `Bank.append` do; then nothing was recorded.
    """
    bank = resources.bank
    for left in reversed(range(limits.TOOL_TRIES)):
        runs = named()
        # Recorded before the context is built, so that ranking it again asks nobody.
        if "L2" in resources.settings.layers and resources.settings.mode != "tools":
            resources.embed(bank, task.question)
        # Read before the context is built, so that any append in between is a conflict.
        position = bank.position
        # Searches are faster on read models that are up to date; without L2 there is none.
        if "L2" in resources.settings.layers:
            resources.catch_up()
        context = task_context(task, resources.settings, resources.source, bank, position)
        events: list[Event] = _registered(resources)
        for new in runs:
            events += [
                msgspec.structs.replace(_started(resources, task, new), chosen=chosen),
                *(msgspec.structs.replace(each, run=new.run) for each in context.retrievals),
                context.event(new.run),
            ]
        try:
            # Questions, guides and settings come from people, and may hold API keys.
            bank.append([redact_event(event) for event in events], expected=position)
            return BegunRuns(tuple(runs), context)
        except PositionConflict:
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def _registered(resources: LoopResources) -> list[Event]:
    """Return the registration of the ontology, unless the bank has the same one."""
    source = resources.source
    if source is None or source.ontology is None or is_registered(resources.bank, source):
        return []
    return [registration(source, source.ontology)]


def _started(resources: LoopResources, task: Task, new: NewRun) -> RunStarted:
    from rbank_es.context.layer_sections import budgets_of

    chosen, source = resources.settings, resources.source
    return RunStarted(
        run=new.run,
        task_id=task.id,
        level=task.level,
        family=task.family,
        suite=resources.suite,
        trial=resources.trial,
        ontology=resources.source_id,
        endpoint=source.url if source is not None else None,
        executor=chosen.executor,
        model=chosen.lm.name,
        layers=chosen.layers,
        budgets=budgets_of(chosen.preset, chosen.budgets),
        mode=chosen.mode,
        iterations_max=chosen.iterations,
        bounds=chosen.bounds,
        rollout_group=new.group,
        rollout_index=new.index,
        servers=resources.servers,
        config_digest=chosen.digest,
        scripted=chosen.scripted,
        overrides=overrides_of(resources.bank, chosen),
        task=task.question,
        settings=chosen.recorded,
        **resources.origin(),
    )


def execute(resources: LoopResources, task: Task, context: str, new: NewRun, *, bank: Bank | None = None) -> RunResult:
    """Execute a run that has begun, to its recorded end. The settings may reword the question of a rollout.

    Raises `LoopStopped` if the next run would fail in the same way. An interruption (`KeyboardInterrupt`) closes the
    run and is raised again.
    """
    into, rollout = bank or resources.bank, new.index or 0
    question = question_of(task.question, resources.settings.perturbation, rollout)
    try:
        with ExitStack() as stack:
            memory = resources.memory_graph(new.run)
            if memory is not None:
                stack.enter_context(memory)
            tools = resources.tools(new.run, task, bank=into, memory_graph=memory)
            lms = stack.enter_context(resources.lms(new.run, task, rollout, bank=into))
            executor = resources.executor(rollout)
            recorder = Recorder(into, new.run, tools, clock=resources.clock)
            result = executor.execute(question, context, tools, recorder, lms, resources.limits())
    except Exception as error:
        code, message = _code_of(error), str(error) if isinstance(error, RBankError) else foreign_words(error)
        close_run(into, new.run, code, message)
        raise LoopStopped(new.run, code, message, cause=error if isinstance(error, RBankError) else None) from error
    except BaseException:
        # The interruption must be raised even if the log can't be written any more.
        with suppress(RBankError, OSError):
            close_run(into, new.run, INTERRUPTED, "the run was interrupted")
        raise
    return _passed(result, resources)


def _passed(result: RunResult, resources: LoopResources) -> RunResult:
    """Return the result. Raises `LoopStopped` if the next run would fail in the same way."""
    code = result.error_code
    if result.outcome == "failed" and not is_agents_own("failed", code) and code not in PASSING:
        known = resources.unavailable
        cause = known if known is not None and known.code == code else None
        raise LoopStopped(result.run, code or "unexpected", result.error or "it did not say why", cause=cause)
    return result


def _code_of(error: Exception) -> str:
    if isinstance(error, LmFailed | SandboxUnavailable):
        return error.code
    return "not_recorded" if isinstance(error, LogError) else "unexpected"


class PostRun:
    """The stages after a run, over the resources of a loop; each records its outcome at once."""

    def __init__(self, resources: LoopResources) -> None:
        self._resources = resources

    def judge(self, task: Task, run: str, index: int, bank: Bank) -> Verdict:
        """Judge a run for learning, and record the verdict.

        Raises `JudgeFailed` without a verdict: only the calls of the judge's model are recorded then. Raises
        `LoopStopped` if the next run's judge would fail in the same way.
        """
        judge, policy = self._judge(bank)
        # The judge reads the task's own words, not those that a rollout was given.
        outcome = msgspec.structs.replace(outcome_of(bank, run), task=task.question)
        gold = _gold(task) if policy.supervised else None
        try:
            with ExitStack() as stack:
                lms = None
                if "model" in needs_of(judge):
                    lms = stack.enter_context(self._resources.lms(run, task, index, bank=bank))
                source = self._resources.source
                verdict = decide(outcome, judge=judge, policy=policy, source=source, gold=gold, lms=lms, bank=bank)
        except LmFailed as failure:
            raise _stopped_or(run, judge, failure) from failure
        # By the caller's choice alone, so that the policy of the bank stays as it is for others.
        supervised = verdict.kind == "gold" and self._resources.settings.supervised
        bank.append(msgspec.structs.replace(verdict.event(run), supervised=supervised))
        return verdict

    def score(self, task: Task, run: str, index: int, bank: Bank) -> Verdict | None:
        """Compare a run with the task's right answer and record the verdict; return None if there is no such answer.

        Raises `JudgeFailed` if they can't be compared.
        """
        gold = _gold(task)
        if gold is None:
            return None
        from rbank_es.judging.gold_judge import judge_by_gold

        verdict = judge_by_gold(outcome_of(bank, run), gold, self._resources.source)
        bank.append(msgspec.structs.replace(verdict.event(run), suite=self._resources.suite))
        return verdict

    def learn(self, task: Task, rollouts: Sequence[Rollout], kept: Collection[str] = ()) -> None:
        """Extract candidates from the judged runs of a task and consolidate them, as one group or not at all.

        The proposals of the runs in `kept` are candidates already. They are left out when an extractor that gave no
        answer is asked again: they would count twice.

        Only calls are recorded if no model answers. Raises `LoopStopped` if the next run's extractor would fail in the
        same way.
        """
        bank = self._resources.bank
        judged = [(one, judgment) for one in rollouts if (judgment := self._judgment(one.run)) is not None]
        decided = [one for one, judgment in judged if judgment.verdict != "undecided"]
        # Nothing is recorded as learned before somebody decided: a resumed loop learns from the run then.
        if not decided:
            return
        best = selection_policy(bank.policy_choice("selection")).best(decided)
        rollouts, judgments = [one for one, _ in judged], [judgment for _, judgment in judged]
        past = [past_run(bank, one.run) for one in rollouts]
        policy = extraction_policy(bank, self._resources.settings)
        by = consolidation_override(bank, self._resources.settings)
        at, everything = list(rollouts).index(best), [one.run for one in rollouts]
        try:
            with self._resources.lms(best.run, task, best.index) as lms:
                drawn = extract_from_rollouts(
                    past, task.question, judgments, at, lms, policy, domain=self._resources.source_id
                )
                events = [_event(each, everything, bank.log.new_id()) for each in drawn]
                merges = propose_merges(bank, events, lms, by)
        except LmFailed as failure:
            raise LoopStopped(best.run, failure.code, str(failure), cause=failure) from failure
        # Unless rollouts are compared, only the best one teaches; what the others proposed is dropped.
        learners = [
            (one.run, verdict)
            for one, verdict in zip(rollouts, judgments, strict=True)
            if (policy.extract_from == "contrastive" or one == best) and one.run not in kept
        ]
        proposed = (
            from_proposals(proposals, verdict, policy)
            for run, verdict in learners
            for proposals in by_author(proposals_of(bank, run))
        )
        consolidate(bank, [*events, *(each.event() for each in proposed if each is not None)], before=merges, by=by)

    def _judgment(self, run: str) -> Judgment | None:
        bank = self._resources.bank
        return judgment_for_learning(bank, run, self._resources.source, self._judge(bank)[1])

    def _judge(self, bank: Bank) -> tuple[str, JudgingPolicy]:
        """Return the chosen judge with its policy, supervised if the settings say so."""
        chosen = self._resources.settings
        return policy_for(bank, chosen.judge, supervised=chosen.supervised)


def _event(extraction: Extraction, runs: Sequence[str], id: str) -> MemoriesExtracted:
    """Return the event of an extraction; one without a source run names all runs that were read."""
    event = extraction.event(id)
    return event if event.runs else msgspec.structs.replace(event, runs=tuple(runs))


def _gold(task: Task) -> Gold | None:
    if task.gold_sparql is None and task.answer is None:
        return None
    # Imported here, because most tasks of a loop have no right answer and need no comparison.
    from rbank_es.judging.gold_answers import gold_of

    return gold_of(task.gold_sparql, task.answer, task.ordered)


def _stopped_or(run: str, judge: str, failure: LmFailed) -> Exception:
    """Return `LoopStopped` if the next call of the judge's model would fail too, else `JudgeFailed`."""
    if failure.code in STOPPING or failure.code in FATAL:
        return LoopStopped(run, failure.code, str(failure), cause=failure)
    return JudgeFailed(judge, failure.message)
