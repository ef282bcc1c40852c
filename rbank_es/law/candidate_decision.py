"""The decision about one candidate: made here for the first time, made again, and made under a supposition.

Pure: the facts of memory, the items as they were before the decision, and the policy decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec.structs import replace

from rbank_es.events import Decision
from rbank_es.law.bank_state import BIRTHS, ItemRecord, Pair, PairState, Proposal
from rbank_es.law.consolidation import NEAR_REJECTED, REJECTED, Append, ConsolidationPolicy
from rbank_es.law.similar_items import KnownItems, is_written
from rbank_es.law.validity import WitnessFacts, witnesses_of

KEPT, ERASED, UNSUPPORTED = "kept", "erased", "unsupported"
"""Codes of reasons: added though its targets are gone; its words are gone; its extraction doesn't stand."""


class CandidateFacts(WitnessFacts, Protocol):
    """The facts by which a candidate is decided on: a state has them, and a memory."""

    @property
    def records(self) -> Mapping[str, ItemRecord]:
        """The records of items, by id."""
        ...

    @property
    def proposals(self) -> Mapping[Pair, Proposal]:
        """The proposals of models about candidates."""
        ...


def decide(pair: Pair, facts: CandidateFacts, known: KnownItems, policy: ConsolidationPolicy) -> Decision:
    """Return the policy's decision about a candidate among known items; discard what doesn't count, or is erased."""
    candidate = facts.candidates[pair]
    discard = Decision(candidate=pair[1], action="discard", item=candidate.item.id)
    if not witnesses_of(pair, facts):
        return replace(discard, reason=UNSUPPORTED)
    if candidate.erased:
        return replace(discard, reason=ERASED)
    written = is_written(facts.extractions[pair[0]])
    return policy.decide(pair[1], candidate.item, known, facts.proposals.get(pair), written=written)


def decide_again(
    pair: Pair, facts: CandidateFacts, known: KnownItems, policy: ConsolidationPolicy | None, recorded: PairState
) -> Decision:
    """Return the decision about a candidate, made again by the policy in force where it was made.

    What can't be made again, by hand, by an unknown policy (None) or about erased words, is kept as `kept` says.
    """
    if policy is None or policy.label != recorded.policy or is_wordless(pair, facts, recorded.first.targets):
        return kept(pair, facts, known, policy, recorded.first)
    return decide(pair, facts, known, policy)


def is_wordless(pair: Pair, facts: CandidateFacts, targets: Iterable[str]) -> bool:
    """Return whether the words of a candidate, or of one of those with the ids of its targets, were erased."""
    records = (facts.records.get(id) for id in targets)
    others = (each for record in records if record is not None for each in record.pairs)
    return facts.candidates[pair].erased or any(facts.candidates[each].erased for each in others)


def kept(
    pair: Pair, facts: CandidateFacts, known: KnownItems, policy: ConsolidationPolicy | None, first: Decision
) -> Decision:
    """Return the part that is kept of a decision that can't be made again: that with targets among known items.

    `first` is the decision as it was first recorded. By the policy in force (`append-1` where it is unknown), what is
    near to rejected words is pending.
    """
    candidate, written = facts.candidates[pair], is_written(facts.extractions[pair[0]])
    own = known.entry(candidate.item.id)
    rejected = own is not None and own.state == "rejected"
    bar = None
    if not rejected and not candidate.erased:
        bar = (policy or Append()).bar(candidate.item, known, written=written)
    discard = Decision(candidate=first.candidate, action="discard", item=candidate.item.id)
    if rejected or (bar is not None and bar.outright):
        return replace(discard, reason=REJECTED)
    made = _with_targets(first, discard, candidate.erased, known)
    if bar is None or made.action not in BIRTHS:
        return made
    return replace(made, action="add", targets=(bar.item,), reason=NEAR_REJECTED, pending=True)


def _with_targets(first: Decision, discard: Decision, erased: bool, known: KnownItems) -> Decision:
    if first.action == "discard" and first.reason not in (UNSUPPORTED, REJECTED):
        return first
    entries = ((id, known.entry(id)) for id in first.targets)
    targets = tuple(id for id, entry in entries if entry is not None and entry.state != "unsupported")
    # Later records are never looked at: else a bank would depend on the history of its corrections.
    if first.action == "add" or (targets and first.action != "discard"):
        return replace(first, targets=targets)
    return replace(discard, reason=ERASED) if erased else replace(discard, action="add", reason=KEPT)
