"""Extraction: from which runs a bank learns, how much, and how the model that draws items from them is asked."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from rbank_es import limits
from rbank_es.policies.policy import Policy


class SuccessFailure(Policy, frozen=True, kw_only=True):
    """Strategies from successes, guardrails from failures; one prompt for each.

    `items_max` is how many items an extraction gives at most. Of several rollouts of a task, `best` learns from the
    one that was selected, `contrastive` from what sets successes apart from failures and what successes share.
    `temperature` is the model's (source: the ReasoningBank paper). With `grounded`, nothing is learnt from a success
    that names what the ontology doesn't have. `trajectory_chars` is what the model is shown of a run's steps, `tries`
    how many of its answers are read.
    """

    kind = "extraction"
    name = "success-failure"

    items_max: Annotated[int, Meta(ge=1, le=limits.EXTRACTION_ITEMS)] = limits.EXTRACTION_ITEMS
    extract_from: Literal["best", "contrastive"] = "best"
    temperature: Annotated[float, Meta(ge=0, le=2)] = 1.0
    grounded: bool = True
    trajectory_chars: Annotated[int, Meta(ge=1_000, le=100_000)] = limits.EXTRACTION_TRAJECTORY_CHARS
    tries: Annotated[int, Meta(ge=1, le=10)] = limits.EXTRACTION_TRIES
