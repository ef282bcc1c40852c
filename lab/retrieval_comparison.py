"""Retrieval policies on labelled cases: compared by paired differences, with intervals, and a floor fitted to them.

The floor of a policy is how much of a query an item must cover. It is chosen on one half of the cases, by a hash of
their ids, and reported on the other half too: on the half that chose it, every floor looks better than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from rbank_es.errors import BadInput
from rbank_es.lab.statistics import Estimate, differences, interval
from rbank_es.policies.retrieval_quality import CaseQuality, Injection, RelevanceCase, injection
from rbank_es.system.proportion import wilson

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
    """The items that runs would be given unasked: shares with Wilson intervals at 95 %, None where they are of nothing.

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


FLOORS = tuple(step / 20 for step in range(20))
"""Coverages that are tried: finer steps than 0.05 tell no floors apart on some hundred cases."""

Measure = Callable[[float], Sequence[CaseQuality]]
"""Returns the measures of all cases under a floor."""


class FloorTrial(Struct, frozen=True, kw_only=True):
    """One floor, and what runs would be given under it, on the half that chooses and on the other."""

    coverage: float
    chosen: InjectionShares
    unseen: InjectionShares


class FloorCalibration(Struct, frozen=True, kw_only=True):
    """The floors tried, the one that is best, and whether it reaches the precision asked for on the choosing half."""

    trials: tuple[FloorTrial, ...]
    best: FloorTrial
    reached: bool


def calibrate_floor(cases: Sequence[RelevanceCase], measure: Measure, precision: float) -> FloorCalibration:
    """Return the results of each floor, and the best: of those that reach the precision, the one that helps most cases.

    Of floors that help as many, the highest disturbs the fewest unrelated ones. Where none reaches the precision, the
    most precise is the best. Raises `BadInput` unless both halves have related and unrelated cases.
    """
    _require_classes(cases)
    trials = tuple(_trial(cases, floor, measure(floor)) for floor in FLOORS)
    reaching = [each for each in trials if _precision(each) >= precision]
    if reaching:
        best = max(reaching, key=lambda each: (each.chosen.counts.covered, each.coverage))
    else:
        best = max(trials, key=lambda each: (_precision(each), each.chosen.counts.covered, each.coverage))
    return FloorCalibration(trials=trials, best=best, reached=bool(reaching))


def _require_classes(cases: Sequence[RelevanceCase]) -> None:
    counts = {
        (half, related): sum(case.half == half and bool(case.relevant) == related for case in cases)
        for half in ("chosen", "unseen")
        for related in (True, False)
    }
    if not all(counts.values()):
        related = counts["chosen", True] + counts["unseen", True]
        raise BadInput(
            f"can't calibrate by {related} related and {len(cases) - related} unrelated cases: both halves of them, "
            "parted by a hash of their ids, need both classes; add cases of the missing class, best twenty of each"
        )


def _trial(cases: Sequence[RelevanceCase], floor: float, measured: Sequence[CaseQuality]) -> FloorTrial:
    halves = {case.id: case.half for case in cases}
    chosen, unseen = ([each for each in measured if halves[each.id] == half] for half in ("chosen", "unseen"))
    return FloorTrial(coverage=floor, chosen=injection_shares(chosen), unseen=injection_shares(unseen))


def _precision(trial: FloorTrial) -> float:
    """Return the share of given items that help on the choosing half; 0 where nothing is given."""
    return trial.chosen.precision[0] if trial.chosen.precision is not None else 0.0
