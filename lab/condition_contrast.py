"""Contrasts: pairs of conditions that an experiment declared beforehand, tested over independent units.

Units are repetitions, or orders of the tasks (`trial_units`). Conditions are paired by unit, because they share orders
and random numbers. A unit counts if each of its trials has a value in both conditions; others are named, and left out.

Only declared contrasts are tested, and their p values corrected for their number. What they don't cover is description.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rbank_es.lab.sample_size import ALPHA, SampleSize, sample_size
from rbank_es.lab.statistics import (
    Estimate,
    differences,
    holm,
    interval,
    mean_of,
    paired_permutation,
    share_interval,
    within,
)
from rbank_es.lab.trial_units import TrialKey, Unit, by_unit, unit_number, unit_of
from rbank_es.limits import experiment_limits

Finding = Literal["better", "worse", "equal", "too few", "undecided"]

TrialValues = Mapping[TrialKey, float | None]
"""The values of a metric in the trials of one condition; None where a trial has none."""


class Contrast(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A declared comparison: a condition with its baseline, in one metric.

    `less` is another such pair: then the difference of the first, less that of the other, is what is compared. So it
    answers whether one gains more over its baseline than the other over its own (an interaction). `smallest` is the
    smallest difference that would matter, in the metric's unit; with it, a contrast can also show that there is none as
    large.
    """

    condition: str
    baseline: str
    metric: str
    smallest: float | None = None
    less: tuple[str, str] | None = None


class ContrastResult(Struct, frozen=True, kw_only=True):
    """The evidence of the repetitions about a contrast.

    condition, baseline  the means of both sides; of an interaction, those of the two differences
    n               units, which are pairs
    left_out        units without a value in one of the conditions
    difference      the mean of the condition less that of the baseline, in the metric's unit, with its interval
    gain            that mean in the direction that is better: below 0, the condition is worse
    p, p_holm       of the permutation test: by itself, and corrected for all declared contrasts
    size            what so many units can show of the smallest difference that matters, or else of the one seen
    finding         better, worse: p_holm is at most alpha. equal: the interval lies within the smallest difference that
                    matters, or no unit differs. too few: more units would be needed. undecided: none of these
    """

    contrast: Contrast
    unit: Unit
    n: int
    left_out: tuple[int, ...]
    condition: Estimate | None
    baseline: Estimate | None
    difference: Estimate | None
    gain: float | None
    p: float | None
    p_holm: float | None = None
    size: SampleSize
    finding: Finding = "too few"


# ---------------------------------------------------------------- from trials to units


class Sides(NamedTuple):
    """The values of the units of both conditions, in pairs, and the units left out."""

    unit: Unit
    condition: list[float]
    baseline: list[float]
    left_out: tuple[int, ...]


def sides_of(condition: TrialValues, baseline: TrialValues) -> Sides:
    """Return the values of two conditions by unit, in pairs."""
    trials = condition.keys() | baseline.keys()
    unit = unit_of(trials)
    one, other = (by_unit(values, trials, unit, mean_of) for values in (condition, baseline))
    left_out = {unit_number(trial, unit) for trial in trials}.difference(one.keys() & other.keys())
    kept, theirs = ([means[number] for number in means if number not in left_out] for means in (one, other))
    return Sides(unit, kept, theirs, tuple(sorted(left_out)))


# ---------------------------------------------------------------- results


def contrast_results(
    contrasts: Sequence[Contrast],
    values: Mapping[str, Mapping[str, TrialValues]],
    *,
    less_is_better: Collection[str] = (),
    shares: Collection[str] = (),
) -> list[ContrastResult]:
    """Return the result of each declared contrast, from the values of trials by metric and condition.

    `less_is_better` names the metrics of which less is better, `shares` those whose values are within 0 and 1.
    Raises KeyError for a contrast in a metric that has no values at all.
    """
    measured = [
        _measured(
            contrast,
            values[contrast.metric],
            sign=-1 if contrast.metric in less_is_better else 1,
            # The strictest level of Holm's method, because which contrast meets it is not known beforehand.
            alpha=ALPHA / len(contrasts),
            # How far a value can be from another one: a share, or the difference of two.
            most=math.inf if contrast.metric not in shares else 1.0 if contrast.less is None else 2.0,
        )
        for contrast in contrasts
    ]
    # A contrast without values counts too, because it was declared.
    corrected = holm([1.0 if each.p is None else each.p for each in measured])
    results = [replace(each, p_holm=p) for each, p in zip(measured, corrected, strict=True)]
    return [replace(each, finding=_finding(each)) for each in results]


def _measured(
    contrast: Contrast, values: Mapping[str, TrialValues], *, sign: int, alpha: float, most: float
) -> ContrastResult:
    """Return all of a contrast but what depends on the other contrasts; `sign` is -1 if less is better."""
    pair = (contrast.condition, contrast.baseline)
    # Of an interaction, the two sides are differences already, in pairs by unit as values are.
    condition, baseline = (
        (values.get(name, {}) for name in pair)
        if contrast.less is None
        else (_difference(values, each) for each in (pair, contrast.less))
    )
    unit, one, other, left_out = sides_of(condition, baseline)
    n, difference = len(one), within(interval(differences(one, other)), -most, most)
    side = share_interval if most == 1.0 else interval
    effect = contrast.smallest or (abs(difference.mean) if difference else 0.0)
    return ContrastResult(
        contrast=contrast,
        unit=unit,
        n=n,
        left_out=left_out,
        condition=side(one),
        baseline=side(other),
        difference=difference,
        gain=sign * difference.mean if difference else None,
        p=paired_permutation(one, other, contrast.metric) if n else None,
        size=sample_size(n, difference.sd if difference else None, effect, alpha=alpha),
    )


def _difference(values: Mapping[str, TrialValues], pair: tuple[str, str]) -> TrialValues:
    """Return the values of a condition less those of another, by trial; None where either has none."""
    one, other = (values.get(name, {}) for name in pair)
    return {
        trial: None if (a := one.get(trial)) is None or (b := other.get(trial)) is None else a - b
        for trial in one.keys() | other.keys()
    }


def _finding(result: ContrastResult) -> Finding:
    difference, smallest = result.difference, result.contrast.smallest or 0.0
    if difference is None or difference.sd is None:
        return "too few"
    if result.p_holm is not None and result.p_holm <= ALPHA:
        return "better" if (result.gain or 0.0) > 0 else "worse"
    # No interval where all differences are equal: that they are 0 in so many units is said, and no more than that.
    ends = [abs(end) for end in (difference.low, difference.high) if end is not None]
    if (ends and max(ends) < smallest) or difference.mean == difference.sd == 0:
        return "equal"
    enough = result.size.for_power
    return "undecided" if enough is not None and result.n >= enough else "too few"


def conclusion(result: ContrastResult) -> str:
    """Return the finding in one sentence, with the number of units that would do where there are too few."""
    n, difference, size = f"{result.n} {result.unit}{'' if result.n == 1 else 's'}", result.difference, result.size
    if difference is None:
        return f"too few to say: no {result.unit} has values of both conditions"
    p, effect = f"p = {result.p_holm:.2g} by Holm's correction, {n}", f"a difference of {size.effect:.3g}"
    if result.finding in ("better", "worse"):
        return f"{result.finding} by {abs(difference.mean):.3g} ({p})"
    if result.finding == "equal" and difference.sd == 0:
        return f"equal in each of {n}"
    if result.finding == "equal":
        return f"equal but for less than {size.effect:.3g} ({n})"
    if result.finding == "undecided":
        return f"undecided: not shown, though {size.for_power} would show {effect} in 4 of 5 experiments ({p})"
    if difference.sd is None:
        return f"too few to say ({p}): at least {size.to_reach} are needed"
    if size.for_power is None:
        most = experiment_limits.NEEDED_REPETITIONS
        return f"too few to say ({p}): {effect} is so small that over {most:,} would be needed"
    return f"too few to say ({p}): {size.for_power} would show {effect} in 4 of 5 experiments"
