"""The comparison of retrieval policies on the same cases: paired differences, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from rbank_es.experiments.statistics import Estimate, differences, interval
from rbank_es.policies.retrieval_quality import CaseQuality, Injection, injection
from rbank_es.state.proportion import wilson

MEASURES = ("first", "recall", "reciprocal")
"""Measures of a ranking, each of one case; see `CaseQuality`."""


class MeasureComparison(Struct, frozen=True, kw_only=True):
    """One measure of two policies over the related cases: the mean of each, and of the paired differences.

    `difference` is the second policy's less the first's, with its t interval; None where no case is related.
    """

    measure: str
    first: float
    second: float
    difference: Estimate | None


class InjectionShares(Struct, frozen=True, kw_only=True):
    """What runs would be given unasked: shares with Wilson intervals at 95 %, None where there is nothing to share.

    `precision`: of the given items, the relevant ones. `coverage`: of the related cases, those given a relevant item.
    `disturbed`: of the unrelated cases, those given anything.
    """

    counts: Injection
    precision: tuple[float, float, float] | None
    coverage: tuple[float, float, float] | None
    disturbed: tuple[float, float, float] | None


class RetrievalComparison(Struct, frozen=True, kw_only=True):
    """Two policies measured on the same cases."""

    cases: int
    measures: tuple[MeasureComparison, ...]
    first: InjectionShares
    second: InjectionShares


def compare_retrieval(first: Sequence[CaseQuality], second: Sequence[CaseQuality]) -> RetrievalComparison:
    """Compare the measures of two policies, case by case. Raises ValueError if the cases differ."""
    if [case.id for case in first] != [case.id for case in second]:
        raise ValueError("the cases of both policies must be the same, in the same order")
    return RetrievalComparison(
        cases=len(first),
        measures=tuple(_compared(name, first, second) for name in MEASURES),
        first=injection_shares(first),
        second=injection_shares(second),
    )


def injection_shares(measured: Sequence[CaseQuality]) -> InjectionShares:
    """Return the shares of what runs would be given unasked."""
    counts = injection(measured)
    return InjectionShares(
        counts=counts,
        precision=_share(counts.right, counts.given),
        coverage=_share(counts.covered, counts.related),
        disturbed=_share(counts.disturbed, counts.unrelated),
    )


def _compared(name: str, first: Sequence[CaseQuality], second: Sequence[CaseQuality]) -> MeasureComparison:
    one, two = ([getattr(case, name) for case in side if case.related] for side in (first, second))
    count = max(1, len(one))
    return MeasureComparison(
        measure=name, first=sum(one) / count, second=sum(two) / count, difference=interval(differences(two, one))
    )


def _share(part: int, whole: int) -> tuple[float, float, float] | None:
    ends = wilson(part, whole)
    return None if ends is None else (part / whole, *ends)
