"""The corrector: one group that holds an act of a person, what follows from it by the law of correction, and its end.

Optimistic, as all decisions are: computed from the state at a position, appended there, and computed again if another
writer was faster. What doesn't fit into one group goes ahead of it in parts of the same correction: they count from its
end on, and never if it doesn't come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank.bank_difference import ActDifference, difference, difference_as
from rbank_es.bank.correction_effect import Correction
from rbank_es.events import CorrectionCompleted, Event, MemoriesRetracted
from rbank_es.events.run_events import VerdictValue
from rbank_es.law import LiveState, State
from rbank_es.law.canonical import Canon, parts_of, pieces
from rbank_es.law.decisions import Basis, Latest, optimistically
from rbank_es.law.lessons_to_draw import lessons_to_draw
from rbank_es.law.misled_runs import (
    causes_of_loss,
    misled_runs,
    pairs_of,
    stays,
    tainted_extractions,
    tainted_items,
)
from rbank_es.law.reconciler import completed, fits
from rbank_es.law.validity import law_of
from rbank_es.log import ANY, EventLog


class Influence(NamedTuple):
    """A verdict because of which tainted extractions are set aside, and who does it."""

    run: str
    verdict: VerdictValue
    by: str | None


Act = Callable[[State], Sequence[Event]]
"""Returns the events by which a person acts on a bank in a state; none if there is nothing to do."""


_NO_ID = "00000000-0000-8000-8000-000000000000"
"""The id of an event that isn't recorded yet."""


class Corrector:
    """Corrections of one log, of a bank of this name."""

    def __init__(self, log: EventLog, latest: Latest, bank: str) -> None:
        self._log, self._latest, self._bank = log, latest, bank

    def record(self, act: Callable[[Basis], Sequence[Event]], *, dry_run: bool = False) -> ActDifference:
        """Append an act from which no correction follows; return what it changed, or with `dry_run` would change.

        `act` returns the events for the state that it is given. Raises as `correct`.
        """

        def try_once(position: int) -> ActDifference:
            with self._latest.at(position) as basis:
                before = basis.state
                at, events = before.position, list(act(basis))
                trial = LiveState(before)
                # Ids are given by the log as it appends: a dry run, and a look ahead, take none.
                trial.advance(_stamped([each if each.id else replace(each, id=_NO_ID) for each in events], at))
                changed = difference(self._bank, before, trial.state)
            if not events:
                return difference_as(ActDifference, changed)
            if not dry_run:
                self._latest.follow(self._log.append(events, expected=at))
            return difference_as(
                ActDifference, changed, first_seq=at + 1, last_seq=at + len(events), recorded=not dry_run
            )

        return optimistically(self._log, try_once, limits.CONSOLIDATION_TRIES)

    def _with_ids(self, events: Iterable[Event]) -> list[Event]:
        return [each if each.id else replace(each, id=self._log.new_id()) for each in events]

    def correct(
        self,
        act: Act,
        *,
        influence: Sequence[Influence] = (),
        runs: Sequence[str] = (),
        every: bool = False,
        dry_run: bool = False,
    ) -> Correction:
        """Append an act with what follows from it; return what it did, or with `dry_run` what it would do.

        `runs` are those on which it gives a verdict. With `influence`, extractions from runs that were misled because
        of these verdicts are set aside. With `every`, all decisions of the bank are made again: what the
        log records as corrected is not believed. Raises `PositionConflict` if other writers were faster
        `limits.CONSOLIDATION_TRIES` times, and what `act` and `EventLog.append` raise.
        """
        prepared: tuple[str, Canon] | None = None

        def try_once(position: int) -> Correction:
            nonlocal prepared
            with self._latest.at(position) as basis:
                plan = self._plan(basis, act, influence, runs, every)
                at = basis.state.position
            if plan is None:
                return Correction(bank=self._bank, since_seq=at, position=at)
            if dry_run:
                # What doesn't fit goes ahead, and changes nothing.
                ahead = 0 if fits(plan.group) else len(plan.parts)
                return plan.placed(at + ahead + 1, len(plan.group) - ahead)
            if fits(plan.group):
                events = plan.group
            else:
                # Where another writer changed what follows, the parts go ahead once more. The stale ones stay in the
                # log, and count for nothing, because nothing completes them.
                if prepared is None or prepared[1] != plan.canon:
                    prepared = plan.correction, plan.canon
                    self._prepare(plan)
                    return try_once(self._log.position())
                events = plan.last_of(prepared[0])
            appended = self._log.append(events, expected=at)
            self._latest.follow(appended)
            return replace(plan.placed(appended.first, len(events)), recorded=True)

        return optimistically(self._log, try_once, limits.CONSOLIDATION_TRIES)

    def _prepare(self, plan: _Plan) -> None:
        """Append the parts of a correction in groups of their own; nobody sees their effect before it is completed."""
        for group in pieces(plan.parts, limits.CORRECTION_GROUP_EVENTS, limits.CORRECTION_GROUP_BYTES):
            self._log.append(group, expected=ANY)

    def _plan(
        self, basis: Basis, act: Act, influence: Sequence[Influence], runs: Sequence[str], every: bool
    ) -> _Plan | None:
        before = basis.state
        acts = self._with_ids(act(before))
        if not acts and not influence and not before.due and not every:
            return None
        trial, changed = LiveState(before), set[str]()
        changed |= trial.advance(_stamped(acts, before.position))
        correction = self._log.new_id()
        # What is set aside may end more items, and so show more runs to be misled: until nothing is left to set aside.
        while True:
            canon = self._latest.reconciler.canon(trial.state, before, every=every)
            parts = parts_of(canon, correction, law_of(before.policies))
            after = LiveState(trial.state)
            done = [*parts, completed(correction, trial.state, {})]
            changed_after = changed | after.advance(_stamped(done, trial.state.position))
            left = _left(before, after.state, changed_after, runs)
            misled = misled_runs(after.state, left)
            tainted = tainted_extractions(after.state, misled)
            if not influence or not tainted:
                break
            aside = [replace(each, id=self._log.new_id()) for each in _set_aside(after.state, left, influence, runs)]
            acts += aside
            changed |= trial.advance(_stamped(aside, trial.state.position))
        if not acts and not before.due and not canon:
            return None
        changes = difference(self._bank, before, after.state)
        counted: dict[str, int] = Counter(
            each.after.state
            for each in changes.items
            if each.after is not None and (each.before is None or each.before.state != each.after.state)
        )
        report = difference_as(
            Correction,
            changes,
            misled=misled,
            tainted=tainted_items(after.state, tainted),
            aside=tuple(id for each in acts if isinstance(each, MemoriesRetracted) for id in each.extractions),
            stays=stays(after.state, trial.state.due.pairs),
            to_extract=tuple(dict.fromkeys(run for each in lessons_to_draw(after.state, runs) for run in each.runs)),
            decided=len(canon.decisions),
        )
        return _Plan(correction, canon, acts, parts, completed(correction, trial.state, dict(counted)), report)


class _Plan(NamedTuple):
    """A correction before it is appended."""

    correction: str
    canon: Canon
    acts: list[Event]
    parts: list[Event]
    completed: CorrectionCompleted
    report: Correction

    @property
    def group(self) -> list[Event]:
        """All events, as one group."""
        return [*self.acts, *self.parts, self.completed]

    def placed(self, first: int, number: int) -> Correction:
        """Return what the correction changes if so many events are appended from a position on."""
        last = first + number - 1
        return replace(self.report, since_seq=first - 1, position=last, first_seq=first, last_seq=last)

    def last_of(self, correction: str) -> list[Event]:
        """Return the last group of a correction whose parts are in the log already."""
        return [*self.acts, replace(self.completed, correction=correction)]


def _stamped(events: Iterable[Event], position: int) -> Iterator[Event]:
    return (replace(event, seq=seq) for seq, event in enumerate(events, position + 1))


def _left(before: State, after: State, changed: Iterable[str], runs: Iterable[str]) -> set[str]:
    """Return the items that left the active bank, now or earlier because of the verdicts on some runs."""
    left = {id for id in changed if id in before.items and before.items[id].state == "active"}
    for run in runs:
        for extraction in after.relying.get(run, ()):
            if not after.extractions[extraction].stands:
                left.update(after.pairs[pair].item for pair in pairs_of(after, extraction))
    return {id for id in left if (entry := after.items.get(id)) is not None and entry.state != "active"}


def _set_aside(
    after: State, left: Iterable[str], influence: Sequence[Influence], runs: Sequence[str]
) -> Iterator[MemoriesRetracted]:
    """Yield for each verdict the event that sets aside what was drawn from runs that it shows to be misled."""
    causes = {item: causes_of_loss(after, item, runs) for item in left}
    for each in influence:
        misled = misled_runs(after, (item for item, ended in causes.items() if each.run in ended))
        # What doesn't fit into one event is still tainted when this is looked at again.
        extractions = tuple(tainted_extractions(after, misled))[: limits.NAMES]
        if extractions:
            yield MemoriesRetracted(
                how="tainted", extractions=extractions, run=each.run, verdict=each.verdict, by=each.by
            )
