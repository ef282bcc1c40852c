"""Consolidation: the decisions about candidates, appended in one group with the extraction.

The group is appended at the position whose state the decisions were based on. If another writer was faster, the state
is read again; decisions that the new state could change are made again. So concurrent writers record the same decisions
as writers that append one after the other.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import BadPolicy, DuplicateEvent, PositionConflict
from rbank_es.events import Decision, Event, MemoriesConsolidated, MemoriesExtracted
from rbank_es.events.codec import event_types
from rbank_es.events.items import Item, ItemText
from rbank_es.log import Appended, EventLog
from rbank_es.log.groups import derived_id, same_content
from rbank_es.policies import ConsolidationPolicy, governing
from rbank_es.state import RELEVANT, RESOLVED, State, fold

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

    def __init__(self, state: State) -> None:
        """Start from a state. Raises `BadPolicy`."""
        self._state = state
        self._policy = consolidation_policy(state)
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
            decisions=_decisions(self._policy, self._state, event),
        )

    def _catch_up(self) -> None:
        # Fold once for all events since the last decision, because a fold copies the state.
        if self._since:
            start = self._state.position + 1
            self._state = fold((replace(event, seq=seq) for seq, event in enumerate(self._since, start)), self._state)
            self._since.clear()


def _decisions(policy: ConsolidationPolicy, state: State, event: MemoriesExtracted) -> tuple[Decision, ...]:
    """Return one decision per candidate, in order; a candidate whose words were erased is discarded."""
    pairs = list(zip(event.heads, event.candidates, strict=True))
    words = {index: text for index, (_, text) in enumerate(pairs) if isinstance(text, ItemText)}
    weighed = policy.decide(state, [Item.join(pairs[index][0], text) for index, text in words.items()])
    made = {index: replace(decision, candidate=index) for index, decision in zip(words, weighed, strict=True)}
    return tuple(
        made.get(index) or Decision(candidate=index, action="discard", item=head.id, reason=ERASED)
        for index, (head, _) in enumerate(pairs)
    )


class Latest:
    """The state of a log, kept between decisions: only events appended since are read."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._state, self._epoch = State(), log.erasures()

    def at(self, position: int) -> State:
        """Return the state at a position, which must not be before an earlier call's."""
        epoch = self._log.erasures()
        if epoch != self._epoch:  # the folded state may hold texts that are erased now
            self._state, self._epoch = State(), epoch
        since = self._log.read(after=self._state.position, upto=position, types=RELEVANT, resolve=RESOLVED)
        self._state = fold(since, self._state, position=position)
        return self._state


def optimistically(
    log: EventLog, attempt: Callable[[int], Made], tries: int, *, sleep: Callable[[float], None] = time.sleep
) -> Made:
    """Call `attempt` with the log's position, and again each time that another writer was faster; return its result.

    Waits longer after each lost try, because many writers then succeed one after the other.
    Raises the last error: `PositionConflict` after so many tries, `DuplicateEvent` if no other writer was there.
    """
    for lost in range(1, tries + 1):
        position, began = log.position(), time.monotonic()
        try:
            return attempt(position)
        except (PositionConflict, DuplicateEvent):
            if lost == tries or log.position() == position:
                raise
        sleep(pause_s(lost, time.monotonic() - began))
    raise AssertionError("the last try returns or raises")


def pause_s(lost: int, spent_s: float) -> float:
    """Return a random wait after so many lost tries, the last of which took `spent_s`.

    It grows with the number of tries, up to `limits.CONSOLIDATION_WAIT_S`.
    """
    # Random, because writers that lost together would otherwise retry together.
    return random.uniform(0, min(spent_s * 2 ** min(lost, 4), limits.CONSOLIDATION_WAIT_S))


def append_decided(log: EventLog, events: Iterable[Event], latest: Latest | None = None) -> Appended:
    """Append new events as one group, with decisions behind every extraction that has candidates.

    A repeated append of extractions with ids returns the recorded decisions as a duplicate. `latest` saves reading the
    log from its beginning.
    Raises `BadPolicy`; `DuplicateEvent` if an id is known with other content; `PositionConflict` if other writers were
    faster `limits.CONSOLIDATION_TRIES` times; and as `EventLog.append`.
    """
    states = latest or Latest(log)
    given = [event if event.id else replace(event, id=log.new_id()) for event in events]
    made: tuple[State, tuple[Event, ...]] | None = None

    def attempt(position: int) -> Appended:
        nonlocal made
        stored = _stored(log, given)
        if stored is not None:  # a retry: deciding again could differ from the recorded decisions
            return stored
        state = states.at(position)
        if made is None or not _decides_alike(made[0], state):
            made = state, Decider(state).decided(given)
        return log.append(made[1], expected=position)

    return optimistically(log, attempt, limits.CONSOLIDATION_TRIES)


def _decides_alike(one: State, other: State) -> bool:
    """Return whether the same candidates get the same decisions in both states."""
    # The usual case: between the two, only runs of others were recorded.
    return (one.items, one.policies) == (other.items, other.policies)


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
