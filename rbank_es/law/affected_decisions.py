"""The work list: the canonical bank from what is due, without making every decision again.

A decision depends on whether its candidate counts, on rejected words, and on the states, before its rank, of the items
that it may meet. These are the items of its own id, those that its proposal or its first record names, those with
similar words, and those that a person stands for and that are near to the same rejected words.
So a decision that changes can only touch later ones that may meet the items that it concerns. Decisions are made again
in the order of their ranks, each once at most, among those few items only.

Equal to the refold where nothing was ever forgotten. Under a bound, one item more or less changes what is forgotten:
there everything is decided again from the first candidate on that may be touched.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from rbank_es.events.items import Item
from rbank_es.law.bank_state import ItemRecord, Order, Pair, State
from rbank_es.law.canonical import Canon, Redecider, counts, effect, first_touched, refold
from rbank_es.law.decision_timeline import DecisionTimeline, Reach
from rbank_es.law.fact_postings import FactPostings
from rbank_es.law.fold_memory import ENDS
from rbank_es.law.likeness import LINK_MIN, content_of
from rbank_es.law.rare_words import TOKENS, WORDS, ItemWords, RareWords
from rbank_es.law.similar_items import KnownItems, Peer, is_written, people_act
from rbank_es.law.validity import LATEST

_FOUND_KEPT = 1_000_000
"""Candidates found to be alike that an open bank remembers until the next ones come: some 8 MB."""

_FEW = 3
"""Contents that are looked for one by one: for more, all candidates are indexed at once."""


class CandidateIndex:
    """All candidates by their words and by the items that they name; it goes on with the bank."""

    def __init__(self) -> None:
        self._done = 0
        self._decided = 0
        self._items: defaultdict[str, list[Item]] = defaultdict(list)
        self._pairs: defaultdict[str, list[Pair]] = defaultdict(list)
        self._peers: defaultdict[str, list[Peer]] = defaultdict(list)
        self._rare: dict[tuple[str, tuple[int, int], ItemWords], RareWords] = {}
        self._postings: defaultdict[str, FactPostings] = defaultdict(FactPostings)
        # What was found, until candidates come: a rehearsal is followed by the correction, a verdict by its return.
        self._found: dict[tuple[str, str, tuple[int, int], ItemWords], list[Pair]] = {}
        self._kept = 0
        self._naming: defaultdict[str, set[Pair]] = defaultdict(set)
        self._opposing: defaultdict[str, list[Pair]] = defaultdict(list)

    def take(self, state: State) -> None:
        """Take the candidates that came since the last time. Start over after an erasure."""
        if len(state.candidates) > self._done:
            self._found.clear()
            self._kept = 0
        for pair, known in islice(state.candidates.items(), self._done, None):
            if not known.erased:
                self._items[known.item.polarity].append(known.item)
                self._pairs[known.item.polarity].append(pair)
        self._done = len(state.candidates)
        for pair, decided in islice(state.pairs.items(), self._decided, None):
            proposal = state.proposals.get(pair)
            for target in chain(decided.first.targets, () if proposal is None else proposal.targets):
                self._naming[target].add(pair)
        self._decided = len(state.pairs)
        # Computed each time: a correction may have changed which ones these are.
        self._opposing.clear()
        for pair, decided in state.pairs.items():
            if decided.targets and decided.action == "add":
                for target in decided.targets:
                    self._opposing[target].append(pair)

    def like(
        self, polarity: str, texts: Sequence[str], content_min: tuple[int, int], reading: ItemWords
    ) -> list[list[Pair]]:
        """Return for each text the candidates of a polarity whose texts may be so similar, and few others."""
        if self._kept > _FOUND_KEPT:
            self._found.clear()
            self._kept = 0
        new = [text for text in dict.fromkeys(texts) if (polarity, text, content_min, reading) not in self._found]
        for text, found in zip(new, self._look_for(polarity, new, content_min, reading), strict=True):
            self._found[polarity, text, content_min, reading] = found
            self._kept += len(found)
        return [self._found[polarity, text, content_min, reading] for text in texts]

    def _look_for(
        self, polarity: str, texts: Sequence[str], content_min: tuple[int, int], reading: ItemWords
    ) -> list[list[Pair]]:
        items, pairs, peers = self._items[polarity], self._pairs[polarity], self._peers[polarity]
        rare = self._rare.setdefault((polarity, content_min, reading), RareWords(content_min, reading=reading))
        peers += (Peer(item, (LATEST, item.id)) for item in islice(items, len(peers), None))
        if len(texts) > _FEW:
            rare.index(peers)
        found = (rare.near(peers, reading.distinct(text)) for text in texts)
        return [[pairs[number] for number in numbers] for numbers in found]

    def near(self, item: Item) -> list[Pair]:
        """Return the candidates that are near to an item, of its polarity."""
        items, pairs, postings = self._items[item.polarity], self._pairs[item.polarity], self._postings[item.polarity]
        postings.add(items[len(postings) :])
        return [pairs[number] for number in postings.near(item)]

    def naming(self, id: str) -> Iterable[Pair]:
        """Return the candidates whose proposal or first decision names an item."""
        return self._naming.get(id, ())

    def opposing(self, id: str) -> Iterable[Pair]:
        """Return the candidates that were added although they contradict an item."""
        return self._opposing.get(id, ())


def canonical(state: State, timeline: DecisionTimeline, index: CandidateIndex) -> Canon:
    """Return the differences between a bank and its canonical form, as far as its last correction is right.

    `timeline` and `index` are of that bank, up to its last candidate.
    """
    if not state.due:
        return Canon()
    first = next((known.order[0] for known in state.pairs.values()), 0)
    reach = timeline.reach(first)
    if state.due.whole or timeline.forgets or reach is None:
        return refold(state, timeline, since=first_touched(state, timeline))
    return _WorkList(state, timeline, index, reach).run()


class _Words(NamedTuple):
    """The words of a candidate as it is compared: its content, and the text that states it."""

    polarity: str
    content: str
    text: str


class _Alike(NamedTuple):
    """Candidates whose words may be alike, and those of their items that may live."""

    pairs: frozenset[Pair]
    items: frozenset[str]


_NONE_ALIKE = _Alike(frozenset(), frozenset())


class _WorkList(Redecider):
    """The decisions that may differ, by rank."""

    def __init__(self, state: State, timeline: DecisionTimeline, index: CandidateIndex, reach: Reach) -> None:
        super().__init__(state, timeline, layered=True)
        self._before, self._index, self._reach = state, index, reach
        # What is rejected is barred from the start, whatever is decided.
        self._barred = KnownItems()
        self._barred.update(state, [id for id, entry in state.items.items() if entry.state == "rejected"])
        self._near: dict[str, list[Pair]] = {}
        self._heap: list[tuple[Order, Pair]] = []
        self._queued: set[Pair] = set()
        # Looked up once for all candidates with the same words: when one is decided about, and when its item changes.
        self._alike: dict[_Words, _Alike] = {}
        # Looked up with the next one, because many at once take little longer than one.
        self._queued_since: list[Pair] = []
        self._may_live: dict[str, bool] = {}
        # The later candidates that meet an item are queued once: those that meet it behind a later decision are among
        # them.
        self._met: set[str] = set()

    def run(self) -> Canon:
        """Make all decisions again that may differ; return those that do."""
        due = self._before.due
        self._push(due.pairs, (0, 0))
        self._push(self._counting(self._meeting(due.items)), (0, 0))
        # Those that named what leaves are decided about, too: looked up with the others, in one pass.
        self._queued_since += self._naming(
            {id for pair in due.pairs if pair in self.pairs for id in self.touched(pair)}
        )
        changed = []
        while self._heap:
            order, pair = heapq.heappop(self._heap)
            ids, differs, leaves = self.touched(pair), False, self._only_leaves(pair)
            if counts(self, pair):
                decision = self.made[pair] = self.redecide(pair, self._known_before(pair, order))
                differs = effect(decision) != effect(self.pairs[pair])
                if differs:
                    changed.append((pair, decision))
                    # What can't live changes nothing by what no longer supports it: its own candidates are due.
                    ids = {id: None for id in self.decide(pair, decision, order[0], "") if self._lives(id)}
            if differs or pair in due.pairs:
                met = self._naming(ids) if leaves else self._meeting(ids)
                self._push(self._counting(met), order)
        return Canon(decisions=tuple(changed), decided=len(self.made))

    def _push(self, pairs: Iterable[Pair], after: Order) -> None:
        for pair in pairs:
            known = self.pairs.get(pair)
            if known is not None and known.order > after and pair not in self._queued:
                self._queued.add(pair)
                self._queued_since.append(pair)
                heapq.heappush(self._heap, (known.order, pair))

    def _counting(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        # Leave out first what is queued: where thousands of candidates are alike, each leads to all others.
        new = (pair for pair in pairs if pair not in self._queued)
        return (pair for pair in new if pair in self.pairs and counts(self, pair))

    def _only_leaves(self, pair: Pair) -> bool:
        """Return whether a candidate ends items and begins none: then only those that named it may differ."""
        known = self.pairs[pair]
        record = self.records[known.item]
        if counts(self, pair) or known.action in ENDS or record.recent or self._is_written(record):
            return False
        return not any(self.pairs[other].item == known.item and counts(self, other) for other in record.landed)

    def _naming(self, ids: Iterable[str]) -> set[Pair]:
        """Return the candidates of items, and those whose decisions, or what they rest on, name one of them."""
        found = set[Pair]()
        for id in ids:
            found.update(self._index.naming(id), self._index.opposing(id))
            record = self.records.get(id)
            if record is not None:
                found.update(record.pairs, record.landed, record.enders)
        return found

    def _meeting(self, ids: Iterable[str]) -> set[Pair]:
        """Return the candidates whose decisions may depend on which items are active: those with similar words, too."""
        wide = self._with_replaced(ids) - self._met
        self._met |= wide
        found = self._naming(wide)
        for record in (self.records[id] for id in wide if id in self.records):
            for pair in {self._words(pair): pair for pair in record.pairs}.values():
                found.update(self._like(pair).pairs)
            if self._reach.tokens:
                found.update(self._near_because_of(record))
        return found

    def _near_because_of(self, record: ItemRecord) -> Iterator[Pair]:
        """Yield the candidates that may be held because of an item, or cleared by it."""
        words = [self.candidates[pair] for pair in record.pairs]
        items = [known.item for known in words if not known.erased]
        if any(act == "rejected" for _, act in record.acts()):
            yield from chain.from_iterable(map(self._index.near, items))
        if self._stands_for(record):
            bars = {bar.item.id: bar.item for item in items for bar in self._bars(item)}
            yield from chain.from_iterable(map(self._near_bar, bars.values()))

    def _bars(self, item: Item) -> Iterator[Peer]:
        """Yield the rejected words to which a candidate is near."""
        bars = self._barred.bars(item)
        return bars.near(item) if bars else iter(())

    def _near_bar(self, words: Item) -> list[Pair]:
        if words.id not in self._near:
            self._near[words.id] = self._index.near(words)
        return self._near[words.id]

    def _stands_for(self, record: ItemRecord) -> bool:
        """Return whether a person may stand for an item at any time."""
        return people_act(record) or any(act == "vouched" for _, act in record.acts()) or self._is_written(record)

    def _is_written(self, record: ItemRecord) -> bool:
        return any(is_written(self.extractions[pair[0]]) for pair in record.pairs)

    def _corrections(self, item: Item) -> Iterator[str]:
        """Yield the items that may clear a candidate."""
        for bar in self._bars(item):
            for id in {self.candidates[pair].item.id for pair in self._near_bar(bar.item)}:
                if self._lives(id) and self._stands_for(self.records[id]):
                    yield id

    def _words(self, pair: Pair) -> _Words | None:
        """Return the words by which candidates are compared; None where they were erased."""
        known = self.candidates[pair]
        return None if known.erased else _Words(known.item.polarity, known.item.content, content_of(known.item))

    def _like(self, pair: Pair) -> _Alike:
        """Return the candidates whose words may be alike; none for one whose words were erased."""
        words = self._words(pair)
        if words is None:
            return _NONE_ALIKE
        if words not in self._alike:
            self._look_up([pair, *(each for each in self._queued_since if counts(self, each))])
            self._queued_since.clear()
        return self._alike[words]

    def _look_up(self, pairs: Iterable[Pair]) -> None:
        """Find the candidates whose words may be alike to those of others, for all of these at once."""
        new = {words: None for pair in pairs if (words := self._words(pair)) and words not in self._alike}
        for polarity in dict.fromkeys(words.polarity for words in new):
            some = [words for words in new if words.polarity == polarity]
            for words, found in zip(some, self._found(polarity, some), strict=True):
                ids = frozenset(self.candidates[pair].item.id for pair in found)
                self._alike[words] = _Alike(found, frozenset(filter(self._lives, ids)))

    def _found(self, polarity: str, some: Sequence[_Words]) -> list[frozenset[Pair]]:
        """Return for each of some words the candidates that may be alike, by each way in which decisions compared."""
        ways: list[list[list[Pair]]] = []
        if self._reach.words is not None:
            contents = [words.content for words in some]
            ways.append(self._index.like(polarity, contents, self._reach.words, WORDS))
        if self._reach.tokens:
            ways.append(self._index.like(polarity, [words.text for words in some], LINK_MIN, TOKENS))
        return [frozenset(chain.from_iterable(found)) for found in zip(*ways, strict=True)]

    def _lives(self, id: str) -> bool:
        """Return whether an item may live at any time: most candidates that are alike landed on another one."""
        if id not in self._may_live:
            record = self.records.get(id)  # a decision may name an item that never was
            alive = record is not None and (record.recent or any(counts(self, pair) for pair in record.pairs))
            self._may_live[id] = bool(alive)
        return self._may_live[id]

    def _with_replaced(self, ids: Iterable[str]) -> set[str]:
        """Return the items with those in whose place they came: a candidate of such a one goes to its heir."""
        found = set(ids)
        records = [record for id in found if (record := self.records.get(id)) is not None]
        for pair in (pair for record in records for pair in record.pairs):
            if self.pairs[pair].action in ENDS:
                found.update(self.pairs[pair].targets)
        return found

    def _known_before(self, pair: Pair, order: Order) -> KnownItems:
        """Return the items that a decision may meet, as they were before its order."""
        item, proposal = self.candidates[pair].item, self.proposals.get(pair)
        ids = {item.id, *self.pairs[pair].first.targets, *(() if proposal is None else proposal.targets)}
        ids |= self._like(pair).items
        if self._reach.tokens and not self.candidates[pair].erased:
            ids.update(self._corrections(item))
        self.items.clear()
        found = self._settle(ids, order)
        own = self.items.get(item.id)
        if own is not None:
            found += self._settle(own.superseded_by, order)
        known = KnownItems(self._barred)
        known.update(self.seen, dict.fromkeys(found), order[0])
        return known

    def _settle(self, ids: Iterable[str], order: Order) -> list[str]:
        rejected = {
            id: entry for id in ids if (entry := self._before.items.get(id)) is not None and entry.state == "rejected"
        }
        self.items.update(rejected)
        return [*rejected, *self.settle_before((id for id in ids if id not in rejected), order)]
