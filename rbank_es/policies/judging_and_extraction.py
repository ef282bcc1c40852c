"""Policies about runs: the choice of their judge, and of the lessons that are drawn from them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from rbank_es import limits
from rbank_es.events.bank_events import PolicyKind
from rbank_es.policies.policy_registry import Policy

Items = Annotated[int, Meta(ge=0, le=limits.SEARCH_HITS)]
Strictness = Literal["strict", "plain", "lenient"]
Supervised = Annotated[
    bool,
    Meta(
        description="Whether the right answer, where a task has one, judges for learning too. Default: no, because an "
        "experiment would leak its answers into the bank."
    ),
]
Grounding = Annotated[
    bool,
    Meta(
        description="Whether the terms of query and answer are looked up in the ontology. Default: yes, because a "
        "query with an invented term finds nothing, and an answer with one is wrong."
    ),
]


class CheckJudging(Policy, frozen=True, kw_only=True):
    """Checks alone: a run is a failure if a check is sure of a fault, and else undecided."""

    kind: ClassVar[PolicyKind] = "judging"
    name: ClassVar[str] = "checks"

    supervised: Supervised = False
    grounding: Grounding = True


class LmJudging(Policy, frozen=True, kw_only=True):
    """Checks first, and a language model where no check is sure."""

    kind: ClassVar[PolicyKind] = "judging"
    name: ClassVar[str] = "lm"

    supervised: Supervised = False
    grounding: Grounding = True
    principles: Annotated[
        Items,
        Meta(description=f"Principles given to the model, best matches first. Default: {limits.JUDGE_PRINCIPLES}."),
    ] = limits.JUDGE_PRINCIPLES
    cases: Annotated[
        Items, Meta(description=f"Past cases given to the model, best matches first. Default: {limits.JUDGE_CASES}.")
    ] = limits.JUDGE_CASES
    evidence: Annotated[
        bool,
        Meta(
            description="Whether the model is also given what the checks suspect, the first rows of the result and the "
            "last steps. Default: true."
        ),
    ] = True
    confidence_min: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="The confidence from which a model's verdict may be learned from; one without a confidence "
            "may not, if this is over 0. Default: 0, all of them.",
        ),
    ] = 0.0
    strictness: Annotated[
        Strictness,
        Meta(
            description="What the model is told about doubtful cases: strict says failure, lenient says success, plain "
            "says nothing. Default: plain. The others are for experiments on how a judge's errors reach the bank."
        ),
    ] = "plain"


class SuccessFailure(Policy, frozen=True, kw_only=True):
    """Strategies from successes, guardrails from failures; one prompt for each."""

    kind: ClassVar[PolicyKind] = "extraction"
    name: ClassVar[str] = "success-failure"

    items_max: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.EXTRACTION_ITEMS,
            description="Items that an extraction gives at most. Default: 3, as in the ReasoningBank paper.",
        ),
    ] = limits.EXTRACTION_ITEMS
    extract_from: Annotated[
        Literal["best", "contrastive"],
        Meta(
            description="Of several rollouts of a task: best learns from the selected one alone, contrastive from the "
            "differences between successes and failures, and from what successes share. A single run is learned from "
            "alike by both. Default: contrastive, the ReasoningBank paper's test-time scaling."
        ),
    ] = "contrastive"
    temperature: Annotated[
        float,
        Meta(
            ge=0,
            le=limits.TEMPERATURE_MOST,
            description="Temperature of the extractor's model. Default: 1.0, of the source documents.",
        ),
    ] = 1.0
    grounded: Annotated[
        bool,
        Meta(
            description="Whether nothing is learned from a success that names terms that the ontology doesn't have. "
            "Default: yes, because such an item would teach the invented term."
        ),
    ] = True
    trajectory_chars: Annotated[
        int,
        Meta(
            ge=limits.POLICY_TRAJECTORY_LEAST_CHARS,
            le=limits.POLICY_TRAJECTORY_CHARS,
            description="Characters of a run's steps that the model is shown. Default: "
            f"{limits.EXTRACTION_TRAJECTORY_CHARS:,}.",
        ),
    ] = limits.EXTRACTION_TRAJECTORY_CHARS
    tries: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.POLICY_TRIES,
            description=f"Answers of the model that are read until one is usable. Default: {limits.EXTRACTION_TRIES}.",
        ),
    ] = limits.EXTRACTION_TRIES
