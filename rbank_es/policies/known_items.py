"""The items of a bank as candidates are compared with them: all ids, and an index of the live items by their words.

The index goes on with the bank: an item is added or dropped in the time that its own words take. What a decision would
add is held in a layer above it, so a decision that is not recorded leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from heapq import merge

from rbank_es import limits
from rbank_es.events.items import Item
from rbank_es.policies.words import words_of
from rbank_es.state import ItemState, State

Order = tuple[int, str]
"""The place of an item among others: position of birth, then id."""

_SKETCH_BITS = 512
_LATER = 1 << 62
"""Beyond any position: candidates of the present decision come after all items of the bank."""


@lru_cache(maxsize=limits.WORD_SETS_KEPT)
def distinct_words(content: str) -> frozenset[str]:
    """Return the set of the words of a text."""
    # Cached, because the same items are compared with at each extraction, and items never change.
    return frozenset(words_of(content))


class Peer:
    """A live item to compare with, prepared once."""

    __slots__ = ("item", "order", "title_chars", "live")

    def __init__(self, item: Item, order: Order) -> None:
        self.item, self.order = item, order
        self.title_chars = len(item.title.lower())
        self.live = True

    @property
    def words(self) -> frozenset[str]:
        """The distinct words of the content."""
        return distinct_words(self.item.content)


class Peers:
    """Items to compare with, and which of them hold a word; perhaps a layer above others, which it may hide."""

    def __init__(self, below: Peers | None = None) -> None:
        self._below = below
        self._hidden: set[str] = set()
        self._all: list[Peer] = []
        self._sketches: list[int] = []
        self._by_id: dict[str, Peer] = {}
        self._holding: dict[str, list[int]] = {}

    def add(self, item: Item, order: Order) -> None:
        """Add an item, or bring it back."""
        self._hidden.add(item.id)
        if (known := self._by_id.get(item.id)) is not None:
            known.live = True
            return
        number, words = len(self._all), distinct_words(item.content)
        # An item without a word is found under the empty one, where a content without words looks for its like.
        for word in words or ("",):
            self._holding.setdefault(word, []).append(number)
        self._by_id[item.id] = peer = Peer(item, order)
        self._all.append(peer)
        self._sketches.append(_sketch(words))

    def drop(self, id: str) -> None:
        """Compare with an item no more."""
        self._hidden.add(id)
        if (known := self._by_id.get(id)) is not None:
            known.live = False

    def __iter__(self) -> Iterator[Peer]:
        """Yield all of them, in order."""
        own = sorted((peer for peer in self._all if peer.live), key=_order)
        return self._over(own, iter(self._below or ()))

    def like(self, words: frozenset[str], content_min: tuple[int, int]) -> Iterator[Peer]:
        """Yield those whose contents may be similar enough to these words, in order; few others."""
        if content_min[0] == 0:
            return iter(self)
        own = sorted((peer for peer in self._near(words, content_min) if peer.live), key=_order)
        return self._over(own, self._below.like(words, content_min) if self._below is not None else iter(()))

    def _over(self, own: list[Peer], below: Iterator[Peer]) -> Iterator[Peer]:
        if self._below is None:
            return iter(own)
        hidden = self._hidden
        return merge((peer for peer in below if peer.item.id not in hidden), own, key=_order)

    def _near(self, words: frozenset[str], content_min: tuple[int, int]) -> Iterator[Peer]:
        """Yield the items whose words may fit.

        A content that is similar enough has at least `needed` of these words, so at least two of any
        `len(words) - needed + 2` of them: the rarest are looked up (prefix filtering; Chaudhuri, Ganti, Kaushik: A
        primitive operator for similarity joins in data cleaning, 2006). It differs in `apart` words at most, so in no
        more bits of its sketch.
        """
        if not self._all:
            return iter(())
        numerator, denominator = content_min
        needed = -(-numerator * len(words) // denominator)
        apart = len(words) * (denominator - numerator) // numerator
        shared = min(needed, 2)
        holding, sketches, sketch = self._holding, self._sketches, _sketch(words)
        rarest = sorted(words, key=lambda word: (len(holding.get(word, ())), word))[: len(words) - needed + shared]
        once, twice = set[int](), set[int]()
        for numbers in [holding.get(word, ()) for word in rarest or ("",)]:
            twice |= once.intersection(numbers)
            once.update(numbers)
        # Most that share rare words are told apart by their sketches, at a tenth of the cost of comparing words.
        found = twice if shared == 2 else once
        near = [number for number in found if (sketches[number] ^ sketch).bit_count() <= apart]
        return (self._all[number] for number in near)


def _order(peer: Peer) -> Order:
    return peer.order


def _sketch(words: Iterable[str]) -> int:
    """Return a number with a bit for each word; sets that differ in n words differ in n bits at most."""
    sketch = 0
    for word in words:
        sketch |= 1 << hash(word) % _SKETCH_BITS
    return sketch


class KnownItems:
    """The ids of all items, and the live ones (active, with words) by source and polarity; perhaps as a layer."""

    def __init__(self, below: KnownItems | None = None) -> None:
        self._below = below
        self._ids: set[str] = set()
        self._peers: dict[tuple[str, str], Peers] = {}
        self._added = 0

    @classmethod
    def of(cls, state: State) -> KnownItems:
        """Return the items of a state."""
        known = cls()
        known.update(state.items.values())
        return known

    def __contains__(self, id: str) -> bool:
        return id in self._ids or (self._below is not None and id in self._below)

    def update(self, entries: Iterable[ItemState]) -> None:
        """Take the present state of items that were born, ended or revived."""
        for entry in entries:
            self._ids.add(entry.item.id)
            if entry.state == "active" and not entry.erased:
                self.peers(entry.item).add(entry.item, (entry.born_seq, entry.item.id))
            else:
                self.peers(entry.item).drop(entry.item.id)

    def add(self, item: Item) -> None:
        """Add a candidate, after all that are there."""
        self._ids.add(item.id)
        self._added += 1
        self.peers(item).add(item, (_LATER + self._added, item.id))

    def peers(self, item: Item) -> Peers:
        """Return the items with which this one is compared: those of its source and polarity."""
        kind = (item.src, item.polarity)
        found = self._peers.get(kind)
        if found is None:
            below = self._below.peers(item) if self._below is not None else None
            found = self._peers[kind] = Peers(below)
        return found
