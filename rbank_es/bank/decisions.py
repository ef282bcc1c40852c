"""Consolidation: the decisions about candidates, appended in one group with the extraction.

The group is appended at the position whose state the decisions were based on. If another writer was faster, the state
is read again; decisions that the new state could change are made again. So concurrent writers record the same decisions
as writers that append one after the other.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import BadPolicy, DuplicateEvent, PositionConflict
from rbank_es.events import Decision, Event, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.codec import event_types
from rbank_es.events.items import Item, ItemText
from rbank_es.log import Appended, EventLog
from rbank_es.log.groups import derived_id, same_content
from rbank_es.log.system_calls import ProcessCache
from rbank_es.policies import ConsolidationPolicy, governing
from rbank_es.policies.known_items import KnownItems
from rbank_es.state import RELEVANT, RESOLVED, LiveState, State

ERASED = "erased"
"""The code of the reason for discarding a candidate without words."""

Made = TypeVar("Made")


def consolidation_policy(state: State) -> ConsolidationPolicy:
    """Return the policy in force; `append` in a bank that has none. Raises `BadPolicy` if it is unknown here."""
    policy = governing("consolidation", state.policies.get("consolidation"))
    if not isinstance(policy, ConsolidationPolicy):
        raise BadPolicy(f"{policy.label} is no consolidation policy")
    return policy


class Decider:
    """The decisions about extractions in order, each in the state that results from everything before it."""

    def __init__(self, state: State, known: KnownItems | None = None) -> None:
        """Start from a state, and its items where the caller keeps them. Raises `BadPolicy`."""
        self._policy = consolidation_policy(state)
        self._live = LiveState(state)
        self._known = KnownItems(known or KnownItems.of(state))
        self._since: list[Event] = []

    def decided(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Return new events with a `memories_consolidated` behind every extraction that has candidates.

        Extractions must have ids; the id of the decisions is derived from the extraction's.
        """
        made: list[Event] = []
        for event in events:
            group = [event]
            if isinstance(event, MemoriesExtracted) and event.heads:
                group.append(self._consolidated(event))
            self._since += group
            made += group
        return tuple(made)

    def _consolidated(self, event: MemoriesExtracted) -> MemoriesConsolidated:
        self._catch_up()
        return MemoriesConsolidated(
            id=derived_id(event.id.encode(), "consolidated"),
            occurred_at=event.occurred_at,
            extraction=event.id,
            policy=self._policy.label,
            decisions=self._decisions(event),
        )

    def _catch_up(self) -> None:
        """Take the events since the last decision as if they were in the log already."""
        start = self._live.state.position + 1
        since = (replace(event, seq=seq) for seq, event in enumerate(self._since, start))
        changed = self._live.advance(since)
        self._known.update(self._live.state.items[id] for id in changed)
        self._since.clear()

    def _decisions(self, event: MemoriesExtracted) -> tuple[Decision, ...]:
        """Return one decision per candidate, in order; a candidate whose words were erased is discarded."""
        pairs = list(zip(event.heads, event.candidates, strict=True))
        words = {index: text for index, (_, text) in enumerate(pairs) if isinstance(text, ItemText)}
        candidates = [Item.join(pairs[index][0], text) for index, text in words.items()]
        weighed = self._policy.decide(self._live.state, candidates, self._known)
        made = {index: replace(decision, candidate=index) for index, decision in zip(words, weighed, strict=True)}
        return tuple(
            made.get(index) or Decision(candidate=index, action="discard", item=head.id, reason=ERASED)
            for index, (head, _) in enumerate(pairs)
        )


class Basis(NamedTuple):
    """What decisions are based on: a state, its items, and a number that grows whenever items or policies change."""

    state: State
    known: KnownItems
    revision: int


class Latest(ProcessCache):
    """The state of a log, kept in memory between decisions: only events appended since are read."""

    def __init__(self, log: EventLog) -> None:
        super().__init__()
        self._log, self._revision = log, 0
        self.forget()

    def forget(self) -> None:
        """Drop the state: it is folded again from the log when it is needed."""
        self._live, self._known, self._epoch = LiveState(), KnownItems(), -1
        self._revision += 1

    @contextmanager
    def at(self, position: int) -> Iterator[Basis]:
        """Provide the state at a position, or at a later one that another thread asked for, until the context ends."""
        with self.lock:
            epoch = self._log.erasures()
            if epoch != self._epoch:  # the folded state may hold texts that are erased now
                self.forget()
                self._epoch = epoch
            if self._live.state.position < position:
                self._advance(position)
            yield Basis(self._live.state, self._known, self._revision)

    def _advance(self, position: int) -> None:
        before = self._live.state
        since = self._log.read(after=before.position, upto=position, types=RELEVANT, resolve=RESOLVED)
        try:
            changed = self._live.advance(since, position)
            self._known.update(self._live.state.items[id] for id in changed)
        except BaseException:
            self.forget()  # it stopped half-way
            raise
        if changed or self._live.state.policies is not before.policies:
            self._revision += 1


def optimistically(
    log: EventLog, try_once: Callable[[int], Made], tries: int, *, sleep: Callable[[float], None] = time.sleep
) -> Made:
    """Call `try_once` with the log's position, and again each time that another writer was faster; return its result.

    Waits longer after each lost try, because many writers then succeed one after the other.
    Raises the last error: `PositionConflict` after so many tries, `DuplicateEvent` if no other writer was there.
    """
    lost = 0
    while True:
        position, began = log.position(), time.monotonic()
        try:
            return try_once(position)
        except (PositionConflict, DuplicateEvent):
            lost += 1
            if lost == tries or log.position() == position:
                raise
        sleep(pause_s(lost, time.monotonic() - began))


def pause_s(lost: int, spent_s: float) -> float:
    """Return a random wait after so many lost tries, the last of which took `spent_s`.

    It grows with the number of tries, up to `limits.CONSOLIDATION_WAIT_S`.
    """
    # Random, because writers that lost together would otherwise retry together.
    return random.uniform(0, min(spent_s * 2 ** min(lost, 4), limits.CONSOLIDATION_WAIT_S))


def append_decided(log: EventLog, latest: Latest, events: Sequence[Event]) -> Appended:
    """Append new events as one group, with decisions behind every extraction that has candidates.

    `latest` is the state of that log. A repeated append of extractions with ids returns the recorded decisions as a
    duplicate.
    Raises `BadPolicy`; `DuplicateEvent` if an id is known with other content; `PositionConflict` if other writers were
    faster `limits.CONSOLIDATION_TRIES` times; and as `EventLog.append`.
    """
    fresh = not any(event.id for event in events)  # then there is no earlier try to look for
    given = [event if event.id else replace(event, id=log.new_id()) for event in events]
    made: tuple[int, tuple[Event, ...]] | None = None

    def try_once(position: int) -> Appended:
        nonlocal made
        stored = None if fresh else _stored(log, given)
        if stored is not None:  # a retry: deciding again could differ from the recorded decisions
            return stored
        with latest.at(position) as basis:
            # Usually only runs of others were recorded in between, and the same candidates get the same decisions.
            if made is None or made[0] != basis.revision:
                made = basis.revision, Decider(basis.state, basis.known).decided(given)
            decided_at = basis.state.position
        return log.append(made[1], expected=decided_at)

    return optimistically(log, try_once, limits.CONSOLIDATION_TRIES)


def _stored(log: EventLog, given: Sequence[Event]) -> Appended | None:
    """Return the group as it is in the log, if the log holds its first event."""
    first = log.seq_of_id(given[0].id) if given else None
    if first is None:
        return None
    last = first + len(given) + sum(isinstance(event, MemoriesExtracted) and bool(event.heads) for event in given) - 1
    group = tuple(log.read(after=first - 1, upto=last, resolve=event_types().keys()))
    for stored, event in zip_longest(_without_decisions(group, given), given):
        if stored is None or event is None or stored.id != event.id or not same_content(stored, event):
            raise DuplicateEvent(given[0].id, first, "with other content")
    log.sync()  # the first try may have been interrupted before its sync
    return Appended(first, last, group, duplicate=True)


def _without_decisions(group: Iterable[Event], given: Sequence[Event]) -> Iterator[Event]:
    made = {derived_id(event.id.encode(), "consolidated") for event in given}
    return (event for event in group if event.id not in made)
