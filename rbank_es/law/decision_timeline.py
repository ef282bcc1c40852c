"""The timeline of a bank as far as decisions depend on it: by position, policies in force and what was forgotten."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Any, NamedTuple

from rbank_es.errors import BadPolicy
from rbank_es.events import Event, JudgmentOverruled, MemoriesForgotten, PolicyChoice, PolicySet, RunJudged, type_of
from rbank_es.events.bank_events import PolicyKind
from rbank_es.law.consolidation import BAR_CONTENT_MIN, Append, ConsolidationPolicy, Dedup, Merge
from rbank_es.law.consolidation_2 import AppendV2, DedupV2, MergeV2
from rbank_es.law.fold_memory import rank_of
from rbank_es.law.forgetting_policies import ForgettingPolicy, Never
from rbank_es.policies import Policy, governing

TIMELINE_TYPES = frozenset(type_of(each) for each in (PolicySet, MemoriesForgotten, RunJudged, JudgmentOverruled))
"""The types of events that a timeline reads."""


class Reach(NamedTuple):
    """How far decisions look. `words`: the similarity of contents, as a fraction, below which those of the first
    versions took no notice of an item; None if none decided. `tokens`: whether some decided by likeness."""

    words: tuple[int, int] | None
    tokens: bool


class DecisionTimeline:
    """The facts of a log that new decisions need beside the final state. It continues with the log."""

    def __init__(self) -> None:
        self.position = 0
        self.judged: dict[str, int] = {}
        """Run to the position of its first judgment that counts for learning."""
        self._set_at: list[int] = []
        self._policies: list[Mapping[str, PolicyChoice]] = [{}]
        self._resolved: dict[tuple[int, PolicyKind], Policy | None] = {}
        self._forgotten: list[MemoriesForgotten] = []

    def copy(self) -> DecisionTimeline:
        """Return a timeline that is equal, and goes on by itself."""
        made = DecisionTimeline()
        vars(made).update({name: copy(value) for name, value in vars(self).items()})
        return made

    @property
    def in_force(self) -> Mapping[str, PolicyChoice]:
        """The records of the policies in force at present, by kind."""
        return self._policies[-1]

    def take(self, events: Iterable[Event], position: int) -> None:
        """Go on with the events of `TIMELINE_TYPES` up to a position."""
        for event in events:
            if isinstance(event, PolicySet):
                self._set_at.append(event.seq)
                self._policies.append({choice.kind: choice for choice in event.policies})
            elif isinstance(event, MemoriesForgotten):
                # What a correction forgets follows from the law, and is found out again; only the rest are facts.
                if event.correction is None:
                    self._forgotten.append(event)
            elif isinstance(event, RunJudged | JudgmentOverruled) and event.purpose == "learning":
                self._judge(event)
        self.position = position

    def _judge(self, event: RunJudged | JudgmentOverruled) -> None:
        if rank_of(event, self._policies[-1]) is not None:
            self.judged.setdefault(event.run, event.seq)

    def consolidation(self, seq: int) -> ConsolidationPolicy | None:
        """Return the consolidation policy in force at a position; None if it is unknown here."""
        found = self._policy("consolidation", bisect_right(self._set_at, seq))
        return found if isinstance(found, ConsolidationPolicy) else None

    def forgetting(self, seq: int) -> ForgettingPolicy | None:
        """Return the forgetting policy in force at a position; None if it is unknown here."""
        found = self._policy("forgetting", bisect_right(self._set_at, seq))
        return found if isinstance(found, ForgettingPolicy) else None

    def policies(self, seq: int) -> Mapping[str, PolicyChoice]:
        """Return the records of the policies in force at a position, by kind."""
        return self._policies[bisect_right(self._set_at, seq)]

    def _policy(self, kind: PolicyKind, index: int) -> Policy | None:
        if (index, kind) not in self._resolved:
            try:
                self._resolved[index, kind] = governing(kind, self._policies[index].get(kind))
            except BadPolicy:
                # A policy of another release: its decisions are kept as they were recorded.
                self._resolved[index, kind] = None
        return self._resolved[index, kind]

    def _each(self, kind: PolicyKind) -> list[Policy | None]:
        return [self._policy(kind, index) for index in range(len(self._policies))]

    def forgotten_by_hand(self) -> Iterator[MemoriesForgotten]:
        """Yield the events of forgetting that the policy in force didn't make: they hold where they are."""
        for event in self._forgotten:
            policy = self.forgetting(event.seq)
            if policy is None or policy.label != event.policy:
                yield event

    @property
    def forgets(self) -> bool:
        """Whether anything was forgotten so far, or a policy could have done so."""
        return bool(self._forgotten) or any(not isinstance(policy, Never) for policy in self._each("forgetting"))

    def reach(self, since: int) -> Reach | None:
        """Return how far decisions looked that were made from a position on; None where that isn't known: by a policy
        of another package, or by one that compares titles only."""
        words: tuple[int, int] | None = None
        tokens = False
        begun = bisect_right(self._set_at, since)
        for policy in self._each("consolidation")[begun:]:
            if type(policy) in (AppendV2, DedupV2, MergeV2):
                tokens = True
                continue
            given: Any = BAR_CONTENT_MIN
            if isinstance(policy, Dedup) and type(policy) in (Dedup, Merge):
                given = policy.content_min
            elif policy is not None and type(policy) is not Append:
                return None
            least = words or BAR_CONTENT_MIN
            words = given if given[0] * least[1] < least[0] * given[1] else least
        return None if words is not None and not words[0] else Reach(words, tokens)
