"""The places at which what a run is given began to be as it was, found by as few questions as possible.

Places are the positions at which memory changed, counted from 0: place -1 is the time of the good run, and the last
one that of the bad run. For each item that the bad run gained or lost, a binary search finds a place where it is so and
just before which it is not. Whether an item is given need not change only once: then a place is still one of a change,
and any check that contradicts the others makes it not steady.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec

from rbank_es import limits
from rbank_es.rerun.given_memory import GivenMemory

GUESSES = 4
"""Places that are guessed for one change, by two checks each, before its search only halves."""

Holds = Callable[[GivenMemory], bool]
Guesses = Callable[["MemoryDifference", GivenMemory, GivenMemory], Iterable[int]]
"""Returns places where a difference probably began, the likeliest first, somewhere between a place where the run was
given the one and a later place where it was given the other."""


class MemoryDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of a run's memory from before. `gained` and `lost` are ids of items.

    `guide`: the guide is another one. `words`: the same items come in another order or in other words.
    """

    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    guide: bool = False
    words: bool = False

    def __add__(self, more: MemoryDifference) -> MemoryDifference:
        return MemoryDifference(
            gained=(*self.gained, *more.gained),
            lost=(*self.lost, *more.lost),
            guide=self.guide or more.guide,
            words=self.words or more.words,
        )


class FoundChange(msgspec.Struct, frozen=True, kw_only=True):
    """A place since which a run is given something else. `steady`: no check contradicts that it changed once."""

    place: int
    difference: MemoryDifference
    steady: bool


class _TooManyChecks(Exception):
    """The search reached the limit of checks."""


class ChangeSearch:
    """A search over `count` places, of which each is asked once. `given` is what is known so far, by place."""

    def __init__(self, count: int, ask: Callable[[int], GivenMemory]) -> None:
        """Search with `ask`, which returns what the run is given at a place."""
        self.last = count - 1
        self.given: dict[int, GivenMemory] = {}
        self.complete = True
        """Whether all differences were searched for; False once `BISECT_CHECKS` were made."""
        self._ask = ask

    def at(self, place: int) -> GivenMemory:
        """Return the memory that the run is given at a place."""
        if place not in self.given:
            if len(self.given) >= limits.BISECT_CHECKS:
                raise _TooManyChecks
            self.given[place] = self._ask(place)
        return self.given[place]

    def changes(self, guesses: Guesses) -> list[FoundChange]:
        """Return the places at which what the run was given at the last place began, each with all that began there.

        Each difference takes at most the binary logarithm of the places, two checks for each of `GUESSES`, and
        one of the next place; what is known from other differences takes none.
        """
        own, before = self.at(self.last), self.at(-1)
        found: dict[int, FoundChange] = {}
        for difference, holds in _differences(own, before):
            try:
                place, steady = self._since(holds, partial(guesses, difference))
            except _TooManyChecks:
                # Changes found so far are true; the result says that there may be more.
                self.complete = False
                break
            known = found.get(place)
            both = difference if known is None else known.difference + difference
            steady = steady and (known is None or known.steady)
            found[place] = FoundChange(place=place, difference=both, steady=steady)
        return [found[place] for place in sorted(found)]

    def _since(self, holds: Holds, guesses: Callable[[GivenMemory, GivenMemory], Iterable[int]]) -> tuple[int, bool]:
        """Return a place at which something holds and just before which it doesn't, and whether that is steady."""
        low, high = self._bracket(holds)
        tried: set[int] = set()
        while high - low > 1:
            guess = None
            if len(tried) < GUESSES:
                near = (each for each in guesses(self.given[low], self.given[high]) if low < each <= high)
                guess = next((each for each in near if each not in tried), None)
            # With the place before a guess: only both answers together prove that the difference began there.
            asked = ((low + high) // 2,) if guess is None else (guess, guess - 1)
            tried |= set() if guess is None else {guess}
            for place in asked:
                if low < place < high:
                    low, high = (low, place) if holds(self.at(place)) else (place, high)
        # One check behind the place found, which shows a change that didn't last: it is not steady then.
        if high < self.last:
            self.at(high + 1)
        return high, all(holds(given) == (place >= high) for place, given in self.given.items())

    def _bracket(self, holds: Holds) -> tuple[int, int]:
        """Return the last two neighbours among the places asked so far between which something begins to hold."""
        known = sorted(self.given)
        pairs = zip(known, known[1:], strict=False)
        # What began earlier ended again before the run, so only the last beginning explains it.
        return [(low, high) for low, high in pairs if holds(self.given[high]) and not holds(self.given[low])][-1]


def _differences(own: GivenMemory, before: GivenMemory) -> Iterator[tuple[MemoryDifference, Holds]]:
    """Yield each difference with the test of whether it is there; it is at the last place, and not at the first."""
    gained = [item for item in own.items if item not in before.items]
    lost = [item for item in before.items if item not in own.items]
    for item in gained:
        yield MemoryDifference(gained=(item,)), _has(item)
    for item in lost:
        yield MemoryDifference(lost=(item,)), _lacks(item)
    if own.guide != before.guide:
        yield MemoryDifference(guide=True), lambda given: given.guide == own.guide
    words = (own.items, own.procedures)
    # Where items came or left, the texts that quote them differ anyway.
    if not gained and not lost and words != (before.items, before.procedures):
        yield MemoryDifference(words=True), lambda given: (given.items, given.procedures) == words


def _has(item: str) -> Holds:
    return lambda given: item in given.items


def _lacks(item: str) -> Holds:
    return lambda given: item not in given.items
