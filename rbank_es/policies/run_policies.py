"""Policies about runs: the choice of their judge, and of the lessons that are drawn from them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from rbank_es import limits
from rbank_es.events.bank_events import PolicyKind
from rbank_es.policies.policy import Policy

Items = Annotated[int, Meta(ge=0, le=limits.SEARCH_HITS)]


class CheckJudging(Policy, frozen=True, kw_only=True):
    """Checks alone: a run is a success if no check finds a fault.

    `supervised` lets the right answer, where a task has one, also judge for learning; without it, it only scores.
    `grounding` says whether the terms of query and answer are looked up.
    """

    kind: ClassVar[PolicyKind] = "judging"
    name: ClassVar[str] = "checks"

    supervised: bool = False
    grounding: bool = True


class LmJudging(Policy, frozen=True, kw_only=True):
    """Checks first, and a language model where no check finds a fault.

    `principles` and `cases` are how many of each the model is given, those that fit the task best; the rest as with
    `checks`.
    """

    kind: ClassVar[PolicyKind] = "judging"
    name: ClassVar[str] = "lm"

    supervised: bool = False
    grounding: bool = True
    principles: Items = limits.JUDGE_PRINCIPLES
    cases: Items = limits.JUDGE_CASES


class SuccessFailure(Policy, frozen=True, kw_only=True):
    """Strategies from successes, guardrails from failures; one prompt for each.

    `items_max` is how many items an extraction gives at most. Of several rollouts of a task, `best` learns from the
    one that was selected, `contrastive` from the differences between successes and failures and from what successes
    share. `temperature` is the model's (source: the ReasoningBank paper). With `grounded`, nothing is learned from a
    success that names terms that the ontology doesn't have. `trajectory_chars` is how many characters of a run's steps
    the model is shown, `tries` how many of its answers are read.
    """

    kind: ClassVar[PolicyKind] = "extraction"
    name: ClassVar[str] = "success-failure"

    items_max: Annotated[int, Meta(ge=1, le=limits.EXTRACTION_ITEMS)] = limits.EXTRACTION_ITEMS
    extract_from: Literal["best", "contrastive"] = "best"
    temperature: Annotated[float, Meta(ge=0, le=limits.TEMPERATURE_MOST)] = 1.0
    grounded: bool = True
    trajectory_chars: Annotated[
        int, Meta(ge=limits.POLICY_TRAJECTORY_LEAST_CHARS, le=limits.POLICY_TRAJECTORY_CHARS)
    ] = limits.EXTRACTION_TRAJECTORY_CHARS
    tries: Annotated[int, Meta(ge=1, le=limits.POLICY_TRIES)] = limits.EXTRACTION_TRIES
