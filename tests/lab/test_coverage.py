"""The statistics on simulated truth, and beside scipy's: coverage of intervals, power, bias of effect sizes."""

import math
from collections.abc import Callable
from random import Random

import pytest

pytest.importorskip("scipy", reason="the extra [lab] is not installed")
import numpy
from scipy import stats

from rbank_es.lab.contrast import sides_of
from rbank_es.lab.sample_size import power_of
from rbank_es.lab.statistics import hedges_g, interval

pytestmark = pytest.mark.slow

DRAWS: dict[str, tuple[Callable[[Random], float], float]] = {
    "normal": (lambda random: random.gauss(0, 1), 0.0),
    "skewed (exponential)": (lambda random: random.expovariate(1), 1.0),
    "bounded, 0 to 1 (beta 8, 1)": (lambda random: random.betavariate(8, 1), 8 / 9),
}


def coverage(name: str, n: int, tries: int) -> float:
    """The share of intervals of n simulated values that hold the true mean."""
    draw, truth = DRAWS[name]
    random, held = Random(f"{name} {n}"), 0
    for _ in range(tries):
        found = interval([draw(random) for _ in range(n)])
        assert found is not None and found.low is not None and found.high is not None
        held += found.low <= truth <= found.high
    return held / tries


def test_trials_of_one_order_are_no_units_of_their_own() -> None:
    """Where conditions are equal on average, and an order may suit one of them: 6 orders of 4 repetitions each."""
    random, tries, wrong = Random(8), 1_000, {"trial": 0, "unit": 0}
    for _ in range(tries):
        suits = [random.gauss(0, 1) for _ in range(6)]
        gaps = {(order, at): suits[order] + random.gauss(0, 1) for order in range(6) for at in range(4)}
        units = sides_of(gaps, dict.fromkeys(gaps, 0.0))
        assert units.unit == "order"
        for name, values in (("trial", [*gaps.values()]), ("unit", units.condition)):
            found = interval(values)
            assert found is not None and found.low is not None and found.high is not None
            wrong[name] += not found.low <= 0 <= found.high
    assert wrong["unit"] / tries < 0.05 + 3 * math.sqrt(0.05 * 0.95 / tries) and wrong["trial"] / tries > 0.2


def test_the_power_equals_that_of_simulated_t_tests() -> None:
    generator = numpy.random.default_rng(4)
    for n, effect in ((5, 1.5), (12, 0.7)):
        pairs = generator.normal(effect, 1, (20_000, n))
        shown = float(numpy.mean(stats.ttest_1samp(pairs, 0, axis=1).pvalue <= 0.05))
        assert power_of(n, effect, 1) == pytest.approx(shown, abs=0.012)


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9])
def test_the_effect_size_of_few_pairs_is_right_on_average(shared: float) -> None:
    """Of 5 pairs with an effect of one standard deviation, at any correlation; without the correction 1.2 or more."""
    random, tries, found = Random(6), 4_000, []
    for _ in range(tries):
        common = [random.gauss(0, math.sqrt(shared)) for _ in range(5)]
        first, second = ([at + each + random.gauss(0, math.sqrt(1 - shared)) for each in common] for at in (1, 0))
        found.append(hedges_g(first, second) or 0.0)
    assert math.fsum(found) / tries == pytest.approx(1, abs=0.07)
