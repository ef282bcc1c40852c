"""The canonical bank: every decision about a candidate that counts, made again in order.

Verdicts, rejections, undone decisions and extractions that were set aside count as they are now; policies, other acts
of people and uses as they were at each decision. A decision that can't be made again is kept as it was first recorded,
as far as its targets exist: one by hand, by an unknown policy, or about erased words.

    refold     decides about everything, or about everything from the first candidate on that may be touched
    work list  decides about what may differ since the last correction; equal to the refold, and used instead of it
               where nothing was ever forgotten

Pure: no log, no clock, no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.events import Decision, Event, MemoriesConsolidated, MemoriesForgotten, MemoriesRestored
from rbank_es.events.items import JUDGE_SOURCES
from rbank_es.law.bank_fold import Overlay
from rbank_es.law.bank_state import BIRTHS, ItemState, Order, Pair, PairState, State, counted_uses
from rbank_es.law.candidate_decision import decide_again
from rbank_es.law.decision_timeline import DecisionTimeline
from rbank_es.law.fold_memory import MemoryFacts
from rbank_es.law.similar_items import KnownItems
from rbank_es.law.validity import LATEST, Standing, standing_of, witnesses_of
from rbank_es.system.progress import OnProgress


class Canon(NamedTuple):
    """The differences of the canonical bank: decisions, in order of rank, and items that only one of both forgot."""

    decisions: tuple[tuple[Pair, Decision], ...] = ()
    forgotten: tuple[str, ...] = ()
    remembered: tuple[str, ...] = ()
    decided: int = 0
    """The number of decisions that were made again to find out."""

    def __bool__(self) -> bool:
        return bool(self.decisions or self.forgotten or self.remembered)


def refold(
    state: State, timeline: DecisionTimeline, progress: OnProgress | None = None, *, since: Order = (0, 0)
) -> Canon:
    """Return the differences between a bank and its canonical form, by making all of its decisions again.

    Decisions before the order `since` are taken as they are; what was forgotten among them is found out again.
    `progress` is called with the number of candidates done and their total.
    """
    work = _Refold(state, timeline, since)
    work.run(progress)
    standing = sorted((state.pairs[pair].order, pair) for pair in work.made)
    changed = [(pair, work.made[pair]) for _, pair in standing if effect(work.made[pair]) != effect(state.pairs[pair])]
    there = [id for id, entry in work.items.items() if entry.state != "unsupported"]
    flags = {id: (work.records[id].forgotten, state.records[id].forgotten) for id in there}
    gone = tuple(id for id, (now, was) in flags.items() if now and not was)
    back = tuple(id for id, (now, was) in flags.items() if was and not now)
    return Canon(tuple(changed), gone, back, len(work.made))


def first_touched(state: State, timeline: DecisionTimeline) -> Order:
    """Return an order before which no decision differs, as far as the last correction of the bank is right.

    Wins count from the first judgment of a run on, with the verdict that stands now.
    """
    due = state.due
    acts = [act for id in due.items for act in state.records[id].acts()]
    # What is rejected, or was, counts from the start.
    if due.whole or any(act == "rejected" for _, act in acts):
        return (0, 0)
    orders = [state.pairs[pair].order for pair in due.pairs]
    orders += [(seq, 0) for seq, _ in acts]
    orders += [(timeline.judged.get(run, LATEST[0]), 0) for run in due.runs]
    return min(orders, default=LATEST)


def counts(state: State | MemoryFacts, pair: Pair) -> bool:
    """Return whether a candidate that was decided on counts."""
    return bool(witnesses_of(pair, state))


def effect(decided: Decision | PairState) -> tuple[str, tuple[str, ...], bool]:
    """Return the effect of a decision; reasons and similarities don't matter."""
    return decided.action, decided.targets, decided.pending


def parts_of(canon: Canon, correction: str, law: int) -> list[Event]:
    """Return the events that lead to the canonical bank, as parts of a correction; each fits into a line of the log.

    `law` is the rule of the law of correction in force, by which they are labelled.
    """
    label = f"canonical-{law}"
    rows = [replace(decision, extraction=pair[0]) for pair, decision in canon.decisions]
    events: list[Event] = [
        MemoriesConsolidated(again=True, correction=correction, policy=label, decisions=some) for some in _chunks(rows)
    ]
    events += [MemoriesForgotten(ids=some, policy=label, correction=correction) for some in _chunks(canon.forgotten)]
    events += [MemoriesRestored(ids=some, how="supported", correction=correction) for some in _chunks(canon.remembered)]
    return events


Row = TypeVar("Row")


def _chunks(rows: Sequence[Row]) -> Iterator[tuple[Row, ...]]:
    return pieces(rows, limits.CORRECTION_ROWS, limits.CORRECTION_ROW_BYTES)


def pieces(rows: Iterable[Row], most: int, most_bytes: int) -> Iterator[tuple[Row, ...]]:
    """Yield rows in order, in pieces of at most so many rows, and bytes as JSON."""
    some, size = list[Row](), 0
    for row in rows:
        row_bytes = len(msgspec.json.encode(row)) + 1
        if some and (size + row_bytes > most_bytes or len(some) == most):
            yield tuple(some)
            some, size = [], 0
        some.append(row)
        size += row_bytes
    if some:
        yield tuple(some)


class Redecider(MemoryFacts):
    """A bank whose decisions are made again, one after the other, each among the items as they were before it."""

    def __init__(self, state: State, timeline: DecisionTimeline, *, layered: bool = False) -> None:
        """Begin with a state, which stays as it is: copied, or `layered`, which is quicker where little changes."""
        super().__init__(state, Overlay if layered else dict)
        self.items: dict[str, ItemState] = {}
        self.made: dict[Pair, Decision] = {}
        self.timeline = timeline
        self.seen = State(
            items=self.items,
            extractions=self.extractions,
            candidates=self.candidates,
            pairs=self.pairs,
            records=self.records,
            proposals=self.proposals,
        )

    def put(self, id: str, standing: Standing, seq: int) -> None:
        """Take what became of an item."""
        old = self.items.get(id)
        if old is not None or standing.state != "unsupported":
            self.items[id] = self.entry(standing, old, seq)

    def settle_before(self, ids: Iterable[str], order: Order) -> list[str]:
        """Derive the states of items before an order; return the ids of those that are items."""
        found = []
        for id in ids:
            record = self.records.get(id)
            made = None if record is None else standing_of(id, record, self, order)
            if made is not None:
                self.put(id, made, order[0])
            if id in self.items:
                found.append(id)
        return found

    def redecide(self, pair: Pair, known: KnownItems) -> Decision:
        """Return the decision about a candidate among known items: the policy's, or what is kept of the recorded."""
        recorded = self.pairs[pair]
        return decide_again(pair, self, known, self.timeline.consolidation(recorded.order[0]), recorded)


Step = tuple[int, int, int, Callable[[int], None]]


class _Refold(Redecider):
    """All decisions of a bank, made again from the first one on, with what people did and forgot between them."""

    def __init__(self, state: State, timeline: DecisionTimeline, since: Order) -> None:
        # Kept for their orders, without effects: each decision gets its effect back when it is made again.
        undecided = {pair: replace(known, action="discard", targets=()) for pair, known in state.pairs.items()}
        records = {id: replace(record, landed=(), enders=(), forgotten=False) for id, record in state.records.items()}
        super().__init__(replace(state, pairs=undecided, records=records), timeline)
        self._known, self._live = KnownItems(), dict[str, ItemState]()
        # How many of the live ones count, kept, because it is asked behind every extraction.
        self._bounded = 0
        self._unindexed = set[str]()
        self._final, self._since = state, since
        # What is rejected is barred from the start.
        self.items |= {id: entry for id, entry in state.items.items() if entry.state == "rejected"}
        self._known.update(self.seen, list(self.items))

    def run(self, progress: OnProgress | None) -> None:
        """Make all decisions, in order."""
        steps, total = self._steps(), len(self.pairs)
        for number, (seq, _, _, step) in enumerate(steps):
            if progress is not None and number % 100 == 0:
                progress(len(self.made), total)
            step(seq)

    def _steps(self) -> list[Step]:
        """Return the acts in order: position, place at this position, number, and the function that does it again."""
        acts = sorted((seq, id, act) for id, record in self.records.items() for seq, act in record.acts())
        steps: list[Step] = [
            (seq, 0, number, partial(self._act, id, act)) for number, (seq, id, act) in enumerate(acts)
        ]
        for event in self.timeline.forgotten_by_hand():
            steps.append((event.seq, 0, 0, partial(self._forget, event.ids)))
        for pair, known in self.pairs.items():
            steps.append((known.order[0], 1, known.order[1], partial(self._decide, pair)))
        for seq in {known.order[0] for known in self.pairs.values()}:
            steps.append((seq, 2, 0, self._overflow))
        return sorted(steps, key=lambda step: step[:3])

    def put(self, id: str, standing: Standing, seq: int) -> None:
        """Take what became of an item, and whether it is active."""
        super().put(id, standing, seq)
        before = self._live.pop(id, None)
        self._bounded -= before is not None and before.item.src not in JUDGE_SOURCES
        if standing.state == "active":
            self._live[id] = self.items[id]
            self._bounded += self.items[id].item.src not in JUDGE_SOURCES

    def _settle(self, ids: Iterable[str], order: Order) -> None:
        self._unindexed.update(self.settle_before(ids, order))

    def _act(self, id: str, act: str, seq: int) -> None:
        if act == "vouched":
            self.records[id] = replace(self.records[id], forgotten=False)
        self._settle([id], (seq, 0))

    def _decide(self, pair: Pair, seq: int) -> None:
        if not counts(self, pair):
            return
        decision = self._decision(pair)
        ids = self.decide(pair, decision, seq, "")
        if decision.action in BIRTHS and self.records[decision.item].forgotten:
            self.records[decision.item] = replace(self.records[decision.item], forgotten=False)
        self._settle(ids, (seq, pair[1] + 1))

    def _decision(self, pair: Pair) -> Decision:
        known = self._final.pairs[pair]
        if known.order < self._since:
            return Decision(
                candidate=pair[1], action=known.action, item=known.item, targets=known.targets, pending=known.pending
            )
        # Not earlier, because most items have ended before the first decision that is made again.
        self._known.update(self.seen, self._unindexed, known.order[0])
        self._unindexed.clear()
        made = self.made[pair] = self.redecide(pair, self._known)
        return made

    def _forget(self, ids: Iterable[str], seq: int) -> None:
        live = [id for id in ids if (entry := self.items.get(id)) is not None and entry.state == "active"]
        for id in live:
            self.records[id] = replace(self.records[id], forgotten=True)
        self._settle(live, (seq, LATEST[0]))

    def _overflow(self, seq: int) -> None:
        if (policy := self.timeline.forgetting(seq)) is not None:
            self._forget(policy.behind_decisions(self._bounded, lambda: self._as_of(seq)), seq)

    def _as_of(self, seq: int) -> State:
        """Return the state at a position as a forgetting policy needs it, with verdicts as they are now.

        It has the active items, their uses that count by the attribution policy of then, and the verdicts on the runs
        of those: a long history has many times as many.
        """
        policies = self.timeline.policies(seq)
        counted = counted_uses(replace(self._final, policies=policies))
        given = ((id, counted[id]) for id in self._live if id in counted)
        uses = {id: {run: at for run, at in runs.items() if at <= seq} for id, runs in given}
        judged = self.timeline.judged
        users = {run for runs in uses.values() for run in runs if judged.get(run, seq + 1) <= seq}
        keys = [(run, purpose) for run in users for purpose in ("learning", "scoring")]
        verdicts = {key: self.verdicts[key] for key in keys if key in self.verdicts}
        facts = {"uses": uses, "injected": uses, "read": uses, "unsent": {}, "policies": policies, "verdicts": verdicts}
        return replace(self.seen, position=seq, items=self._live, **facts)
