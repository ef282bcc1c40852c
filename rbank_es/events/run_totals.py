"""The totals of runs: calls of models, tokens and dollars, where None is unknown and never 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

Number = TypeVar("Number", int, float)


def known_sum(values: Iterable[Number | None]) -> Number | None:
    """Return the sum of the values that are known; None, not 0, where none is."""
    total: Number | None = None
    for value in values:
        if value is not None:
            # One by one, because `sum` rounds floats otherwise since Python 3.12, and a recorded digest holds sums.
            total = value if total is None else total + value
    return total


class RunTotals(Struct, frozen=True, kw_only=True):
    """The calls, tokens and dollars of one run, or of several together."""

    lm_calls: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None

    @classmethod
    def of(cls, totals: Iterable[RunTotals]) -> RunTotals:
        """Return the known totals of several runs together."""
        every = list(totals)
        return cls(**{name: known_sum(getattr(each, name) for each in every) for name in cls.__struct_fields__})
