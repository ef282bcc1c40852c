"""Shares, their differences, and how many cases show one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.system.proportion import (
    Share,
    Stratum,
    cases_needed,
    matched,
    percent,
    points,
    proven_share,
    share_difference,
    wilson,
)


@given(st.integers(0, 50), st.integers(0, 50))
def test_an_interval_holds_the_share_and_stays_within_0_and_1(part: int, more: int) -> None:
    """It ends at 0 and 1 exactly where nothing, or everything, was won."""
    whole = part + more
    found = wilson(part, whole)
    if found is None:
        assert not whole and proven_share(part, whole) == 0
        return
    low, high = found
    assert 0 <= low <= part / whole <= high <= 1 and proven_share(part, whole) == low
    assert (low == 0) == (part == 0) and (high == 1) == (more == 0)


def test_more_wins_at_the_same_rate_prove_more() -> None:
    assert 0 == proven_share(0, 9) < proven_share(1, 1) < proven_share(2, 2) < proven_share(20, 20) < 1
    assert proven_share(3, 3) > proven_share(4, 20)


def test_in_one_stratum_the_difference_is_that_of_two_shares() -> None:
    """With groups of one size, Sato's variance is the usual p (1 - p) / n + q (1 - q) / n."""
    found = share_difference([Stratum(30, 40, 18, 40)])
    half = 1.959964 * math.sqrt(0.75 * 0.25 / 40 + 0.45 * 0.55 / 40)
    assert found == pytest.approx((0.3, 0.3 - half, 0.3 + half))
    assert matched([Stratum(30, 40, 18, 40)]) == 40 and matched([Stratum(1, 1, 5, 9)]) == 1


def test_strata_undo_a_difference_that_only_their_mixture_makes() -> None:
    """Won by 9 of 10 easy and 1 of 10 hard tasks, with the item or without it; it was given to easy ones mostly."""
    mixed = [Stratum(27, 30, 9, 10), Stratum(1, 10, 3, 30)]
    assert Share(28, 40).rate == 0.7 and Share(12, 40).rate == 0.3
    assert share_difference(mixed).value == pytest.approx(0)


def test_cases_needed_are_those_of_textbooks_for_50_against_70_per_cent() -> None:
    assert cases_needed(0.5, 0.2) == 91
    assert cases_needed(0.0, 0.2) < cases_needed(0.3, 0.2) <= cases_needed(0.4, 0.2)


# As the page rounds them (app.test.mjs): halves up, also where the product is just below or above one in binary.
PERCENT = {(1, 8): "13%", (3, 8): "38%", (1, 40): "3%", (1, 200): "1%", (29, 200): "14%", (0, 3): "0%", (3, 3): "100%"}


@pytest.mark.parametrize(("share", "shown"), PERCENT.items())
def test_a_share_is_shown_in_whole_per_cent_with_halves_rounded_up(share: tuple[int, int], shown: str) -> None:
    part, whole = share
    assert percent(part / whole) == shown


def test_a_difference_has_its_sign_in_points() -> None:
    assert [points(value) for value in (0.125, 0.0, -0.125, -0.001)] == ["+13", "+0", "-12", "+0"]
