"""Units of an experiment: what counts as one independent value, and the trials of which it is made.

A trial is one bank: of a condition, an order of the tasks and a repetition. Trials of one order are alike,
because all conditions share it; if each counted by itself, intervals would be too narrow. So the units are either the
orders or the repetitions: those of which there are more, repetitions if they are as many. A unit is averaged over the
other. What is said of repetitions holds for the orders of the experiment, what is said of orders for its repetitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Literal, TypeVar

from rbank_es.lab.run_rows import TrialRun

Unit = Literal["repetition", "order"]
TrialKey = tuple[int, int]
"""The order and the repetition of a trial."""


Value = TypeVar("Value")
Mean = TypeVar("Mean")


def by_trial(
    rows: Iterable[TrialRun], measure: Callable[[Sequence[TrialRun]], Value | None]
) -> dict[str, dict[TrialKey, Value | None]]:
    """Return a measure of each trial's rows, which it gets by position, by condition, order and repetition.

    Raises ValueError for two rows at one position of a trial.
    """
    trials: dict[str, dict[TrialKey, dict[int, TrialRun]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        taken = trials[row.condition][row.order, row.repetition]
        if row.position in taken:
            trial = f"{row.condition}, order {row.order}, repetition {row.repetition}"
            raise ValueError(f"two rows at position {row.position} of {trial}")
        taken[row.position] = row
    return {
        condition: {trial: measure([taken[at] for at in sorted(taken)]) for trial, taken in sorted(each.items())}
        for condition, each in sorted(trials.items())
    }


def unit_of(trials: Collection[TrialKey]) -> Unit:
    """Return the kind of unit of these trials."""
    orders, repetitions = {order for order, _ in trials}, {repetition for _, repetition in trials}
    return "order" if len(orders) > len(repetitions) else "repetition"


def unit_number(trial: TrialKey, unit: Unit) -> int:
    """Return the number of the unit to which a trial belongs."""
    return trial[0] if unit == "order" else trial[1]


def by_unit(
    values: Mapping[TrialKey, Value | None],
    trials: Collection[TrialKey],
    unit: Unit,
    mean: Callable[[Sequence[Value]], Mean],
) -> dict[int, Mean]:
    """Return the mean value of each unit, by its number, that has a value in each of its trials.

    The orders and repetitions of `trials` say which trials a unit has.
    """
    orders, repetitions = sorted({order for order, _ in trials}), sorted({repetition for _, repetition in trials})
    found: dict[int, list[Value | None]] = defaultdict(list)
    for trial in product(orders, repetitions):
        found[unit_number(trial, unit)].append(values.get(trial))
    known = {number: [one for one in each if one is not None] for number, each in found.items()}
    return {number: mean(each) for number, each in sorted(known.items()) if len(each) == len(found[number])}
