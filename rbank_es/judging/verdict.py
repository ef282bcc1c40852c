"""Verdicts: the success or failure of a run, with the reason and the judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.events import RunJudged
from rbank_es.events.run_events import JudgeKind, Purpose

if TYPE_CHECKING:
    from rbank_es.judging.grounded_terms import Grounding
    from rbank_es.judging.result_comparison import ResultDifference

NOBODY = "none"
"""The name, in settings and on the command line, that stands for no judge."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of a check. If it `fails`, the run did not succeed; otherwise it is only reported."""

    code: str
    message: str
    fails: bool = True


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A judgment of one run, for learning or for scoring.

    `judge` and `judge_version` name who judged. `findings` are those of the checks, `differences` those from the
    expected answer. `grounding` reports the terms of query and answer, if they were looked up.
    """

    success: bool
    reason: str
    kind: JudgeKind
    judge: str
    judge_version: str
    purpose: Purpose = "learning"
    confidence: float | None = None
    findings: tuple[Finding, ...] = ()
    differences: tuple[ResultDifference, ...] = ()
    grounding: Grounding | None = None

    @property
    def learnable(self) -> bool:
        """Whether the run may be learned from: any failure, and a success that names no term that doesn't exist."""
        return not self.success or self.grounding is None or self.grounding.grounded

    def event(self, run: str) -> RunJudged:
        """Return the event that records this verdict on a run."""
        return RunJudged(
            run=run,
            purpose=self.purpose,
            verdict="success" if self.success else "failure",
            # Truncated, because a model's name, which is part of it, has no limit.
            judge=self.judge[: limits.NAME_CHARS],
            judge_version=self.judge_version,
            kind=self.kind,
            confidence=self.confidence,
            reason=bounded(self.reason),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict for programs: `success` and `reason`, then who judged, and whether to learn from it."""
        return {
            "success": self.success,
            "reason": self.reason,
            "kind": self.kind,
            "judge": f"{self.judge}-{self.judge_version}",
            "purpose": self.purpose,
            "learnable": self.learnable,
        }


def bounded(reason: str) -> str:
    """Return a reason truncated to `JUDGE_REASON_CHARS`, with `…` where it was truncated."""
    text = reason.strip()
    return text if len(text) <= limits.JUDGE_REASON_CHARS else text[: limits.JUDGE_REASON_CHARS - 1] + "…"
