"""Calibration: labelled cases in, figures and every disagreement out; the judge sees nothing of the labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbank_es.errors import BadInput, JudgeFailed
from rbank_es.judging.calibration import Case, calibrate, load_cases
from rbank_es.judging.checks import judge_by_checks
from rbank_es.judging.verdict import Verdict

QUERY = "SELECT ?x WHERE { ?x a <http://example.org/Thing> }"


def case(id: str, verdict: bool, sparql: str = QUERY, **more: Any) -> Case:
    return Case(id=id, query="Which things?", agent_sparql=sparql, agent_answer="a", expert_verdict=verdict, **more)


CASES = (
    case("agreed", True),
    case("false alarm", True, "SELECT"),
    case("missed", False, expert_reason="Not the things that were meant."),
    case("stopped", False, outcome="forced_at_limit"),
)


def by_checks(case: Case) -> Verdict:
    return judge_by_checks(case.run)


def test_figures_and_disagreements() -> None:
    found = calibrate(CASES, by_checks)
    told = found.as_dict()
    assert (told["true_positive"], told["false_negative"], told["false_positive"], told["true_negative"]) == (
        1,
        1,
        1,
        1,
    )
    assert (told["accuracy"], told["kappa"]) == (0.5, 0.0)
    assert [each["id"] for each in told["disagreements"]] == ["false alarm", "missed"]
    missed = told["disagreements"][1]
    assert missed["expert_reason"] == "Not the things that were meant." and "no check speaks" in missed["judge_reason"]
    assert told["verdicts"] == {"agreed": True, "false alarm": False, "missed": True, "stopped": False}
    assert json.loads(json.dumps(told)) == told


def test_a_case_without_a_verdict_is_told_and_counts_in_no_figure() -> None:
    def judge(case: Case) -> Verdict:
        if case.id == "missed":
            raise JudgeFailed("test", "it was unsure")
        return by_checks(case)

    found = calibrate(CASES, judge)
    assert found.metrics.cases == 3
    assert [(each.case.id, each.failure) for each in found.unjudged] == [("missed", "it was unsure")]
    assert found.as_dict()["unjudged"] == [{"id": "missed", "why": "it was unsure"}]


def test_what_the_expert_says_does_not_reach_the_judge() -> None:
    labelled = case("x", True, expected_sparql="SELECT secret", expert_reason="secret")
    assert "secret" not in repr(labelled.run)
    assert labelled.run == case("y", False).run


@pytest.mark.parametrize("form", ["list", "lines", "marked"])
def test_cases_are_read_from_a_list_or_from_lines(tmp_path: Path, form: str) -> None:
    entries = [{"id": n, "query": "?", "expert_verdict": True, "error_type": "true_positive"} for n in "ab"]
    text = json.dumps(entries) if form != "lines" else "\n\n".join(map(json.dumps, entries))
    place = tmp_path / "cases.json"
    place.write_text("\ufeff" * (form == "marked") + text, encoding="utf-8")
    assert [each.id for each in load_cases(place)] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no case"),
        ("[]", "no case"),
        ("[1]", "case 1"),
        ("nonsense", "neither a JSON list nor JSON Lines"),
        ("[" * 100_000, "neither"),
        ('{"id": "a", "query": "?"}', "case 1.*expert_verdict"),
        ('{"id": "a", "query": "?", "expert_verdict": "yes"}', "case 1.*bool"),
        ('{"id": "a", "query": "?", "expert_verdict": true, "outcome": "odd"}', "case 1.*odd"),
        ('{"id": "a", "query": "?", "expert_verdict": true}\n' * 2, "'a' is there 2 times"),
        ('{"id": "a", "query": "?", "expert_verdict": true, "expert_verdict": false}', "verdict' is there twice"),
        ('[{"id": "a", "query": "?", "query": "!", "expert_verdict": true}]', "'query' is there twice"),
    ],
)
def test_files_that_can_not_be_used_are_refused_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    place = tmp_path / "cases.json"
    place.write_text(text)
    with pytest.raises(BadInput, match=said):
        load_cases(place)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="can't be read"):
        load_cases(tmp_path / "none.json")
    with pytest.raises(BadInput, match="can't be read"):
        load_cases(tmp_path)
