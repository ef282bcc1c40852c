"""The memory of a fold: extractions, decisions, verdicts and acts, from which the states of items follow.

The pure fold and the read models share it, so they can't differ: the fold keeps its facts in mappings, a read model
looks up those that an event touches. An event costs what it touches, at any size of the bank.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import BadEvent
from rbank_es.events import (
    ConsolidationProposed,
    ContentErased,
    CorrectionCompleted,
    Decision,
    DecisionUndone,
    Erased,
    Event,
    JudgmentOverruled,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    PolicyChoice,
    PolicySet,
    Ref,
    RunJudged,
)
from rbank_es.events.derived_ids import decisions_id, is_derived
from rbank_es.events.items import NO_WORDS, Item
from rbank_es.events.run_events import VerdictValue
from rbank_es.law.bank_state import (
    BIRTHS,
    CandidateState,
    Due,
    ExtractionState,
    ItemRecord,
    ItemState,
    Pair,
    PairState,
    Proposal,
    Said,
    StandingVerdict,
    State,
)
from rbank_es.law.validity import (
    Standing,
    authority,
    is_later,
    said_by,
    standing_of,
    witnesses_behind,
    witnesses_of,
)

ENDS = frozenset({"merge", "supersede"})
"""Actions that end their targets."""

UNBOUNDED = "never"
"""The name of the forgetting policy that gives nothing up."""

_NO_RECORD = ItemRecord()


def links(pair: PairState) -> tuple[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]]]:
    """Return the items on which a decision puts its candidate, and those that it ends, by the field that has them."""
    # Once each: a decision by hand may name a target twice.
    targets = tuple(dict.fromkeys(pair.targets))
    if pair.action in BIRTHS:
        return ("landed", (pair.item,)), ("enders", targets if pair.action in ENDS else ())
    targets = targets or (pair.item,)
    return ("landed", targets if pair.action == "skip" else ()), ("enders", ())


class MemoryFacts(ABC):
    """The facts of memory, updated in place. A subclass says what becomes of the states that follow from them."""

    def __init__(self, state: State, own: Callable[[Mapping[Any, Any]], MutableMapping[Any, Any]]) -> None:
        """Go on from a state; `own` makes a container that can be changed of one that can't."""
        self.verdicts: MutableMapping[tuple[str, str], StandingVerdict] = own(state.verdicts)
        self.policies: Mapping[str, PolicyChoice] = state.policies
        self.bounded = state.bounded
        self.extractions: MutableMapping[str, ExtractionState] = own(state.extractions)
        self.candidates: MutableMapping[Pair, CandidateState] = own(state.candidates)
        self.pairs: MutableMapping[Pair, PairState] = own(state.pairs)
        self.records: MutableMapping[str, ItemRecord] = own(state.records)
        self.relying: MutableMapping[str, tuple[str, ...]] = own(state.relying)
        self.copies: MutableMapping[str, tuple[Pair, ...]] = own(state.copies)
        self.proposals: MutableMapping[Pair, Proposal] = own(state.proposals)
        self.prepared: MutableMapping[str, tuple[Event, ...]] = own(state.prepared)
        self.due = state.due

    @abstractmethod
    def put(self, id: str, standing: Standing, seq: int) -> None:
        """Take what became of an item at a position; an id that never was anything but unsupported is no item."""

    def all_active(self, ids: Iterable[str]) -> bool:
        """Return whether some ids are all those of active items."""
        records = ((id, self.records.get(id)) for id in ids)
        made = (None if it is None else standing_of(id, it, self) for id, it in records)
        return all(standing is not None and standing.state == "active" for standing in made)

    def supported(self, entry: ItemState, pair: Pair, made: PairState) -> ItemState | None:
        """Return an item with the support of one more candidate; None where its state must be derived again."""
        if entry.state != "active" or entry.vouched:
            return None
        domains = tuple(sorted({*(entry.domains or ("",)), made.domain}))
        new = tuple(each for each in witnesses_of(pair, self) if each not in entry.witnesses)
        return replace(entry, witnesses=(*entry.witnesses, *new), domains=domains if domains != ("",) else ())

    def entry(self, standing: Standing, old: ItemState | None, seq: int) -> ItemState:
        """Return an item as it is after a position, given what became of it and its entry before."""
        birth, state = self.candidates[standing.birth], standing.state
        ended = None if state in ("active", "pending") else seq
        return ItemState(
            item=birth.item,
            state=state,
            born_seq=seq if old is None else old.born_seq,
            ended_seq=old.ended_seq if old is not None and old.state == state else ended,
            witnesses=standing.witnesses,
            extraction=standing.birth[0],
            erased=birth.erased,
            rank=standing.rank,
            domains=standing.domains if standing.domains != ("",) else (),
            vouched=standing.vouched,
            superseded_by=tuple(self.pairs[pair].item for pair in standing.by),
        )

    def verdict_of(self, run: str) -> VerdictValue | None:
        """Return the standing verdict for learning of a run."""
        found = self.verdicts.get((run, "learning"))
        return None if found is None else found.verdict

    def settle(self, ids: Iterable[str], seq: int) -> None:
        """Derive the states of items again, after the facts about them changed at a position."""
        for id in ids:
            record = self.records.get(id)
            made = None if record is None else standing_of(id, record, self)
            if made is not None:
                self.put(id, made, seq)

    def touched(self, pair: Pair) -> dict[str, None]:
        """Return the ids of the items that a candidate concerns, in an order that never varies."""
        known = self.pairs[pair]
        return dict.fromkeys((known.item, *known.targets))

    def flip(self, extraction: str, seq: int, cause: str) -> None:
        """Derive again who stands behind an extraction, and the consequences for items."""
        known = self.extractions.get(extraction)
        made = () if known is None else witnesses_behind(extraction, known, self.verdict_of)
        if known is None or made == known.witnesses:
            return
        self.extractions[extraction] = replace(known, witnesses=made)
        pairs = [(extraction, index) for index in range(known.size)]
        self.recount([*pairs, *self.copies.get(extraction, ())], seq, cause, counted=known.stands != bool(made))

    def recount(self, pairs: Iterable[Pair], seq: int, cause: str, *, counted: bool) -> None:
        """Derive the items of candidates again whose witnesses changed; `counted`: whether they count may have, too."""
        decided = [pair for pair in pairs if pair in self.pairs]
        self.settle(dict.fromkeys(id for pair in decided for id in self.touched(pair)), seq)
        # By support alone a policy chooses only what to forget.
        if counted or self.bounded:
            self.note_due(cause, pairs=decided)

    def note_due(
        self,
        cause: str,
        *,
        pairs: Iterable[Pair] = (),
        items: Iterable[str] = (),
        runs: Iterable[str] = (),
        whole: bool = False,
    ) -> None:
        """Note what a correction has to look at, and why; nothing where there is nothing to look at."""
        due, new = self.due, (tuple(pairs), tuple(items), tuple(runs))
        if whole or any(new):
            # The last one is enough to look at: what an event causes is noted before the next event.
            named = due.causes[-1:] == (cause,) or len(due.causes) >= limits.CORRECTION_CAUSES
            causes = due.causes if named else (*due.causes, cause)
            self.due = Due(
                pairs=due.pairs.with_more(new[0]),
                items=due.items.with_more(new[1]),
                runs=due.runs.with_more(new[2]),
                whole=due.whole or whole,
                causes=causes,
            )

    def decide(self, pair: Pair, decision: Decision, seq: int, policy: str) -> dict[str, None]:
        """Put a decision about a candidate in force; return the ids of the items that it concerns."""
        candidate, old = self.candidates[pair].item, self.pairs.get(pair)
        ids = {} if old is None else self.touched(pair)
        if old is None:
            made = PairState(
                order=(seq, pair[1]),
                item=candidate.id,
                domain=candidate.domain or "",
                originals=self.candidates[pair].originals,
                action=decision.action,
                targets=decision.targets,
                pending=decision.pending,
                first=decision,
                policy=policy,
            )
            self._link(candidate.id, "pairs", pair)
        else:
            made = replace(old, action=decision.action, targets=decision.targets, pending=decision.pending)
            for field, items in links(old):
                for id in items:
                    self._unlink(id, field, pair)
        self.pairs[pair] = made
        for field, items in links(made):
            for id in items:
                self._link(id, field, pair)
        if old is None and made.action == "skip":
            return self._landed(pair, made, seq)
        return ids | self.touched(pair)

    def _landed(self, pair: Pair, made: PairState, seq: int) -> dict[str, None]:
        """Take the landing of a new candidate; return the items whose states it may change, beside their support."""
        first = len(self.records[made.item].pairs) == 1
        ids = dict.fromkeys((made.item,) if first else ())
        if witnesses_of(pair, self):
            # A decision may name a target twice, and supports it once.
            targets = dict.fromkeys(made.targets or (made.item,))
            ids |= dict.fromkeys(id for id in targets if not self.land(id, pair, made, seq))
        return ids

    def land(self, id: str, pair: Pair, made: PairState, seq: int) -> bool:
        """Take one more landing on an item, if nothing follows from it but support; else return False.

        An item that thousands of candidates support would otherwise be derived from all of them at each.
        """
        return False

    def _link(self, id: str, field: str, pair: Pair) -> None:
        record = self.records.get(id) or _NO_RECORD
        self.records[id] = replace(record, **{field: (*getattr(record, field), pair)})

    def _unlink(self, id: str, field: str, pair: Pair) -> None:
        record = self.records[id]
        self.records[id] = replace(record, **{field: tuple(each for each in getattr(record, field) if each != pair)})

    def act(self, ids: Iterable[str], act: str, event: Event) -> None:
        """Note what a person did to items; nothing where a later act on the item counts in its place."""
        said, known = said_by(event), list[str]()
        for id in dict.fromkeys(ids):
            record = self.records.get(id) or _NO_RECORD
            if act != "admitted" and not is_later(said, record.said, self.policies):
                continue
            known.append(id)
            self.records[id] = record.acted((event.seq, act), said)
            if record.forgotten and act == "vouched":
                self.records[id] = replace(self.records[id], forgotten=False)
        self.settle(known, event.seq)
        self.note_due(event.id, items=known)

    def forget(self, ids: Iterable[str], forgotten: bool, seq: int) -> None:
        """Note that items are forgotten, or not any more."""
        known = list(dict.fromkeys(ids))
        for id in known:
            self.records[id] = replace(self.records.get(id) or _NO_RECORD, forgotten=forgotten)
        self.settle(known, seq)


def _judged(memory: MemoryFacts, event: RunJudged | JudgmentOverruled) -> None:
    rank = rank_of(event, memory.policies)
    old = memory.verdicts.get((event.run, event.purpose))
    said = said_by(event)
    if rank is None or (old is not None and not _takes_over(rank, said, old, memory.policies)):
        return
    made = StandingVerdict(
        verdict=event.verdict,
        judge=event.judge,
        judge_version=event.judge_version,
        kind=event.kind,
        sure=event.sure,
        confidence=event.confidence,
        overruled=type(event) is JudgmentOverruled,
        rank=rank,
        seq=event.seq,
        said=said,
    )
    memory.verdicts[event.run, event.purpose] = made
    if event.purpose == "learning" and (old is None or old.verdict != made.verdict):
        for extraction in memory.relying.get(event.run, ()):
            memory.flip(extraction, event.seq, event.id)
        # By wins and losses a policy chose what to forget, also long before this judgment, but after the first one.
        if memory.bounded and old is not None:
            memory.note_due(event.id, runs=(event.run,))


def _takes_over(rank: int, said: Said, old: StandingVerdict, policies: Mapping[str, PolicyChoice]) -> bool:
    """Return whether a judgment stands in the place of another: by its authority, or as the later of equal ones."""
    return rank > old.rank or (rank == old.rank and is_later(said, old.said, policies))


def rank_of(event: RunJudged | JudgmentOverruled, policies: Mapping[str, PolicyChoice]) -> int | None:
    """Return the authority of a judgment under the policies in force, None if it doesn't count: see `authority`."""
    judging = policies.get("judging")
    supervised = (
        event.purpose == "scoring"
        or (isinstance(event, RunJudged) and event.supervised)
        or (judging is not None and judging.settings.get("supervised") is True)
    )
    return authority(event.kind, event.verdict, sure=event.sure, supervised=supervised)


def _memories_extracted(memory: MemoryFacts, event: MemoriesExtracted) -> None:
    if event.id in memory.extractions:
        return
    # Not strict, because the fold is total: a surplus of heads or of texts changes nothing.
    both = list(zip(event.heads, event.candidates, strict=False))
    for index, (head, words) in enumerate(both):
        if isinstance(words, Ref):
            raise BadEvent(f"candidate {index} at position {event.seq} is a handle; resolve it before the fold")
        erased = isinstance(words, Erased) or words == NO_WORDS
        item = Item.join(head, None if isinstance(words, Erased) else words)
        originals = event.copy_of[index] if index < len(event.copy_of) else ()
        memory.candidates[event.id, index] = CandidateState(item=item, erased=erased, originals=originals)
        for original in dict.fromkeys(originals):
            memory.copies[original] = (*memory.copies.get(original, ()), (event.id, index))
    made = ExtractionState(
        seq=event.seq,
        kind=event.kind,
        runs=event.runs,
        relied=tuple((each.run, each.verdict) for each in event.relied),
        pending=event.pending,
        size=len(both),
    )
    made = replace(made, witnesses=witnesses_behind(event.id, made, memory.verdict_of))
    memory.extractions[event.id] = made
    for run in dict.fromkeys((*made.runs, *(run for run, _ in made.relied))):
        memory.relying[run] = (*memory.relying.get(run, ()), event.id)
    # Its copies came before it.
    memory.recount(memory.copies.get(event.id, ()), event.seq, event.id, counted=not made.stands)


def _consolidation_proposed(memory: MemoryFacts, event: ConsolidationProposed) -> None:
    pair = (event.extraction, event.candidate)
    # One that comes after the decision came too late: it must not change what a correction decides.
    if pair not in memory.pairs:
        memory.proposals[pair] = Proposal(action=event.action, targets=event.targets)


def _memories_consolidated(memory: MemoryFacts, event: MemoriesConsolidated) -> None:
    if not _held(memory, event):
        _take_decisions(memory, event, event.seq)


def _take_decisions(memory: MemoryFacts, event: MemoriesConsolidated, seq: int) -> None:
    ids, taken = dict[str, None](), list[Pair]()
    for decision in event.decisions:
        pair = (decision.extraction or event.extraction or "", decision.candidate)
        candidate = memory.candidates.get(pair)
        # Made again, it must have been made before.
        if candidate is None or candidate.item.id != decision.item or (event.again and pair not in memory.pairs):
            continue
        ids |= memory.decide(pair, decision, seq, event.policy)
        taken.append(pair)
        # A decision made again brings nothing back by itself: its correction lists what is forgotten and restored.
        if decision.action in BIRTHS and not event.again and memory.records[decision.item].forgotten:
            memory.records[decision.item] = replace(memory.records[decision.item], forgotten=False)
    memory.settle(ids, seq)
    # A policy that decides weighs what is rejected, and what the bank holds at most; a person, or a program, may not.
    if event.correction is None and event.id != decisions_id(event.extraction or ""):
        memory.note_due(event.id, pairs=taken)


def _held(memory: MemoryFacts, event: MemoriesConsolidated | MemoriesForgotten | MemoriesRestored) -> bool:
    """Return whether an event is part of a correction; it is then held back until that is completed."""
    if event.correction is None:
        return False
    memory.prepared[event.correction] = (*memory.prepared.get(event.correction, ()), event)
    return True


def _correction_completed(memory: MemoryFacts, event: CorrectionCompleted) -> None:
    for part in memory.prepared.pop(event.correction, ()):
        if isinstance(part, MemoriesConsolidated):
            _take_decisions(memory, part, event.seq)
        elif isinstance(part, MemoriesForgotten | MemoriesRestored):
            memory.forget(part.ids, isinstance(part, MemoriesForgotten), event.seq)
    memory.due = Due()


def _memories_forgotten(memory: MemoryFacts, event: MemoriesForgotten) -> None:
    if _held(memory, event):
        return
    # As for decisions: what a policy gives up follows from its rule, and an active item may be forgotten by anybody.
    chosen = memory.policies.get("forgetting")
    by_policy = chosen is not None and event.policy == f"{chosen.name}-{chosen.version}"
    weighed = is_derived(event.id) if by_policy else memory.all_active(event.ids)
    memory.forget(event.ids, True, event.seq)
    if not weighed:
        memory.note_due(event.id, items=event.ids)


def _memories_restored(memory: MemoryFacts, event: MemoriesRestored) -> None:
    if _held(memory, event):
        return
    if event.how == "vouched":
        memory.act(event.ids, "vouched", event)
    else:
        memory.forget(event.ids, False, event.seq)
        memory.note_due(event.id, items=event.ids)


def _memories_retracted(memory: MemoryFacts, event: MemoriesRetracted) -> None:
    if event.how != "tainted":
        memory.act(event.ids, event.how, event)
        return
    if event.run is None or event.verdict is None:
        return
    for extraction in event.extractions:
        known = memory.extractions.get(extraction)
        if known is not None:
            aside = (*known.aside, (event.run, event.verdict))
            memory.extractions[extraction] = replace(known, aside=aside)
            memory.relying[event.run] = tuple(dict.fromkeys((*memory.relying.get(event.run, ()), extraction)))
            memory.flip(extraction, event.seq, event.id)


def _memories_admitted(memory: MemoryFacts, event: MemoriesAdmitted) -> None:
    memory.act(event.ids, "admitted", event)


def _decision_undone(memory: MemoryFacts, event: DecisionUndone) -> None:
    pair = (event.extraction, event.candidate)
    known = memory.pairs.get(pair)
    if known is None or not is_later(said_by(event), known.undoing, memory.policies):
        return
    memory.pairs[pair] = replace(known, undone=not event.lifted, undoing=said_by(event))
    if known.undone is event.lifted:
        memory.recount((pair, *memory.copies.get(pair[0], ())), event.seq, event.id, counted=True)


def _content_erased(memory: MemoryFacts, event: ContentErased) -> None:
    # Whichever they were: a decision about words that are gone is kept as it was first recorded.
    if any(unit.path.startswith("candidates") for unit in event.units) and memory.pairs:
        memory.note_due(event.id, whole=True)


def _policy_set(memory: MemoryFacts, event: PolicySet) -> None:
    memory.policies = {policy.kind: policy for policy in event.policies}
    # For good: a verdict that changes may change what a bound chose to forget under an earlier policy.
    memory.bounded = memory.bounded or forgets(memory.policies)


def forgets(policies: Mapping[str, PolicyChoice]) -> bool:
    """Return whether a forgetting policy is in force that may give items up."""
    chosen = policies.get("forgetting")
    return chosen is not None and chosen.name != UNBOUNDED


MEMORY_HANDLERS: dict[type[Event], Callable[[Any, Any], None]] = {
    RunJudged: _judged,
    JudgmentOverruled: _judged,
    MemoriesExtracted: _memories_extracted,
    ConsolidationProposed: _consolidation_proposed,
    MemoriesConsolidated: _memories_consolidated,
    CorrectionCompleted: _correction_completed,
    MemoriesForgotten: _memories_forgotten,
    MemoriesRetracted: _memories_retracted,
    MemoriesRestored: _memories_restored,
    MemoriesAdmitted: _memories_admitted,
    DecisionUndone: _decision_undone,
    ContentErased: _content_erased,
    PolicySet: _policy_set,
}
"""What each type of event does to a memory."""
