"""Verdicts: whether a run succeeded, why, and who says so."""

from __future__ import annotations

from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.events import RunJudged
from rbank_es.events.run_events import JudgeKind, Purpose
from rbank_es.judging.grounded_terms import Grounding
from rbank_es.judging.result_comparison import Difference


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found. One that `fails` means that the run did not succeed; another is only said."""

    code: str
    message: str
    fails: bool = True


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A judgment of one run, for learning or for scoring.

    `judge` and `judge_version` say who judged. `findings` are those of the checks, `differences` those from the
    expected answer, `grounding` tells of the terms that query and answer name, where somebody looked.
    """

    success: bool
    reason: str
    kind: JudgeKind
    judge: str
    judge_version: str
    purpose: Purpose = "learning"
    confidence: float | None = None
    findings: tuple[Finding, ...] = ()
    differences: tuple[Difference, ...] = ()
    grounding: Grounding | None = None

    @property
    def learnable(self) -> bool:
        """Whether something may be learnt from the run: all but successes that name what is not there."""
        return not self.success or self.grounding is None or self.grounding.grounded

    def event(self, run: str) -> RunJudged:
        """The event that records this verdict of a run."""
        return RunJudged(
            run=run,
            purpose=self.purpose,
            success=self.success,
            judge=self.judge[: limits.NAME_CHARS],
            judge_version=self.judge_version,
            kind=self.kind,
            confidence=self.confidence,
            reason=bounded(self.reason),
        )

    def as_dict(self) -> dict[str, Any]:
        """What programs ask of a verdict first: `success` and `reason`, then who judged, and whether to learn of it."""
        return {
            "success": self.success,
            "reason": self.reason,
            "kind": self.kind,
            "judge": f"{self.judge}-{self.judge_version}",
            "purpose": self.purpose,
            "learnable": self.learnable,
        }


def bounded(reason: str) -> str:
    """A reason within its limit, marked where it was cut."""
    text = reason.strip()
    return text if len(text) <= limits.JUDGE_REASON_CHARS else text[: limits.JUDGE_REASON_CHARS - 1] + "…"
