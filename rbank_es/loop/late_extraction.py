"""Candidates drawn from runs of a bank under the verdicts that stand now: after a person overruled a judge, or where
nobody had judged when the run ended. Rollouts of one task are drawn from together, as their loop would have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rbank_es.bank.run_judgments import judgments_of, standing
from rbank_es.errors import BadInput
from rbank_es.events import MemoriesExtracted
from rbank_es.events.memory_events import flaw_of
from rbank_es.extraction.candidates import Extraction, consolidate
from rbank_es.extraction.extractors import contrastive_extract, extract, extract_common_patterns
from rbank_es.extraction.judged_run import Judgment, past_run
from rbank_es.judging.judges import policy_for
from rbank_es.law.lessons_to_draw import COMPARED, LateLessons, LessonToDraw, lessons_to_draw
from rbank_es.loop.learnable_verdict import judgment_for_learning
from rbank_es.policies import SuccessFailure, governing_as
from rbank_es.policies.admission import PROPOSED_BY

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.models.run_models import Lms
    from rbank_es.sparql.data_source import Source

NO_ANSWER = "lm_failed"
"""The code of an extraction that no model answered."""

UNREAD = frozenset({NO_ANSWER, "malformed", "no_usable_item"})
"""Codes of extractions that gave nothing because of the model: their runs stay due until an answer can be used."""


def all_lessons_to_draw(bank: Bank) -> tuple[LessonToDraw, ...]:
    """Return the lessons that no standing extraction gave yet, in the order in which the runs began.

    An extraction in which no answer of a model could be used gave none, and neither did the proposals kept beside it.
    """
    state = bank.state()
    extracted = [event for event in bank.events(types={"memories_extracted"}) if isinstance(event, MemoriesExtracted)]
    unread = {event.id for event in extracted if flaw_of(event)}
    left_due = {run for event in extracted if event.id in unread for run in event.runs}
    # Proposals need no model, so they don't make up for its answer.
    unread |= {each.id for each in extracted if each.extractor in PROPOSED_BY and not left_due.isdisjoint(each.runs)}
    return lessons_to_draw(state, state.runs, unread)


def why_nothing_is_left(bank: Bank, run: str) -> str:
    """Return what came of the latest standing extraction from a run: how much was drawn, or why nothing was."""
    state = bank.state()
    standing = {id for id in state.relying.get(run, ()) if state.extractions[id].stands}
    found = [event for event in bank.events(types={"memories_extracted"}, resolve=True) if event.id in standing]
    if any(isinstance(event, MemoriesExtracted) and event.heads for event in found):
        return "something was drawn from it or its group already, under the verdict that stands"
    last = found[-1] if found else None
    reason = last.reason if isinstance(last, MemoriesExtracted) and isinstance(last.reason, str) else ""
    return f"a model read it under the verdict that stands, and nothing was drawn ({reason or 'no reason was given'})"


def draw_late(bank: Bank, lesson: LessonToDraw, lms: Lms, source: Source | None = None) -> LateLessons:
    """Draw candidates from runs of the bank under their standing verdicts, and consolidate them as one group.

    The model in the role `extractor` is asked, with the bank's extraction policy. With a `source`, a success that names
    terms it doesn't have teaches nothing, if the judging policy says so.
    Raises `NotInBank`, `BadInput` for a run without a verdict or an undecided one, `LmFailed` if every later call would
    fail too, and as `consolidate`.
    """
    drawn = _drawn(bank, lesson, lms, source)
    if drawn.code == NO_ANSWER:
        return LateLessons(runs=lesson.runs, kind=lesson.kind, code=drawn.code, reason=drawn.reason)
    # All that were read, also those that the extractor left out: they are not drawn from again.
    done = consolidate(bank, [msgspec.structs.replace(drawn.event(), runs=lesson.runs)])
    return LateLessons(
        runs=lesson.runs,
        kind=lesson.kind,
        extraction=done.extractions[0],
        titles=tuple(item.title for item in drawn.items),
        decisions=done.decisions,
        code=drawn.code,
        reason=drawn.reason,
    )


def _drawn(bank: Bank, lesson: LessonToDraw, lms: Lms, source: Source | None) -> Extraction:
    judging, policy = policy_for(bank)[1], governing_as(SuccessFailure, bank.policy_choice("extraction"))
    past = [past_run(bank, run) for run in lesson.runs]
    judgments = list[Judgment | None]()
    for run in lesson.runs:
        check_decided(bank, run)
        judgments.append(judgment_for_learning(bank, run, source, judging))
    if lesson.kind not in COMPARED:
        return extract(past[0], past[0].task, judgments[0], lms, policy)
    compare = contrastive_extract if lesson.kind == "contrastive" else extract_common_patterns
    return compare(past, past[0].task, judgments, lms, policy)


def check_decided(bank: Bank, run: str) -> None:
    """Raise `BadInput` for a run without a verdict for learning, and for one that is undecided."""
    found = standing(judgments_of(bank, run))
    if found is None or found.event.verdict == "undecided":
        was = "was not judged" if found is None else "is undecided"
        raise BadInput(f"the run {run} {was}, so nothing is learned from it; judge or overrule it first")
