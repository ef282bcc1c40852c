"""Statistics of few repetitions: intervals, permutation tests, Holm's correction, effect sizes, pass@k.

A value is the number of one unit (`trial_units`): of whole trials, over all their tasks. Tasks of one bank are
not independent, because each run learns from those before it: a paired t-test over 60 tasks of one repetition, where
nothing differed, was significant in 30 of 150 tries at a level of 5 %.

Sums are exact (`math.fsum`) and samples are drawn by key: the order of values changes no digit of a result, and the
same values give the same digits on every machine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from operator import mul, sub
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rbank_es.system.extras import named_extra
from rbank_es.system.proportion import wilson

LEVEL = 0.95
"""The level of intervals."""

EXACT_ARRANGEMENTS = 2**14
"""Arrangements of its data up to which a permutation test tries all of them, in some 20 ms; it samples from more."""

SAMPLED_ARRANGEMENTS = 9_999
"""Arrangements that a permutation test samples: at p = 0.05 the standard error of p is 0.002."""

ROUNDING = 1e-12
"""Sums that differ by a smaller part of the sum of absolute values are equal but for rounding."""

DIGITS = 9
"""Decimals kept of special functions: releases of scipy and of C libraries differ in later ones."""


class Estimate(Struct, frozen=True):
    """The mean of `n` values, their standard deviation (divisor n - 1), and the interval of the mean.

    `sd` is None for a single value; `low` and `high` are None where the values tell of no spread, or of no finite end.
    """

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    level: float


# ---------------------------------------------------------------- means and intervals


def mean_of(values: Sequence[float]) -> float:
    """Return the mean. Raises ValueError for no values, and for one that is not finite."""
    if not values:
        raise ValueError("there is no mean of no values")
    if not all(map(math.isfinite, values)):
        raise ValueError("a value is no finite number")
    return math.fsum(values) / len(values)


def known_mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are there; None of nothing."""
    known = [float(value) for value in values if value is not None]
    return mean_of(known) if known else None


def sd_of(values: Sequence[float]) -> float:
    """Return the standard deviation of at least two values, with the divisor n - 1."""
    # Of equal values the mean may be rounded, and each would then seem to differ from it.
    if min(values) == max(values):
        return 0.0
    mean = mean_of(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def special_function(name: str) -> Callable[..., Any]:
    """Return a function of scipy.special. Raises MissingExtra if scipy is not installed."""
    with named_extra():
        import scipy.special
    function: Callable[..., Any] = getattr(scipy.special, name)
    return function


def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution, rounded to 9 decimals."""
    return round(float(special_function("stdtrit")(freedom, probability)), DIGITS)


def interval(values: Sequence[float]) -> Estimate | None:
    """Return the mean with its t interval; None of nothing.

    Values that are all equal have no interval: one without width would claim that no other value could have come.
    """
    if not values:
        return None
    n, mean = len(values), mean_of(values)
    sd = sd_of(values) if n > 1 else None
    if not sd:
        return Estimate(n, mean, sd, None, None, LEVEL)
    half = t_quantile((1 + LEVEL) / 2, n - 1) * sd / math.sqrt(n)
    return Estimate(n, mean, sd, mean - half, mean + half, LEVEL)


def share_interval(values: Sequence[float]) -> Estimate | None:
    """Return the mean of shares with its t interval, within 0 and 1; None of nothing.

    Shares that are all equal have Wilson's interval of as many cases as there are values: each could have been any
    share, so it counts as a single case, which is the least that it can tell. A single value has no interval.
    """
    found = within(interval(values), 0.0, 1.0)
    if found is None or found.sd != 0:
        return found
    low, high = wilson(found.mean * found.n, found.n) or (None, None)
    # Rounding may leave it just beyond either end.
    return within(replace(found, low=low, high=high), 0.0, 1.0)


def within(estimate: Estimate | None, low: float, high: float) -> Estimate | None:
    """Return an estimate with the ends of its interval kept within two bounds, which its values can't leave."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return estimate
    return replace(estimate, low=max(low, estimate.low), high=min(high, estimate.high))


def welch_interval(first: Sequence[float], second: Sequence[float]) -> Estimate | None:
    """Return the mean of the first group less that of the second, with Welch's interval; None if a group is empty.

    `n` is the size of the smaller group, `sd` the root of the mean variance. No ends where a group has a single value,
    or neither group any spread.
    """
    if not first or not second:
        return None
    n, difference = min(len(first), len(second)), mean_of(first) - mean_of(second)
    if n == 1:
        return Estimate(n, difference, None, None, None, LEVEL)
    variances = [sd_of(group) ** 2 for group in (first, second)]
    parts = [variance / len(group) for variance, group in zip(variances, (first, second), strict=True)]
    total = math.fsum(parts)
    if not total:
        return Estimate(n, difference, 0.0, None, None, LEVEL)
    # The degrees of freedom by Welch and Satterthwaite; of shares, because squares of variances may be no floats.
    one, other = ((part / total) ** 2 for part in parts)
    freedom = 1 / (one / (len(first) - 1) + other / (len(second) - 1))
    half = t_quantile((1 + LEVEL) / 2, freedom) * math.sqrt(total)
    return Estimate(n, difference, math.sqrt(mean_of(variances)), difference - half, difference + half, LEVEL)


def share_welch_interval(first: Sequence[float], second: Sequence[float]) -> Estimate | None:
    """Return the difference of the means of two groups of shares with its interval, within -1 and 1; None as there.

    Where neither group has any spread, the interval is Newcombe's of the two Wilson intervals (his method 10, 1998).
    """
    found = within(welch_interval(first, second), -1.0, 1.0)
    if found is None or found.sd != 0:
        return found
    ends = [(each.mean, each.low, each.high) for each in (share_interval(first), share_interval(second)) if each]
    (one, low, high), (other, other_low, other_high) = ends
    assert low is not None and high is not None and other_low is not None and other_high is not None
    down, up = math.hypot(one - low, other_high - other), math.hypot(high - one, other - other_low)
    return replace(within(replace(found, low=found.mean - down, high=found.mean + up), -1.0, 1.0) or found, sd=0.0)


def differences(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Return the first value less the second of each pair. Raises ValueError for unequal numbers of values."""
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values and {len(second)} are no pairs")
    return [*map(sub, first, second)]


# ---------------------------------------------------------------- tests


def least_paired_p(n: int) -> float:
    """Return the smallest two-sided p of a permutation test of n pairs: all signs as they are, or all flipped."""
    return 2.0 ** (1 - n) if n else 1.0


def paired_permutation(first: Sequence[float], second: Sequence[float], key: str) -> float:
    """Return the two-sided p value of whether the values of pairs differ, by flipping the signs of their differences.

    The hypothesis is that each difference is as likely as its opposite. Exact up to 14 pairs; beyond, 9,999 flips are
    drawn by key. Raises ValueError for unequal numbers of values.
    """
    # Sorted, because flips are drawn in order: the order of pairs must not change a sampled p.
    pairs = sorted(differences(first, second))
    if 2 ** len(pairs) <= EXACT_ARRANGEMENTS:
        extreme, count = _extreme(pairs, (map(mul, pairs, signs) for signs in product((1, -1), repeat=len(pairs))))
        return extreme / count
    random = Random(key)
    drawn = ([one if random.random() < 0.5 else -one for one in pairs] for _ in range(SAMPLED_ARRANGEMENTS))
    extreme, count = _extreme(pairs, drawn)
    # The data themselves count as one more: otherwise p could be 0, and would be too small on average (Phipson and
    # Smyth, 2010).
    return (extreme + 1) / (count + 1)


def _extreme(values: Sequence[float], arrangements: Iterable[Iterable[float]]) -> tuple[int, int]:
    """Count the arrangements whose sum is at least as far from 0 as that of the values, and all arrangements."""
    far = abs(math.fsum(values)) - ROUNDING * math.fsum(map(abs, values))
    found = Counter(abs(math.fsum(each)) >= far for each in arrangements)
    return found[True], found.total()


def holm(p_values: Sequence[float]) -> list[float]:
    """Return each p value corrected for all of them, in their order (Holm, 1979).

    Call those up to alpha significant: at most a share alpha of experiments then has one that is not, however the tests
    depend on each other.
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        # Never below that of a smaller p: Holm's method rejects in order, and stops at the first that it keeps.
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[at]))
        corrected[at] = largest
    return corrected


# ---------------------------------------------------------------- rollouts


def pass_at_k(n: int, right: int, k: int) -> float:
    """Return the chance that any of k rollouts succeeds, estimated without bias from n of which some were right.

    1 - C(n - right, k) / C(n, k) (Chen et al., 2021). Raises ValueError unless 0 <= right <= n and 1 <= k <= n.
    """
    if not (0 <= right <= n and 1 <= k <= n):
        raise ValueError(f"pass@{k} can't be estimated from {right} right of {n} rollouts")
    return 1 - math.comb(n - right, k) / math.comb(n, k)
