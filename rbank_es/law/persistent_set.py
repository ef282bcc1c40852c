"""A set that only grows, as a value: each version is kept, and the next one costs what is new in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from itertools import islice
from typing import TypeVar

Member = TypeVar("Member")


class GrowingSet(Set[Member]):
    """An immutable set in order of growth. Versions of one set share their members, each the first so many of them."""

    __slots__ = ("_members", "_places", "_size", "_unclaimed")

    def __init__(self, members: Iterable[Member] = ()) -> None:
        """Begin with some members."""
        self._members = list(dict.fromkeys(members))
        self._places = {member: place for place, member in enumerate(self._members)}
        self._size, self._unclaimed = len(self._members), [True]

    def __contains__(self, member: object) -> bool:
        place = self._places.get(member)  # type: ignore[arg-type]  # what is no member has no place
        return place is not None and place < self._size

    def __iter__(self) -> Iterator[Member]:
        return islice(self._members, self._size)

    def __len__(self) -> int:
        return self._size

    def __hash__(self) -> int:
        return self._hash()

    def with_more(self, members: Iterable[Member]) -> GrowingSet[Member]:
        """Return the set with more members: itself if it has them all."""
        new = [member for member in dict.fromkeys(members) if member not in self]
        if not new:
            return self
        try:
            # One version follows in place. Taking the claim is atomic, because threads share states.
            self._unclaimed.pop()
        except IndexError:
            return GrowingSet((*self, *new))
        grown = GrowingSet[Member]()
        grown._members, grown._places = self._members, self._places
        for member in new:
            self._places[member] = len(self._members)
            self._members.append(member)
        grown._size = len(self._members)
        return grown

    def since(self, before: GrowingSet[Member]) -> Iterator[Member]:
        """Yield the members that another set has not; of an earlier version, without a look at what both have."""
        if before._members is self._members:
            # A slice, because `islice` would walk what both have.
            return iter(self._members[before._size : self._size])
        return (member for member in self if member not in before)
