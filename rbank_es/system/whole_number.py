"""Whole numbers in texts that people and programs write: positions, versions, budgets, indexes."""

from __future__ import annotations

from rbank_es import limits


def whole_number(text: str) -> int | None:
    """Return the number that a text of digits alone says; None for any other text, a sign and a space included.

    A text of more than `limits.INTEGER_DIGITS` digits is none: Python refuses to convert thousands of them.
    """
    return int(text) if text.isdecimal() and len(text) <= limits.INTEGER_DIGITS else None
