"""The items of a bank whose statements are looked up where they are kept, as in read models: none is read beforehand.

What is found has the same words as it would have in memory, so decisions are the same. Below every layer there is one
such index at most, and it is never changed: what changes is held in layers above.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Protocol

from rbank_es.events.items import Item
from rbank_es.law.bank_state import ItemState, State
from rbank_es.law.lazy_mappings import LookedUpItems
from rbank_es.law.likeness import are_near
from rbank_es.law.rare_words import TOKENS, WORDS, ItemWords
from rbank_es.law.similar_items import (
    Group,
    Kind,
    KnownItems,
    Peer,
    Peers,
    barred_words,
    counts_for_agents,
    kinds_of,
    stands_for,
)

LIKE_SHARE, NEAR_SHARE = 64, 256
"""Look-ups take as long as to read all items into memory when there was one for so many items: then that is done."""

_ITEMS_MOST = 16_384
"""Items beyond which a look-up takes longer, too: there are as many look-ups as for so many."""


class StatementIndex(Protocol):
    """The candidates of a bank by what they state: all up to `position`, and perhaps later ones.

    Answers are the ids of their items, too many rather than too few; None where it can't answer any more.
    """

    @property
    def position(self) -> int:
        """The position up to which it has all candidates."""
        ...

    def same(self, item: Item) -> Collection[str] | None:
        """Return the items that may state the same as one."""
        ...

    def like(self, tokens: frozenset[str], content_min: tuple[int, int]) -> Collection[str] | None:
        """Return the items whose tokens may have a Jaccard similarity of `content_min`, above 0, to some."""
        ...

    def near(self, item: Item) -> Collection[str] | None:
        """Return the items that may be near to one."""
        ...


class LookedUpPeers(Peers):
    """Items to compare with that are looked up one by one. They are read into memory once that is worth it, where
    words are asked for that the index has not, and where it can't answer."""

    def __init__(self, index: StatementIndex, ids: Collection[str], find: Callable[[str], Iterable[Peer]]) -> None:
        """`find` returns what is compared with of one of the `ids`, or of any other."""
        super().__init__()
        self._index, self._ids, self._find = index, ids, find
        self._asked = 0

    def __contains__(self, id: str) -> bool:
        return any(True for _ in self._find(id))

    def __bool__(self) -> bool:
        return any(map(self.__contains__, self._ids))

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._read)

    def same(self, item: Item) -> Iterator[Peer]:
        """Yield those that may state the same as an item, in order; few others."""
        ids = self._index.same(item)
        return self._read.same(item) if ids is None else self._found(ids)

    def like(self, words: frozenset[str], content_min: tuple[int, int], reading: ItemWords = WORDS) -> Iterator[Peer]:
        """Yield those whose contents may be similar enough to these words, in order; few others."""
        if reading is TOKENS and content_min[0] and self._may_ask(LIKE_SHARE):
            ids = self._index.like(words, content_min)
            if ids is not None:
                return self._found(ids)
        return self._read.like(words, content_min, reading)

    def near(self, item: Item) -> Iterator[Peer]:
        """Yield those that are near to an item, in order."""
        ids = self._index.near(item) if self._may_ask(NEAR_SHARE) else None
        if ids is None:
            return self._read.near(item)
        return (peer for peer in self._found(ids) if are_near(item, peer.item))

    def _may_ask(self, share: int) -> bool:
        self._asked += 1
        return self._asked * share <= min(len(self._ids), _ITEMS_MOST)

    def _found(self, ids: Iterable[str]) -> Iterator[Peer]:
        return iter(sorted((peer for id in ids for peer in self._find(id)), key=lambda peer: peer.order))

    @cached_property
    def _read(self) -> Peers:
        peers = Peers()
        for peer in self._found(self._ids):
            peers.add(peer.item, peer.order)
        return peers


class _LookedUpItems(KnownItems):
    """The items of a state as they were when this was made; the state may go on. Never updated."""

    def __init__(self, state: State, index: StatementIndex) -> None:
        super().__init__()
        self._state, self._index = state, index
        items = state.items
        if isinstance(items, LookedUpItems):
            self._items: Mapping[str, ItemState] = items
            self._ids, self.active, rejected = items.ids, items.active, items.ids_in("rejected")
        else:
            self._items = self._entries = dict(items)
            self._ids, self.active = self._entries.keys(), sum(map(counts_for_agents, self._entries.values()))
            rejected = [id for id, entry in self._entries.items() if entry.state == "rejected"]
        self._rejected = {id: list(barred_words(state, self._items[id])) for id in rejected}
        self._barred = {id: [(bar.item.polarity, bar.item.id) for bar in bars] for id, bars in self._rejected.items()}

    def entry(self, id: str) -> ItemState | None:
        """Return an item as it is, None if it is unknown."""
        return self._items.get(id)

    def _made(self, group: Group, key: Kind | str) -> Peers:
        if group == "bars":
            return LookedUpPeers(self._index, self._rejected, lambda id: self._bars_of(id, key))
        return LookedUpPeers(self._index, self._ids, lambda id: self._held(id, group, key))

    def _bars_of(self, id: str, polarity: Kind | str) -> Iterator[Peer]:
        return (bar for bar in self._rejected.get(id, ()) if bar.item.polarity == polarity)

    def _held(self, id: str, group: Group, key: Kind | str) -> Iterator[Peer]:
        entry = self._items.get(id)
        if entry is None:
            return
        if group == "peers":
            holds = key in kinds_of(entry)
        else:
            # By the state as it is then: who stands for an item changes with the item, which a layer above then has.
            holds = entry.item.polarity == key and stands_for(self._state, entry)
        if holds:
            yield Peer(entry.item, (entry.rank, id))


def known_by(index: StatementIndex, state: State) -> KnownItems:
    """Return the items of a state, whose candidates up to its position the index has. It takes what changes."""
    known = KnownItems(_LookedUpItems(state, index))
    if index.position < state.position:
        known.update(state, [id for id, entry in state.items.items() if _came_after(state, entry, index.position)])
    return known


def _came_after(state: State, entry: ItemState, position: int) -> bool:
    """Return whether words of an item that candidates are compared with were extracted after a position."""
    if entry.state == "rejected":
        return any(state.extractions[extraction].seq > position for extraction, _ in state.records[entry.item.id].pairs)
    return state.extractions[entry.extraction].seq > position
