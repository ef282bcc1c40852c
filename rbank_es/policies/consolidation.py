"""Consolidation policies: decisions about candidates, as a pure function of state, policy and candidates.

A candidate whose id the bank knows is skipped and supports the item of that id, active or ended: an ended item stays
ended. `append` adds all others. `dedup` compares each of the others with the active items of the same source and
polarity that still have words. It skips a candidate in favour of the first near duplicate:

    title    difflib.SequenceMatcher(None, new.lower(), old.lower()).ratio() >= title_min
    content  numerator * |union| <= denominator * |intersection|, of the sets of words (`words_of`), in integers;
             two contents without a word are alike, similarity 1

"First" is by position of birth, then by id; the candidates that were added earlier in the same extraction come last,
in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Annotated, ClassVar, NamedTuple

from msgspec import Meta

from rbank_es import limits
from rbank_es.errors import BadPolicy
from rbank_es.events import Decision
from rbank_es.events.bank_events import PolicyKind
from rbank_es.events.items import Item
from rbank_es.policies.known_items import KnownItems, Peer, Peers, distinct_words
from rbank_es.policies.policy import Policy
from rbank_es.state import State

SAME_ID = "same-id"
NEAR_DUPLICATE = "near-duplicate"
NEW = "new"

Part = Annotated[int, Meta(ge=0, le=limits.POLICY_FRACTION)]


class Likeness(NamedTuple):
    """The similarity of two items: ratio of titles; number of common and of distinct words of their contents."""

    title: float
    common: int
    distinct: int

    @property
    def content(self) -> float:
        """Jaccard similarity of the contents, 0 to 1."""
        return self.common / self.distinct if self.distinct else 1.0


class ConsolidationPolicy(Policy, frozen=True, kw_only=True):
    """A rule that decides about candidates. Override `decide`, or `twin` where only near duplicates differ."""

    kind: ClassVar[PolicyKind] = "consolidation"

    def decide(self, state: State, candidates: Iterable[Item], known: KnownItems | None = None) -> tuple[Decision, ...]:
        """Return one decision per candidate, in their order, each with the code of its reason.

        `known` are the items of that state, where the caller keeps them; it is left as it is.

        add (`new`), or skip with the item that it supports as target (`same-id`, `near-duplicate`, the latter with
        both similarities). The caller leaves out erased candidates.
        """
        layer = KnownItems(known or KnownItems.of(state))
        return tuple(self._decision(layer, index, candidate) for index, candidate in enumerate(candidates))

    def twin(self, candidate: Item, peers: Peers) -> tuple[Item, Likeness] | None:
        """Return the first of `peers` that the candidate nearly repeats, if any."""
        return None

    def _decision(self, known: KnownItems, index: int, candidate: Item) -> Decision:
        if candidate.id in known:
            return Decision(candidate=index, action="skip", item=candidate.id, targets=(candidate.id,), reason=SAME_ID)
        twin = self.twin(candidate, known.peers(candidate))
        if twin is None:
            # Later candidates of the same extraction are compared with it too.
            known.add(candidate)
            return Decision(candidate=index, action="add", item=candidate.id, reason=NEW)
        old, likeness = twin
        return Decision(
            candidate=index,
            action="skip",
            item=candidate.id,
            targets=(old.id,),
            title_similarity=likeness.title,
            content_similarity=likeness.content,
            reason=NEAR_DUPLICATE,
        )


class Append(ConsolidationPolicy, frozen=True, kw_only=True):
    """Every candidate with a new id is added."""

    name: ClassVar[str] = "append"


class Dedup(ConsolidationPolicy, frozen=True, kw_only=True):
    """A candidate that nearly repeats an active item supports that item instead of being added."""

    name: ClassVar[str] = "dedup"

    title_min: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="The least difflib ratio of two titles in lower case. Default: 0.8, of the source project.",
        ),
    ] = 0.8
    content_min: Annotated[
        tuple[Part, Part],
        Meta(
            description="The least Jaccard similarity of the words of two contents, as numerator and denominator. "
            "Default: 3/4, of the source project."
        ),
    ] = (3, 4)

    def __post_init__(self) -> None:
        numerator, denominator = self.content_min
        if not 0 <= numerator <= denominator or denominator == 0:
            raise BadPolicy(f"consolidation policy dedup: content_min {numerator}/{denominator} is not from 0 to 1")

    def twin(self, candidate: Item, peers: Peers) -> tuple[Item, Likeness] | None:
        """Return the first of `peers` with a similar title and similar content."""
        new = Peer(candidate, (0, ""))
        for old in peers.like(new.words, self.content_min):
            # Lengths first, because difflib takes most of the time of a decision.
            if not self._titles_may_match(new.title_chars, old.title_chars):
                continue
            likeness = self._likeness(new, old)
            if likeness is not None:
                return old.item, likeness
        return None

    def _titles_may_match(self, new_chars: int, old_chars: int) -> bool:
        # difflib's own formula for the most that two titles of these lengths can have in common. It is never less than
        # the ratio, rounding included, so checking it first loses nothing.
        total = new_chars + old_chars
        return not total or 2.0 * min(new_chars, old_chars) / total >= self.title_min

    def _likeness(self, new: Peer, old: Peer) -> Likeness | None:
        common = len(new.words & old.words)
        distinct = len(new.words) + len(old.words) - common
        numerator, denominator = self.content_min
        # In integers, because rounding a quotient could decide a case that is exactly at the least.
        if numerator * distinct > denominator * common:
            return None
        title = title_similarity(new.item.title, old.item.title)
        return Likeness(title, common, distinct) if title >= self.title_min else None


def title_similarity(new: str, old: str) -> float:
    """Return the difflib ratio of two titles in lower case, 0 to 1. It is not symmetric: the new one comes first."""
    return SequenceMatcher(None, new.lower(), old.lower()).ratio()


def content_jaccard(new: str, old: str) -> float:
    """Return the Jaccard similarity of the sets of words of two contents, 0 to 1; 1 if neither has a word."""
    words, others = distinct_words(new), distinct_words(old)
    common = len(words & others)
    return Likeness(0.0, common, len(words) + len(others) - common).content


def find_similar(item: Item, items: Iterable[Item], policy: Dedup | None = None) -> Item | None:
    """Return the first of `items`, in their order, that `item` nearly repeats (default policy: `dedup`); or None."""
    peers = Peers()
    for number, old in enumerate(items):
        if (old.src, old.polarity) == (item.src, item.polarity):
            peers.add(old, (number, old.id))
    twin = (policy or Dedup()).twin(item, peers)
    return None if twin is None else twin[0]
