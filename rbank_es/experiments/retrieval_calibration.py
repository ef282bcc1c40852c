"""The calibration of a retrieval policy's floor: how much of a query an item must cover, fitted to labelled cases.

The floor is chosen on one half of the cases, by a hash of their ids, and reported on the other half too: on the half
that chose it, every floor looks better than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from rbank_es.errors import BadInput
from rbank_es.experiments.retrieval_comparison import InjectionShares, injection_shares
from rbank_es.policies.retrieval_quality import CaseQuality, RelevanceCase

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
    """Return what each floor gives, and the best: of those that reach the precision, the one that helps most cases.

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
