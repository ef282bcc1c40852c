"""Proportions: the interval of a share, and of the difference of shares in several strata; how many cases show one.

All of it describes counts. A difference between cases that were not assigned at random has causes of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

Z = 1.959964
"""The quantile of the normal distribution for two-sided intervals of 95 %."""


def wilson(part: float, whole: int) -> tuple[float, float] | None:
    """Return the Wilson interval of a share at 95 %, each end 0 to 1; None of nothing."""
    if not whole:
        return None
    share, spread = part / whole, Z * Z / whole
    middle = (share + spread / 2) / (1 + spread)
    half = Z * math.sqrt(share * (1 - share) / whole + spread / (4 * whole)) / (1 + spread)
    # Exact at the ends, where rounding would rank items without a win by noise.
    return middle - half if part else 0.0, middle + half if part < whole else 1.0


def wilson_end(part: float, whole: int, upper: int) -> float | None:
    """Return the upper or the lower end of the Wilson interval, with four digits; None of nothing. For SQL."""
    found = wilson(part, whole)
    return None if found is None else round(found[upper], 4)


def percent(share: float) -> str:
    """Return a share in whole per cent, such as "13%"; halves are rounded up, as the page rounds them."""
    return f"{_whole_percent(share)}%"


def points(difference: float) -> str:
    """Return a difference of shares in whole points with its sign, such as "+13"; halves are rounded up."""
    return f"{_whole_percent(difference):+d}"


def rounded(share: float | None) -> float | None:
    """Return a share with six digits: no share of fewer than 5,000 becomes a half that it is not."""
    return None if share is None else round(share, 6)


def _whole_percent(share: float) -> int:
    # Not by a format, which rounds 12.5 to the even 12.
    return math.floor(100 * share + 0.5)


def proven_share(part: int, whole: int) -> float:
    """Return the lower end of the Wilson interval: the share that is shown with confidence, 0 of nothing."""
    found = wilson(part, whole)
    return 0.0 if found is None else found[0]


Z_POWER = 0.841621
"""The quantile of the normal distribution for a power of 80 %."""


class Stratum(NamedTuple):
    """Counts of two groups of cases that are alike otherwise: successes and cases of each."""

    first_part: int
    first: int
    second_part: int
    second: int


class ShareDifference(NamedTuple):
    """The first group's share less the second's, with its interval at 95 %."""

    value: float
    low: float
    high: float


def matched(strata: Iterable[Stratum]) -> int:
    """Return the size of two equal groups that would tell as much as these: the harmonic means, added up."""
    return math.floor(sum(2 * each.first * each.second / (each.first + each.second) for each in strata))


def share_difference(strata: Sequence[Stratum]) -> ShareDifference:
    """Return the difference of two groups' shares over strata that have cases of both, at least one.

    The Mantel-Haenszel estimate, which weights strata by n1 * n2 / (n1 + n2). The variance is Sato's, which holds for
    many small strata too (Sato, Biometrics 45 (1989) 1323).
    """
    weight = value = slope = rest = 0.0
    for x, n, y, m in strata:
        total = n + m
        weight += n * m / total
        value += (x * m - y * n) / total
        slope += (n * n * y - m * m * x + n * m * (m - n) / 2) / total**2
        rest += (x * (m - y) + y * (n - x)) / (2 * total)
    value /= weight
    half = Z * math.sqrt(max(0.0, value * slope + rest)) / weight
    return ShareDifference(value, max(-1.0, value - half), min(1.0, value + half))


def cases_needed(rate: float, difference: float) -> int:
    """Return the cases in each of two groups that show a difference from a rate: two-sided 5 %, power 80 %.

    The usual formula for two independent shares, (z1 + z2)² (p (1 - p) + q (1 - q)) / (p - q)², with q on the side
    of 1/2, where more cases are needed.
    """
    other = rate + difference if rate < 0.5 else rate - difference
    variance = rate * (1 - rate) + other * (1 - other)
    return math.ceil((Z + Z_POWER) ** 2 * variance / difference**2)


class Share(Struct, frozen=True):
    """A part of a whole, both counts."""

    part: int
    whole: int

    @property
    def rate(self) -> float | None:
        """The part per whole, 0 to 1; None of nothing."""
        return self.part / self.whole if self.whole else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The Wilson interval of the rate at 95 %; None of nothing."""
        return wilson(self.part, self.whole)
