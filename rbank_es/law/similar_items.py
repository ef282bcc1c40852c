"""The items of a bank as candidates are compared with them: the state of every id, the live items by their words, the
words that somebody rejected, and the items that stand on a person's word.

The index goes on with the bank: an item is added or dropped in the time that its own words take. What a decision would
change is held in a layer above it, so a decision that is not recorded leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Literal

from msgspec.structs import replace

from rbank_es.events.items import JUDGE_SOURCES, Item
from rbank_es.law.bank_state import ExtractionState, ItemRecord, ItemState, Order, State
from rbank_es.law.fact_postings import FactPostings
from rbank_es.law.likeness import LINK_MIN, content_of, facts_of, token_set
from rbank_es.law.rare_words import TOKENS, WORDS, ItemWords, RareWords
from rbank_es.law.validity import LATEST, Acts
from rbank_es.policies.words import distinct_words

_FEW = 16
"""Items that are all compared with: looking up which of so few may fit costs more."""


Place = tuple[Order, str]
"""The place of an item among others: the order of its birth, then its id."""


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

    @property
    def facts(self) -> frozenset[str]:
        """The facts by which the item may be near to others."""
        return facts_of(self.item)


class Peers:
    """Items to compare with, by their words; perhaps a layer above others, which it may hide."""

    def __init__(self, below: Peers | None = None) -> None:
        self._below = below
        self._hidden: set[str] = set()
        # Never shortened, because `RareWords` keeps indexes into it: what is dropped is no longer `live`.
        self._all: list[Peer] = []
        self._by_id: dict[str, Peer] = {}
        self._rare: dict[tuple[tuple[int, int], ItemWords], RareWords] = {}
        self._postings = FactPostings()

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

    def like(self, words: frozenset[str], content_min: tuple[int, int], reading: ItemWords = WORDS) -> Iterator[Peer]:
        """Yield those whose contents may be similar enough to these words, in order; few others."""
        if content_min[0] == 0:
            return iter(self)
        own = sorted((peer for peer in self._similar(words, content_min, reading) if peer.live), key=_order)
        return self._over(own, self._below.like(words, content_min, reading) if self._below is not None else iter(()))

    def same(self, item: Item) -> Iterator[Peer]:
        """Yield those that may state the same as an item, in order; few others."""
        own = sorted((peer for peer in self._same(item) if peer.live), key=_order)
        return self._over(own, self._below.same(item) if self._below is not None else iter(()))

    def near(self, item: Item) -> Iterator[Peer]:
        """Yield those that are near to an item, in order."""
        self._postings.add([peer.item for peer in self._all[len(self._postings) :]])
        own = sorted((peer for n in self._postings.near(item) if (peer := self._all[n]).live), key=_order)
        return self._over(own, self._below.near(item) if self._below is not None else iter(()))

    def _over(self, own: list[Peer], below: Iterator[Peer]) -> Iterator[Peer]:
        if self._below is None:
            return iter(own)
        hidden = self._hidden
        return merge((peer for peer in below if peer.item.id not in hidden), own, key=_order)

    def _similar(self, words: frozenset[str], content_min: tuple[int, int], reading: ItemWords) -> Iterator[Peer]:
        """Yield the items whose words may fit."""
        if len(self._all) <= _FEW:
            return iter(self._all)
        return (self._all[number] for number in self._rare_words(content_min, reading).near(self._all, words))

    def _same(self, item: Item) -> Iterator[Peer]:
        if len(self._all) <= _FEW:
            return iter(self._all)
        # By the index in which those that are linked are looked for next.
        rare = self._rare_words(LINK_MIN, TOKENS)
        return (self._all[number] for number in rare.equal(self._all, token_set(content_of(item))))

    def _rare_words(self, content_min: tuple[int, int], reading: ItemWords) -> RareWords:
        key = content_min, reading
        rare = self._rare.get(key)
        if rare is None:
            below = None if self._below is None else self._below._rare.get(key)
            rare = self._rare[key] = RareWords(content_min, below, reading)
        return rare


def _order(peer: Peer) -> Place:
    return peer.order


Kind = tuple[str, str, str]
"""What must be equal of a candidate and an item that it may repeat: source, polarity, domain (empty for none)."""


Group = Literal["peers", "bars", "corrections"]
"""Items that candidates are compared with: peers by kind; rejected words, and what people stand for, by polarity."""


def kind_of(item: Item) -> Kind:
    """Return the kind of a candidate."""
    return (item.src, item.polarity, item.domain or "")


class KnownItems:
    """The items of a bank, perhaps as a layer: the state of each, those to compare with, rejected words, and those that
    people stand for."""

    def __init__(self, below: KnownItems | None = None) -> None:
        self._below = below
        self._entries: dict[str, ItemState] = {}
        self._groups: dict[tuple[Group, Kind | str], Peers] = {}
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

    def update(self, state: State, ids: Iterable[str], upto: int = LATEST[0]) -> None:
        """Take items as they are in a state: those that changed. Acts of people up to a position count."""
        for id in ids:
            old, new = self.entry(id), state.items[id]
            self._entries[id] = new
            self._place(old, new)
            if (old is not None and old.state == "rejected") or new.state == "rejected":
                self._bar(state, new)
            if stands_for(state, new, upto):
                self._group("corrections", new.item.polarity).add(new.item, (new.rank, id))
            elif old is not None:
                self._group("corrections", old.item.polarity).drop(id)
            self.active += counts_for_agents(new) - counts_for_agents(old)

    def _place(self, old: ItemState | None, new: ItemState) -> None:
        """Compare with an item from here on, in every domain that it has, or compare with it no more."""
        before, after = kinds_of(old), kinds_of(new)
        for kind in before - after:
            self._group("peers", kind).drop(new.item.id)
        for kind in after:
            self._group("peers", kind).add(new.item, (new.rank, new.item.id))

    def _bar(self, state: State, entry: ItemState) -> None:
        """Bar the words that stood under a rejected id when it was rejected, or lift that."""
        id = entry.item.id
        for polarity, name in self.barred(id):
            self._group("bars", polarity).drop(name)
        self._barred[id] = []
        for bar in barred_words(state, entry):
            self._group("bars", bar.item.polarity).add(bar.item, bar.order)
            self._barred[id].append((bar.item.polarity, bar.item.id))

    def barred(self, id: str) -> Sequence[tuple[str, str]]:
        """Return polarity and name of the words that are barred because an id was rejected."""
        found = self._barred.get(id)
        return found if found is not None else self._below.barred(id) if self._below is not None else ()

    def peers(self, candidate: Item) -> Peers:
        """Return the items with which a candidate is compared: those of its source, polarity and domain."""
        return self._group("peers", kind_of(candidate))

    def bars(self, candidate: Item) -> Peers:
        """Return the rejected words of a candidate's polarity."""
        return self._group("bars", candidate.polarity)

    def corrections(self, candidate: Item) -> Peers:
        """Return the active items of a candidate's polarity that a person gave, admitted or restored."""
        return self._group("corrections", candidate.polarity)

    def _group(self, group: Group, key: Kind | str) -> Peers:
        found = self._groups.get((group, key))
        if found is None:
            found = self._groups[group, key] = self._made(group, key)
        return found

    def _made(self, group: Group, key: Kind | str) -> Peers:
        """Return a group when it is first asked for: a layer above that of the items below."""
        return Peers(self._below._group(group, key) if self._below is not None else None)


def stands_for(state: State, entry: ItemState, upto: int = LATEST[0]) -> bool:
    """Return whether an item is active and a person said so: gave, admitted or restored it."""
    if entry.state != "active" or entry.erased:
        return False
    return is_written(state.extractions[entry.extraction]) or people_act(state.records[entry.item.id], upto)


def is_written(extraction: ExtractionState) -> bool:
    """Return whether a person gave the candidates of an extraction: by hand, or as a file."""
    return extraction.kind in ("seed", "manual") and not extraction.runs


def people_act(record: ItemRecord, upto: int = LATEST[0]) -> bool:
    """Return whether a person admitted an item, or restored it last, up to a position."""
    if not record.recent:
        return False
    acts = Acts.of(record, upto)
    return acts.admitted or acts.last == "vouched"


def barred_words(state: State, entry: ItemState) -> Iterator[Peer]:
    """Yield the words that stood under an id when it was rejected; none if it isn't."""
    if entry.state != "rejected":
        return
    record = state.records[entry.item.id]
    rejected_at = next(seq for seq, act in record.acts() if act == "rejected")
    for pair in record.pairs:
        known, order = state.candidates[pair], state.pairs[pair].order
        if not known.erased and order[0] < rejected_at:
            # By a name of its own, because an imported id may have had several words, of either polarity.
            words = replace(known.item, id=f"{entry.item.id} {pair[0]} {pair[1]}")
            yield Peer(words, (order, words.id))


def bar_id(words: Item) -> str:
    """Return the id of the item because of which words are barred."""
    return words.id.rsplit(" ", 2)[0]


def kinds_of(entry: ItemState | None) -> set[Kind]:
    """Return the kinds under which candidates are compared with an item: none unless it is active and has words."""
    if entry is None or entry.state != "active" or entry.erased:
        return set()
    return {(entry.item.src, entry.item.polarity, domain) for domain in entry.domains or ("",)}


def counts_for_agents(entry: ItemState | None) -> bool:
    """Return whether an item is active and agents are given it."""
    return entry is not None and entry.state == "active" and entry.item.src not in JUDGE_SOURCES
