"""Texts of a prompt within budgets of characters: the packed text, and the shares of what has to fit in it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rbank_es.errors import BadInput
from rbank_es.events.hidden_characters import without_hidden


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """The text of one layer, with `len(text) <= budget_chars`.

    `truncated` tells whether something was left out, and `cut` names what. `items` are the ids of the memory items in
    the text, `artifacts` those of the events of the bank's artifacts that it was made of.
    """

    layer: str
    text: str = ""
    budget_chars: int
    truncated: bool = False
    cut: str = ""
    items: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()


def checked_budget(budget_chars: int) -> int:
    """Return the budget. Raises `BadInput` unless it is a whole number of at least 0."""
    # Not isinstance, because True is an int.
    if type(budget_chars) is not int or budget_chars < 0:
        raise BadInput(f"a budget of {budget_chars!r} characters can't be kept; give a whole number, 0 or more")
    return budget_chars


def plain(text: str) -> str:
    """Return a text as one line without invisible characters: it can't begin a line, a heading or a list."""
    return " ".join(without_hidden(text).split())


def short_count(number: int) -> str:
    """Return a number in full up to 99,999, above with three digits: `441M`."""
    if number < 100_000:
        return f"{number:,}"
    for size, letter in ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            whole = number / size
            # Three digits of 999.9 would be written 1e+03.
            return f"{whole:,.0f}{letter}" if whole >= 100 else f"{whole:.3g}{letter}"
    raise AssertionError(number)


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a short count with its noun: `1 class`, `441M triples`."""
    return f"{short_count(number)} {noun if number == 1 else plural or noun + 's'}"


def fair_shares(needs: Sequence[int], room: int, weights: Sequence[int] | None = None) -> list[int]:
    """Return the share of each need in the room: all of it, or where that is too much a share by weight.

    The rest of a satisfied need is shared among the others. The sum is at most `room`.
    """
    weights = weights or [1] * len(needs)
    shares, hungry = [0] * len(needs), [index for index, need in enumerate(needs) if need > 0]
    while hungry:
        total = sum(weights[index] for index in hungry)
        # Compared as integers, because rounded shares could add up to more than the room.
        content = [index for index in hungry if needs[index] * total <= room * weights[index]]
        if not content:
            for index in hungry:
                shares[index] = room * weights[index] // total
            break
        for index in content:
            shares[index] = needs[index]
        room -= sum(needs[index] for index in content)
        hungry = [index for index in hungry if index not in content]
    return shares
