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
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import DuplicateEvent, LimitExceeded, PositionConflict
from rbank_es.events import (
    Decision,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    type_of,
)
from rbank_es.events.codec import event_types, resolved
from rbank_es.events.derived_ids import decisions_id, forgetting_id
from rbank_es.law.bank_fold import RELEVANT, RESOLVED, LiveState
from rbank_es.law.bank_state import State
from rbank_es.law.candidate_decision import decide
from rbank_es.law.consolidation import ConsolidationPolicy
from rbank_es.law.forgetting_policies import ForgettingPolicy
from rbank_es.law.similar_items import KnownItems
from rbank_es.law.similar_stored_items import StatementIndex, known_by
from rbank_es.log import Appended, EventLog
from rbank_es.log.disk import ProcessCache
from rbank_es.log.groups import same_content
from rbank_es.policies import governing_as, held_back

if TYPE_CHECKING:
    from rbank_es.law.reconciler import Reconciler

DUE_ADVICE = "complete the correction with `correct` first, which may take several groups"

FOLDED_EVENTS = 1_000
"""A log of fewer events is folded, and SQLite need not be loaded: of 400 in 16 ms, where a stored state takes 20; of
1,000 it takes twice as long, of 4,000 four times."""

Made = TypeVar("Made")


def consolidation_policy(state: State) -> ConsolidationPolicy:
    """Return the policy in force; `append` in a bank that has none. Raises `BadPolicy` if it is unknown here."""
    return governing_as(ConsolidationPolicy, state.policies.get("consolidation"))


def forgetting_policy(state: State) -> ForgettingPolicy:
    """Return the policy in force; `never` in a bank that has none. Raises `BadPolicy` if it is unknown here."""
    return governing_as(ForgettingPolicy, state.policies.get("forgetting"))


class Decider:
    """The decisions about extractions in order, each in the state that results from everything before it."""

    def __init__(self, state: State, known: KnownItems | None = None, by: ConsolidationPolicy | None = None) -> None:
        """Start from a state, and its items where the caller keeps them. `by` decides in the place of the policy in
        force. Raises `BadPolicy`."""
        if by is None:
            consolidation_policy(state)
        self._by = by
        self._live = LiveState(state)
        self._known = KnownItems(known or KnownItems.of(state))

    def decided(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Return new events with a `memories_consolidated` behind every extraction that has candidates.

        Behind that is a `memories_forgotten` where the bank has more items than its forgetting policy allows.
        Extractions must have ids; the ids of what follows are derived from theirs.
        """
        made, waiting = list[Event](), list[Event]()
        for event in events:
            made.append(event)
            waiting.append(event)
            if isinstance(event, MemoriesExtracted) and event.heads:
                self._take(waiting)
                made.append(self._consolidated(event))
                made += self._forgotten(event)
                waiting.clear()
        self._take(waiting)
        return tuple(made)

    def _take(self, events: Sequence[Event], at: int | None = None) -> None:
        """Take events as if they were in the log already: behind all others, or from a position on."""
        first = at or self._live.state.position + 1
        numbered = enumerate(events, first)
        relevant = [replace(event, seq=seq) for seq, event in numbered if type_of(type(event)) in RELEVANT]
        changed = self._live.advance(relevant, first + len(events) - 1)
        self._known.update(self._live.state, changed)

    def _consolidated(self, event: MemoriesExtracted) -> MemoriesConsolidated:
        policy = self._by or consolidation_policy(self._live.state)
        made = MemoriesConsolidated(
            id=decisions_id(event.id), occurred_at=event.occurred_at, extraction=event.id, policy=policy.label
        )
        at, decisions = self._live.state.position + 1, list[Decision]()
        for index, _ in enumerate(zip(event.heads, event.candidates, strict=True)):
            decision = decide((event.id, index), self._live.state, self._known, policy)
            decisions.append(decision)
            # One after the other, because a candidate is weighed against those before it.
            self._take([replace(made, decisions=(decision,))], at)
        return replace(made, decisions=tuple(decisions))

    def _forgotten(self, event: MemoriesExtracted) -> list[MemoriesForgotten]:
        """Return the items that the forgetting policy gives up after the decisions about an extraction."""
        policy = forgetting_policy(self._live.state)
        ids = policy.behind_decisions(self._known.active, lambda: self._live.state)
        if not ids:
            return []
        made = MemoriesForgotten(
            id=forgetting_id(event.id), occurred_at=event.occurred_at, ids=ids, policy=policy.label
        )
        self._take([made])
        return [made]


def ids_of_decisions(extraction: MemoriesExtracted) -> tuple[str, str]:
    """Return the ids of the events that may follow an extraction: its decisions, and what is forgotten after them."""
    return decisions_id(extraction.id), forgetting_id(extraction.id)


class Basis:
    """The basis of decisions: a state, its items, and a number that grows whenever items or policies change."""

    def __init__(self, state: State, revision: int, known: Callable[[], KnownItems]) -> None:
        self.state, self.revision, self._known = state, revision, known

    @property
    def known(self) -> KnownItems:
        """The items as candidates are compared with them. Taken at the first use: few readers compare anything."""
        return self._known()


class KeptState(Protocol):
    """The state of a log at some position, kept where its facts are looked up one by one."""

    @property
    def position(self) -> int:
        """The position."""
        ...

    @property
    def statements(self) -> StatementIndex:
        """Where candidates are looked up by what they state."""
        ...

    def state(self) -> State:
        """Return the state."""
        ...


class Latest(ProcessCache):
    """The state of a log, kept in memory between decisions: only events appended since are read."""

    def __init__(self, log: EventLog, stored: Callable[[], KeptState | None] | None = None) -> None:
        """Begin with nothing. `stored` returns the state of the log as it is kept somewhere, if it is."""
        self._log, self._stored, self._revision = log, stored, 0
        self._reconciler: Reconciler | None = None
        self.forget()
        super().__init__()

    def forget(self) -> None:
        """Drop the state: it is folded again from the log when it is needed."""
        self._live, self._epoch = LiveState(), -1
        self._basis: tuple[State, StatementIndex] | None = None
        self._known: KnownItems | None = None
        self._unindexed: set[str] = set()
        self._revision += 1

    @property
    def reconciler(self) -> Reconciler:
        """What is due in the log, kept from its first use on: a bank where nothing is corrected has none."""
        if self._reconciler is None:
            from rbank_es.law.reconciler import Reconciler

            self._reconciler = Reconciler(self._log)
        return self._reconciler

    def due(self, state: State) -> list[Event]:
        """Return the events that complete what is due in the log's state; a writer appends them before its own.

        Raises `LimitExceeded` for more than one group holds.
        """
        if not state.due:
            return []
        from rbank_es.law.reconciler import fits

        events = self.reconciler.events(state)
        if not fits(events):
            raise LimitExceeded("events due before", len(events), limits.CORRECTION_GROUP_EVENTS, DUE_ADVICE)
        return events

    def is_empty(self) -> bool:
        """Return whether no state is kept, so that the next one is folded from the whole log."""
        return not self._live.state.position

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
            yield Basis(self._live.state, self._revision, self._indexed)

    def follow(self, appended: Appended) -> None:
        """Go on with a group that was just appended, so that it need not be read again. Raises as reading it does."""
        with self.lock:
            if appended.first != self._live.state.position + 1 or self._log.erasures() != self._epoch:
                return  # nothing was asked yet, or others appended too
            events = [resolved(each, self._log.text) if type_of(each) in RESOLVED else each for each in appended.events]
            self._take(events, appended.last)
            if self._reconciler is not None:
                self._reconciler.follow(appended)

    def _advance(self, position: int) -> None:
        kept = self._kept() if self.is_empty() and position >= FOLDED_EVENTS else None
        # Not one that is ahead: what it has more may not be settled.
        if kept is not None and kept.position <= position:
            self._basis = kept.state(), kept.statements
            self._live = LiveState(self._basis[0])
        last = self._live.state.position
        self._take(self._log.read(after=last, upto=position, types=RELEVANT, resolve=RESOLVED), position)

    def _take(self, events: Iterable[Event], position: int) -> None:
        before = self._live.state
        try:
            changed = self._live.advance(events, position)
        except BaseException:
            self.forget()  # it stopped half-way
            raise
        after = self._live.state
        if self._known is not None or self._basis is not None:
            self._unindexed |= changed
        if changed or after.policies is not before.policies or after.due is not before.due:
            self._revision += 1

    def _indexed(self) -> KnownItems:
        """Return the items of the state, after indexing those that changed since the last time again."""
        if self._known is None:
            if self._basis is not None:
                state, index = self._basis
                self._known = known_by(index, state)
            elif (kept := self._kept()) is not None:
                self._known = known_by(kept.statements, self._live.state)
            else:
                self._known = KnownItems.of(self._live.state)
        self._known.update(self._live.state, self._unindexed)
        self._unindexed.clear()
        return self._known

    def _kept(self) -> KeptState | None:
        return None if self._stored is None else self._stored()


def optimistically(
    log: EventLog, try_once: Callable[[int], Made], tries: int, *, sleep: Callable[[float], None] = time.sleep
) -> Made:
    """Call `try_once` with the log's position, and again each time that another writer was faster; return its result.

    Waits longer after each lost try, because many writers then succeed one after the other.
    Raises the last error: `PositionConflict` after so many tries, `DuplicateEvent` if no other writer was there.
    """
    lost = 0
    while True:
        position, began = log.settled(), time.monotonic()
        try:
            return try_once(position)
        except (PositionConflict, DuplicateEvent):
            # Another writer was faster: decide again at the new end. At the same end, the conflict is the caller's own.
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


def append_decided(
    log: EventLog, latest: Latest, events: Sequence[Event], by: ConsolidationPolicy | None = None
) -> Appended:
    """Append new events as one group, with decisions behind every extraction that has candidates.

    Extractions are pending where the admission policy in force holds them back. `latest` is the state of that log; `by`
    decides in the place of the consolidation policy in force. A repeated append of extractions with ids returns the
    recorded decisions as a duplicate, whatever the policies are by then.
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
                # What is due comes first: decisions among items that have no support any more would be made again.
                due = latest.due(basis.state)
                admitted = held_back(given, basis.state.policies.get("admission"))
                made = basis.revision, Decider(basis.state, basis.known, by).decided([*due, *admitted])
            decided_at = basis.state.position
        appended = log.append(made[1], expected=decided_at)
        latest.follow(appended)
        return appended

    return optimistically(log, try_once, limits.CONSOLIDATION_TRIES)


def same_but_held(stored: Event, given: Event) -> bool:
    """Return whether a stored event has the content of a given one; an extraction may have been held back since."""
    if isinstance(stored, MemoriesExtracted) and isinstance(given, MemoriesExtracted) and stored.pending:
        given = replace(given, pending=True)
    return same_content(stored, given)


def _stored(log: EventLog, given: Sequence[Event]) -> Appended | None:
    """Return the group as it is in the log, if the log holds its first event."""
    first = log.seq_of_id(given[0].id) if given else None
    if first is None:
        return None
    [begun] = log.read(after=first - 1, upto=first)
    last = first + begun.more
    group = tuple(log.read(after=first - 1, upto=last, resolve=event_types().keys()))
    asked, there = {event.id for event in given}, {event.id for event in group}
    decided = {decisions_id(event.id) for event in given if isinstance(event, MemoriesExtracted) and event.heads}
    for stored, event in zip_longest((each for each in group if each.id in asked), given):
        if stored is None or event is None or stored.id != event.id or not same_but_held(stored, event):
            raise DuplicateEvent(given[0].id, first, "with other content")
    if not decided <= there:
        raise DuplicateEvent(given[0].id, first, "without decisions about its candidates")
    log.sync()  # the first try may have been interrupted before its sync
    return Appended(first, last, group, duplicate=True)
