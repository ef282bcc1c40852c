"""What comes after a run: the verdict, the score where a right answer is known, and what is learnt.

All of it is made out of the bank's events, so it is the same whether the run has just ended or ended in an earlier
process.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from rbank_es.bank.decisions import Latest
from rbank_es.errors import BadPolicy, JudgeFailed, LmFailed, LoopStopped
from rbank_es.events import JudgmentOverruled, MemoriesExtracted, RunJudged
from rbank_es.extraction.candidates import Extraction, consolidate
from rbank_es.extraction.extractors import extract_from_rollouts
from rbank_es.extraction.judged_run import Judgment, past_run
from rbank_es.extraction.proposals import EXTRACTOR as PROPOSALS
from rbank_es.extraction.proposals import from_proposals, proposals_of
from rbank_es.judging.checks import judge_by_checks
from rbank_es.judging.judges import JudgingPolicy, decide, needs_of, policy_for
from rbank_es.judging.run_outcome import outcome_of
from rbank_es.judging.verdict import Verdict
from rbank_es.loop.rollouts import Rollout, best_of
from rbank_es.loop.run_context import Equipment
from rbank_es.loop.tasks import Task
from rbank_es.models.call_errors import FATAL, STOPPING
from rbank_es.policies import SuccessFailure, policy_of

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.judging.gold import Gold


class Learning:
    """Judges, scores and learns, each recorded at once."""

    def __init__(self, equipment: Equipment) -> None:
        self._equipment = equipment
        self._latest = Latest(equipment.bank.log)

    def judge(self, task: Task, run: str, index: int, bank: Bank) -> Verdict:
        """Judge a run for learning, and record the verdict.

        Raises `JudgeFailed` where there is none, of the judge's model too; then nothing is recorded but its calls.
        `LoopStopped` where the next run's judge would fail of the same.
        """
        judge, policy = self._judge(bank)
        outcome = msgspec.structs.replace(outcome_of(bank, run), task=task.question)
        gold = _gold(task) if policy.supervised else None
        try:
            with ExitStack() as stack:
                lms = None
                if "model" in needs_of(judge):
                    lms = stack.enter_context(self._equipment.lms(run, task, index, bank=bank))
                source = self._equipment.source
                verdict = decide(outcome, judge=judge, policy=policy, source=source, gold=gold, lms=lms, bank=bank)
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
        from rbank_es.judging.gold import judge_by_gold

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
        attempts = [past_run(bank, one.run) for one in rollouts]
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
        grounding = self._judge(bank)[1].grounding
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

    def _judge(self, bank: Bank) -> tuple[str, JudgingPolicy]:
        """Return the chosen judge with its policy, supervised if the settings say so."""
        chosen = self._equipment.settings
        with bank.as_of() as view:
            return policy_for(view, chosen.judge, supervised=chosen.supervised)


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
    if task.gold_sparql is None and task.answer is None:
        return None
    from rbank_es.judging.gold import gold_of  # most tasks of a loop have no right answer, and need no comparison

    return gold_of(task.gold_sparql, task.answer)


def _stopped_or(run: str, failure: LmFailed) -> Exception:
    """What a failure of the judge's model means: the loop stops where the next would fail of it, else goes on."""
    if failure.code in STOPPING or failure.code in FATAL:
        return LoopStopped(run, failure.code, str(failure), cause=failure)
    return JudgeFailed("lm", failure.message)
