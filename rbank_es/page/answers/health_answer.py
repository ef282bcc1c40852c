"""The answer `health`: the bank's shares and stock at the position, and their course up to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rbank_es.bank.health_report import Measured, health_of, measures_of
from rbank_es.limits import page_limits
from rbank_es.page.answers.page_question import PageQuestion
from rbank_es.state.proportion import rounded


def health_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return the measures of the bank's health in words, its items by source and state, and the course of health."""
    report = health_of(asked.view)
    return {
        **{"size": report.size, "uses": report.uses, "drift": report.drift, "stock": report.stock},
        "measures": [_measure(each) for each in measures_of(report)],
        "series": thinned(sorted(asked.view.rows("health_over_time"), key=lambda row: row["seq"])),
    }


def _measure(each: Measured) -> dict[str, Any]:
    low, high = each.interval or (None, None)
    return {
        **{"words": each.words, "part": each.share.part, "whole": each.share.whole},
        **{"low": rounded(low), "high": rounded(high), "rate": rounded(each.share.rate)},
    }


def thinned(rows: Sequence[Any], most: int = page_limits.OVERVIEW_POINTS) -> list[Any]:
    """Return at most so many rows: the last of each of as many equal groups of neighbours."""
    groups = min(len(rows), most)
    return [rows[(number + 1) * len(rows) // groups - 1] for number in range(groups)]
