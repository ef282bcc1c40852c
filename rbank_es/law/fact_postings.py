"""Items by their facts, so that those near to others are found without comparing all: postings, counted.

Prefix filtering doesn't serve, because a content may be near to one that is many times as long.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from rbank_es.events.items import Item
from rbank_es.law.likeness import facts_of, is_enough, title_facts


class FactPostings:
    """A growing row of items, by the facts that they have."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._titles: list[frozenset[str]] = []
        self._having: defaultdict[str, list[int]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, items: Sequence[Item]) -> None:
        """Add items behind the others."""
        for number, item in enumerate(items, len(self._sizes)):
            facts = facts_of(item)
            self._sizes.append(len(facts))
            self._titles.append(title_facts(item))
            for fact in facts:
                self._having[fact].append(number)

    def near(self, item: Item) -> Iterator[int]:
        """Yield the numbers of the items that are near to one, in order."""
        facts, title = facts_of(item), title_facts(item)
        common = Counter(chain.from_iterable(self._having[fact] for fact in facts if fact in self._having))
        for number in sorted(common):
            titled = bool(title) and title == self._titles[number]
            if is_enough(common[number], len(facts), self._sizes[number], titled=titled):
                yield number
