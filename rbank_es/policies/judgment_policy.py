"""Judging: what decides whether a run succeeded, and what it may look at. The judges themselves are elsewhere."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from rbank_es import limits
from rbank_es.policies.policy import Policy

Items = Annotated[int, Meta(ge=0, le=limits.SEARCH_HITS)]


class CheckJudging(Policy, frozen=True, kw_only=True):
    """Checks alone: a success is a run against which nothing speaks.

    `supervised` lets the right answer, where a task has one, also judge for learning; without it, it only scores.
    `grounding` says whether the terms of query and answer are looked up.
    """

    kind = "judging"
    name = "checks"

    supervised: bool = False
    grounding: bool = True


class LmJudging(Policy, frozen=True, kw_only=True):
    """Checks first, and a language model where nothing speaks against a run.

    `principles` and `cases` are how many of each the model is given, those that fit the task best; the rest as with
    `checks`.
    """

    kind = "judging"
    name = "lm"

    supervised: bool = False
    grounding: bool = True
    principles: Items = limits.JUDGE_PRINCIPLES
    cases: Items = limits.JUDGE_CASES
