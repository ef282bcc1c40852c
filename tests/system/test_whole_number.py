"""Whole numbers in texts."""

import pytest

from rbank_es import limits
from rbank_es.system.whole_number import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * limits.INTEGER_DIGITS, 10**18 - 1)])
def test_digits_alone_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", " 1", "1_000", "1.0", "²", "9" * (limits.INTEGER_DIGITS + 1), "9" * 5000]
)
def test_any_other_text_is_none(text: str) -> None:
    assert whole_number(text) is None
