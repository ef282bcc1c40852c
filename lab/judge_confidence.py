"""Confidence: from which confidence on a model's verdicts may be accepted, so that few of the accepted are wrong.

The least threshold is sought from the strictest down, in a fixed sequence: at each one, the hypothesis that more than
`alpha` of the accepted verdicts are wrong is tested (exact binomial, at level `DELTA`), and the first that can't be
refused ends the sequence. Thresholds that accept too few cases for any such test are passed over. So a threshold that
is found holds for new cases of the same kind with probability 1 - `DELTA` (source: Angelopoulos et al., Learn then
Test, arXiv:2110.01052).

Not split conformal prediction, nor conformal risk control: these bound the share of all verdicts that are accepted and
wrong, on average, and need a loss that is monotone in the threshold. The share of errors among the accepted is not.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

DELTA = 0.1
"""The probability that a threshold accepts more errors than it promises."""

_LEAST_LOGARITHM = -700.0
"""The logarithm from which on a float keeps all of its digits: the least such float is e**-708."""


class Graded(NamedTuple):
    """A decided verdict of a labelled case: its confidence, 0 to 1, and whether the expert disagrees."""

    confidence: float
    wrong: bool


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """A threshold of confidence for an `alpha`.

    `confidence` is None where no threshold is good enough. `graded` counts the verdicts with a confidence, `accepted`
    those of them at the threshold or above, of which `wrong` are wrong.
    """

    alpha: float
    confidence: float | None
    graded: int = 0
    accepted: int = 0
    wrong: int = 0
    needed: int = 0
    """The least number of accepted cases, none of them wrong, that can show it."""


def threshold_for(cases: Iterable[Graded], alpha: float) -> Threshold:
    """Return the least threshold of confidence for which at most `alpha` of the accepted verdicts are wrong."""
    graded = sorted(cases, key=lambda case: (-case.confidence, case.wrong))
    least = _least(graded, alpha)
    accepted = [case for case in graded if least is not None and case.confidence >= least]
    return Threshold(
        alpha=alpha,
        confidence=least,
        graded=len(graded),
        accepted=len(accepted),
        wrong=sum(case.wrong for case in accepted),
        needed=_needed(alpha),
    )


def _least(graded: Sequence[Graded], alpha: float) -> float | None:
    """Return the last threshold of the sequence whose hypothesis is refused; the cases come by falling confidence."""
    best, wrong, needed = None, 0, _needed(alpha)
    for number, case in enumerate(graded, 1):
        wrong += case.wrong
        # Cases of one confidence are accepted together.
        if number < len(graded) and graded[number].confidence == case.confidence:
            continue
        if number < needed:
            continue
        if wrong > _most_wrong(number, alpha):
            break
        best = case.confidence
    return best


def _needed(alpha: float) -> int:
    # Bounded, because for an alpha near the least float there is no such number: the quotient is infinite.
    return math.ceil(min(math.log(DELTA) / math.log1p(-alpha), sys.maxsize))


@cache
def _most_wrong(accepted: int, alpha: float) -> int:
    """Return the most errors among so many at which a rate over `alpha` is refused, -1 if none is few enough."""
    logarithm, most = accepted * math.log1p(-alpha), -1
    # What is below the range of floats adds nothing to the sum, and a term of 0 would make all terms after it 0.
    while logarithm < _LEAST_LOGARITHM:
        most += 1
        logarithm += math.log((accepted - most) / (most + 1)) + math.log(alpha) - math.log1p(-alpha)
    term = (1 - alpha) ** accepted if most < 0 else math.exp(logarithm)
    total = term
    while total <= DELTA:
        most += 1
        term *= (accepted - most) / (most + 1) * alpha / (1 - alpha)
        total += term
    return most
