"""Learning curves worked by hand, and on trials that learn as it is known that they do."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("scipy", reason="the extra [lab] is not installed")

from rbank_es.lab.learning_curve import gain, learning_curve, mean_by_position, windowed
from rbank_es.lab.statistics import known_mean


def test_windows_area_and_gain_worked_by_hand() -> None:
    values = [0, 0, 1, None, 1]
    assert windowed(values, 2) == [0, 0.5, 1, 1] and windowed(values, 6) == []
    assert known_mean(values) == 0.5 and known_mean([None]) is None
    assert gain(values) == 1 and gain([0, 1, 1, 0, 1, 1]) == pytest.approx(0) and gain([1]) is None
    with pytest.raises(ValueError, match="window"):
        windowed(values, 0)


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 0.3, None]), max_size=12), max_size=5), st.randoms())
def test_the_order_of_repetitions_changes_no_digit_of_a_curve(
    repetitions: list[list[float | None]], random: Random
) -> None:
    shuffled = random.sample(repetitions, len(repetitions))
    assert learning_curve(shuffled) == learning_curve(repetitions)
    assert mean_by_position(shuffled) == mean_by_position(repetitions)
