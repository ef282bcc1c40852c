"""The similarity join: of many texts, those whose words are like the words of any of some others, in one pass.

A correction asks a thousand times which candidates are like another. To index the rare words of all candidates takes
longer than one pass that looks for all thousand at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from rbank_es.policies.words import words_of

_SHARED = 3
"""Words that a similar text must share with the rarest ones: with 2, twenty times as many unlike texts do."""

_SAMPLE = 4_000
"""Texts from which the frequency of words is estimated."""

_AT_ONCE = 2_048
"""Sets of words that are looked for in one pass: the numbers that count for each of them grow with these."""

_WORDLESS = ("",)
"""Stands for the words of a text that has none: two such texts are alike."""


def join_similar(texts: Sequence[str], many: Sequence[frozenset[str]], content_min: tuple[int, int]) -> list[list[int]]:
    """Return for each of many sets of words the indexes of the texts with a Jaccard similarity of `content_min` or
    more, a fraction above 0."""
    frequency = Counter[str]()
    for text in texts[:: len(texts) // _SAMPLE + 1]:
        frequency.update(set(words_of(text)))
    found: list[list[int]] = [[] for _ in many]
    for start in range(0, len(many), _AT_ONCE):
        some = many[start : start + _AT_ONCE]
        for number, words, place in _Counters(some, frequency, content_min).matches(texts):
            if _similar(words, some[place], content_min):
                found[start + place].append(number)
    return found


class _Counters:
    """A counter for each of some sets of words, side by side in one integer.

    Of two sets with a similarity of t, the one of n words shares at least `t * n` with the other. So the other has at
    least s of any `n - t * n + s` words of it: of the rarest, because few others have s of those. Each such word adds 1
    to the counters of the sets that it is of. A counter that reaches its s sets its highest bit, from which it is as
    far away at the start.
    """

    def __init__(self, many: Sequence[frozenset[str]], frequency: Counter[str], content_min: tuple[int, int]) -> None:
        chosen = [_rarest(words, frequency, content_min) for words in many]
        longest = max(len(rarest) for rarest, _ in chosen)
        self._bits = longest.bit_length() + 1
        ones: defaultdict[str, int] = defaultdict(int)
        self._start = self._reached = 0
        for place, (rarest, shared) in enumerate(chosen):
            one = 1 << place * self._bits
            highest = one << self._bits - 1
            self._reached |= highest
            self._start += highest - shared * one
            for word in rarest:
                ones[word] += one
        self._ones = dict(ones)

    def matches(self, texts: Sequence[str]) -> Iterator[tuple[int, frozenset[str], int]]:
        """Yield for each text the sets whose counters it makes reach the end: its index, its words, the set's place."""
        known, one_of, start, reached = (
            frozenset(self._ones).intersection,
            self._ones.__getitem__,
            self._start,
            self._reached,
        )
        for number, text in enumerate(texts):
            words = words_of(text)
            full = sum(map(one_of, known(words or _WORDLESS)), start) & reached
            if full:
                distinct = frozenset(words)
                while full:
                    lowest = full & -full
                    yield number, distinct, lowest.bit_length() // self._bits - 1
                    full ^= lowest


def _rarest(words: frozenset[str], frequency: Counter[str], content_min: tuple[int, int]) -> tuple[Sequence[str], int]:
    """Return the rarest of some words, and how many of them a similar text has at least."""
    if not words:
        return _WORDLESS, 1
    numerator, denominator = content_min
    needed = -(-numerator * len(words) // denominator)
    shared = min(needed, _SHARED)
    ranked = sorted(words, key=lambda word: (frequency[word], word))
    return ranked[: len(words) - needed + shared], shared


def _similar(words: frozenset[str], others: frozenset[str], content_min: tuple[int, int]) -> bool:
    common = len(words & others)
    return content_min[0] * (len(words) + len(others) - common) <= content_min[1] * common
