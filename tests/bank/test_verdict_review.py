"""The verdicts to check first: their probabilities, what rests on them, and their order."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log, log1p
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es.bank.verdict_error import (
    CONFIDENCE_TRUST,
    LEAST_PROBABILITY,
    PRIORS,
    SPREADS,
    ErrorModel,
    Opinion,
    fitted,
    opinions_of,
)
from rbank_es.bank.verdict_review import OPPOSITE, doubtful_verdicts, doubts_at, stake_of, within
from rbank_es.events import JudgmentOverruled, RunJudged
from rbank_es.law import fold
from tests.cli.misled import judged, misled_bank
from tests.effort import examples
from tests.laws.bank_lives import PEOPLE, Life, Op, lives

slow_to_make = settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def opinions(draw: st.DrawFn) -> Opinion:
    kind = draw(st.sampled_from(("lm", "check", "gold", "outcome")))
    return Opinion(
        judge=f"{kind}-{draw(st.integers(1, 2))}",
        kind=kind,
        verdict=draw(st.sampled_from(("success", "failure"))),
        purpose=draw(st.sampled_from(("learning", "scoring"))),
        sure=draw(st.booleans()),
        confidence=draw(st.none() | st.floats(0, 1)),
        family=draw(st.sampled_from((None, "heights", "dates"))),
        level=draw(st.sampled_from((None, 1, 5))),
        seq=draw(st.integers(1, 99)),
    )


histories = st.lists(st.lists(opinions(), max_size=3), max_size=6)


def fitted_to(history: list[list[Opinion]]) -> ErrorModel:
    return fitted({str(at): {each.by: each for each in of_run} for at, of_run in enumerate(history)})


# ---------------------------------------------------------------- the probability


@settings(max_examples=examples(60), deadline=None)
@given(opinions(), st.lists(opinions(), max_size=3), opinions(), histories)
def test_agreement_never_raises_a_doubt_and_disagreement_never_lowers_it(
    given_: Opinion, others: list[Opinion], another: Opinion, history: list[list[Opinion]]
) -> None:
    errors = fitted_to([*history, [given_], others, [another]])
    before = errors.doubt(given_, others).probability
    after = errors.doubt(given_, [*others, another]).probability
    assert LEAST_PROBABILITY <= before <= 1 - LEAST_PROBABILITY
    assert after <= before if another.verdict == given_.verdict else after >= before


@settings(max_examples=examples(60), deadline=None)
@given(opinions(), st.floats(0, 1), st.floats(0, 1))
def test_less_confidence_never_lowers_a_doubt_where_nothing_was_checked(
    given_: Opinion, one: float, other: float
) -> None:
    errors = fitted_to([[replace(given_, confidence=0.5)]])
    less, more = (errors.doubt(replace(given_, confidence=each), []).probability for each in sorted((one, other)))
    assert less >= more


def opinion(
    confidence: float | None = None, family: str | None = None, level: int | None = None, seq: int = 1
) -> Opinion:
    return Opinion(
        judge="lm-1",
        kind="lm",
        verdict="success",
        purpose="learning",
        confidence=confidence,
        family=family,
        level=level,
        seq=seq,
    )


def checked(cases: list[tuple[Opinion, bool]]) -> ErrorModel:
    """Return the errors of a judge some verdicts of which a person found wrong."""
    said = Opinion(judge="human-1", kind="human", verdict="success", purpose="learning", seq=99)
    return fitted_to([[each, replace(said, verdict="failure" if wrong else "success")] for each, wrong in cases])


@pytest.mark.parametrize(
    ("right", "wrong", "each"),
    [
        (opinion(0.6), opinion(0.95), 6),
        (opinion(level=1), opinion(level=5), 6),
        (opinion(seq=1), opinion(seq=90), 12),
    ],
    ids=["confidently wrong", "wrong on hard tasks", "getting worse"],
)
def test_a_judge_that_errs_in_some_cases_is_found_out(right: Opinion, wrong: Opinion, each: int) -> None:
    errors = checked([(right, False), (wrong, True)] * each)
    assert errors.error(wrong) > 0.6 > 0.4 > errors.error(right)


def test_a_verdict_that_was_checked_itself_is_not_named_among_those_of_its_family() -> None:
    given_ = opinion(family="heights")
    right = Opinion(judge="gold-1", kind="gold", verdict="failure", purpose="scoring", family="heights", seq=2)
    assert fitted_to([[given_, right]]).doubt(given_, [right]).family is None
    two = fitted_to([[given_, right], [replace(given_, seq=3), replace(right, verdict="success", seq=4)]])
    assert (family := two.doubt(given_, [right]).family) and (family.checked, family.wrong) == (1, 0)


@settings(max_examples=examples(20), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.builds(
                opinion,
                st.sampled_from((None, 0.2, 0.5, 0.9)),
                st.sampled_from((None, "a", "b")),
                st.sampled_from((None, 1, 2, 5)),
                st.sampled_from((10, 15, 50)),
            ),
            st.booleans(),
        )
    )
)
def test_the_fitted_errors_are_those_of_the_highest_posterior_probability(cases: list[tuple[Opinion, bool]]) -> None:
    """Against the definition: no shift of any size makes the checked verdicts and the priors more probable."""
    errors = checked(cases)
    stated = [each.confidence for each, _ in cases if each.confidence is not None]
    usual = sum(stated) / len(stated) if stated else None
    levels = [each.level for each, _ in cases if each.level is not None]
    times = [each.seq for each, _ in cases]
    half = (max(times, default=0) - min(times, default=0)) / 2

    def log_odds(share: float) -> float:
        return log(share / (1 - share))

    def posterior(shifts: Mapping[Any, float]) -> float:
        total = -sum((value / SPREADS[name]) ** 2 / 2 for (name, _, _), value in shifts.items())
        for each, wrong in cases:
            unusual = 0.0 if each.confidence is None or usual is None else log_odds(each.confidence) - log_odds(usual)
            harder = 0.0 if each.level is None else each.level - sum(levels) / len(levels)
            later = round((each.seq - min(times)) / half - 1, 1) if half else 0.0
            found = log_odds(PRIORS["lm", "success"]) - CONFIDENCE_TRUST * unusual
            for (name, _, where), value in shifts.items():
                family = float(each.family == where)
                counts = {"judge": 1.0, "value": 1.0, "family": family, "confidence": unusual, "level": harder}
                found += value * (counts | {"time": later})[name]
            total -= log1p(exp(-found if wrong else found))
        return total

    best = posterior(errors.shifts)
    for shift in errors.shifts:
        for by in (-1.0, -0.1, 0.1, 1.0):
            assert posterior({**errors.shifts, shift: errors.shifts[shift] + by}) < best


@settings(max_examples=examples(20), deadline=None)
@given(histories, st.randoms(use_true_random=False))
def test_the_order_of_the_runs_changes_no_error(history: list[list[Opinion]], random: Random) -> None:
    other = history[:]
    random.shuffle(other)
    one, two = fitted_to(history), fitted_to(other)
    for each in (each for of_run in history for each in of_run):
        assert one.error(each) == pytest.approx(two.error(each), abs=1e-9)


def test_a_verdict_that_its_judge_took_back_is_no_opinion() -> None:
    """It neither stands against another verdict nor counts in the record of its judge."""
    judgments = [judged("a", "success"), judged("a", "undecided"), judged("a", "failure", "human")]
    opinions = opinions_of(judgments)
    assert set(opinions["a"]) == {("human-1", "human")}
    assert (("lm-1", "lm"), "success") not in fitted(opinions).records


# ---------------------------------------------------------------- the weight


@slow_to_make
@given(lives(PEOPLE))
def test_the_same_log_gives_the_same_order_by_falling_loss(ops: list[Op]) -> None:
    life = Life()
    for op in ops:
        life.do(op)
    found = doubts_at(life.bank, life.bank.position)
    log = life.log
    judgments = [each for each in log if isinstance(each, RunJudged | JudgmentOverruled)]
    assert doubtful_verdicts(fold(log), judgments) == found
    assert [(-round(each.loss, 9), each.seq) for each in found] == sorted(
        (-round(each.loss, 9), each.seq) for each in found
    )
    assert all(each.stake.items and each.kind != "human" for each in found)


@slow_to_make
@given(lives(PEOPLE))
def test_what_rests_on_a_verdict_is_what_the_fold_of_the_whole_log_drops(ops: list[Op]) -> None:
    """Against brute force: the log with the opposite verdict at its end, folded from the beginning."""
    life = Life()
    for op in ops:
        life.do(op)
    log, state = life.log, life.bank.state()
    for (run, purpose), standing in state.verdicts.items():
        if purpose != "learning" or standing.verdict == "undecided":
            continue
        other = replace(judged(run, OPPOSITE[standing.verdict], "human"), id="x", seq=state.position + 1)
        after = fold([*log, other])
        left = {id for id, it in state.items.items() if it.state == "active" and after.items[id].state != "active"}
        stake = stake_of(state, run, standing.verdict)
        assert set(stake.items) == left
        assert stake.uses == sum(len(state.uses.get(id, ())) for id in left)
        assert set(stake.runs) == {run for id in left for run in state.uses.get(id, ())}


def test_what_leaves_without_twins_is_what_a_dry_run_of_the_correction_says() -> None:
    with misled_bank("memory:") as bank:
        for each in doubts_at(bank, bank.position):
            tried = bank.overrule(each.run, OPPOSITE[each.verdict], reason="tried", dry_run=True)
            assert each.stake.items == tuple(change.id for change in tried.left)


# ---------------------------------------------------------------- the order


def test_what_does_not_fit_into_the_minutes_left_is_passed_over() -> None:
    assert within([2.0, 9.0, 3.0, 1.0], 6.0) == [0, 2, 3]
    assert within([2.0], 1.0) == [] == within([], 5.0)
