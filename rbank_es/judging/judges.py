"""The registry of judges, the policies by which they judge, and the order in which checks and judges decide."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from rbank_es.errors import BadInput, BadPolicy, JudgeFailed
from rbank_es.judging.checks import check
from rbank_es.judging.judge_protocol import Judge, JudgeInputs, JudgingPolicy
from rbank_es.judging.run_outcome import RunOutcome
from rbank_es.judging.verdict import NOBODY, Verdict
from rbank_es.policies import governing
from rbank_es.system.registry import Registry, checked_result

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.events import PolicyChoice
    from rbank_es.events.bank_events import PolicyKind
    from rbank_es.events.run_events import Purpose
    from rbank_es.judging.gold_answers import Gold
    from rbank_es.models.run_models import Lms
    from rbank_es.sparql.data_source import Source


# By their homes, because `gold` loads the comparison of results and `lm` the models, and a run may need neither.
JUDGES: Registry[Judge] = Registry(
    "judge",
    {
        "checks": "rbank_es.judging.checks:CHECKS",
        "lm": "rbank_es.judging.lm_judge:LM",
        "gold": "rbank_es.judging.gold_judge:GOLD",
    },
)
"""Every judge, by its name in `--judge`, in the loop's settings and in judging policies."""


def decide(
    outcome: RunOutcome,
    *,
    judge: str | None = None,
    policy: JudgingPolicy | None = None,
    source: Source | None = None,
    gold: Gold | None = None,
    lms: Lms | None = None,
    bank: Bank | None = None,
    point: str | int | None = None,
    purpose: Purpose = "learning",
) -> Verdict:
    """Return the verdict on a run, in this order.

    1. The right answer decides if it is given, and the purpose is scoring or the policy is supervised: by the judge
       `gold`, unless `judge` itself needs the right answer. It decides about an answer that was forced at a limit, too.
    2. Any other run that did not converge failed; nobody else is asked.
    3. A run of whose failure a check is sure failed.
    4. Otherwise `judge` decides: the name of a judge, or else the one by which the policy is called, or `checks`.
       It may use the principles and past cases of `bank` at `point`.

    With a source, the verdict reports whether the terms of query and answer exist: see `Verdict.learnable`.

    Raises:
        JudgeFailed: there is no verdict; nothing should be recorded, and nothing learned.
        LmFailed: the model gave no reply.
        BadInput: the judge is unknown, needs a model that is not given, or may not use the right answer.
    """
    # A model that is given is asked: nobody who names one wants checks alone.
    name = judge or (policy.name if policy is not None else "lm" if lms is not None else "checks")
    chosen = JUDGES.get(name)
    rule = policy or chosen.policy
    by_gold = purpose == "scoring" or rule.supervised
    if "gold" in chosen.needs and not by_gold:
        raise BadInput(f"the judge {name} judges for learning only under a policy that is supervised; score with it")
    if outcome.by_provider:
        why = "the model's provider failed, which says nothing about the agent: run the task again"
        raise JudgeFailed(name, f"{why} ({outcome.error.rstrip('. ')})")
    if gold is not None and by_gold:
        outcome = outcome.handed_in
    found = check(outcome, source, grounding=rule.grounding)
    checked = found.verdict(purpose)
    # Before anything else, because a model's call would cost money and could not change this verdict.
    if not outcome.converged:
        return checked
    # No check matters beside the right answer: a query with a flaw may have the right result.
    if gold is not None and by_gold:
        chosen = chosen if "gold" in chosen.needs else JUDGES.get("gold")
    elif checked.verdict == "failure":
        return checked
    if "model" in chosen.needs and lms is None:
        raise BadInput(
            f"the judge {name} asks a model, and none was given; name one with --judge-lm, or take --judge checks"
        )
    verdict = chosen.judge(outcome, JudgeInputs(rule, checked, purpose, found.answer, source, gold, lms, bank, point))
    verdict = checked_result(verdict, Verdict, name, chosen.judge)
    return msgspec.structs.replace(verdict, grounding=checked.grounding)


def judge(result: Any, task: str, **options: Any) -> dict[str, Any]:
    """Return the verdict on a result as `Verdict.as_dict` has it: `success`, `reason`, `verdict` and more.

    `result` is a `RunOutcome`, or anything with `answer` and `sparql`, and `outcome` or `converged`. Options and errors
    are those of `decide`.
    """
    return decide(RunOutcome.of(result, task), **options).as_dict()


def needs_of(name: str) -> Set[str]:
    """Return the inputs that a judge needs, `model` or `gold`; `NOBODY` needs none. Raises `BadInput` if unknown."""
    JUDGES.check(name, NOBODY)
    return JUDGES.get(name).needs if name != NOBODY else frozenset()


class PoliciesInForce(Protocol):
    """The policies in force at a position: those of a `View`, or of a `Bank` at its head."""

    def policy_choice(self, kind: PolicyKind) -> PolicyChoice | None:
        """Return the record of the policy of a kind, None where there is none."""
        ...


def judging_policy(policies: PoliciesInForce) -> JudgingPolicy:
    """Return the judging policy in force; that of the model if none was set.

    Raises `BadPolicy` for one that this release doesn't know.
    """
    policy = governing("judging", policies.policy_choice("judging"))
    if not isinstance(policy, JudgingPolicy):
        raise BadPolicy(f"judging policy {policy.label} lacks the setting supervised or grounding")
    return policy


def policy_for(
    policies: PoliciesInForce, name: str | None = None, *, supervised: bool = False
) -> tuple[str, JudgingPolicy]:
    """Return the name of a judge and the policy by which it judges; without a name, those of the policy in force.

    The policy is the one in force if it has the judge's name, else the judge's own; `supervised`
    sets that setting. Raises `BadPolicy` for a policy that this release doesn't know, and `BadInput` for an unknown
    judge.
    """
    in_force = judging_policy(policies)
    wanted = name or in_force.name
    own = JUDGES.get(wanted).policy
    policy = in_force if wanted == in_force.name else own
    if supervised and not policy.supervised:
        # Every policy is a msgspec struct, which a protocol can't express.
        policy = msgspec.structs.replace(cast("Any", policy), supervised=True)
    return wanted, policy
