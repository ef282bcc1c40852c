"""Candidates drawn from runs of a bank under the verdicts that stand now: after a person overruled a judge, or where
nobody had judged when the run ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rbank_es.errors import BadInput
from rbank_es.events import Decision
from rbank_es.events.run_events import VerdictValue
from rbank_es.extraction.candidates import consolidate
from rbank_es.extraction.extractors import extract
from rbank_es.extraction.judged_run import past_run
from rbank_es.judging.judges import policy_for
from rbank_es.loop.overrides import extraction_policy
from rbank_es.loop.run_stages import judgment_for_learning, standing_judgment

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.models.router import Lms
    from rbank_es.sparql.source import Source

NO_ANSWER = "lm_failed"
"""The code of an extraction that no model answered."""


class LateLessons(msgspec.Struct, frozen=True, kw_only=True):
    """What was learned from a run under its standing verdict.

    `code` and `reason` say why there is nothing, or less than the model gave; `extraction` is the id of the event that
    records it, empty if the model gave no answer: then nothing was recorded but its calls.
    """

    run: str
    verdict: VerdictValue
    extraction: str = ""
    titles: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    code: str = ""
    reason: str = ""


def undrawn_runs(bank: Bank) -> tuple[str, ...]:
    """Return the runs that are a success or a failure, and from which nothing that stands was drawn, as they began."""
    from rbank_es.bank.correction import to_extract

    state = bank.state()
    return to_extract(state, state.runs)


def draw_late(bank: Bank, run: str, lms: Lms, source: Source | None = None) -> LateLessons:
    """Draw candidates from one run of the bank under its standing verdict, and consolidate them as one group.

    The model in the role `extractor` is asked, with the bank's extraction policy. With a `source`, a success that names
    terms it doesn't have teaches nothing, if the judging policy says so.
    Raises `NotInBank`, `BadInput` for a run without a verdict or an undecided one, `LmFailed` if every later call would
    fail too, and as `consolidate`.
    """
    verdict = check_decided(bank, run)
    judgment = judgment_for_learning(bank, run, source, policy_for(bank)[1])
    past = past_run(bank, run)
    drawn = extract(past, past.task, judgment, lms, extraction_policy(bank))
    if drawn.code == NO_ANSWER:
        return LateLessons(run=run, verdict=verdict, code=drawn.code, reason=drawn.reason)
    event = drawn.event()
    done = consolidate(bank, [event if event.runs else msgspec.structs.replace(event, runs=(run,))])
    return LateLessons(
        run=run,
        verdict=verdict,
        extraction=done.extractions[0],
        titles=tuple(item.title for item in drawn.items),
        decisions=done.decisions,
        code=drawn.code,
        reason=drawn.reason,
    )


def check_decided(bank: Bank, run: str) -> VerdictValue:
    """Return the verdict that stands for learning. Raises `BadInput` if there is none, or it is undecided."""
    standing = standing_judgment(bank, run)
    if standing is None or standing.verdict == "undecided":
        was = "was not judged" if standing is None else "is undecided"
        raise BadInput(f"the run {run} {was}, so nothing is learned from it; judge or overrule it first")
    return standing.verdict
