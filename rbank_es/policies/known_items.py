"""The items of a bank as candidates are compared with them: the state of every id, the live items by their words, and
the words that somebody rejected.

The index goes on with the bank: an item is added or dropped in the time that its own words take. What a decision would
change is held in a layer above it, so a decision that is not recorded leaves nothing behind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import merge
from itertools import chain, compress
from operator import eq

from msgspec.structs import replace

from rbank_es.events.items import JUDGE_SOURCES, Item
from rbank_es.policies.words import words_of
from rbank_es.state import ItemState, State
from rbank_es.state.bank_state import Order

_WORD_SETS_KEPT = 2_000
"""Contents whose sets of words are kept in memory, at some 4 kB each: extractions are compared with them again."""

Place = tuple[Order, str]
"""The place of an item among others: the order of its birth, then its id."""

_FEW = 16
"""Items that are all compared with: looking up which of so few may fit costs more."""

_SKETCH_BITS = 512

_SHARED = 3
"""Rare words that similar contents share: with 2, so do ten times as many that aren't similar."""

_SAMPLE = 4_000
"""Items from which the frequency of words is estimated: more of them rank rare words no better."""

_SCANS = 3
"""Scans of all items before they are indexed: a scan takes a tenth of the time, and most extractions need no more."""

_GROWTH = 8
"""Words are ranked again when there are so many times as many items: all rankings together cost 1.15 times the last."""


@lru_cache(maxsize=_WORD_SETS_KEPT)
def distinct_words(content: str) -> frozenset[str]:
    """Return the set of the words of a text."""
    # Cached, because the same items are compared with at each extraction, and items never change.
    return frozenset(words_of(content))


class Peer:
    """A live item to compare with, prepared once."""

    __slots__ = ("item", "order", "live")

    def __init__(self, item: Item, order: Place) -> None:
        self.item, self.order = item, order
        self.live = True

    @property
    def title_chars(self) -> int:
        """The length of the title as it is compared."""
        return len(self.item.title.lower())

    @property
    def words(self) -> frozenset[str]:
        """The distinct words of the content."""
        return distinct_words(self.item.content)


class _Ranks(dict[str, int]):
    """Words by rank, the rarest first. A word that comes later is rarer than all before, and keeps its rank."""

    def __missing__(self, word: str) -> int:
        self[word] = rank = -len(self) - 1
        return rank


class RareWords:
    """Items by the rarest of their words, so that those with similar contents are found without comparing all.

    Two contents that are similar enough have at least `needed` words in common, by the size of either. So the three
    rarest of the common words are among the `size - needed + 3` rarest of each (prefix filtering; Chaudhuri, Ganti,
    Kaushik: A primitive operator for similarity joins in data cleaning, 2006). Any order of words will do that doesn't
    change; by frequency, few items share three such words.

    The first few times the words themselves are looked for in all contents, without an index.
    """

    def __init__(self, content_min: tuple[int, int]) -> None:
        self._content_min = content_min
        self._holding: defaultdict[str, list[int]] = defaultdict(list)
        self._ranks = _Ranks()
        self._done = self._ranked = self._scanned = 0
        self._sketches: dict[int, int] = {}

    def near(self, peers: list[Peer], words: frozenset[str]) -> Iterator[int]:
        """Yield the indexes of the items whose contents may be similar enough to these words."""
        # Sets of words that differ in n words differ in n bits of their sketches at most, which is quickly counted.
        numerator, denominator = self._content_min
        apart, sketch = len(words) * (denominator - numerator) // numerator, None
        for number in self._sharing(peers, words):
            # Not earlier, because most words share too few with any item.
            sketch = _sketch(words) if sketch is None else sketch
            known = self._sketches.get(number)
            if known is None:
                known = self._sketches[number] = _sketch(peers[number].words)
            if (known ^ sketch).bit_count() <= apart:
                yield number

    def _sharing(self, peers: list[Peer], words: frozenset[str]) -> Iterable[int]:
        missing = len(peers) - self._done
        found: list[int] = []
        if missing <= _FEW or self._scanned >= _SCANS * missing:
            self.index(peers)
        else:
            self._scanned += missing
            found = self._scan(peers, words)
        # Sorting merges the lists, which are in order, in two thirds of the time of sets.
        rarest = self._rarest(words) if self._done else ()
        numbers = sorted(chain.from_iterable(self._holding.get(word, ()) for word in rarest))
        shared = min(max(self._needed(words), 1), _SHARED)
        return chain(found, set(compress(numbers, map(eq, numbers, numbers[shared - 1 :]))))

    def _scan(self, peers: list[Peer], words: frozenset[str]) -> list[int]:
        """Return those that aren't indexed and hold enough of some words, be it as parts of longer words."""
        missing = ((number, peers[number].item.content) for number in range(self._done, len(peers)))
        if not words:
            return [number for number, content in missing if not words_of(content)]
        needed = self._needed(words)
        shared = min(needed, 2)
        # Any words of so many will do. The longest, because they are rare.
        some = sorted(words, key=len, reverse=True)[: len(words) - needed + shared]
        found = []
        for number, content in missing:
            text = content.lower() if content.isascii() else " ".join(words_of(content))
            left = shared
            for word in some:
                if word in text:
                    left -= 1
                    if not left:
                        found.append(number)
                        break
        return found

    def index(self, peers: list[Peer]) -> None:
        """Index the items that aren't yet; worth it at once where more than a few are looked for."""
        self._scanned = 0
        if len(peers) >= _GROWTH * self._ranked:
            self._rank(peers)
        missing = peers[self._done :]
        # Many would only drive the words in use out of the cache of `Peer.words`; few are in it, as candidates were.
        few = len(missing) <= _WORD_SETS_KEPT // 2
        for number, peer in enumerate(missing, self._done):
            for word in self._rarest(peer.words if few else frozenset(words_of(peer.item.content))):
                self._holding[word].append(number)
        self._done = len(peers)

    def _rank(self, peers: list[Peer]) -> None:
        counted = Counter[str]()
        for peer in peers[:: len(peers) // _SAMPLE + 1]:
            counted.update(peer.words)
        common = sorted(counted, key=lambda word: (counted[word], word))
        self._ranks = _Ranks({word: rank for rank, word in enumerate(common)})
        self._holding.clear()
        self._done, self._ranked = 0, len(peers)

    def _rarest(self, words: frozenset[str]) -> Sequence[str]:
        if not words:  # two contents without a word are alike
            return ("",)
        return sorted(words, key=self._ranks.__getitem__)[: len(words) - self._needed(words) + _SHARED]

    def _needed(self, words: frozenset[str]) -> int:
        numerator, denominator = self._content_min
        return -(-numerator * len(words) // denominator)


class Peers:
    """Items to compare with, by their words; perhaps a layer above others, which it may hide."""

    def __init__(self, below: Peers | None = None) -> None:
        self._below = below
        self._hidden: set[str] = set()
        self._all: list[Peer] = []
        self._by_id: dict[str, Peer] = {}
        self._rare: dict[tuple[int, int], RareWords] = {}

    def add(self, item: Item, order: Place) -> None:
        """Add an item, or bring it back, perhaps with other words or in another place."""
        self._hidden.add(item.id)
        if (known := self._by_id.get(item.id)) is not None:
            known.live = (known.item, known.order) == (item, order)
            if known.live:
                return
        self._by_id[item.id] = peer = Peer(item, order)
        self._all.append(peer)

    def drop(self, id: str) -> None:
        """Compare with an item no more."""
        self._hidden.add(id)
        if (known := self._by_id.get(id)) is not None:
            known.live = False

    def among(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Return those of the ids that are compared with, each once."""
        return tuple(id for id in dict.fromkeys(ids) if id in self)

    def __contains__(self, id: str) -> bool:
        if id in self._hidden or self._below is None:
            return id in self._by_id and self._by_id[id].live
        return id in self._below

    def __bool__(self) -> bool:
        """Return whether there was ever any, in this layer or below."""
        return bool(self._all or self._below)

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
        """Yield the items whose words may fit."""
        if len(self._all) <= _FEW:
            return iter(self._all)
        rare = self._rare.get(content_min)
        if rare is None:
            rare = self._rare[content_min] = RareWords(content_min)
        return (self._all[number] for number in rare.near(self._all, words))


def _sketch(words: Iterable[str]) -> int:
    """Return a number with a bit for each word."""
    sketch = 0
    for word in words:
        sketch |= 1 << hash(word) % _SKETCH_BITS
    return sketch


def _order(peer: Peer) -> Place:
    return peer.order


Kind = tuple[str, str, str]
"""What must be equal of a candidate and an item that it may repeat: source, polarity, domain (empty for none)."""


def kind_of(item: Item) -> Kind:
    """Return the kind of a candidate."""
    return (item.src, item.polarity, item.domain or "")


class KnownItems:
    """The items of a bank, perhaps as a layer: the state of each, those to compare with, and rejected words."""

    def __init__(self, below: KnownItems | None = None) -> None:
        self._below = below
        self._entries: dict[str, ItemState] = {}
        self._peers: dict[Kind, Peers] = {}
        self._bars: dict[str, Peers] = {}
        self._barred: dict[str, list[tuple[str, str]]] = {}
        self.active: int = 0 if below is None else below.active
        """The number of active items that agents are given."""

    @classmethod
    def of(cls, state: State) -> KnownItems:
        """Return the items of a state."""
        known = cls()
        known.update(state, state.items)
        return known

    def entry(self, id: str) -> ItemState | None:
        """Return an item as it is, None if it is unknown."""
        found = self._entries.get(id)
        return found if found is not None or self._below is None else self._below.entry(id)

    def update(self, state: State, ids: Iterable[str]) -> None:
        """Take items as they are in a state: those that changed."""
        for id in ids:
            old, new = self.entry(id), state.items[id]
            self._entries[id] = new
            self._place(old, new)
            if (old is not None and old.state == "rejected") or new.state == "rejected":
                self._bar(state, new)
            self.active += _counts(new) - _counts(old)

    def _place(self, old: ItemState | None, new: ItemState) -> None:
        """Compare with an item from here on, in every domain that it has, or compare with it no more."""
        before, after = _kinds(old), _kinds(new)
        for kind in before - after:
            self._peers_of(kind).drop(new.item.id)
        for kind in after:
            self._peers_of(kind).add(new.item, (new.rank, new.item.id))

    def _bar(self, state: State, entry: ItemState) -> None:
        """Bar the words that stood under a rejected id when it was rejected, or lift that."""
        id = entry.item.id
        for polarity, name in self.barred(id):
            self._bars_of(polarity).drop(name)
        self._barred[id] = []
        if entry.state != "rejected":
            return
        record = state.records[id]
        rejected_at = next(seq for seq, act in record.acts() if act == "rejected")
        for pair in record.pairs:
            known, order = state.candidates[pair], state.pairs[pair].order
            if not known.erased and order[0] < rejected_at:
                # By a name of its own, because an imported id may have had several words, of either polarity.
                words = replace(known.item, id=f"{id} {pair[0]} {pair[1]}")
                self._bars_of(words.polarity).add(words, (order, words.id))
                self._barred[id].append((words.polarity, words.id))

    def barred(self, id: str) -> Sequence[tuple[str, str]]:
        """Return polarity and name of the words that are barred because an id was rejected."""
        found = self._barred.get(id)
        return found if found is not None else self._below.barred(id) if self._below is not None else ()

    def peers(self, candidate: Item) -> Peers:
        """Return the items with which a candidate is compared: those of its source, polarity and domain."""
        return self._peers_of(kind_of(candidate))

    def bars(self, candidate: Item) -> Peers:
        """Return the rejected words of a candidate's polarity."""
        return self._bars_of(candidate.polarity)

    def _peers_of(self, kind: Kind) -> Peers:
        found = self._peers.get(kind)
        if found is None:
            below = self._below._peers_of(kind) if self._below is not None else None
            found = self._peers[kind] = Peers(below)
        return found

    def _bars_of(self, polarity: str) -> Peers:
        found = self._bars.get(polarity)
        if found is None:
            below = self._below._bars_of(polarity) if self._below is not None else None
            found = self._bars[polarity] = Peers(below)
        return found


def _kinds(entry: ItemState | None) -> set[Kind]:
    """Return the kinds under which candidates are compared with an item: none unless it is active and has words."""
    if entry is None or entry.state != "active" or entry.erased:
        return set()
    return {(entry.item.src, entry.item.polarity, domain) for domain in entry.domains or ("",)}


def _counts(entry: ItemState | None) -> bool:
    return entry is not None and entry.state == "active" and entry.item.src not in JUDGE_SOURCES
