"""The reconciler: what is due in a bank, kept ready between corrections, and the events that complete it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rbank_es import limits
from rbank_es.events import CorrectionCompleted, Event
from rbank_es.events.codec import encoded_bytes
from rbank_es.law.affected_decisions import CandidateIndex, canonical
from rbank_es.law.bank_state import State
from rbank_es.law.canonical import Canon, parts_of, refold
from rbank_es.law.decision_timeline import TIMELINE_TYPES, DecisionTimeline
from rbank_es.law.validity import law_of
from rbank_es.log import Appended, EventLog
from rbank_es.system.progress import OnProgress


class Reconciler:
    """The corrections due in one log. It keeps the events that it read, so the next correction reads only new ones."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._forget()

    def _forget(self) -> None:
        self._timeline, self._index, self._epoch = DecisionTimeline(), CandidateIndex(), self._log.erasures()

    def canon(self, state: State, basis: State | None = None, *, every: bool = False) -> Canon:
        """Return the corrections due in a state: the log's, or one that goes on from it (then `basis` is the log's).

        With `every`, all decisions are made again.
        """
        recorded = basis or state
        if every:
            return self.refold(state, upto=recorded.position)
        if not state.due:
            return Canon()
        self._catch_up(recorded.position)
        if not state.due.whole and not self._timeline.forgets:
            self._index.take(recorded)
        return canonical(state, self._timeline, self._index)

    def refold(self, state: State, progress: OnProgress | None = None, *, upto: int | None = None) -> Canon:
        """Return the differences between the bank and its canonical form, by making all decisions again.

        `upto` is the log's position, where the state goes on from there.
        """
        self._catch_up(state.position if upto is None else upto)
        return refold(state, self._timeline, progress)

    def _catch_up(self, position: int) -> None:
        if self._log.erasures() != self._epoch:  # the index may hold words that are erased now
            self._forget()
        if self._timeline.position < position:
            since = self._log.read(after=self._timeline.position, upto=position, types=TIMELINE_TYPES)
            self._timeline.take(since, position)

    def follow(self, appended: Appended) -> None:
        """Go on with a group that was just appended, where everything before it was read."""
        if self._timeline.position + 1 == appended.first:
            self._timeline.take(appended.events, appended.last)

    def events(self, state: State) -> list[Event]:
        """Return the events that complete what is due in the log's state."""
        canon, correction = self.canon(state), self._log.new_id()
        return [
            *parts_of(canon, correction, law_of(state.policies)),
            completed(correction, state, {"decisions": len(canon.decisions)}),
        ]


def completed(correction: str, state: State, counts: Mapping[str, int]) -> CorrectionCompleted:
    """Return the event that completes a correction of what is due in a state."""
    causes = tuple(cause for cause in state.due.causes if cause)[: limits.CORRECTION_CAUSES]
    law = law_of(state.policies)
    return CorrectionCompleted(correction=correction, rule=law, causes=causes, counts=dict(counts))


def fits(group: Sequence[Event]) -> bool:
    """Return whether events are few and small enough for one group, with room for what the log adds."""
    if len(group) > limits.CORRECTION_GROUP_EVENTS:
        return False
    return sum(map(encoded_bytes, group)) <= limits.CORRECTION_GROUP_BYTES
