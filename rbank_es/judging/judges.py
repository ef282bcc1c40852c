"""Judging a run by a policy: checks first, the right answer where it may be used, a model where that is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es.errors import BadInput
from rbank_es.events import PolicyChoice
from rbank_es.judging.checks import judge_by_checks
from rbank_es.judging.gold import Gold, judge_by_gold
from rbank_es.judging.run_outcome import RunOutcome
from rbank_es.judging.verdict import Verdict
from rbank_es.policies import CheckJudging, LmJudging, policy_of

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.events.run_events import Purpose
    from rbank_es.models.router import Lms
    from rbank_es.projections.view import View
    from rbank_es.sparql.source import Source

JudgingPolicy = CheckJudging | LmJudging


def decide(
    outcome: RunOutcome,
    *,
    policy: JudgingPolicy | None = None,
    source: Source | None = None,
    gold: Gold | None = None,
    lms: Lms | None = None,
    bank: Bank | None = None,
    point: str | int | None = None,
    purpose: Purpose = "learning",
) -> Verdict:
    """Whether a run succeeded.

    A run that did not converge failed, and no model is asked. What is right decides where it is known and the purpose
    is scoring, or the policy is supervised. Else a run against which a check speaks failed; and of the others, the
    policy `checks` says that they succeeded, and `lm` asks a model, with the principles and past cases of `bank` at
    `point`. Whether terms exist is told with every verdict for learning, where there is a source: see
    `Verdict.learnable`.

    Raises:
        JudgeFailed: there is no verdict; nothing should be recorded, and nothing learnt.
        LmFailed: the model gave no reply.
        BadInput: a model has to be asked, and there is none.
    """
    chosen = policy or CheckJudging()
    may_use_gold = purpose == "scoring" or chosen.supervised
    checked = judge_by_checks(outcome, source, grounding=chosen.grounding, purpose=purpose)
    if not outcome.converged:
        return checked
    if gold is not None and may_use_gold:
        return msgspec.structs.replace(
            judge_by_gold(outcome, gold, source, purpose=purpose), grounding=checked.grounding
        )
    if not checked.success or not isinstance(chosen, LmJudging):
        return checked
    if lms is None:
        raise BadInput("the judging policy asks a model, and none was given; give one with --judge-lm")
    verdict = _asked(outcome, chosen, lms, bank, point, purpose)
    return msgspec.structs.replace(verdict, findings=checked.findings, grounding=checked.grounding)


def _asked(
    outcome: RunOutcome,
    policy: LmJudging,
    lms: Lms,
    bank: Bank | None,
    point: str | int | None,
    purpose: Purpose,
) -> Verdict:
    from rbank_es.judging.lm_judge import judge_by_lm
    from rbank_es.judging.precedents import precedents_for

    known = None
    if bank is not None:
        known = precedents_for(outcome, bank, principles=policy.principles, cases=policy.cases, point=point)
    return judge_by_lm(outcome, lms, known, purpose=purpose)


def judge(result: Any, task: str, **options: Any) -> dict[str, Any]:
    """Whether a result answers a task: `success` and `reason`, then `kind`, `judge`, `purpose` and `learnable`.

    `result` is a `RunOutcome`, or anything with `answer` and `sparql`, and `outcome` or `converged`. The options are
    those of `decide`, and so is what is raised.
    """
    return decide(RunOutcome.of(result, task), **options).as_dict()


def judging_policy(view: View) -> JudgingPolicy:
    """The judging policy in force at a view's position; the checks, where none was set.

    Raises `BadPolicy` for one that this release doesn't know.
    """
    row = next(iter(view.rows("policies", kind="judging")), None)
    if row is None:
        return CheckJudging()
    settings = msgspec.json.decode(row["settings"])
    choice = {"kind": "judging", "name": row["name"], "version": row["version"], "settings": settings}
    policy = policy_of(msgspec.convert(choice, PolicyChoice))
    return policy if isinstance(policy, CheckJudging | LmJudging) else CheckJudging()
