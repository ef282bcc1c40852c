"""Statistics against cases worked by hand, other definitions, and simulated truth; the order of values is nothing."""

import math
import sys
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("scipy", reason="the extra [lab] is not installed")

from rbank_es.errors import MissingExtra
from rbank_es.lab.sample_size import (
    power_of,
    repetitions_for_power,
)
from rbank_es.lab.statistics import (
    holm,
    interval,
    mean_of,
    paired_permutation,
    pass_at_k,
    sd_of,
    share_interval,
    share_welch_interval,
    welch_interval,
)

numbers = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 3))


# ---------------------------------------------------------------- intervals


shares = st.lists(st.integers(0, 12).map(lambda right: right / 12), min_size=2, max_size=9)


@given(shares, shares)
def test_intervals_of_shares_and_of_their_differences_stay_in_their_bounds_and_have_a_width(
    first: list[float], second: list[float]
) -> None:
    """As scipy's within the bounds; where all are alike, Wilson's, worked from its formula."""
    from scipy import stats

    found = share_interval(first)
    assert found is not None and found.low is not None and found.high is not None
    assert 0 <= found.low <= found.mean + 1e-12 and found.mean - 1e-12 <= found.high <= 1 and found.low < found.high
    n = len(first)
    if sd_of(first):
        low, high = stats.t.interval(0.95, n - 1, loc=mean_of(first), scale=sd_of(first) / math.sqrt(n))
        assert (found.low, found.high) == pytest.approx((max(0, low), min(1, high)), abs=1e-8)
    else:
        z, p = stats.norm.ppf(0.975), first[0]
        middle, half = (p + z * z / 2 / n), z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n)
        ends = ((middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n))
        assert (found.low, found.high) == pytest.approx(ends, abs=1e-5)
    between = share_welch_interval(first, second)
    assert between is not None and between.low is not None and between.high is not None
    assert -1 <= between.low < between.high <= 1
    assert between.low <= between.mean + 1e-12 and between.mean - 1e-12 <= between.high


def test_a_value_that_is_no_number_is_refused() -> None:
    for values in ([1.0, math.nan], [math.inf], []):
        with pytest.raises(ValueError, match="number|no values"):
            mean_of(values)


tied = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1 / 3, 1.0, 1e-9, 1e6]) | numbers


@pytest.mark.slow  # scipy.stats takes a second to load
@pytest.mark.filterwarnings("ignore:Precision loss")
@given(*[st.lists(tied, min_size=2, max_size=8)] * 2)
def test_intervals_are_those_of_scipy(first: list[float], second: list[float]) -> None:
    """Of values with ties; scipy gives no interval where all values are equal."""
    from scipy import stats

    size = max(map(abs, [*first, *second]))
    spreads = [max(group) - min(group) > 1e-6 * size for group in (first, second)]
    near = {"rel": 1e-6, "abs": 1e-6 * size}
    if spreads[0]:
        low, high = stats.t.interval(0.95, len(first) - 1, loc=mean_of(first), scale=stats.sem(first))
        found = interval(first)
        assert found is not None and (found.low, found.high) == pytest.approx((low, high), **near)
    if any(spreads):
        wanted = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
        between = welch_interval(first, second)
        assert between is not None and (between.low, between.high) == pytest.approx((wanted.low, wanted.high), **near)


@given(st.lists(numbers, min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_the_order_of_repetitions_changes_no_digit(values: list[float], random: Random) -> None:
    other = random.sample(values, len(values))
    pairs = [*zip(values, other, strict=True)]
    shuffled = random.sample(pairs, len(pairs))
    assert interval(values) == interval(other)
    assert welch_interval(values, other) == welch_interval(other, values)
    first, second = (list(side) for side in zip(*shuffled, strict=True))
    assert paired_permutation(first, second, "k") == paired_permutation(values, other, "k")


def test_the_order_of_repetitions_changes_no_sampled_digit() -> None:
    random = Random(1)
    pairs = [(random.gauss(0, 1), random.gauss(0.4, 1)) for _ in range(15)]
    results = set()
    for _ in range(2):
        random.shuffle(pairs)
        first, second = (list(side) for side in zip(*pairs, strict=True))
        results.add(paired_permutation(first, second, "k"))
    assert len(results) == 1


# ---------------------------------------------------------------- tests


def test_sums_that_differ_by_rounding_alone_are_ties() -> None:
    """0.3 - 0.1 and 0.1 - (-0.1) are two fifths in the books and not in the machine."""
    first, second = [0.3, 0.1, 0.7, 0.9], [0.1, -0.1, 0.9, 0.7]
    assert len({one - other for one, other in zip(first, second, strict=True)}) > 2
    # Differences .2, .2, -.2, .2: the sum is as far from 0 as it is, or farther, with 0, 1, 3 or 4 signs flipped.
    assert paired_permutation(first, second, "key") == 10 / 16


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=7))
def test_permutation_tests_equal_their_definition(pairs: list[tuple[int, int]]) -> None:
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    gaps = [one - other for one, other in pairs]
    flipped = [abs(sum(map(math.prod, zip(gaps, signs, strict=True)))) for signs in product((1, -1), repeat=len(gaps))]
    assert paired_permutation(first, second, "k") == sum(x >= abs(sum(gaps)) for x in flipped) / len(flipped)


def test_a_sampled_test_is_near_the_exact_one_and_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(5)
    first, second = [random.gauss(0, 1) for _ in range(12)], [random.gauss(0.6, 1) for _ in range(12)]
    exact = paired_permutation(first, second, "k")
    monkeypatch.setattr("rbank_es.lab.statistics.EXACT_ARRANGEMENTS", 1)
    sampled = paired_permutation(first, second, "k")
    assert sampled != paired_permutation(first, second, "other key")
    assert abs(sampled - exact) < 4 * math.sqrt(sampled * (1 - sampled) / 9_999) < 0.02
    assert paired_permutation([float(n) for n in range(1, 40)], [0.0] * 39, "k") == 1 / 10_000


def test_values_of_unequal_number_are_no_pairs() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        paired_permutation([1.0], [1.0, 2.0], "k")


@given(st.lists(st.sampled_from([0.0, 0.01, 0.02, 0.05, 0.2, 1.0]), max_size=5))
def test_holm_is_the_closed_test_of_bonferroni_also_with_ties(p_values: list[float]) -> None:
    """The largest p, over all sets of hypotheses that hold one, of the set's smallest p times its size."""
    for at, corrected in enumerate(holm(p_values)):
        others = [p for number, p in enumerate(p_values) if number != at]
        sets = [[p_values[at], *chosen] for size in range(len(p_values)) for chosen in combinations(others, size)]
        assert corrected == pytest.approx(max(min(1.0, len(each) * min(each)) for each in sets))


# ---------------------------------------------------------------- rollouts


@given(st.integers(1, 7), st.data())
def test_pass_at_k_equals_the_mean_over_all_choices(n: int, data: st.DataObject) -> None:
    scores = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    k = data.draw(st.integers(1, n))
    bests = [max(chosen) for chosen in combinations(scores, k)]
    assert pass_at_k(n, sum(scores), k) == pytest.approx(sum(bests) / len(bests))


def test_rollouts_worked_by_hand() -> None:
    assert pass_at_k(5, 2, 3) == 0.9 and pass_at_k(4, 1, 1) == 0.25 and pass_at_k(3, 0, 3) == 0
    for n, right, k in ((2, 1, 3), (2, 3, 1), (2, -1, 1), (2, 1, 0)):
        with pytest.raises(ValueError, match="estimated"):
            pass_at_k(n, right, k)


# ---------------------------------------------------------------- sample sizes


def test_sample_sizes_equal_the_published_ones() -> None:
    """Cohen's tables, and those of G*Power: two-sided 5 %, power 80 %."""
    assert [repetitions_for_power(d, 1) for d in (0.2, 0.5, 0.8)] == [199, 34, 15]
    assert power_of(34, 0.5, 1) == pytest.approx(0.8078, abs=0.0005)
    assert [power_of(n, 14, 1) for n in (6, 7, 8, 9, 50)] == [1] * 5 and repetitions_for_power(14, 1) == 6


@pytest.mark.slow
def test_the_power_equals_that_of_simulated_t_tests() -> None:
    import numpy
    from scipy import stats

    generator = numpy.random.default_rng(4)
    for n, effect in ((5, 1.5), (12, 0.7)):
        pairs = generator.normal(effect, 1, (20_000, n))
        shown = float(numpy.mean(stats.ttest_1samp(pairs, 0, axis=1).pvalue <= 0.05))
        assert power_of(n, effect, 1) == pytest.approx(shown, abs=0.012)


def test_without_scipy_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scipy", "scipy.special"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"rbank-es\[lab\]"):
        interval([1.0, 2.0])
    assert paired_permutation([1.0, 2.0], [0.0, 0.0], "k") == 0.5 and holm([0.01, 0.5]) == [0.02, 0.5]
