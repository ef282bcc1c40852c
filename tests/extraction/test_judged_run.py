"""Trajectories as text: whole where they fit, else the first step and the last ones, with a word on the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import RunFinished, RunStarted, StepTaken, ToolCalled
from rbank_es.extraction import Judgment, PastStep, format_trajectory, past_run
from rbank_es.extraction.judged_run import clip


def steps(count: int, chars: int = 100) -> list[PastStep]:
    return [
        PastStep(
            index=number, reasoning=f"thought {number}", code=f"code_{number}()", output=f"{number} " * (chars // 2)
        )
        for number in range(1, count + 1)
    ]


def test_steps_that_are_too_long_are_clipped_between_lines_and_the_last_gets_more() -> None:
    """Head and tail stay: an error stands at the end of an output."""
    long = "\n".join(f"line {number}" for number in range(1_000))
    given = [
        PastStep(index=1, code=long, output=long),
        PastStep(index=2, code="short()", output=long + "\nValueError: no"),
    ]
    text = format_trajectory(given, 2_000)
    first, last = text.split("\n\nStep 2\n")
    assert len(text) <= 2_000 < len(first) + len(last) + 600
    assert len(first) < len(last)
    assert "short()" in last and last.endswith("ValueError: no") and "\nline 0\nline 1\n" in last
    assert "characters left out …]\nline " in last


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 9])
def test_no_budget_is_passed_by_any_number_of_steps(count: int) -> None:
    """Least of all by one character less than the whole, where blanks between steps decide."""
    whole = len(format_trajectory(steps(count)))
    for budget in range(limits.EXTRACTION_TRAJECTORY_LEAST_CHARS, whole):
        assert 0 < len(format_trajectory(steps(count), budget)) <= budget


def test_no_steps_and_no_room_give_an_empty_text() -> None:
    assert format_trajectory([]) == ""
    assert format_trajectory(steps(2), limits.EXTRACTION_TRAJECTORY_LEAST_CHARS - 1) == ""
    assert format_trajectory(steps(2), 0) == ""
    assert format_trajectory([PastStep(index=1)]) == "Step 1\n(nothing was recorded)"
    with pytest.raises(BadInput, match="can't be kept"):
        format_trajectory([], -1)


@pytest.mark.parametrize("room", [0, 1, 79, 80, 100, 500])
def test_a_clipped_text_keeps_its_room_and_counts_what_is_gone(room: int) -> None:
    text = "word " * 400
    short = clip(text, room)
    assert len(short) <= room
    if room < 80:
        assert short == ("word " * 20)[: max(room - 1, 0)] + "…"[:room]
    else:
        head, rest = short.split("\n[… ")
        left_out, tail = rest.split(" characters left out …]\n")
        assert text.startswith(head) and text.endswith(tail)
        assert abs(len(head) + len(tail) + int(left_out.replace(",", "")) - len(text)) <= 2
        assert {*head.split(), *tail.split()} == {"word"}, "no word is cut in two"


# ---------------------------------------------------------------- from a bank


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank.create(tmp_path / "bank", unsafe_no_sync=True)


def test_steps_and_calls_of_a_run_without_a_source_are_one_list(bank: Bank) -> None:
    acts = [
        StepTaken(run="r", index=1, reasoning="a"),
        ToolCalled(run="r", tool="find", arguments="{}", result="two"),
        StepTaken(run="r", index=2, reasoning="b"),
    ]
    bank.append([RunStarted(run="r", task="why"), *acts])
    assert [(step.index, step.reasoning or step.code) for step in past_run(bank, "r").steps] == [
        (1, "a"),
        (2, "find({})"),
        (3, "b"),
    ]
    bank.append([RunStarted(run="s", task="why", ontology="lights"), *(replace(act, run="s") for act in acts)])
    assert [step.reasoning for step in past_run(bank, "s").steps] == ["a", "b"]


def test_a_past_run_has_its_end(bank: Bank) -> None:
    """A run that did not end counts as failed; one that did not begin is none."""
    bank.append([RunStarted(run="r", task="why", ontology="lights"), StepTaken(run="r", index=1, code="x")])
    begun = past_run(bank, "r")
    assert (begun.outcome, begun.error, begun.domain) == ("failed", "the run did not finish", "lights")
    bank.append(RunFinished(run="r", outcome="forced_at_limit", answer="a", sparql="q"))
    ended = past_run(bank, "r")
    assert (ended.task, ended.answer, ended.sparql, ended.outcome) == ("why", "a", "q", "forced_at_limit")
    assert ended.steps == (PastStep(index=1, code="x"),)
    with pytest.raises(NotInBank):
        past_run(bank, "unknown")


def test_an_erased_run_can_still_be_told(bank: Bank) -> None:
    """Its texts are empty."""
    bank.append([RunStarted(run="r", task="why"), StepTaken(run="r", index=1, code="secret words here")])
    bank.erase(run="r")
    assert past_run(bank, "r").steps == (PastStep(index=1),)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"verdict": "undecided"}, ("undecided", "nobody decided whether the run succeeded")),
        ({"verdict": "undecided", "reason": "Two of three."}, ("undecided", "Two of three.")),
        ({"verdict": "failure", "unsure": "at 51%"}, ("unsure", "at 51%")),
        ({"verdict": "success", "learnable": False}, ("ungrounded", "it names what the ontology doesn't have")),
        ({"verdict": "success", "learnable": False, "reason": "No lt:Moon."}, ("ungrounded", "No lt:Moon.")),
        ({"verdict": "failure", "learnable": False, "reason": "No rows."}, None),
        ({"verdict": "success", "reason": "All rows."}, None),
    ],
)
def test_why_nothing_may_be_learned_is_told_in_the_words_of_the_judgment(
    facts: dict[str, Any], why: tuple[str, str] | None
) -> None:
    assert Judgment(**facts).bar(grounded=True) == why
