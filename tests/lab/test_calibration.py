"""Calibration: metrics and every disagreement from labelled cases, of which the judge sees no label."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.errors import BadInput, JudgeFailed
from rbank_es.judging.checks import judge_by_checks
from rbank_es.judging.verdict import Verdict
from rbank_es.lab.calibration import Case, Metrics, calibrate, load_cases
from rbank_es.lab.judge_confidence import Graded, threshold_for
from rbank_es.system.proportion import wilson

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


# ---------------------------------------------------------------- confidence


def test_the_wilson_interval_is_that_of_the_literature() -> None:
    """Newcombe 1998: 81 of 263 gives 0.2553 to 0.3662; 0 of 20 gives 0 to 0.1611."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(0, 0) is None


def graded(cases: int, error: Callable[[float], float], seed: int = 1) -> list[Graded]:
    """Return cases with confidences in steps of 0.05, wrong with a probability that depends on it."""
    draw = random.Random(seed)
    confidences = [draw.randrange(10, 21) / 20 for _ in range(cases)]
    return [Graded(each, draw.random() < error(each)) for each in confidences]


def test_a_threshold_is_found_where_confidence_tells() -> None:
    found = threshold_for(graded(1_000, lambda confidence: 0.02 if confidence >= 0.8 else 0.5), 0.1)
    assert found.confidence is not None and 0.75 <= found.confidence <= 0.8 and found.needed == 22


def test_cases_that_all_differ_in_confidence_give_a_threshold_once_there_are_enough() -> None:
    """22 without an error show a share of at most 10 %; of 38 one may be wrong (exact binomial)."""
    right = [Graded(1 - number / 100, False) for number in range(37)]
    assert threshold_for(right, 0.1).confidence == right[-1].confidence
    assert threshold_for(right[:22], 0.1).confidence == right[21].confidence
    assert threshold_for(right[:21], 0.1).confidence is None
    wrong = Graded(0.5, True)
    assert threshold_for([*right, wrong], 0.1).confidence == wrong.confidence
    assert threshold_for([*right[:36], wrong], 0.1).confidence == right[35].confidence


@pytest.mark.parametrize(("cases", "alpha", "most"), [(1_200, 0.5, 577), (8_000, 0.1, 765), (400, 0.95, 373)])
def test_of_thousands_of_cases_the_most_wrong_are_still_found(cases: int, alpha: float, most: int) -> None:
    """The chance that none of them is wrong is below the least float. `most` is the quantile that scipy gives."""
    for wrong, confidence in ((most, 0.5), (most + 1, None)):
        alike = [Graded(0.5, number < wrong) for number in range(cases)]
        assert threshold_for(alike, alpha).confidence == confidence


@pytest.mark.parametrize(("alpha", "needed"), [(5e-324, sys.maxsize), (0.9999999999999999, 1)])
def test_a_share_at_either_end_of_the_floats_has_a_threshold_or_none(alpha: float, needed: int) -> None:
    found = threshold_for([Graded(0.5, False)] * 100, alpha)
    assert (found.needed, found.confidence) == (needed, 0.5 if needed == 1 else None)


@pytest.mark.slow
@pytest.mark.parametrize("error", [lambda c: 0.6 * (1 - c), lambda c: 0.08 if c in (0.7, 0.8) else 0.13])
def test_of_many_calibrations_at_most_one_in_ten_accepts_more_errors_than_it_promises(
    error: Callable[[float], float],
) -> None:
    """Simulated judges, whose true share of errors among the accepted is known; the second's is not monotone."""
    confidences = [step / 20 for step in range(10, 21)]

    def true_error(threshold: float) -> float:
        accepted = [error(each) for each in confidences if each >= threshold]
        return sum(accepted) / len(accepted)

    tried = [threshold_for(graded(300, error, seed), 0.1).confidence for seed in range(400)]
    broken = sum(each is not None and true_error(each) > 0.1 for each in tried) / len(tried)
    print(f"\n{broken:.3f} of {len(tried)} calibrations accept more than 10 % errors")
    assert broken <= 0.1 + 3 * (0.1 * 0.9 / len(tried)) ** 0.5


def test_the_same_cases_give_the_same_report() -> None:
    cases = graded(100, lambda confidence: 1 - confidence)
    assert threshold_for(cases, 0.2) == threshold_for(reversed(cases), 0.2)


def test_a_case_without_a_verdict_is_told_and_counts_in_no_figure() -> None:
    def judge(case: Case) -> Verdict:
        if case.id == "missed":
            raise JudgeFailed("test", "it was unsure")
        return by_checks(case)

    found = calibrate(CASES, judge)
    assert found.metrics.cases == 2
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


def test_a_file_of_16_mebibytes_is_read_and_a_byte_more_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "cases.json"
    text = b'{"id": "a", "query": "?", "expert_verdict": true}\n'
    place.write_bytes(text.ljust(16 * 1024 * 1024))
    assert [each.id for each in load_cases(place)] == ["a"]
    place.write_bytes(text.ljust(16 * 1024 * 1024 + 1))
    with pytest.raises(BadInput, match="at most 16,777,216 bytes"):
        load_cases(place)


# ---------------------------------------------------------------- metrics


def metrics(tp: int = 0, fp: int = 0, fn: int = 0, tn: int = 0) -> Metrics:
    return Metrics(true_positive=tp, false_positive=fp, false_negative=fn, true_negative=tn)


@pytest.mark.parametrize(
    ("found", "figures"),
    [
        # Worked out by hand: 20 agree on success, 15 on failure, of 50; chance agreement is 0.5.
        (metrics(tp=20, fp=5, fn=10, tn=15), (35 / 50, 20 / 25, 20 / 30, 8 / 11, 0.4)),
        (metrics(), (None, None, None, None, None)),
        (metrics(tn=4), (1.0, None, None, None, None)),
        (metrics(tp=4), (1.0, 1.0, 1.0, 1.0, None)),
        (metrics(fp=2), (0.0, 0.0, None, 0.0, 0.0)),
        (metrics(fn=2), (0.0, None, 0.0, 0.0, 0.0)),
        (metrics(tp=1, tn=1), (1.0, 1.0, 1.0, 1.0, 1.0)),
        (metrics(fp=1, fn=1), (0.0, 0.0, 0.0, 0.0, -1.0)),
        (metrics(fn=1, tn=1), (0.5, None, 0.0, 0.0, 0.0)),
    ],
)
def test_figures_of_a_table_are_those_worked_out_by_hand_and_none_of_nothing(
    found: Metrics, figures: tuple[float | None, ...]
) -> None:
    assert (found.accuracy, found.precision, found.recall, found.f1, found.kappa) == pytest.approx(figures)


@given(st.lists(st.tuples(st.booleans(), st.booleans())))
def test_figures_stay_in_their_ranges_and_do_not_depend_on_order(pairs: list[tuple[bool, bool]]) -> None:
    found = Metrics.of(pairs)
    assert found == Metrics.of(reversed(pairs))
    assert found.cases == len(pairs)
    shares = (found.accuracy, found.precision, found.recall, found.f1)
    assert all(share is None or 0 <= share <= 1 for share in shares)
    assert found.kappa is None or -1 <= found.kappa <= 1
    if found.kappa is not None:
        assert (found.kappa == 1) == all(judge == expert for judge, expert in pairs)
        swapped = Metrics.of((expert, judge) for judge, expert in pairs)
        assert swapped.kappa == pytest.approx(found.kappa)
