"""The figures of a judge, against values worked out by hand, and where there is nothing to make them of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.judging.calibration import Metrics


def metrics(tp: int = 0, fp: int = 0, fn: int = 0, tn: int = 0) -> Metrics:
    return Metrics(true_positive=tp, false_positive=fp, false_negative=fn, true_negative=tn)


def test_the_figures_of_an_ordinary_table() -> None:
    """Worked out by hand: 20 agree on success, 15 on failure, of 50; chance agreement is 0.5."""
    found = metrics(tp=20, fp=5, fn=10, tn=15)
    assert found.cases == 50
    assert found.accuracy == pytest.approx(35 / 50)
    assert found.precision == pytest.approx(20 / 25)
    assert found.recall == pytest.approx(20 / 30)
    assert found.f1 == pytest.approx(8 / 11)
    assert found.kappa == pytest.approx(0.4)


def test_a_judge_worse_than_chance_has_a_negative_kappa() -> None:
    assert metrics(fp=1, fn=1).kappa == -1.0
    assert metrics(fp=1, fn=1).f1 == 0.0


@pytest.mark.parametrize(
    ("found", "accuracy", "precision", "recall", "f1", "kappa"),
    [
        (metrics(), None, None, None, None, None),
        (metrics(tn=4), 1.0, None, None, None, None),
        (metrics(tp=4), 1.0, 1.0, 1.0, 1.0, None),
        (metrics(fp=2), 0.0, 0.0, None, 0.0, 0.0),
        (metrics(fn=2), 0.0, None, 0.0, 0.0, 0.0),
        (metrics(tp=1, tn=1), 1.0, 1.0, 1.0, 1.0, 1.0),
        (metrics(fn=1, tn=1), 0.5, None, 0.0, 0.0, 0.0),
    ],
)
def test_a_figure_that_has_nothing_to_be_made_of_is_none(
    found: Metrics,
    accuracy: float | None,
    precision: float | None,
    recall: float | None,
    f1: float | None,
    kappa: float | None,
) -> None:
    figures = (found.accuracy, found.precision, found.recall, found.f1, found.kappa)
    assert figures == (accuracy, precision, recall, f1, kappa)


def test_pairs_are_what_the_judge_said_then_what_the_expert_said() -> None:
    assert Metrics.of([(True, False)] * 2 + [(False, True)] + [(True, True)] * 3) == metrics(tp=3, fp=2, fn=1)


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
