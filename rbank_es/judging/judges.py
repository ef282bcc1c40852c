"""Judges: their protocol and inputs, the registry that names them, and the policies by which they judge."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, cast, runtime_checkable

import msgspec

from rbank_es.errors import BadPolicy
from rbank_es.judging.run_outcome import RunOutcome
from rbank_es.judging.verdict import NOBODY, Verdict
from rbank_es.policies import governing
from rbank_es.system.registry import Registry

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.events import PolicyChoice
    from rbank_es.events.bank_events import PolicyKind
    from rbank_es.events.run_events import Purpose
    from rbank_es.judging.gold import Gold
    from rbank_es.models.run_models import Lms
    from rbank_es.sparql.results import Answer
    from rbank_es.sparql.source import Source


@runtime_checkable
class JudgingPolicy(Protocol):
    """The settings that `decide` takes from a judging policy of any name; a judge may have settings of its own."""

    name: ClassVar[str]
    """The name of the policy, and of its judge."""

    @property
    def choice(self) -> PolicyChoice:
        """The record of the policy with its settings."""
        ...

    @property
    def supervised(self) -> bool:
        """Whether the right answer judges for learning too, and not only for scoring."""
        ...

    @property
    def grounding(self) -> bool:
        """Whether the terms of query and answer are looked up."""
        ...


class JudgeInputs(NamedTuple):
    """Everything beside the run that a judge may use.

    `checked` is the verdict of the checks, with what they suspect. `answer` is the answer of the submitted query, if
    known.
    """

    policy: JudgingPolicy
    checked: Verdict
    purpose: Purpose
    answer: Answer | None = None
    source: Source | None = None
    gold: Gold | None = None
    lms: Lms | None = None
    bank: Bank | None = None
    point: str | int | None = None


class Judge(Protocol):
    """A judge: decides about the runs that the checks leave undecided, or leaves them so.

    `needs` may hold `model` (then `lms` is given) and `gold`. `policy` has the settings by which it judges unless the
    bank's policy in force has the judge's name.
    """

    @property
    def needs(self) -> Set[str]:
        """Inputs without which the judge gives no verdict: `model`, `gold`."""
        ...

    @property
    def policy(self) -> JudgingPolicy:
        """The default settings."""
        ...

    def judge(self, outcome: RunOutcome, inputs: JudgeInputs) -> Verdict:
        """Return the verdict on a converged run. Raises `JudgeFailed` if there is none, and `LmFailed`."""
        ...


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
