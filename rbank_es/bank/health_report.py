"""Health: how a bank does at a point, as shares with their counts; and the same at many points, as a series.

Each report is of what was known at its own position, so the reports of a series equal those asked for one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from rbank_es import limits
from rbank_es.errors import LimitExceeded
from rbank_es.limits import answer_limits
from rbank_es.system.progress import OnProgress
from rbank_es.system.proportion import Share, rounded

if TYPE_CHECKING:
    from rbank_es.bank.open_bank import OpenBank


class HealthRows(Protocol):
    """A bank at a point, as rows by a view's name."""

    def rows(self, name: str, /) -> Sequence[Mapping[str, Any]]:
        """Return the rows of a view."""
        ...


class HealthReport(Struct, frozen=True, kw_only=True):
    """The health of a bank at a point. `projections/health.py` says what each count is.

    size         active items
    stock        items by source and state
    novelty      candidates that were added;  duplicates  candidates that repeated an item
    wins         uses in decided runs that were a success, of all;  wins_last, wins_before  of the last 20 uses and of
                 the 20 before
    drift        the rate of wins_last less that of wins_before; None before there are 40 uses, or where none of either
                 was decided
    top_tenth    uses of the most used tenth of the active items, of the uses of all of them
    never_used   active items without a use, of those that agents may be given
    overruled    verdicts that a person overruled with another one, of all that stand;  undecided  those that say so
    disagreement runs on which judges differ, of those that several decided about
    recalls_not_sent  runs whose prompts had not all that was recalled, of those of which it is known
    one_verdict  active items that rest on the verdict on one run
    """

    size: int
    stock: dict[str, dict[str, int]]
    uses: int
    novelty: Share
    duplicates: Share
    wins: Share
    wins_last: Share
    wins_before: Share
    drift: float | None
    top_tenth: Share
    never_used: Share
    overruled: Share
    undecided: Share
    disagreement: Share
    recalls_not_sent: Share
    one_verdict: Share


MEASURES = {
    "novelty": "candidates added as new items",
    "duplicates": "candidates that repeat an item",
    "wins": "uses won, of those decided",
    "wins_last": f"of the last {limits.WIN_RATE_USES} uses",
    "wins_before": f"of the {limits.WIN_RATE_USES} uses before",
    "top_tenth": "uses of the most used tenth of the items",
    "never_used": "retrievable items never used",
    "overruled": "verdicts overruled",
    "undecided": "verdicts left undecided",
    "disagreement": "runs on which judges differ",
    "recalls_not_sent": "runs whose recalls were not all sent",
    "one_verdict": "active items that rest on one verdict",
}
"""The shares of a report in words, in the order in which people read them."""

SAMPLED = frozenset({"wins", "wins_last", "wins_before", "disagreement"})
"""The shares that estimate a rate beyond this bank; the others count all there is, so an interval would say nothing."""


class Measured(Struct, frozen=True, kw_only=True):
    """One share of a report by its name and in words. `interval` is None where it would say nothing."""

    name: str
    words: str
    share: Share
    interval: tuple[float, float] | None


def measures_of(report: HealthReport) -> tuple[Measured, ...]:
    """Return the shares of a report as people read them."""
    shares: dict[str, Share] = {name: getattr(report, name) for name in MEASURES}
    return tuple(
        Measured(name=name, words=MEASURES[name], share=share, interval=share.interval if name in SAMPLED else None)
        for name, share in shares.items()
    )


def health_of(view: HealthRows) -> HealthReport:
    """Return the health of a bank at the position of a view."""
    [row] = view.rows("bank_health")
    return report_of(row, view.rows("items_by_source"))


def report_of(row: Mapping[str, Any], by_source: Iterable[Mapping[str, Any]] = ()) -> HealthReport:
    """Return the report of a row of `bank_health`, and of the rows of `items_by_source`."""
    stock: dict[str, dict[str, int]] = {}
    for each in by_source:
        stock.setdefault(each["src"], {})[each["state"]] = each["items"]
    last, before = Share(row["wins_last"], row["decided_last"]), Share(row["wins_before"], row["decided_before"])
    return HealthReport(
        size=row["active"],
        stock=stock,
        uses=row["uses"],
        novelty=Share(row["added"], row["candidates"]),
        duplicates=Share(row["repeated"], row["candidates"]),
        wins=Share(row["wins"], row["wins"] + row["losses"]),
        wins_last=last,
        wins_before=before,
        drift=_drift(last, before) if row["uses"] >= 2 * limits.WIN_RATE_USES else None,
        top_tenth=Share(row["top_uses"], row["active_uses"]),
        never_used=Share(row["never_used"], row["for_agents"]),
        overruled=Share(row["overruled"], row["judged"]),
        undecided=Share(row["undecided"], row["judged"]),
        disagreement=Share(row["disagreed"], row["judged_twice"]),
        recalls_not_sent=Share(row["recalls_not_sent"], row["recalls"]),
        one_verdict=Share(row["on_one_verdict"], row["active"]),
    )


def _drift(last: Share, before: Share) -> float | None:
    return None if last.rate is None or before.rate is None else rounded(last.rate - before.rate)


def series_positions(head: int, *, every: int | None = None, points: int | None = None) -> tuple[int, ...]:
    """Return the positions of a series up to `head`, which is the last: every so many events, or so many points.

    Raises `LimitExceeded` for more than `answer_limits.HEALTH_POINTS`.
    """
    wanted = -(-head // every) if every is not None else points or 0
    if wanted > answer_limits.HEALTH_POINTS:
        advice = "ask for fewer points, or for a larger step between them"
        raise LimitExceeded("points of a series", wanted, answer_limits.HEALTH_POINTS, advice)
    if every is not None:
        return (*range(every, head, every), *((head,) if head else ()))
    return tuple(sorted({head * number // wanted for number in range(1, wanted + 1)} - {0})) if wanted else ()


def health_series(
    bank: OpenBank, positions: Sequence[int], progress: OnProgress | None = None
) -> Iterator[tuple[int, HealthReport]]:
    """Yield each position with the health there; `progress` is called with the points done and their number."""
    for number, position in enumerate(positions):
        if progress is not None:
            progress(number, len(positions))
        with bank.as_of(position) as view:
            yield position, health_of(view)
