"""What a judge is: its policy, what it is given, and the verdict that it returns."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

from rbank_es.judging.run_outcome import RunOutcome
from rbank_es.judging.verdict import Verdict

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.events import PolicyChoice
    from rbank_es.events.run_events import Purpose
    from rbank_es.judging.gold_answers import Gold
    from rbank_es.models.run_models import Lms
    from rbank_es.sparql.data_source import Source
    from rbank_es.sparql.results import Answer


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
