"""Sample sizes: whether few repetitions can show a difference at all, and how many would.

A permutation test of n pairs gives no p below 2^(1 - n): five repetitions never show anything at 5 %. How many would do
follows from the spread seen, which of few repetitions is uncertain itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

from msgspec import Struct

from rbank_es.lab.statistics import least_paired_p, special_function, t_quantile
from rbank_es.limits import experiment_limits

ALPHA = 0.05
"""The share of experiments without an effect that may seem to have one."""

POWER = 0.8
"""The share of experiments with the effect that are to show it."""


class SampleSize(Struct, frozen=True):
    """The power of n repetitions of each of two conditions, at a level `alpha` divided by the number of contrasts.

    to_reach        repetitions from which p can be small enough at all
    for_power       repetitions that would show `effect` in 80 % of experiments, given the standard deviation seen

    None where it can't be said: without a spread seen, for no effect, beyond 100,000.
    """

    n: int
    to_reach: int
    effect: float
    for_power: int | None


def sample_size(n: int, sd: float | None, effect: float, *, alpha: float = ALPHA) -> SampleSize:
    """Return the power of n repetitions for an effect, with a standard deviation of the differences."""
    powered = None if sd is None else repetitions_for_power(effect, sd, alpha=alpha)
    return SampleSize(n, repetitions_to_reach(alpha), effect, powered)


def repetitions_to_reach(alpha: float) -> int:
    """Return the fewest repetitions of each condition of which a permutation test can give a p up to alpha."""
    return next(n for n in count(1) if least_paired_p(n) <= alpha)


def power_of(n: int, effect: float, sd: float, *, alpha: float = ALPHA) -> float:
    """Return the power of a two-sided t-test of n pairs, at least 2, 0 to 1; `sd` is of their differences."""
    freedom, error = n - 1, sd / math.sqrt(n)
    if not error:
        return float(effect != 0) or alpha
    # The other tail is left out: it would add less than alpha / 2, and most where there is no effect.
    missed = float(special_function("nctdtr")(freedom, abs(effect) / error, t_quantile(1 - alpha / 2, freedom)))
    # Not a number comes where the chance to miss the effect is below 1e-200 (effects of 36 errors and more).
    return 1.0 if math.isnan(missed) else 1 - missed


def repetitions_for_power(effect: float, sd: float, *, alpha: float = ALPHA) -> int | None:
    """Return the fewest repetitions that show an effect in 80 % of experiments; None beyond 100,000.

    The power is that of the t-test, which the permutation test reaches as soon as its smallest p is below alpha.
    """
    first = max(2, repetitions_to_reach(alpha))
    return _fewest(lambda n: power_of(n, effect, sd, alpha=alpha) >= POWER, first)


def _fewest(is_enough: Callable[[int], bool], first: int) -> int | None:
    """Return the smallest number from `first` on that is enough, by halving: once enough, more are too."""
    if not is_enough(experiment_limits.NEEDED_REPETITIONS):
        return None
    low, high = first, experiment_limits.NEEDED_REPETITIONS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return low
