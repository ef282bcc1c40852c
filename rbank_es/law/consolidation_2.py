"""Consolidation policies by likeness, the second versions: a candidate supports an item, or is barred, only if it
states the same; what is merely near is kept beside it, or waits for a person. See `likeness`.

The first of these that fits, as `ConsolidationPolicy.decide` asks in turn:

    discard  rejected       somebody rejected this id, or an item that states the same: of any source, of the same
                            polarity, in the same domain or where either has none
    skip     same-id        the item of this id is active or pending: it supports it
    discard  withdrawn      somebody withdrew this id
    skip     superseded     another, active item took the place of the one of this id: it supports that
    skip     same           it states the same as an active item of its source, polarity and domain, the first one by
                            birth: it supports that (`dedup`, `merge`)
    add      near-rejected  it is near to rejected words: its item is pending, whatever the admission policy, until a
                            person admits it or the rejection is lifted; no other extraction admits it. Its target is
                            the rejected item. What a person gave is not held where it corrects the rejected words
                            (see `contradiction`), and nothing is that an active item clears which a person gave,
                            admitted or restored, and which is near to the same rejected words
    ...      proposed       what a model proposed, as far as it fits (`merge`)
    add      contradicts    a negation more or less than in the active item to which it is nearest, its target
    add      near           near to an active item, its target (`dedup`, `merge`)
    add      new            otherwise; also an item that was forgotten, or had lost its support
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from rbank_es.events import Decision
from rbank_es.events.items import Item
from rbank_es.law.bank_state import Proposal
from rbank_es.law.consolidation import (
    CONTRADICTS,
    NEW,
    SAME,
    Bar,
    ConsolidationPolicy,
    TargetsMax,
    as_proposed,
)
from rbank_es.law.contradiction import corrects
from rbank_es.law.likeness import LINK_MIN, clears, content_of, facts_of, is_same, negates, token_set
from rbank_es.law.rare_words import TOKENS
from rbank_es.law.similar_items import KnownItems, Peer, bar_id

NEAR = "near"


class AppendV2(ConsolidationPolicy, frozen=True, kw_only=True):
    """Every candidate with a new id is added, unless it states the same as rejected words."""

    name: ClassVar[str] = "append"
    version: ClassVar[int] = 2

    def bar(self, candidate: Item, known: KnownItems, *, written: bool = False) -> Bar | None:
        """Return the first rejected item that states the same, else the first that is near and not cleared."""
        bars = known.bars(candidate)
        if not bars:  # as in most banks
            return None
        same = _first_same(candidate, _of_domain(candidate, bars.same(candidate)))
        if same is not None:
            return Bar(bar_id(same))
        facts = facts_of(candidate)
        for old in _of_domain(candidate, bars.near(candidate)):
            corrected = written and corrects(candidate, old.item)
            cleared = corrected or _is_cleared(candidate, facts, old, known)
            if not cleared:
                return Bar(bar_id(old.item), outright=False)
        return None


class DedupV2(AppendV2, frozen=True, kw_only=True):
    """A candidate that states the same as an active item supports that item; one that is near is linked to it."""

    name: ClassVar[str] = "dedup"

    def twin(self, candidate: Item, known: KnownItems) -> Item | None:
        """Return the first active item of its kind that states the same; or None."""
        return _first_same(candidate, known.peers(candidate).same(candidate))

    def settle(
        self, made: Callable[..., Decision], candidate: Item, known: KnownItems, proposal: Proposal | None
    ) -> Decision:
        """Return a skip in favour of an item that states the same, else an add, linked to the nearest item."""
        if (twin := self.twin(candidate, known)) is not None:
            return made(action="skip", targets=(twin.id,), reason=SAME)
        linked = list(_linked(candidate, known))
        if not linked:
            return made(action="add", reason=NEW)
        # The first of the nearest ones: `max` keeps the order of births.
        nearest = max(linked, key=lambda old: _jaccard(candidate, old.item)).item
        reason = CONTRADICTS if negates(candidate, nearest) else NEAR
        return made(action="add", targets=(nearest.id,), reason=reason)


class MergeV2(DedupV2, frozen=True, kw_only=True):
    """What a model proposed is done as far as it fits, as under `merge-1`; otherwise as `dedup`.

    Candidates that are near to rejected words are never put in the place of others.
    """

    name: ClassVar[str] = "merge"

    targets_max: TargetsMax = 3

    def settle(
        self, made: Callable[..., Decision], candidate: Item, known: KnownItems, proposal: Proposal | None
    ) -> Decision:
        """Return the decision that a model proposed, if it fits."""
        proposed = as_proposed(made, known.peers(candidate), proposal, self.targets_max)
        # By name, because a struct class that is made again for its slots loses the cell of `super()`.
        return proposed or DedupV2.settle(self, made, candidate, known, proposal)


def _first_same(candidate: Item, peers: Iterator[Peer]) -> Item | None:
    return next((old.item for old in peers if is_same(candidate, old.item)), None)


def _of_domain(candidate: Item, peers: Iterator[Peer]) -> Iterator[Peer]:
    return (old for old in peers if not candidate.domain or old.item.domain in (None, candidate.domain))


def _is_cleared(candidate: Item, facts: frozenset[str], rejected: Peer, known: KnownItems) -> bool:
    corrections = _of_domain(candidate, known.corrections(candidate).near(rejected.item))
    return any(clears(right.facts, facts, rejected.facts) for right in corrections)


def _linked(candidate: Item, known: KnownItems) -> Iterator[Peer]:
    """Yield the active items of a candidate's kind that share enough tokens with it, in order."""
    least, of = LINK_MIN
    tokens = token_set(content_of(candidate))
    for old in known.peers(candidate).like(tokens, LINK_MIN, TOKENS):
        others = token_set(content_of(old.item))
        # In integers, because rounding a quotient could decide a case that is exactly at the least.
        if of * len(tokens & others) >= least * len(tokens | others):
            yield old


def _jaccard(new: Item, old: Item) -> float:
    tokens, others = token_set(content_of(new)), token_set(content_of(old))
    return len(tokens & others) / len(tokens | others) if tokens | others else 0.0
