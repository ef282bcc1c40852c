"""Verdicts: the success or failure of a run, or neither, with the reason and the judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.events import RunJudged
from rbank_es.events.run_events import JudgeKind, Purpose, VerdictValue, judge_label
from rbank_es.system.text_cuts import cut

if TYPE_CHECKING:
    from rbank_es.judging.result_comparison import ResultDifference

NOBODY = "none"
"""The name, in settings and on the command line, that stands for no judge."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of a check. If it is `sure`, the run failed; otherwise it is only evidence."""

    code: str
    message: str
    sure: bool = False


class Grounding(msgspec.Struct, frozen=True, kw_only=True):
    """The number of terms that a run named, and those that are unknown, each as it was written.

    `unknown_in_query` and `unknown_in_answer` exist nowhere; `absent` are not in the source, and may exist elsewhere;
    `unchecked` could not be looked up. `named_in_answer` is the number of terms in the answer.
    """

    terms: int
    unknown_in_query: tuple[str, ...] = ()
    unknown_in_answer: tuple[str, ...] = ()
    named_in_answer: int = 0
    absent: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def grounded(self) -> bool:
        """Whether no term is known not to exist."""
        return not self.unknown_in_query and not self.unknown_in_answer

    @property
    def answer_share(self) -> float | None:
        """The share of the answer's terms that exist, 0 to 1; None if it names no term."""
        return 1 - len(self.unknown_in_answer) / self.named_in_answer if self.named_in_answer else None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A judgment of one run, for learning or for scoring.

    `judge` and `judge_version` name who judged. `confidence` is what a model says that it is, 0 to 1. `findings` are
    those of the checks, `calls` the ids of the recorded calls of a model that gave it, `precedents` those of the items
    that the model was shown, `differences` those from the expected answer. `grounding` reports the terms of query and
    answer, if they were looked up.
    """

    verdict: VerdictValue
    reason: str
    kind: JudgeKind
    judge: str
    judge_version: str
    purpose: Purpose = "learning"
    confidence: float | None = None
    findings: tuple[Finding, ...] = ()
    calls: tuple[str, ...] = ()
    precedents: tuple[str, ...] = ()
    differences: tuple[ResultDifference, ...] = ()
    grounding: Grounding | None = None

    @property
    def sure(self) -> bool:
        """Whether it is a failure of which a check is sure, so that no model's verdict outweighs it."""
        return self.kind == "check" and self.verdict == "failure" and any(each.sure for each in self.findings)

    @property
    def evidence(self) -> tuple[str, ...]:
        """The codes of what the checks found or suspected, and the kinds of differences from the right answer."""
        return (*(each.code for each in self.findings), *(each.kind for each in self.differences))

    @property
    def learnable(self) -> bool:
        """Whether the run may be learned from: any failure, and a success that names no term that doesn't exist."""
        grounded = self.grounding is None or self.grounding.grounded
        return self.verdict == "failure" or (self.verdict == "success" and grounded)

    def event(self, run: str) -> RunJudged:
        """Return the event that records this verdict on a run."""
        return RunJudged(
            run=run,
            purpose=self.purpose,
            verdict=self.verdict,
            # Truncated, because a model's name, which is part of it, has no limit.
            judge=self.judge[: limits.NAME_CHARS],
            judge_version=self.judge_version,
            kind=self.kind,
            sure=self.sure,
            confidence=self.confidence,
            evidence=self.evidence,
            calls=self.calls,
            precedents=self.precedents,
            reason=bounded(self.reason),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict for programs: `success` (None if undecided) and `reason`, then the rest by name."""
        return {
            "success": None if self.verdict == "undecided" else self.verdict == "success",
            "reason": self.reason,
            "verdict": self.verdict,
            "kind": self.kind,
            "sure": self.sure,
            "confidence": self.confidence,
            "evidence": self.evidence,
            "judge": judge_label(self.judge, self.judge_version),
            "purpose": self.purpose,
            "learnable": self.learnable,
        }


def bounded(reason: str) -> str:
    """Return a reason truncated to `JUDGE_REASON_CHARS`, with `…` where it was truncated."""
    return cut(reason.strip(), limits.JUDGE_REASON_CHARS)
