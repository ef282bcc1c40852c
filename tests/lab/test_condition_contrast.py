"""Contrasts: what is paired, what is left out, what is called a difference, and how often wrongly so."""

import math
from itertools import product
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("scipy", reason="the extra [lab] is not installed")

from rbank_es.lab.condition_contrast import (
    Contrast,
    ContrastResult,
    TrialValues,
    conclusion,
    contrast_results,
    sides_of,
)
from rbank_es.lab.learning_curve import unit_curves
from rbank_es.lab.statistics import holm, interval, paired_permutation
from rbank_es.lab.trial_units import by_trial

Values = dict[str, dict[str, TrialValues]]
MEMORY = Contrast(condition="memory", baseline="none", metric="success")


def by_repetition(*values: float | None) -> TrialValues:
    return {(0, at): value for at, value in enumerate(values)}


def result_of(memory: TrialValues, none: TrialValues, smallest: float | None = None) -> ContrastResult:
    contrast = Contrast(condition="memory", baseline="none", metric="success", smallest=smallest)
    [found] = contrast_results([contrast], {"success": {"memory": memory, "none": none}})
    return found


# ---------------------------------------------------------------- units


def test_a_unit_without_a_value_in_one_trial_is_left_out_and_named() -> None:
    memory = {(order, at): 0.5 for order in range(2) for at in range(4)}
    none: dict[tuple[int, int], float | None] = {**memory, (1, 2): None}
    del none[0, 3]
    found = result_of(memory, none)
    assert (found.n, found.left_out) == (2, (2, 3))


@pytest.mark.slow
def test_trials_of_one_order_are_no_units_of_their_own() -> None:
    """Where conditions are equal on average, and an order may suit one of them: 6 orders of 4 repetitions each."""
    random, tries, wrong = Random(8), 1_000, {"trial": 0, "unit": 0}
    for _ in range(tries):
        suits = [random.gauss(0, 1) for _ in range(6)]
        gaps = {(order, at): suits[order] + random.gauss(0, 1) for order in range(6) for at in range(4)}
        units = sides_of(gaps, dict.fromkeys(gaps, 0.0))
        assert units.unit == "order"
        for name, values in (("trial", [*gaps.values()]), ("unit", units.condition)):
            found = interval(values)
            assert found is not None and found.low is not None and found.high is not None
            wrong[name] += not found.low <= 0 <= found.high
    assert wrong["unit"] / tries < 0.05 + 3 * math.sqrt(0.05 * 0.95 / tries) and wrong["trial"] / tries > 0.2


class Row(NamedTuple):
    condition: str
    order: int
    repetition: int
    position: int
    success: float | None


def test_rows_become_values_of_trials_and_curves_of_units_in_any_order() -> None:
    random = Random(1)
    rows = [
        Row(name, order, repetition, position, None if (order, position) == (1, 2) else float(position > order))
        for name in ("memory", "none") for order in range(2) for repetition in range(3) for position in range(1, 4)
    ]  # fmt: skip
    random.shuffle(rows)
    values = by_trial(rows, lambda each: each[-1].success)
    assert values["none"] == {(order, repetition): 1.0 for order in range(2) for repetition in range(3)}
    assert unit_curves(rows, lambda row: row.success)["memory"] == {at: [0.5, 1, 1] for at in range(3)}
    unfinished = [row for row in rows if row[:3] != ("memory", 1, 2)]
    assert [*unit_curves(unfinished, lambda row: row.success)["memory"]] == [0, 1]
    with pytest.raises(ValueError, match="two rows at position"):
        by_trial([*rows, rows[0]], len)


# ---------------------------------------------------------------- findings


def test_a_contrast_worked_by_hand() -> None:
    found = result_of(by_repetition(*(0.5 + at / 100 for at in range(6))), by_repetition(*[0.4] * 6))
    assert found.difference is not None and found.p is not None
    assert found.difference.mean == pytest.approx(0.125)
    assert found.p == found.p_holm == 2 / 64 and found.finding == "better"
    assert conclusion(found) == "better by 0.125 (p = 0.031 by Holm's correction, 6 repetitions)"
    worse = contrast_results(
        [MEMORY], {"success": {"memory": by_repetition(*[2.0] * 6), "none": by_repetition(*[1.0] * 6)}},
        less_is_better={"success"},
    )[0]  # fmt: skip
    assert (worse.finding, worse.gain) == ("worse", -1)


def test_a_smallest_difference_that_matters_lets_a_contrast_show_that_there_is_none() -> None:
    memory, none = by_repetition(*(0.5 + (-1) ** at / 100 for at in range(8))), by_repetition(*[0.5] * 8)
    assert result_of(memory, none, smallest=0.05).finding == "equal"
    assert conclusion(result_of(memory, none, smallest=0.05)) == "equal but for less than 0.05 (8 repetitions)"
    assert result_of(memory, none).finding == "too few"
    assert conclusion(result_of(none, none)) == "equal in each of 8 repetitions"
    wide = by_repetition(*(0.53 + (-1) ** at / 20 for at in range(10)))
    found = result_of(wide, by_repetition(*[0.5] * 10), smallest=0.06)
    assert found.finding == "undecided" and "9 would show a difference of 0.06 in 4 of 5" in conclusion(found)


def test_one_repetition_says_how_many_are_needed_at_least() -> None:
    found = result_of(by_repetition(0.9), by_repetition(0.1))
    assert conclusion(found) == "too few to say (p = 1 by Holm's correction, 1 repetition): at least 6 are needed"


def test_several_contrasts_are_corrected_as_holm_says() -> None:
    random = Random(9)
    values: Values = {
        "success": {
            name: by_repetition(*(random.gauss(at / 9, 0.2) for _ in range(9))) for at, name in enumerate("abcd")
        }
    }
    contrasts = [Contrast(condition=name, baseline="a", metric="success") for name in "bcd"]
    found = contrast_results(contrasts, values)
    ps = [
        paired_permutation([*values["success"][name].values()], [*values["success"]["a"].values()], "success")
        for name in "bcd"
    ]
    assert [each.p for each in found] == ps and [each.p_holm for each in found] == holm(ps)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=7), st.randoms())
def test_the_order_and_the_names_of_repetitions_change_no_number(
    pairs: list[tuple[float, float]], random: Random
) -> None:
    shuffled = random.sample(pairs, len(pairs))
    one, other = (
        result_of(by_repetition(*(a for a, _ in each)), by_repetition(*(b for _, b in each)))
        for each in (pairs, shuffled)
    )
    assert one == other


@given(st.lists(st.tuples(*[st.integers(0, 12)] * 4), min_size=3, max_size=6))
def test_an_interaction_is_the_difference_of_two_differences(units: list[tuple[int, ...]]) -> None:
    """Its mean and its p value are worked from the four values of each unit, by every flip of their signs."""
    names = ("react-memory", "react", "rlm-memory", "rlm")
    values: dict[str, TrialValues] = {
        name: by_repetition(*(unit[at] / 12 for unit in units)) for at, name in enumerate(names)
    }
    asked = Contrast(condition=names[0], baseline=names[1], less=(names[2], names[3]), metric="success")
    [found] = contrast_results([asked], {"success": values}, shares=["success"])
    both = [(a - b) - (c - d) for a, b, c, d in units]
    assert found.n == len(units) and found.difference is not None and found.p is not None
    assert found.difference.mean == pytest.approx(sum(both) / 12 / len(units))
    flips = [abs(sum(sign * each for sign, each in zip(signs, both, strict=True)))
             for signs in product((1, -1), repeat=len(both))]  # fmt: skip
    assert found.p == pytest.approx(sum(each >= abs(sum(both)) for each in flips) / len(flips))
    ends = [end for end in (found.difference.low, found.difference.high) if end is not None]
    assert all(-2 <= end <= 2 for end in ends) and len(ends) == (0 if len(set(both)) == 1 else 2)
