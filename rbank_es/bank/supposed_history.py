"""The history of a bank made again under a supposition: the events that its writers would have recorded.

Nothing differs until the supposition changes an event. From there on, every decision is made again among the items
that there would be, and forgetting follows the policy that would be in force. Corrections are completed where writers
complete them: before anything is learned, and where the log records the end of one. The acts of agents, models and
people stay as recorded, because what else they would have done is unknown.

Positions are those of the supposed log: behind an event that it has in addition, later ones move up by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from rbank_es.bank.supposition import WHAT_IF, Supposition
from rbank_es.errors import BadPolicy
from rbank_es.events import (
    ContextBuilt,
    CorrectionCompleted,
    Decision,
    DecisionUndone,
    Event,
    JudgmentOverruled,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRead,
    MemoriesRestored,
    MemoriesRetracted,
    PolicyChoice,
    PolicySet,
    RunJudged,
    RunStarted,
    type_of,
)
from rbank_es.events.bank_events import PolicyKind
from rbank_es.events.derived_ids import derived_id
from rbank_es.law import ConsolidationPolicy, Due, LiveState, Merge, MergeV2, Pair, State
from rbank_es.law.affected_decisions import CandidateIndex, canonical
from rbank_es.law.candidate_decision import decide, is_wordless, kept
from rbank_es.law.canonical import Canon, effect, parts_of, refold
from rbank_es.law.decision_timeline import DecisionTimeline
from rbank_es.law.fold_memory import MEMORY_HANDLERS, rank_of
from rbank_es.law.reconciler import completed
from rbank_es.law.similar_items import KnownItems
from rbank_es.law.validity import law_of, witnesses_of
from rbank_es.policies import governing
from rbank_es.policies.admission import admission_policy, origin_of

_TYPES: tuple[type[Event], ...] = (*MEMORY_HANDLERS, ContextBuilt, MemoriesRead, RunStarted)
HISTORY_TYPES = frozenset(type_of(cls) for cls in _TYPES)
"""The types of events from which items, decisions and uses follow."""

HARMLESS: frozenset[PolicyKind] = frozenset({"retrieval", "extraction", "selection"})
"""Kinds of policies that decide about searches and calls of models only, not about state."""

Made = tuple[Event | None, ...]
"""The events in the place of a recorded one; None stands for that one as it is."""


def is_same_policy(kind: PolicyKind, one: PolicyChoice | None, other: PolicyChoice | None) -> bool:
    """Return whether two records name the same policy with the same settings, given or by default."""
    if one == other:
        return True
    try:
        return governing(kind, one) == governing(kind, other)
    except BadPolicy:
        # One that this release doesn't know can't be compared: take it to decide otherwise.
        return False


class SupposedHistory:
    """The states of a bank as recorded and as supposed, event by event.

    `made` has the events in the place of recorded ones, by position. `changed` are the items that the last event
    changed in either state. `decided` counts the decisions that were made again, `unproposed` those of them for which
    a policy asks a model, and the log has no answer.
    """

    def __init__(self, state: State, timeline: DecisionTimeline, supposition: Supposition) -> None:
        """Begin behind the position of a recorded state. `timeline` is the bank's up to there, and goes on with it."""
        self.recorded = LiveState(state, copied=True)
        self.made: dict[int, Made] = {}
        self.changed: frozenset[str] = frozenset()
        self.decided = self.unproposed = 0
        self._supposition = supposition
        self._recorded_timeline = self._timeline = timeline
        self._supposed: LiveState | None = None
        self._known: KnownItems | None = None
        self._index = CandidateIndex()
        self._given, self._dropped = set[str](), set[str]()
        self._moved = self._next = self._number = 0
        self._at = ""
        self._out: list[Event | None] = []

    @property
    def supposed(self) -> State:
        """The state that the bank would have; the recorded one, as long as nothing is otherwise."""
        return self.recorded.state if self._supposed is None else self._supposed.state

    @property
    def is_otherwise(self) -> bool:
        """Whether anything was otherwise so far."""
        return self._supposed is not None

    # ---------------------------------------------------------------- from event to event

    def begin(self, *, unborn: bool) -> None:
        """Put what is supposed about the past behind the position at which this history begins.

        `unborn`: the bank's first policies are still to come, and nothing is decided before them.
        """
        state = self.recorded.state
        self._open(state.position, "")
        self._next += 1
        self._out = [None]
        # Its decisions may be still to come: the position may be inside of a group.
        self._dropped.update(id for run in self._supposition.runs for id in state.relying.get(run, ()))
        choices = () if unborn else self._supposition.choices(tuple(state.policies.values()))
        if self._differ(choices, state.policies):
            self._part(remakes=self._differ(choices, state.policies, HARMLESS))
            self._record(PolicySet(policies=choices))
        if acts := [*self._acts(state)]:
            self._part(remakes=True)
            for act in acts:
                self._record(act)
            self._reconcile(state.position)
        self._close(state.position)

    def take(self, event: Event) -> None:
        """Go on with the next recorded event."""
        self._open(event.seq + self._moved, event.at)
        otherwise, remakes = self._supposes(event)
        if otherwise:
            self._part(remakes=remakes)
        self.changed = self.recorded.advance((event,))
        self._recorded_timeline.take((event,), event.seq)
        if self._supposed is None:
            self._out.append(None)
        else:
            self._live(event)
        self._close(event.seq)

    def end(self, position: int) -> None:
        """Complete what is due at the last position, so that the bank would be canonical."""
        self.changed = frozenset()
        if self._known is not None:
            before = self.made.pop(position, (None,))
            self._moved -= max(0, len(before) - 1)
            self._open(position + self._moved, self._at)
            self._next, self._out = self._next + len(before), [*before]
            self._reconcile(position, whole=self._timeline.forgets)
            self._close(position)

    def overdue(self) -> Canon:
        """Return the changes that a correction is due to make in the recorded bank."""
        return _due(self.recorded.state, self._recorded_timeline, CandidateIndex())

    def _open(self, next: int, at: str) -> None:
        self._next, self._at, self._out = next, at, []

    def _close(self, seq: int) -> None:
        if self._out != [None]:
            self.made[seq] = tuple(self._out)
            self._moved += max(0, len(self._out) - 1)

    def _part(self, *, remakes: bool) -> None:
        """Let the supposed history go its own way from here on; where it `remakes`, decisions are made again."""
        if self._supposed is None:
            self._supposed = LiveState(self.recorded.state, copied=True)
            self._timeline = self._recorded_timeline.copy()
        if remakes and self._known is None:
            self._known = KnownItems.of(self._supposed.state)

    def _keep(self, event: Event) -> None:
        """Let an event stay as it is recorded."""
        self._advance(event if event.seq == self._next else replace(event, seq=self._next))
        self._out.append(None)
        self._next += 1

    def _record(self, event: Event) -> None:
        """Record another event than the log has."""
        self._number += 1
        id = event.id or derived_id(str(self._number).encode(), WHAT_IF)
        event = replace(event, seq=self._next, id=id, at=event.at or self._at)
        self._advance(event)
        self._out.append(event)
        self._next += 1

    def _advance(self, event: Event) -> None:
        assert self._supposed is not None
        changed = self._supposed.advance((event,))
        self._timeline.take((event,), event.seq)
        self.changed |= changed
        if self._known is not None:
            self._known.update(self._supposed.state, changed)

    # ---------------------------------------------------------------- what is supposed

    def _differ(
        self,
        choices: Iterable[PolicyChoice],
        recorded: Mapping[Any, PolicyChoice],
        but: frozenset[PolicyKind] = frozenset(),
    ) -> bool:
        return any(
            choice.kind not in but and not is_same_policy(choice.kind, choice, recorded.get(choice.kind))
            for choice in choices
        )

    def _acts(self, state: State) -> Iterator[Event]:
        """Yield the acts of people by which the past would be as it is supposed."""
        supposition = self._supposition
        for run in sorted(supposition.verdicts):
            if (run, "learning") in state.verdicts:
                self._given.add(run)
                yield supposition.judgment(run)
        for pair, known in state.pairs.items():
            gone = known.item in supposition.items or supposition.runs & _sources(state, pair)
            if gone and not known.undone:
                yield DecisionUndone(extraction=pair[0], candidate=pair[1])
        entries = ((id, state.items.get(id)) for id in sorted(supposition.items))
        vouched = tuple(id for id, entry in entries if entry is not None and entry.vouched)
        if vouched:
            yield MemoriesRetracted(ids=vouched, how="withdrawn")

    def _supposes(self, event: Event) -> tuple[bool, bool]:
        """Return whether the supposition concerns an event, and whether decisions may follow from that."""
        supposition = self._supposition
        if isinstance(event, PolicySet):
            recorded = {choice.kind: choice for choice in event.policies}
            choices = supposition.choices(event.policies)
            return self._differ(choices, recorded), self._differ(choices, recorded, HARMLESS)
        if isinstance(event, MemoriesExtracted):
            gone = bool(supposition.runs & {*event.runs, *(each.run for each in event.relied)})
        elif isinstance(event, MemoriesConsolidated):
            named = any(decision.item in supposition.items for decision in event.decisions)
            gone = named or event.extraction in self._dropped
        elif isinstance(event, RunJudged | JudgmentOverruled):
            gone = event.run in supposition.verdicts and event.purpose == "learning"
        else:
            gone = False
        gone = gone or supposition.is_without(event)
        return gone, gone

    # ---------------------------------------------------------------- the supposed history

    def _live(self, event: Event) -> None:
        """Let happen what would happen in the place of a recorded event."""
        if isinstance(event, PolicySet):
            choices = self._supposition.choices(event.policies)
            recorded = {choice.kind: choice for choice in event.policies}
            if self._differ(choices, recorded):
                self._record(replace(event, policies=choices))
            else:
                self._keep(event)
        elif self._known is None:
            self._keep(event)
        elif not self._supposition.is_without(event):
            _WAYS.get(type(event), SupposedHistory._keep)(self, event)

    def _judge(self, event: RunJudged | JudgmentOverruled) -> None:
        if event.purpose != "learning" or event.run not in self._supposition.verdicts:
            self._keep(event)
        elif event.run not in self._given:
            # A judgment that doesn't count is none: a run counts as judged from the first one that does.
            if rank_of(event, self._recorded_timeline.in_force) is None:
                self._keep(event)
            else:
                self._given.add(event.run)
                self._record(replace(self._supposition.judgment(event.run), id=event.id))

    def _extract(self, event: MemoriesExtracted) -> None:
        if self._supposition.runs & {*event.runs, *(each.run for each in event.relied)}:
            self._dropped.add(event.id)
            return
        # Writers complete what is due before they learn; those who record decisions by themselves didn't.
        if not self.recorded.state.due:
            self._reconcile(event.seq)
        pending = self._is_pending(event)
        if pending is event.pending:
            self._keep(event)
        else:
            self._record(replace(event, pending=pending))

    def _is_pending(self, event: MemoriesExtracted) -> bool:
        """Return whether an extraction would be held back; as recorded where its writer, not the policy, decided."""
        try:
            recorded = admission_policy(self._recorded_timeline.in_force.get("admission"))
            supposed = admission_policy(self.supposed.policies.get("admission"))
        except BadPolicy:
            # Without both policies nobody knows who decided: keep what was recorded.
            return event.pending
        origin = origin_of(event)
        return supposed.holds(origin) if recorded.holds(origin) is event.pending else event.pending

    def _decide(self, event: MemoriesConsolidated) -> None:
        """Make the first decisions about an extraction again; those of a correction are made where it ends."""
        if event.again or event.correction is not None or event.extraction in self._dropped:
            return
        assert self._known is not None
        recorded, policy = self._recorded_timeline.consolidation(event.seq), self._timeline.consolidation(self._next)
        by_policy = recorded is not None and policy is not None and recorded.label == event.policy
        label = policy.label if by_policy and policy is not None else event.policy
        decisions, adrift = list[Decision](), set[Pair]()
        for decision in event.decisions:
            pair = (decision.extraction or event.extraction or "", decision.candidate)
            if pair in self.supposed.pairs or pair not in self.supposed.candidates:
                continue
            if by_policy and policy is not None and not is_wordless(pair, self.supposed, decision.targets):
                decisions.append(decide(pair, self.supposed, self._known, policy))
                self.decided += 1
                # What the same policy decided alike without a model needs none now.
                alike = policy == recorded and effect(decisions[-1]) == effect(decision)
                self.unproposed += not alike and self._is_unproposed(pair, policy)
            else:
                decisions.append(decision)
                due = kept(pair, self.supposed, self._known, policy, decision)
                adrift |= {pair} if effect(due) != effect(decision) else set()
            # One after the other, because a candidate is weighed against those before it.
            self._advance(replace(event, seq=self._next, policy=label, decisions=(decisions[-1],)))
        if label == event.policy and tuple(decisions) == event.decisions:
            self._out.append(None)
        else:
            self._out.append(replace(event, seq=self._next, policy=label, decisions=tuple(decisions)))
        self._next += 1
        self._follow(event, adrift)

    def _follow(self, event: MemoriesConsolidated, adrift: set[Pair]) -> None:
        """Record what follows from decisions at once; `adrift` are those whose targets there are not."""
        gone = [decision.candidate for decision in event.decisions if decision.item in self._supposition.items]
        for candidate in gone:
            self._record(DecisionUndone(extraction=event.extraction or "", candidate=candidate))
        if gone or adrift:
            due = self.supposed.due
            self._reconcile(event.seq, due=replace(due, pairs=due.pairs.with_more(adrift)) if adrift else due)
        policy = self._timeline.forgetting(self._next)
        assert self._known is not None
        if policy is not None and (ids := policy.behind_decisions(self._known.active, lambda: self.supposed)):
            self._record(MemoriesForgotten(ids=ids, policy=policy.label))

    def _is_unproposed(self, pair: Pair, policy: ConsolidationPolicy) -> bool:
        state = self.supposed
        asks = isinstance(policy, Merge | MergeV2) and witnesses_of(pair, state)
        return bool(asks) and state.proposals.get(pair) is None

    def _forget(self, event: MemoriesForgotten) -> None:
        """Keep what was forgotten by hand; what a policy forgot is forgotten again behind decisions, if it is."""
        policy = self._recorded_timeline.forgetting(event.seq)
        if event.correction is None and (policy is None or policy.label != event.policy):
            self._keep(event)

    def _restore(self, event: MemoriesRestored) -> None:
        ids = tuple(id for id in event.ids if id not in self._supposition.items)
        if event.correction is None and ids:
            self._keep(event) if ids == event.ids else self._record(replace(event, ids=ids))

    def _undo(self, event: DecisionUndone) -> None:
        candidate = self.supposed.candidates.get((event.extraction, event.candidate))
        if candidate is None or candidate.item.id not in self._supposition.items:
            self._keep(event)

    def _correct(self, event: CorrectionCompleted) -> None:
        self._reconcile(event.seq)

    def _reconcile(self, seq: int, *, due: Due | None = None, whole: bool = False) -> None:
        """Complete what is due, if anything is; `whole`: make all decisions again to find out."""
        state = self.supposed
        due = state.due if due is None else due
        if not due and not whole:
            return
        looked_at = state if due is state.due else replace(state, due=due)
        canon = refold(state, self._timeline) if whole else _due(looked_at, self._timeline, self._index)
        self.decided += canon.decided
        if canon or state.due:
            self._number += 1
            correction = derived_id(str(self._number).encode(), WHAT_IF, seq)
            for part in parts_of(canon, correction, law_of(state.policies)):
                self._record(part)
            self._record(completed(correction, state, {"decisions": len(canon.decisions)}))


def _due(state: State, timeline: DecisionTimeline, index: CandidateIndex) -> Canon:
    """Return the corrections due in a state; `index` has the candidates of that bank up to an earlier time."""
    if state.due and not state.due.whole and not timeline.forgets:
        index.take(state)
    return canonical(state, timeline, index)


def _sources(state: State, pair: Pair) -> set[str]:
    extraction = state.extractions[pair[0]]
    return {*extraction.runs, *(run for run, _ in extraction.relied)}


_WAYS: dict[type[Event], Callable[[SupposedHistory, Any], None]] = {
    RunJudged: SupposedHistory._judge,
    JudgmentOverruled: SupposedHistory._judge,
    MemoriesExtracted: SupposedHistory._extract,
    MemoriesConsolidated: SupposedHistory._decide,
    MemoriesForgotten: SupposedHistory._forget,
    MemoriesRestored: SupposedHistory._restore,
    DecisionUndone: SupposedHistory._undo,
    CorrectionCompleted: SupposedHistory._correct,
}
"""What would happen in the place of a recorded event; of another type, it stays as it is."""
