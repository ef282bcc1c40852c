"""Consolidation policies: the decision about a candidate, as a pure function of the bank's items and the candidate.

Here are the parts of all, and the first versions, by which old banks decide; `consolidation_2` has the second ones.
The first of these that fits, under every first version:

    discard  rejected    somebody rejected this id, or words that these nearly repeat in content, of the same polarity,
                         in the same domain or where either has none
    skip     same-id     the item of this id is active or pending: it supports it
    discard  withdrawn   somebody withdrew this id
    skip     superseded  another, active item took the place of the one of this id: it supports that
    add      new         otherwise; also an item that was forgotten, or had lost its support

Before the last, `dedup` compares with the active items that have words, of the same source, polarity and domain, and
skips in favour of the first near duplicate:

    title    difflib.SequenceMatcher(None, new.lower(), old.lower()).ratio() >= title_min
    content  numerator * |union| <= denominator * |intersection|, of the sets of words (`words_of`), in integers;
             two contents without a word are alike, similarity 1
    meaning  neither the titles nor the contents differ in a word that negates; if they do, the two contradict each
             other, and the candidate is added with the reason `contradicts`, the other as its target

"First" is by the order of the items' births, then by id. `merge` first takes what a model proposed, as far as it
fits: see `Merge`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

from msgspec import Meta

from rbank_es import limits
from rbank_es.errors import BadPolicy
from rbank_es.events import Decision
from rbank_es.events.bank_events import PolicyKind
from rbank_es.events.items import Item
from rbank_es.law.bank_state import ItemState, Proposal
from rbank_es.law.similar_items import KnownItems, Peer, Peers, bar_id, kind_of
from rbank_es.policies.policy_registry import Policy
from rbank_es.policies.words import distinct_words

SAME_ID = "same-id"
NEAR_DUPLICATE = "near-duplicate"
NEW = "new"
REJECTED = "rejected"
WITHDRAWN = "withdrawn"
SUPERSEDED = "superseded"
SAME = "same"
NEAR_REJECTED = "near-rejected"
CONTRADICTS = "contradicts"
PROPOSED = "proposed"

BAR_CONTENT_MIN = (3, 4)
"""The least similarity of contents at which a candidate repeats rejected words: that of `dedup`."""

NEGATIONS = frozenset(
    ("not", "never", "no", "none", "nothing", "neither", "nor", "cannot", "avoid", "without", "except", "t", "dont")
)
"""Words that turn a sentence into its opposite; `t` is what is left of don't, can't and isn't."""

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


class Bar(NamedTuple):
    """The rejected item whose words a candidate has: `outright`, so that it is discarded, or nearly, so that it waits
    for a person."""

    item: str
    outright: bool = True


class ConsolidationPolicy(Policy, frozen=True, kw_only=True):
    """A rule that decides about candidates. Override `settle`, for those that no rule of all policies decides."""

    kind: ClassVar[PolicyKind] = "consolidation"

    def bar(self, candidate: Item, known: KnownItems, *, written: bool = False) -> Bar | None:
        """Return what bars a candidate, None if nothing does. `written`: a person gave it."""
        words = find_rejected(candidate, known)
        return None if words is None else Bar(bar_id(words))

    def decide(
        self,
        index: int,
        candidate: Item,
        known: KnownItems,
        proposal: Proposal | None = None,
        *,
        written: bool = False,
    ) -> Decision:
        """Return the decision about the candidate at an index of its extraction, with the code of its reason.

        `known` are the items of the bank, which it leaves as they are; `proposal` is what a model proposed; `written`:
        a person gave the candidate. The caller leaves out candidates that were erased, and those whose extraction
        doesn't stand.
        """
        made = partial(Decision, candidate=index, item=candidate.id)
        entry = known.entry(candidate.id)
        state = None if entry is None else entry.state
        bar = None if state == "rejected" else self.bar(candidate, known, written=written)
        if state == "rejected" or (bar is not None and bar.outright):
            return made(action="discard", reason=REJECTED)
        if state in ("active", "pending"):
            held = bar is not None and state == "pending"
            return made(action="skip", targets=(candidate.id,), reason=SAME_ID, pending=held)
        if state == "withdrawn":
            return made(action="discard", reason=WITHDRAWN)
        if (heir := find_heir(entry, known)) is not None:
            return made(action="skip", targets=(heir,), reason=SUPERSEDED)
        if bar is None:
            return self.settle(made, candidate, known, proposal)
        if (twin := self.twin(candidate, known)) is not None:
            return made(action="skip", targets=(twin.id,), reason=SAME)
        return made(action="add", targets=(bar.item,), reason=NEAR_REJECTED, pending=True)

    def twin(self, candidate: Item, known: KnownItems) -> Item | None:
        """Return the active item that a candidate supports, because it states the same; or None."""
        return None

    def settle(
        self, made: Callable[..., Decision], candidate: Item, known: KnownItems, proposal: Proposal | None
    ) -> Decision:
        """Return the decision about a candidate whose id is free; `made` makes one of action, targets and reason."""
        return made(action="add", reason=NEW)


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
            description="The least difflib ratio of two titles in lower case. Default: 0.8, of the source documents.",
        ),
    ] = 0.8
    content_min: Annotated[
        tuple[Part, Part],
        Meta(
            description="The least Jaccard similarity of the words of two contents, as numerator and denominator. "
            "Default: 3/4, of the source documents."
        ),
    ] = (3, 4)

    def __post_init__(self) -> None:
        numerator, denominator = self.content_min
        if not 0 <= numerator <= denominator or denominator == 0:
            raise BadPolicy(
                f"consolidation policy {self.name}: content_min {numerator}/{denominator} is not from 0 to 1"
            )

    def settle(
        self, made: Callable[..., Decision], candidate: Item, known: KnownItems, proposal: Proposal | None
    ) -> Decision:
        """Return a skip in favour of the first near duplicate, else an add."""
        opposite: Item | None = None
        for old, likeness in self.alike(candidate, known.peers(candidate)):
            if not contradict(candidate, old):
                title, content = likeness.title, likeness.content
                return made(
                    action="skip",
                    targets=(old.id,),
                    title_similarity=title,
                    content_similarity=content,
                    reason=NEAR_DUPLICATE,
                )
            opposite = opposite or old
        if opposite is not None:
            return made(action="add", targets=(opposite.id,), reason=CONTRADICTS)
        return made(action="add", reason=NEW)

    def alike(self, candidate: Item, peers: Peers) -> Iterator[tuple[Item, Likeness]]:
        """Yield those of `peers` with a similar title and similar content, in order."""
        new = Peer(candidate, ((0, 0), ""))
        for old in peers.like(new.words, self.content_min):
            # Lengths first, because difflib takes most of the time of a decision.
            if not self._titles_may_match(new.title_chars, old.title_chars):
                continue
            likeness = self._likeness(new, old)
            if likeness is not None:
                yield old.item, likeness

    def _titles_may_match(self, new_chars: int, old_chars: int) -> bool:
        # difflib's own formula for the most that two titles of these lengths can have in common. It is never less than
        # the ratio, rounding included, so checking it first loses nothing.
        total = new_chars + old_chars
        return not total or 2.0 * min(new_chars, old_chars) / total >= self.title_min

    def _likeness(self, new: Peer, old: Peer) -> Likeness | None:
        likeness = _compared(new.words, old.words, self.content_min)
        if likeness is None:
            return None
        title = title_similarity(new.item.title, old.item.title)
        return likeness._replace(title=title) if title >= self.title_min else None


TargetsMax = Annotated[
    int,
    Meta(
        ge=1,
        le=limits.MERGE_TARGETS,
        description="Items that one proposal of a model may end at most. Default: 3, our own choice: a wrong "
        "proposal ends no more than an extraction gives.",
    ),
]


class Merge(Dedup, frozen=True, kw_only=True):
    """What a model proposed is done as far as it fits; otherwise as `dedup`.

    A proposal may put the candidate in the place of items (supersede, merge) or let it support one (skip). It is
    reduced to active items of the candidate's source, polarity and domain; one that names more than `targets_max` of
    them, or none, is passed over. It never changes words.
    """

    name: ClassVar[str] = "merge"

    targets_max: TargetsMax = 3

    def settle(
        self, made: Callable[..., Decision], candidate: Item, known: KnownItems, proposal: Proposal | None
    ) -> Decision:
        """Return the decision that a model proposed, if it fits."""
        proposed = as_proposed(made, known.peers(candidate), proposal, self.targets_max)
        # By name, because a struct class that is made again for its slots loses the cell of `super()`.
        return proposed or Dedup.settle(self, made, candidate, known, proposal)


def as_proposed(
    made: Callable[..., Decision], peers: Peers, proposal: Proposal | None, targets_max: int
) -> Decision | None:
    """Return the decision that a model proposed, as far as its targets are active peers; None if it doesn't fit."""
    targets = () if proposal is None else peers.among(proposal.targets)
    if proposal is None or not 0 < len(targets) <= targets_max:
        return None
    if proposal.action in ("merge", "supersede"):
        return made(action=proposal.action, targets=targets, reason=PROPOSED)
    return made(action="skip", targets=targets[:1], reason=PROPOSED) if proposal.action == "skip" else None


def find_heir(entry: ItemState | None, known: KnownItems) -> str | None:
    """Return the active item that took the place of an item, None if there is none."""
    by = () if entry is None or entry.state not in ("superseded", "merged") else entry.superseded_by
    return next((id for id in by if (other := known.entry(id)) is not None and other.state == "active"), None)


def find_rejected(candidate: Item, known: KnownItems) -> Item | None:
    """Return the first rejected words that a candidate nearly repeats, whatever its source and title; or None."""
    bars = known.bars(candidate)
    if not bars:  # as in most banks, where the words of every candidate would be split for nothing
        return None
    words = distinct_words(candidate.content)
    for old in bars.like(words, BAR_CONTENT_MIN):
        same_domain = not candidate.domain or old.item.domain in (None, candidate.domain)
        if same_domain and _compared(words, old.words, BAR_CONTENT_MIN) and not contradict(candidate, old.item):
            return old.item
    return None


def contradict(new: Item, old: Item) -> bool:
    """Return whether one of two items that are alike negates the other: in its title, in its content, or in both."""
    return _negates(distinct_words(new.title), distinct_words(old.title)) or _negates(
        distinct_words(new.content), distinct_words(old.content)
    )


def _negates(new: frozenset[str], old: frozenset[str]) -> bool:
    # "never" in the place of "not" changes nothing; one of them where the other has neither does.
    return bool((new - old) & NEGATIONS) != bool((old - new) & NEGATIONS)


def _compared(new: frozenset[str], old: frozenset[str], content_min: tuple[int, int]) -> Likeness | None:
    common = len(new & old)
    distinct = len(new) + len(old) - common
    numerator, denominator = content_min
    # In integers, because rounding a quotient could decide a case that is exactly at the least.
    return None if numerator * distinct > denominator * common else Likeness(0.0, common, distinct)


def title_similarity(new: str, old: str) -> float:
    """Return the difflib ratio of two titles in lower case, 0 to 1. It is not symmetric: the new one comes first."""
    return SequenceMatcher(None, new.lower(), old.lower()).ratio()


def content_jaccard(new: str, old: str) -> float:
    """Return the Jaccard similarity of the sets of words of two contents, 0 to 1; 1 if neither has a word."""
    words, others = distinct_words(new), distinct_words(old)
    common = len(words & others)
    return Likeness(0.0, common, len(words) + len(others) - common).content


def find_similar(item: Item, items: Iterable[Item], policy: Dedup | None = None) -> Item | None:
    """Return the first of `items`, in their order, that `item` nearly repeats (default policy: `dedup`); or None.

    Only items of its source, polarity and domain are compared.
    """
    peers = Peers()
    for number, old in enumerate(items):
        if kind_of(old) == kind_of(item):
            peers.add(old, ((number, 0), old.id))
    found = (old for old, _ in (policy or Dedup()).alike(item, peers) if not contradict(item, old))
    return next(found, None)
