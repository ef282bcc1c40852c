"""The verdict that stands on a run, as one may learn from it: grounded, and confident enough for the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbank_es.bank.run_judgments import judgments_of, standing
from rbank_es.events import JudgmentOverruled, RunJudged
from rbank_es.extraction.judged_run import Judgment
from rbank_es.judging.checks import check
from rbank_es.judging.judge_protocol import JudgingPolicy
from rbank_es.judging.run_outcome import outcome_of
from rbank_es.policies import LmJudging

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.sparql.data_source import Source


def judgment_for_learning(bank: Bank, run: str, source: Source | None, policy: JudgingPolicy) -> Judgment | None:
    """Return the standing verdict on a run, and re-check whether it may be learned from; None without a verdict."""
    found = standing(judgments_of(bank, run))
    if found is None:
        return None
    judged = found.event
    terms = check(outcome_of(bank, run), source, grounding=policy.grounding).terms
    return Judgment(
        verdict=judged.verdict,
        reason=bank.text(judged.reason) or "",
        learnable=judged.verdict != "success" or terms is None or terms.grounded,
        unsure=_unsure(judged, policy),
        event=judged.id,
    )


def _unsure(judged: RunJudged | JudgmentOverruled, policy: JudgingPolicy) -> str:
    """Return why a model's verdict is not confident enough for a policy; empty if it is, or if no model judged."""
    least = policy.confidence_min if isinstance(policy, LmJudging) else 0.0
    if judged.kind != "lm" or not least or (judged.confidence or 0.0) >= least:
        return ""
    said = "gave no confidence" if judged.confidence is None else f"is confident at {judged.confidence:.2f}"
    return f"the model that judged {said}, and the policy requires {least:.2f}"
