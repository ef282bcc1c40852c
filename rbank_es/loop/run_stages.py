"""One task, run once. Whatever goes wrong, the run is closed, and keeps the steps that it took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.bank.decisions import Latest
from rbank_es.errors import (
    BadPolicy,
    JudgeFailed,
    LmFailed,
    LogError,
    LoopStopped,
    PositionConflict,
    RBankError,
    SandboxUnavailable,
    message_of,
)
from rbank_es.events import Event, JudgmentOverruled, MemoriesExtracted, RunFinished, RunJudged, RunStarted
from rbank_es.events.redaction import without_keys
from rbank_es.executors.executor import RunResult
from rbank_es.extraction.consolidation_step import consolidate
from rbank_es.extraction.extractors import Extraction, extract_from_rollouts
from rbank_es.extraction.judged_run import Judgment, attempt_of
from rbank_es.extraction.proposals import EXTRACTOR as PROPOSALS
from rbank_es.extraction.proposals import from_proposals, proposals_of
from rbank_es.judging.checks import judge_by_checks
from rbank_es.judging.gold import Gold, gold_of, judge_by_gold
from rbank_es.judging.judges import decide, judging_policy
from rbank_es.judging.run_outcome import outcome_of
from rbank_es.judging.verdict import Verdict
from rbank_es.loop.history import INTERRUPTED
from rbank_es.loop.resources import LoopResources, registration
from rbank_es.loop.rollouts import Rollout, best_of
from rbank_es.loop.tasks import Task
from rbank_es.models.call_errors import FATAL, STOPPING
from rbank_es.policies import CheckJudging, LmJudging, SuccessFailure, policy_of

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.context.assembly import Context


AGENTS_OWN = frozenset(
    {
        "unreadable",
        "sandbox_exhausted",
        "bad_response",
        "response_too_long",
        "context_too_long",
        "request_too_long",
    }
)
"""Why a run can fail of what the agent does. All else that ends a run says nothing about the agent: nobody judges it,
nothing is learnt of it, and a loop that is resumed runs the task anew."""

PASSING = frozenset({"timeout", "rate_limited", "server_error", "refused", "sandbox_failed", INTERRUPTED})
"""What may not happen to the next run. After anything else that is not the agent's own, a loop stops."""


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is to begin: its id, and where it stands among the rollouts of its task."""

    run: str
    group: str | None = None
    index: int | None = None


class BegunRuns(NamedTuple):
    """Runs that have begun, and the context that each of them gets."""

    runs: tuple[NewRun, ...]
    context: Context


def is_agents_own(outcome: str, error_code: str | None) -> bool:
    """Whether the way in which a run ended tells something about the agent."""
    return outcome != "failed" or error_code in AGENTS_OWN


def begin_runs(equipment: LoopResources, task: Task, named: Callable[[], Sequence[NewRun]]) -> BegunRuns:
    """Record that runs of a task begin, what was retrieved for them, and the context that they get: one group.

    All get the same context. `named` gives the runs; it is called again where other writers were faster, for then the
    context is built again. What was retrieved is exact: nothing stands between it and the memory that it is from.
    Raises as `build_context` and `Bank.append` do; then nothing was recorded.
    """
    bank = equipment.bank
    for left in reversed(range(limits.TOOL_TRIES)):
        runs = named()
        position = bank.position
        context = _context(equipment, task, position)
        events: list[Event] = [*_registered(equipment)]
        for new in runs:
            events += [
                _started(equipment, task, new),
                *(msgspec.structs.replace(each, run=new.run) for each in context.retrievals),
                context.event(new.run),
            ]
        try:
            bank.append([without_keys(event) for event in events], expected=position)
            return BegunRuns(tuple(runs), context)
        except PositionConflict:
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def _context(equipment: LoopResources, task: Task, position: int) -> Context:
    from rbank_es.context.assembly import build_context

    chosen = equipment.settings
    if "L2" in chosen.layers:
        equipment.catch_up()
    return build_context(
        task.question,
        equipment.source,
        equipment.bank,
        point=position,
        layers=chosen.layers,
        budgets=chosen.budgets,
        preset=chosen.preset,
        mode=chosen.mode,
        curated=chosen.constraints,
        guide=chosen.guide,
        domain=chosen.domain,
        observed=chosen.observed,
        task_slice=chosen.task_slice,
    )


def _registered(equipment: LoopResources) -> list[Event]:
    """The registration of the ontology, unless the bank has that very one."""
    ontology = equipment.source.ontology if equipment.source is not None else None
    if ontology is None:
        return []
    known = None
    for event in equipment.bank.log.read(types={"ontology_registered"}):
        if getattr(event, "ontology", None) == ontology.id:
            known = getattr(event, "sha256", None)
    return [] if known == ontology.digest else [registration(ontology)]


def _started(equipment: LoopResources, task: Task, new: NewRun) -> RunStarted:
    from rbank_es.context.layer import budgets_of

    chosen, source = equipment.settings, equipment.source
    return RunStarted(
        run=new.run,
        ontology=equipment.source_id,
        endpoint=source.url if source is not None else None,
        executor=chosen.executor,
        model=chosen.lm.name,
        layers=chosen.layers,
        budgets=budgets_of(chosen.preset, chosen.budgets),
        mode=chosen.mode,
        iterations_max=chosen.iterations,
        rollout_group=new.group,
        rollout_index=new.index,
        config_digest=chosen.digest,
        scripted=chosen.scripted,
        task=task.question,
        settings=chosen.recorded,
        **equipment.origin(),
    )


def execute(
    equipment: LoopResources,
    task: Task,
    context: str,
    new: NewRun,
    *,
    question: str | None = None,
    bank: Bank | None = None,
) -> RunResult:
    """Run a task that has begun, to its end, which is recorded.

    `question` is how it is put, where that differs from the task's own words. Raises `LoopStopped` where the next run
    would fail of the same; what interrupts it (`KeyboardInterrupt`) closes the run and goes on up.
    """
    into = bank or equipment.bank
    rollout = new.index or 0
    try:
        from rbank_es.executors.run_recorder import Recorder

        tools = equipment.tools(new.run, bank=into)
        with equipment.lms(new.run, task, rollout, bank=into) as lms:
            executor = equipment.executor(rollout)
            recorder = Recorder(into, new.run, tools, clock=equipment.clock)
            result = executor.execute(question or task.question, context, tools, recorder, lms, equipment.limits())
    except Exception as error:
        code, message = _code_of(error), message_of(error)
        close_run(into, new.run, code, message)
        raise LoopStopped(new.run, code, message, cause=error if isinstance(error, RBankError) else None) from error
    except BaseException:
        with suppress(RBankError, OSError):
            close_run(into, new.run, INTERRUPTED, "the run was interrupted")
        raise
    return _passed(result, equipment)


def _passed(result: RunResult, equipment: LoopResources) -> RunResult:
    """The result, unless the next run would fail of the same."""
    code = result.error_code
    if result.outcome == "failed" and code not in AGENTS_OWN and code not in PASSING:
        known = equipment.unavailable
        cause = known if known is not None and known.code == code else None
        raise LoopStopped(result.run, code or "unexpected", result.error or "it did not say why", cause=cause)
    return result


def _code_of(error: Exception) -> str:
    if isinstance(error, LmFailed | SandboxUnavailable):
        return error.code
    return "not_recorded" if isinstance(error, LogError) else "unexpected"


def close_run(bank: Bank, run: str, code: str, message: str) -> None:
    """Record that a run failed, unless it ended already; its steps are those that were recorded.

    Raises as `Bank.append` does.
    """
    steps = 0
    for event in bank.log.read(types={"step_taken", "run_finished"}):
        if getattr(event, "run", None) == run:
            if isinstance(event, RunFinished):
                return
            steps += 1
    bank.append(
        RunFinished(run=run, outcome="failed", iterations=steps, error_code=code, error=message[: limits.ERROR_CHARS])
    )


class PostRun:
    """Judges, scores and learns, each recorded at once."""

    def __init__(self, equipment: LoopResources) -> None:
        self._equipment = equipment
        self._latest = Latest(equipment.bank.log)

    def judge(self, task: Task, run: str, index: int, bank: Bank) -> Verdict:
        """Judge a run for learning, and record the verdict.

        Raises `JudgeFailed` where there is none, of the judge's model too; then nothing is recorded but its calls.
        `LoopStopped` where the next run's judge would fail of the same.
        """
        policy = self._policy(bank)
        outcome = msgspec.structs.replace(outcome_of(bank, run), task=task.question)
        gold = _gold(task) if policy.supervised else None
        try:
            if isinstance(policy, CheckJudging):
                verdict = decide(outcome, policy=policy, source=self._equipment.source, gold=gold)
            else:
                with self._equipment.lms(run, task, index, bank=bank) as lms:
                    source = self._equipment.source
                    verdict = decide(outcome, policy=policy, source=source, gold=gold, lms=lms, bank=bank)
        except LmFailed as failure:
            raise _stopped_or(run, failure) from failure
        bank.append(verdict.event(run))
        return verdict

    def score(self, task: Task, run: str, index: int, bank: Bank) -> Verdict | None:
        """Compare a run with what the task says to be right, and record it; None where it says nothing.

        Raises `JudgeFailed` where they can't be compared.
        """
        gold = _gold(task)
        if gold is None:
            return None
        verdict = judge_by_gold(outcome_of(bank, run), gold, self._equipment.source)
        bank.append(verdict.event(run))
        return verdict

    def learn(self, task: Task, rollouts: Sequence[Rollout]) -> None:
        """Draw candidates from the judged runs of a task, and decide about them: one group, or none of it.

        Nothing is recorded but calls where a model can't be asked. Raises `LoopStopped` where the next run's extractor
        would fail of the same.
        """
        bank = self._equipment.bank
        best = best_of(rollouts)
        judgments = [self._judgment(one.run) for one in rollouts]
        attempts = [attempt_of(bank, one.run) for one in rollouts]
        policy = self._extraction_policy(bank)
        at = list(rollouts).index(best)
        try:
            with self._equipment.lms(best.run, task, best.index) as lms:
                drawn = extract_from_rollouts(
                    attempts, task.question, judgments, at, lms, policy, domain=self._equipment.source_id
                )
        except LmFailed as failure:
            raise LoopStopped(best.run, failure.code, str(failure), cause=failure) from failure
        told = zip(rollouts, judgments, strict=True)
        kept = _with_proposals_kept(bank)
        learners = [
            (one.run, verdict)
            for one, verdict in told
            if (policy.extract_from == "contrastive" or one == best) and one.run not in kept
        ]
        proposed = (from_proposals(proposals_of(bank, run), verdict, policy) for run, verdict in learners)
        everything = [one.run for one in rollouts]
        events = [_event(each, everything) for each in drawn] + [each.event() for each in proposed if each is not None]
        consolidate(bank, events, latest=self._latest)

    def _judgment(self, run: str) -> Judgment:
        """The standing verdict on a run, with whether it may be learnt from, which is found out again."""
        bank = self._equipment.bank
        verdict = [
            event
            for event in bank.events(types={"run_judged", "judgment_overruled"}, run=run)
            if isinstance(event, RunJudged | JudgmentOverruled) and event.purpose == "learning"
        ][-1]
        grounding = self._policy(bank).grounding
        checked = judge_by_checks(outcome_of(bank, run), self._equipment.source, grounding=grounding)
        reason = bank.text(verdict.reason) or ""
        learnable = not verdict.success or checked.grounding is None or checked.grounding.grounded
        return Judgment(success=verdict.success, reason=reason, learnable=learnable, event=verdict.id)

    def _extraction_policy(self, bank: Bank) -> SuccessFailure:
        """The bank's extraction policy, with what the settings say of rollouts."""
        recorded = bank.state().policies.get("extraction")
        policy = policy_of(recorded) if recorded is not None else SuccessFailure()
        if not isinstance(policy, SuccessFailure):
            raise BadPolicy(f"{policy.label} is no extraction policy")
        given = self._equipment.settings.extract_from
        return policy if given is None else msgspec.structs.replace(policy, extract_from=given)

    def _policy(self, bank: Bank) -> CheckJudging | LmJudging:
        """The bank's judging policy where it is of the kind that was chosen, else that kind with its defaults."""
        chosen = self._equipment.settings
        with bank.as_of() as view:
            recorded = judging_policy(view)
        kind = LmJudging if chosen.judge == "lm" else CheckJudging
        policy = recorded if isinstance(recorded, kind) else kind()
        return msgspec.structs.replace(policy, supervised=policy.supervised or chosen.supervised)


def _with_proposals_kept(bank: Bank) -> set[str]:
    """Runs of which the proposals are candidates already: a model that gave no answer is asked again without them."""
    extractions = bank.events(types={"memories_extracted"})
    return {
        run
        for event in extractions
        if isinstance(event, MemoriesExtracted) and event.extractor == PROPOSALS
        for run in event.runs
    }


def _event(extraction: Extraction, runs: Sequence[str]) -> MemoriesExtracted:
    """The event of an extraction; one that comes of no run names all that were looked at."""
    event = extraction.event()
    return event if event.runs else msgspec.structs.replace(event, runs=tuple(runs))


def _gold(task: Task) -> Gold | None:
    return gold_of(task.gold_sparql, task.answer)


def _stopped_or(run: str, failure: LmFailed) -> Exception:
    """What a failure of the judge's model means: the loop stops where the next would fail of it, else goes on."""
    if failure.code in STOPPING or failure.code in FATAL:
        return LoopStopped(run, failure.code, str(failure), cause=failure)
    return JudgeFailed("lm", failure.message)
