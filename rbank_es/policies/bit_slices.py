"""Sums for many documents at once: small numbers, added and compared by operations on sets of documents.

A set of documents is an integer with a bit for each. The numbers are slices: bit d of slice j is bit j of the number of
document d. So one operation on integers works on thousands of documents (O'Neil and Quass: Improved query performance
with variant indexes, 1997).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import accumulate, count, zip_longest
from operator import add, or_

Documents = int
"""A set of documents: bit d is set where document d is in it."""

_FEW = 32
"""Documents that are put into a set one by one: a table of bits takes as long for any number."""


def documents_of(numbers: Collection[int], last: int) -> Documents:
    """Return the set of documents with these numbers, none of which is above `last`."""
    if len(numbers) <= _FEW:
        return reduce(or_, (1 << number for number in numbers), 0)
    bits = bytearray(last // 8 + 1)
    for number in numbers:
        bits[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(bits, "little")


def each_in(documents: Documents) -> Iterator[int]:
    """Yield the numbers of the documents in a set, in order: quicker than `numbers_in` where these are few."""
    number = -1
    while documents:
        further = (documents & -documents).bit_length()
        number += further
        yield number
        documents >>= further


def in_several(sets: Iterable[Documents], counted: Sequence[Documents]) -> Documents:
    """Return the documents that are in so many sets as `counted` has elements: those that are in one already, in two
    and so on."""
    reached = list(counted)
    for documents in sets:
        for more in reversed(range(1, len(reached))):
            reached[more] |= reached[more - 1] & documents
        reached[0] |= documents
    return reached[-1]


def numbers_in(documents: Documents) -> Iterator[int]:
    """Return the numbers of the documents in a set, in order."""
    # The zeros before each of them. All by C: a search for one after the other takes five times as long.
    gaps = bin(documents)[:1:-1].split("1")[:-1]
    return map(add, accumulate(map(len, gaps)), count())


def sliced(amounts: Iterable[tuple[Documents, int]]) -> list[Documents]:
    """Return the slices of amounts, of which each document has one at most."""
    slices: list[Documents] = []
    for documents, amount in amounts:
        places = _ones(amount)
        if places and places[-1] >= len(slices):
            slices += [0] * (places[-1] + 1 - len(slices))
        for place in places:
            slices[place] |= documents
    return slices


@lru_cache(1024)
def _ones(amount: int) -> tuple[int, ...]:
    """Return the places of the bits of a number that are set, in order."""
    return tuple(place for place in range(amount.bit_length()) if amount >> place & 1)


def sliced_sum(addends: Iterable[Sequence[Documents]]) -> list[Documents]:
    """Return the slices of the sums of numbers that are given as slices."""
    columns = [list(column) for column in zip_longest(*addends, fillvalue=0)]
    slices: list[Documents] = []
    for column in columns:
        carried: list[Documents] = []
        # Three bits of a column are one bit of it and one of the next (a carry-save adder): fewest operations.
        while len(column) > 2:
            one, two, three = column.pop(), column.pop(), column.pop()
            odd = one ^ two
            column.append(odd ^ three)
            carried.append(one & two | odd & three)
        if len(column) == 2:
            one, two = column
            column = [one ^ two]
            carried.append(one & two)
        slices.append(column[0] if column else 0)
        if carried:
            if len(slices) == len(columns):
                columns.append([])
            columns[len(slices)] += carried
    return slices


def reaching(slices: Sequence[Documents], least: int) -> Documents:
    """Return the documents whose sum is at least `least`, which is above 0."""
    above, equal, below = 0, _counted(slices), least - 1
    if below >> len(slices):
        return 0
    for place in reversed(range(len(slices))):
        ones = equal & slices[place]
        if below >> place & 1:
            equal = ones
        else:
            above |= ones
            equal ^= ones
    return above


def highest(slices: Sequence[Documents], count: int) -> Documents:
    """Return the `count` documents with the highest sums and those that tie with the last; all above 0 if fewer."""
    above, equal = 0, _counted(slices)
    for documents in reversed(slices):
        ones = equal & documents
        if (above | ones).bit_count() < count:
            above |= ones
            equal ^= ones
        else:
            equal = ones
    return above | equal


def _counted(slices: Sequence[Documents]) -> Documents:
    """Return the documents whose sum isn't 0."""
    return reduce(or_, slices, 0)
