"""What is left to draw from runs: alone, or with the other rollouts of their task."""

from __future__ import annotations

import pytest

from rbank_es import Bank
from rbank_es.events import MemoriesExtracted, Reliance, RunFinished, RunJudged, RunStarted
from rbank_es.events.items import Item
from rbank_es.events.memory_events import ExtractionKind
from rbank_es.events.run_events import VerdictValue
from rbank_es.law.decisions import append_decided
from rbank_es.law.lessons_to_draw import LessonToDraw, lessons_to_draw

ALL = ("a", "b", "c")


def began(bank: Bank, *verdicts: VerdictValue, group: str | None = "g") -> None:
    """Record runs a, b, c, each with a verdict and more steps than the one before."""
    for index, verdict in enumerate(verdicts):
        run = ALL[index]
        started = RunStarted(run=run, rollout_group=group, rollout_index=index if group else None)
        judged = RunJudged(run=run, purpose="learning", verdict=verdict, judge="j", judge_version="1", kind="lm")
        bank.append([started, RunFinished(run=run, outcome="submitted", iterations=index + 1), judged])


def drew(bank: Bank, kind: ExtractionKind, *runs: str) -> None:
    """Record an extraction that relies on the verdicts that stand."""
    state, item = bank.state(), Item.make(f"{kind} of {runs}", "Some words.", kind)  # type: ignore[arg-type]
    relied = tuple(Reliance(run=run, verdict=state.verdicts[run, "learning"].verdict) for run in runs)
    extracted = MemoriesExtracted(kind=kind, runs=runs, relied=relied, heads=(item.head,), candidates=(item.text,))
    append_decided(bank.log, bank.latest, [extracted])


def due(bank: Bank, *runs: str) -> list[LessonToDraw]:
    state = bank.state()
    return list(lessons_to_draw(state, runs or state.runs))


@pytest.fixture
def bank() -> Bank:
    return Bank.create("memory:")


def test_rollouts_teach_by_contrast_and_by_what_successes_share(bank: Bank) -> None:
    began(bank, "success", "failure", "success")
    both = [LessonToDraw("contrastive", ALL), LessonToDraw("pattern", ("a", "c"))]
    assert due(bank) == both == due(bank, "c")
    drew(bank, "contrastive", *ALL)
    assert due(bank) == both[1:]
    drew(bank, "pattern", "a", "c")
    assert due(bank) == []
    # The contrast stands with one success less; the pattern doesn't, and one success alone has none.
    bank.overrule("c", "failure", reason="wrong")
    assert due(bank) == []
    bank.overrule("b", "success", reason="right after all")
    assert due(bank) == [LessonToDraw("contrastive", ALL), LessonToDraw("pattern", ("a", "b"))]


def test_of_rollouts_that_are_not_compared_the_best_alone_teaches(bank: Bank) -> None:
    bank.set_policies({"extraction": {"extract_from": "best"}})
    began(bank, "failure", "success", "success")
    assert due(bank) == [LessonToDraw("success", ("b",))]
    drew(bank, "success", "b")
    assert due(bank) == []
    bank.overrule("b", "failure", reason="wrong")
    assert due(bank, "b") == [LessonToDraw("success", ("c",))]
