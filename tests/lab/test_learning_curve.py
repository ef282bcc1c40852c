"""Learning curves worked by hand, and on trials that learn as it is known that they do."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("scipy", reason="the extra [lab] is not installed")

from rbank_es.lab.learning_curve import gain, gap_by_position, learning_curve, mean_by_position, windowed
from rbank_es.lab.statistics import known_mean


def test_windows_area_and_gain_worked_by_hand() -> None:
    values = [0, 0, 1, None, 1]
    assert windowed(values, 2) == [0, 0.5, 1, 1] and windowed(values, 6) == []
    assert known_mean(values) == 0.5 and known_mean([None]) is None
    assert gain(values) == 1 and gain([0, 1, 1, 0, 1, 1]) == pytest.approx(0) and gain([1]) is None
    with pytest.raises(ValueError, match="window"):
        windowed(values, 0)


def test_a_position_is_averaged_over_orders_before_repetitions_are() -> None:
    assert mean_by_position([[0, 1], [1, 1, 0], [None, 0, None]]) == [0.5, pytest.approx(2 / 3), 0]
    assert mean_by_position([[None], [None]]) == [None] and mean_by_position([]) == []


def test_a_curve_has_an_interval_over_repetitions_at_each_window() -> None:
    found = learning_curve([[0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]], width=2)
    assert [point.position for point in found.points] == [2, 3, 4]
    assert [point.value.mean for point in found.points] == pytest.approx([1 / 6, 1 / 2, 5 / 6])
    assert {point.value.n for point in found.points} == {3}
    assert found.area is not None and found.area.mean == pytest.approx(0.5)
    assert found.gain is not None and found.gain.mean == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert learning_curve([[1.0] * 60]).width == 6 and learning_curve([]).points == ()


def test_a_life_that_ended_early_counts_as_far_as_it_went() -> None:
    found = learning_curve([[0, 1, 1], [0, 1]], width=1)
    assert [point.value.n for point in found.points] == [2, 2, 1]


def test_the_gap_to_a_baseline_is_free_of_what_the_order_does() -> None:
    """Hard tasks first: both conditions seem to learn, and only one does."""
    random, hard_first = Random(7), [0.2] * 30 + [0.7] * 30
    learned, fixed = [], []
    for _ in range(12):
        luck = [random.random() for _ in hard_first]
        fixed.append([float(one < chance) for one, chance in zip(luck, hard_first, strict=True)])
        learned.append(
            [float(one < chance + at / 300) for at, (one, chance) in enumerate(zip(luck, hard_first, strict=True))]
        )
    seeming, real = learning_curve(fixed).gain, learning_curve([*map(gap_by_position, learned, fixed)])
    assert seeming is not None and seeming.low is not None and seeming.low > 0.3
    assert real.gain is not None and real.gain.low is not None and real.gain.low > 0.03 and real.gain.mean < 0.17
    assert learning_curve([*map(gap_by_position, fixed, fixed)]).gain.mean == 0  # type: ignore[union-attr]
    assert gap_by_position([1, None, 0, 1], [0, 1, None]) == [1, None, None]


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 0.3, None]), max_size=12), max_size=5), st.randoms())
def test_the_order_of_repetitions_changes_no_digit_of_a_curve(
    repetitions: list[list[float | None]], random: Random
) -> None:
    shuffled = random.sample(repetitions, len(repetitions))
    assert learning_curve(shuffled) == learning_curve(repetitions)
    assert mean_by_position(shuffled) == mean_by_position(repetitions)
