"""The difference between runs that used an item and runs without it, among runs that are alike otherwise.

Alike are runs over one ontology or endpoint, of tasks of one family and level as recorded. They began in the same
quarter of the bank's runs, because a bank and its agents change with time. A run that was given the item in a way that
doesn't count as a use is in neither group; nor is an undecided one.

It is no effect: an item is given to runs whose tasks resemble it, and such tasks may be easier or harder.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from rbank_es.system.proportion import Share, ShareDifference, Stratum, cases_needed, matched, share_difference

if TYPE_CHECKING:
    from rbank_es.projections.view import View

SOUGHT_DIFFERENCE = 0.2
"""The difference of success rates that is looked for, 20 points: smaller ones need hundreds of runs on each side."""


ALIKE = ("ontology", "endpoint", "family", "level", "quarter")
"""Facts in which runs that are compared agree."""


class OutcomeDifference(Struct, frozen=True, kw_only=True):
    """Decided runs with an item and without it, in strata that have both, and the difference of their success rates.

    used        successes among the runs that used it;  others  among those that were not given it
    strata      families, levels and quarters that have runs of both
    matched     the size of two equal groups that would tell as much
    needed      the size from which a difference of `SOUGHT_DIFFERENCE` shows in 8 of 10 banks
    difference  the rate of `used` less that of `others`, weighted over the strata; None where `matched` is less than
                `needed`: then there are too few
    """

    used: Share
    others: Share
    strata: int
    matched: int
    needed: int
    difference: ShareDifference | None


def outcome_difference(view: View, item: str) -> OutcomeDifference:
    """Return how runs that used an item ended, beside runs like them that were not given it."""
    strata = [each for each in _strata(view, item) if each.first and each.second]
    others = Share(sum(each.second_part for each in strata), sum(each.second for each in strata))
    needed = cases_needed(0.5 if others.rate is None else others.rate, SOUGHT_DIFFERENCE)
    pairs = matched(strata)
    return OutcomeDifference(
        used=Share(sum(each.first_part for each in strata), sum(each.first for each in strata)),
        others=others,
        strata=len(strata),
        matched=pairs,
        needed=needed,
        difference=share_difference(strata) if pairs >= needed else None,
    )


def _strata(view: View, item: str) -> list[Stratum]:
    counted = {row["run"] for row in view.rows("counted_uses", item=item)}
    given = {row["run"] for row in view.rows("uses", item=item)}
    counts: defaultdict[tuple[object, ...], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in view.rows("judged_runs"):
        used = row["run"] in counted
        if used or row["run"] not in given:
            group = counts[*(row[name] for name in ALIKE)]
            group[0 if used else 2] += row["won"]
            group[1 if used else 3] += 1
    return [Stratum(*group) for group in counts.values()]
