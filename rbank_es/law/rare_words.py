"""Items by the rarest of their words, so that those with similar contents are found without comparing all.

Two contents that are similar enough have at least `needed` words in common, by the size of either. So the three rarest
of the common words are among the `size - needed + 3` rarest of each (prefix filtering; Chaudhuri, Ganti, Kaushik: A
primitive operator for similarity joins in data cleaning, 2006). Any order of words will do that doesn't change; by
frequency, few items share three such words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, compress
from operator import eq
from typing import NamedTuple, Protocol

from rbank_es.events.items import Item
from rbank_es.law.likeness import content_of, parse_tokens, token_set
from rbank_es.policies.bit_slices import Documents, documents_of, each_in, in_several
from rbank_es.policies.words import WORD_SETS_KEPT, distinct_words, words_of

_FEW = 16
"""Items that are indexed at once: to scan so few costs more."""

_SKETCH_BITS = 512

_SHARED = 3
"""Rare words that similar contents share: with 2, fifty times as many share them that aren't similar."""

_EQUAL_SCANS = 4
"""Scans for items with exactly some words that take as long as one for similar items."""

_SAMPLE = 4_000
"""Items from which the frequency of words is estimated: more of them rank rare words no better."""

_GROWTH = 8
"""Words are ranked again when there are so many times as many items: all rankings together cost 1.15 times the last."""

SPARSE_SHARE = 1024
"""The items of a word that fewer than one in so many have are kept as a list: a set takes 16 times as much memory. Of
100,000 items of 40 words, the sets take 40 MB; of 11 words that are looked up, 1.6 are listed, for 90 items."""

LISTED_ITEMS = 8
"""Items that any word may have in a list: to put each into a set by itself takes longer than to look them up."""


class ItemWords(NamedTuple):
    """A way to read the words by which items are compared.

    `text` is what is read. `distinct` returns its words and keeps them for a while, `each` returns them, perhaps with
    repetitions, and keeps nothing. `part` returns a part that an ASCII text in lower case has wherever it has the word.
    `scans` are made of all items before they are indexed: as many as take a third of its time, because most extractions
    need no more.
    """

    text: Callable[[Item], str]
    distinct: Callable[[str], frozenset[str]]
    each: Callable[[str], Collection[str]]
    part: Callable[[str], str]
    scans: int


def _part_of_token(token: str) -> str:
    # Of 5 characters at least, because shorter ones may stand for other words: not, have.
    if len(token) < 5 or not token.isascii() or token[0].isdigit() or token[0] == "-":
        return ""
    # An ending that was cut may have changed the last letter: queries, query.
    return token[:-1] if token.isalpha() else token


WORDS = ItemWords(lambda item: item.content, distinct_words, words_of, str, scans=3)
"""The words of contents, by which the first versions of policies compare."""

TOKENS = ItemWords(content_of, token_set, parse_tokens, _part_of_token, scans=9)
"""The tokens of statements."""


class WordedItem(Protocol):
    """An item to index."""

    @property
    def item(self) -> Item:
        """The item."""
        ...


class _Ranks(dict[str, int]):
    """Words by rank, the rarest first. A word that comes later is rarer than all before, and keeps its rank."""

    def __missing__(self, word: str) -> int:
        self[word] = rank = -len(self) - 1
        return rank


class WordOrder:
    """An order of all words, the rarest first, by how many of some items have them; `size` is the number of these."""

    def __init__(self, peers: Sequence[WordedItem] = (), reading: ItemWords = WORDS) -> None:
        counted = Counter[str]()
        for peer in peers[:: len(peers) // _SAMPLE + 1]:
            counted.update(reading.distinct(reading.text(peer.item)))
        common = sorted(counted, key=lambda word: (counted[word], word))
        self.size = len(peers)
        self._ranks = _Ranks({word: rank for rank, word in enumerate(common)})
        self._kept: dict[frozenset[str], list[str]] = {}

    def sorted(self, words: frozenset[str]) -> list[str]:
        """Return words in this order."""
        return sorted(words, key=self._ranks.__getitem__)

    def kept(self, words: frozenset[str]) -> list[str]:
        """Return words in this order, and keep them so for a while: a candidate is looked for in two layers, and then
        indexed in both."""
        known = self._kept.get(words)
        if known is None:
            if len(self._kept) >= WORD_SETS_KEPT:
                self._kept.clear()
            known = self._kept[words] = self.sorted(words)
        return known


class _Holding:
    """The items that have a word, by their indexes: a set, and a list of the latest, or of all while they are few."""

    __slots__ = ("dense", "listed")

    def __init__(self) -> None:
        self.dense: Documents = 0
        self.listed: list[int] = []

    def settle(self, last: int) -> None:
        """Put those that are listed into the set, where it is worth its memory."""
        if self.dense or len(self.listed) * SPARSE_SHARE >= last:
            self.dense |= documents_of(self.listed, last)
            self.listed.clear()


class RareWords:
    """Items by the rarest of their words; the first few times, these are looked for in all contents instead."""

    def __init__(self, content_min: tuple[int, int], like: RareWords | None = None, reading: ItemWords = WORDS) -> None:
        """Begin without items. Words are in the order of another index if one is given, until there are many more."""
        self._content_min, self._reading = content_min, reading
        self._holding = defaultdict[str, _Holding](_Holding)
        self._order: WordOrder = WordOrder() if like is None else like._order
        self._whole = defaultdict[int, list[int]](list)
        self._done = self._scanned = 0
        self._sketches: dict[int, int] = {}

    def near(self, peers: Sequence[WordedItem], words: frozenset[str]) -> Iterator[int]:
        """Yield the indexes of the items whose contents may be similar enough to these words."""
        # Sets of words that differ in n words differ in n bits of their sketches at most, which is quickly counted.
        numerator, denominator = self._content_min
        apart, sketch = len(words) * (denominator - numerator) // numerator, None
        for number in self._sharing(peers, words):
            # Not earlier, because most words share too few with any item.
            sketch = _sketch(words) if sketch is None else sketch
            known = self._sketches.get(number)
            if known is None:
                known = self._sketches[number] = _sketch(self._distinct(peers[number]))
            if (known ^ sketch).bit_count() <= apart:
                yield number

    def equal(self, peers: Sequence[WordedItem], words: frozenset[str]) -> Iterator[int]:
        """Yield the indexes of the items whose contents may have exactly these words, and few others."""
        missing = len(peers) - self._done
        found: list[int] = []
        if self._must_index(missing):
            self.index(peers)
        else:
            # Most contents lack the longest word, and are done.
            self._scanned += missing // _EQUAL_SCANS
            found = self._scan_whole(peers, words)
        return chain(self._whole.get(hash(words), ()), found)

    def _must_index(self, missing: int) -> bool:
        return missing <= _FEW or self._scanned >= self._reading.scans * missing

    def _scan_whole(self, peers: Sequence[WordedItem], words: frozenset[str]) -> list[int]:
        """Return those that aren't indexed and hold all of some words, be it as parts of longer words."""
        reading = self._reading
        every = [reading.part(word) for word in sorted(words, key=len, reverse=True)]
        found = []
        for number in range(self._done, len(peers)):
            content = reading.text(peers[number].item)
            text = content.lower() if content.isascii() else " ".join(reading.each(content))
            if all(map(text.__contains__, every)) and (words or not reading.each(content)):
                found.append(number)
        return found

    def _sharing(self, peers: Sequence[WordedItem], words: frozenset[str]) -> Iterable[int]:
        missing = len(peers) - self._done
        found: list[int] = []
        if self._must_index(missing):
            self.index(peers)
        else:
            self._scanned += missing
            found = self._scan(peers, words)
        return chain(found, each_in(self._holding_some(words))) if self._done else found

    def _holding_some(self, words: frozenset[str]) -> Documents:
        """Return the indexed items that share so many rare words with these as similar ones do."""
        rarest = self._rarest(words, self._order.kept)
        holding = [self._holding[word] for word in rarest if word in self._holding]
        shared = min(max(self._needed(words), 1), _SHARED)
        # Sorting merges the lists, which are in order. What is listed n times is as far from n equal ones.
        listed = sorted(chain.from_iterable(held.listed for held in holding))
        several = [listed, *(list(compress(listed, map(eq, listed, listed[more:]))) for more in range(1, shared))]
        return in_several(
            (held.dense for held in holding if held.dense), [documents_of(some, self._done) for some in several]
        )

    def _scan(self, peers: Sequence[WordedItem], words: frozenset[str]) -> list[int]:
        """Return those that aren't indexed and hold enough of some words, be it as parts of longer words."""
        reading = self._reading
        missing = ((number, reading.text(peers[number].item)) for number in range(self._done, len(peers)))
        if not words:
            return [number for number, content in missing if not reading.each(content)]
        needed = self._needed(words)
        shared = min(needed, 2)
        # Any words of so many will do. The longest, because they are rare.
        every = [reading.part(word) for word in sorted(words, key=len, reverse=True)]
        some = every[: len(words) - needed + shared]
        found = []
        for number, content in missing:
            text = content.lower() if content.isascii() else " ".join(reading.each(content))
            left = shared
            for word in some:
                if word in text:
                    left -= 1
                    if not left:
                        # Before its words are read, which takes as long as to look for hundreds.
                        if sum(map(text.__contains__, every)) >= needed:
                            found.append(number)
                        break
        return found

    def index(self, peers: Sequence[WordedItem]) -> None:
        """Index the items that aren't yet; worth it at once where more than a few are looked for."""
        self._scanned = 0
        if len(peers) >= _GROWTH * self._order.size:
            self._order = WordOrder(peers, self._reading)
            self._holding.clear()
            self._whole.clear()
            self._done = 0
        missing = peers[self._done :]
        # Many would only drive the words in use out of what is kept; few are in it, as candidates were.
        few = len(missing) <= WORD_SETS_KEPT // 2
        long = set[str]()
        for number, peer in enumerate(missing, self._done):
            words = self._distinct(peer) if few else frozenset(self._reading.each(self._reading.text(peer.item)))
            self._whole[hash(words)].append(number)
            rarest = self._rarest(words, self._order.kept if few else self._order.sorted)
            for word in rarest:
                listed = self._holding[word].listed
                listed.append(number)
                if len(listed) >= LISTED_ITEMS:
                    long.add(word)
        self._done = len(peers)
        for word in long:
            self._holding[word].settle(self._done)

    def _distinct(self, peer: WordedItem) -> frozenset[str]:
        return self._reading.distinct(self._reading.text(peer.item))

    def _rarest(self, words: frozenset[str], ordered: Callable[[frozenset[str]], list[str]]) -> Sequence[str]:
        # Two contents without a word are alike.
        return ordered(words)[: len(words) - self._needed(words) + _SHARED] if words else ("",)

    def _needed(self, words: frozenset[str]) -> int:
        numerator, denominator = self._content_min
        return -(-numerator * len(words) // denominator)


def _sketch(words: Iterable[str]) -> int:
    """Return a number with a bit for each word."""
    sketch = 0
    for word in words:
        # Python's own hash, which differs from process to process, because no sketch outlives its process.
        sketch |= 1 << hash(word) % _SKETCH_BITS
    return sketch
