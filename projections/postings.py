"""The postings of one term in memory: the texts that have it, and the code of its counts in each.

Texts of a term that many have are marked in a set, a bit for each text, as the file has them: to count those that are
active, and to look one up, takes no list of all.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Sequence, Set
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from typing import Any

from rbank_es import limits
from rbank_es.policies.bit_slices import numbers_in

_COUNTED = 512
"""Bytes of a set whose bits are counted once: to find a text's place, those of one such part are counted again."""
_GATHERED = 8
"""Marks are counted by numpy from so many times fewer texts on than those from which a search is made by it."""


class _Walked:
    """The postings that this process walked in plain Python."""

    number = 0


def numpy_for(postings: int) -> Any:
    """Return numpy where it is quicker for so many postings; else None."""
    if postings < limits.NUMPY_POSTINGS:
        return None
    if "numpy" not in sys.modules:
        _Walked.number += postings
        if _Walked.number < limits.PYTHON_POSTINGS:
            return None
    try:
        import numpy
    except ImportError:  # it is in no core dependency
        return None
    return numpy


class Postings:
    """The texts that have a term: those marked in a set, and those listed in order. `having` of them are active.

    `codes` are those of all, in order of the texts.
    """

    def __init__(self, marks: bytes, listed: array[int], codes: array[int], having: int) -> None:
        # With a byte more, where texts behind the set are looked up.
        self._marks, self._listed, self._codes, self.having = marks and marks + b"\0", listed, codes, having

    def __len__(self) -> int:
        return len(self._codes)

    def select(self, texts: Set[int]) -> Set[int]:
        """Return which of some texts have the term."""
        return {text for text in texts if self._has(text)}

    def _has(self, text: int) -> bool:
        byte = text >> 3
        if byte < len(self._marks) and self._marks[byte] >> (text & 7) & 1:
            return True
        place = bisect_left(self._listed, text)
        return place < len(self._listed) and self._listed[place] == text

    def code(self, text: int) -> int | None:
        """Return the code of a text; None if it doesn't have the term."""
        place, byte = bisect_left(self._listed, text), text >> 3
        found = place < len(self._listed) and self._listed[place] == text
        if self._marks:
            byte = min(byte, len(self._marks) - 1)
            if not found and not self._marks[byte] >> (text & 7) & 1:
                return None
            return self._codes[place + self._marked_before(byte, text & 7)]
        return self._codes[place] if found else None

    def pairs(self) -> zip[tuple[int, int]]:
        """Return each text with its code, in order."""
        return zip(self._texts(), self._codes, strict=True)

    def _texts(self) -> Sequence[int]:
        if not self._marks:
            return self._listed
        marked = numbers_in(int.from_bytes(self._marks, "little"))
        return sorted((*marked, *self._listed)) if self._listed else [*marked]

    def _marked_before(self, byte: int, bit: int) -> int:
        part = byte // _COUNTED
        bits = int.from_bytes(self._marks[part * _COUNTED : byte + 1], "little")
        return self._counts[part] + (bits & (1 << (byte % _COUNTED * 8 + bit)) - 1).bit_count()

    @cached_property
    def _counts(self) -> list[int]:
        """The number of texts that are marked before each part of the set."""
        parts = (self._marks[first : first + _COUNTED] for first in range(0, len(self._marks), _COUNTED))
        return [0, *accumulate(int.from_bytes(part, "little").bit_count() for part in parts)]

    # ---------------------------------------------------------------- by numpy

    @cached_property
    def arrays(self) -> tuple[Any, Any]:
        """The texts and the codes, in order, as numpy's arrays."""
        import numpy

        texts = numpy.asarray(self._listed)
        if self._marks:
            bits = numpy.unpackbits(numpy.frombuffer(self._marks, numpy.uint8), bitorder="little")
            # Of truth values, because of numbers it takes ten times as long.
            marked = numpy.flatnonzero(bits.view(bool)).astype(numpy.uint32)
            follows = not len(texts) or texts[0] > marked[-1]
            texts = numpy.concatenate((marked, texts))
            texts = texts if follows else numpy.sort(texts, kind="stable")
        return texts, numpy.asarray(self._codes)

    def has(self, texts: Any) -> Any:
        """Return for each text of an array, in order, whether it has the term."""
        import numpy

        found = numpy.zeros(len(texts), bool)
        if self._marks:
            marks = numpy.frombuffer(self._marks, numpy.uint8)
            found = (marks.take(texts >> 3, mode="clip") >> (texts & 7).astype(numpy.uint8) & 1).view(bool)
        if self._listed:
            listed = numpy.asarray(self._listed)
            # Those of a common term are of the last block.
            first = int(texts.searchsorted(listed[0]))
            places = listed.searchsorted(texts[first:].astype(listed.dtype))
            found[first:] |= listed.take(places, mode="clip") == texts[first:]
        return found

    def codes_of(self, texts: Any) -> Any:
        """Return the codes of an array of texts, in order, that have the term."""
        having, codes = self.arrays
        return codes[having.searchsorted(texts.astype(having.dtype))]


def marked_among(texts: array[int], marks: bytes) -> int:
    """Return how many of the texts have a mark of 1."""
    if "numpy" in sys.modules and (numpy := numpy_for(len(texts) * _GATHERED)) is not None:
        return int(numpy.count_nonzero(numpy.frombuffer(marks, bool)[numpy.asarray(texts)]))
    # Twice as fast as by `map`. It takes two at least, and there is no text 0.
    return sum(itemgetter(0, 0, *texts)(marks))
