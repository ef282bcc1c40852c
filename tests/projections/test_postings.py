"""The postings of one term: texts marked in a set, or listed, or both, beside a plain dictionary."""

from __future__ import annotations

from array import array
from itertools import accumulate
from random import Random

import pytest

from rbank_es.policies.bit_slices import documents_of
from rbank_es.projections.posting_search import Postings

MARKED, LAST = 16_384, 18_000
"""Texts of a set: four of the parts whose marks are counted once; and the last text of all."""
GAP = range(4_096, 8_192)

layouts = pytest.mark.parametrize(
    ("marked", "gap", "behind"),
    [(0, False, 9), (2, False, 0), (9, False, 0), (2, False, 9), (9, True, 0), (3, True, 40)],
    ids=["listed", "marked", "rarely marked", "listed behind", "listed between", "listed between and behind"],
)
"""One in so many texts is marked, unless it is in the gap and so listed; one in so many behind the set is listed."""


def laid_out(marked: int, gap: bool, behind: int) -> tuple[Postings, dict[int, int]]:
    """Postings of texts, and the same as a dictionary."""
    chance = Random(marked)
    within = texts_of(chance, 1, MARKED, marked)
    between = [text for text in within if gap and text in GAP]
    listed = [*between[::2], *texts_of(chance, MARKED + 20, LAST, behind)]
    in_set = [text for text in within if text not in between]
    codes = {text: text * 7 % 1_000 for text in sorted((*in_set, *listed))}
    size = (max(in_set, default=-8) >> 3) + 1
    marks = documents_of(in_set, size * 8).to_bytes(size, "little")
    return Postings(marks, array("I", listed), array("H", codes.values()), len(codes)), codes


def texts_of(chance: Random, first: int, last: int, one_in: int) -> list[int]:
    """About one in so many of the texts from `first` to `last`, in order; none if `one_in` is 0."""
    steps = (chance.randint(1, 2 * one_in - 1) for _ in range(last if one_in else 0))
    return [text for text in accumulate(steps, initial=first) if one_in and text <= last]


@pytest.mark.slow
@layouts
def test_each_text_has_its_code_and_no_other_has_one(marked: int, gap: bool, behind: int) -> None:
    postings, codes = laid_out(marked, gap, behind)
    everything = range(1, LAST + 1_000)
    assert len(postings) == len(codes)
    assert [*postings.pairs()] == [*codes.items()]
    assert postings.select(set(everything)) == set(codes)
    assert [postings.code(text) for text in everything] == [codes.get(text) for text in everything]


@layouts
def test_numpy_says_the_same_of_postings(marked: int, gap: bool, behind: int) -> None:
    numpy = pytest.importorskip("numpy")
    postings, codes = laid_out(marked, gap, behind)
    everything = numpy.arange(1, LAST + 1_000)
    assert [each.tolist() for each in postings.arrays] == [[*codes], [*codes.values()]]
    assert everything[postings.has(everything)].tolist() == [*codes]
    some = numpy.array([*codes][::5])
    assert postings.codes_of(some).tolist() == [*codes.values()][::5]
