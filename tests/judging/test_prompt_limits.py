"""How much of each text a model that judges or extracts is shown, and how much of its reply is read, in figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbank_es.extraction import Judgment, PastStep, extract
from rbank_es.judging.lm_judge import Evidence, judge_by_lm
from rbank_es.judging.rubric import RUBRICS, rate
from rbank_es.judging.verdict import Finding
from rbank_es.judging.verdict_reply import LmReply, read_reply
from tests.extraction.judged_runs import extractor, past
from tests.judging.answers import run_of, table, text

LONG = 200_000

JUDGED = {"τ": 8_000, "α": 8_000, "σ": 8_000, "ρ": 2_000, "δ": 3_000, "π": 2_000}
"""Characters of task, answer, query, rows, last steps and suspicions."""
RATED = {"τ": 8_000, "θ": 24_000, "σ": 8_000, "δ": 3_000}
EXTRACTED = {"τ": 4_000, "α": 4_000, "σ": 4_000, "ω": 4_000, "δ": 12_000}
"""Characters of task, answer, query, reason of the judge and steps."""
AGAIN = {"μ": 2_000}


def _judged(place: Path) -> str:
    with extractor(place, "success") as (_, lms, engine):
        shown = Evidence((Finding(code="doubt", message="π" * LONG),), table(*[(text("ρ" * 290),) * 9] * 9), "δ" * LONG)
        judge_by_lm(run_of("σ" * LONG, "τ" * LONG, "α" * LONG), lms, evidence=shown)
        return engine.prompts[0]


def _rated(place: Path) -> str:
    guide = RUBRICS["guide"]
    ratings = str(dict.fromkeys(guide.criteria, 3)).replace("'", '"')
    with extractor(place, ratings) as (_, lms, engine):
        rate(guide, "θ" * LONG, lms, task="τ" * LONG, query="σ" * LONG, steps="δ" * LONG)
        return engine.prompts[0]


def _extracted(place: Path, number: int = 0) -> str:
    steps = tuple(PastStep(index=n, output="δ" * 5_000) for n in range(9))
    with extractor(place, "μ" * LONG) as (_, lms, engine):
        verdict = Judgment(verdict="success", reason="ω" * LONG)
        extract(past(steps=steps, answer="α" * LONG, sparql="σ" * LONG), "τ" * LONG, verdict, lms)
        return engine.prompts[number]


@pytest.mark.parametrize(
    ("asked", "limits"),
    [(_judged, JUDGED), (_rated, RATED), (_extracted, EXTRACTED), (lambda place: _extracted(place, 1), AGAIN)],
    ids=["judged", "rated", "extracted", "asked again"],
)
def test_a_model_is_shown_as_much_of_each_text(
    tmp_path: Path, asked: Callable[[Path], str], limits: dict[str, int]
) -> None:
    prompt = asked(tmp_path)
    shown = {letter: prompt.count(letter) for letter in limits}
    short = {
        letter: (shown[letter], chars) for letter, chars in limits.items() if not 0.8 * chars < shown[letter] <= chars
    }
    assert not short


KINDS: tuple[Any, ...] = ("principle", "episode")


@pytest.mark.parametrize(("chars", "is_read"), [(50_000, True), (50_001, False)])
def test_a_reply_is_read_up_to_its_limit(chars: int, is_read: bool) -> None:
    assert isinstance(read_reply("success".ljust(chars, ".\n"[1]).removesuffix("\n") + "."), LmReply) == is_read
