"""Acts of people on what a bank learned: verdicts, ends and returns of items, learning and forgetting by hand.

Each act is one group: what the person did, what follows from it by the law of correction, and `correction_completed`.
An act that changes nothing appends nothing. Ids are whole ones: a beginning might mean another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank.ids import StateIds, exact_id
from rbank_es.bank.open_bank import OpenBank
from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import (
    Decision,
    DecisionUndone,
    Event,
    JudgmentOverruled,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    Reliance,
    RunJudged,
)
from rbank_es.events.items import Item, Polarity, Source
from rbank_es.events.memory_events import BY_HAND, Action
from rbank_es.events.run_events import VerdictValue
from rbank_es.system.progress import OnProgress

# Imported where they are used, as in `Bank`: an append needs none of them.
if TYPE_CHECKING:
    from rbank_es.bank.absorption import Absorption
    from rbank_es.bank.canonical_check import CanonicalCheck
    from rbank_es.bank.correction import Correction, VerdictChange
    from rbank_es.bank.corrector import Corrector
    from rbank_es.bank.verdict_review import DoubtfulVerdict
    from rbank_es.state import ItemStatus, Pair, State
    from rbank_es.state.bank_state import ItemRecord

SOMEBODY = "somebody"
"""The name of a person who gave none."""


class Ruling(NamedTuple):
    """A person's verdict on a run, and the reason."""

    run: str
    verdict: VerdictValue
    reason: str
    by: str | None = None


class Remembered(Struct, frozen=True, kw_only=True):
    """The outcome of adding an item that a person wrote down.

    `state` is that of the item of this id, None if there is none; `action`, `targets` and `reason` are the decision
    (an item that states the same as another supports that one, its target). `because` says in words why it was not
    added, or is pending; empty if it is active. `forgotten` are items that the bank gave up to make room. `seq` is the
    position of the decision.
    """

    item: str
    state: ItemStatus | None
    action: Action
    targets: tuple[str, ...]
    reason: str
    because: str
    forgotten: tuple[str, ...]
    extraction: str
    seq: int


class BankActs(OpenBank):
    """The part of `Bank` by which people correct what it learned."""

    @property
    def corrector(self) -> Corrector:
        """Corrections of this bank."""
        from rbank_es.bank.corrector import Corrector

        return Corrector(self.log, self.latest)

    # ---------------------------------------------------------------- verdicts

    def overrule(
        self,
        run: str,
        verdict: VerdictValue,
        *,
        reason: str,
        by: str | None = None,
        influence: bool = False,
        dry_run: bool = False,
    ) -> Correction:
        """Give a person's verdict on a run, which no judge outranks, and correct what was learned from it.

        With `influence`, extractions from runs that had been given items which left are set aside too, while this
        verdict stands. A verdict that a person gave already appends nothing.
        Raises `NotInBank` for the run, `BadInput` without a reason.
        """
        return self._overrule([Ruling(run, verdict, reason, by)], influence, dry_run)

    def overrule_many(self, rulings: Iterable[Ruling], *, influence: bool = False, dry_run: bool = False) -> Correction:
        """Give many verdicts in one correction.

        With `influence`, each extraction that is set aside stays so while any verdict stands because of which it was.
        Raises as `overrule`, then nothing was appended; `BadInput` if two differ about a run.
        """
        return self._overrule(list(rulings), influence, dry_run)

    def _overrule(self, given: Sequence[Ruling], influence: bool, dry_run: bool) -> Correction:
        from rbank_es.bank.correction import VerdictChange, verdict_on
        from rbank_es.bank.corrector import Influence

        rulings = self._resolved(given)
        changes: list[VerdictChange] = []

        def act(state: State) -> list[Event]:
            # Each time that the act is tried: another writer may have changed the verdicts before.
            changes[:] = [
                VerdictChange(run=each.run, before=verdict_on(state, each.run), after=each.verdict, given=each.verdict)
                for each in rulings
            ]
            return [self._judgment(state, each) for each in rulings if not _given_already(state, each)]

        tainting = [Influence(each.run, each.verdict, each.by) for each in rulings] if influence else []
        runs = [each.run for each in rulings]
        made = self.corrector.correct(act, influence=tainting, runs=runs, dry_run=dry_run)
        return replace(made, verdicts=tuple(changes))

    def _resolved(self, given: Sequence[Ruling]) -> list[Ruling]:
        """Return rulings about known runs, each run once."""
        found: dict[str, Ruling] = {}
        for each in given:
            ruling = each._replace(run=self._known("run", each.run), reason=_words("a reason", each.reason))
            known = found.setdefault(ruling.run, ruling)
            if known.verdict != ruling.verdict:
                raise BadInput(f"two verdicts on run {ruling.run!r}: {known.verdict} and {ruling.verdict}; give one")
        return list(found.values())

    def _judgment(self, state: State, ruling: Ruling) -> JudgmentOverruled:
        standing = state.verdicts.get((ruling.run, "learning"))
        return JudgmentOverruled(
            run=ruling.run,
            purpose="learning",
            verdict=ruling.verdict,
            judge="human",
            judge_version="1",
            kind="human",
            by=ruling.by or SOMEBODY,
            judgment=None if standing is None else self.event_at(standing.seq).id,
            reason=ruling.reason,
        )

    def doubtful_verdicts(
        self, point: str | int | None = None, *, progress: OnProgress | None = None
    ) -> tuple[DoubtfulVerdict, ...]:
        """Return the verdicts on which items rest alone at a point, first those whose being wrong would cost most.

        `progress` is called with the number of runs done and their total. See `rbank_es.bank.verdict_review`.
        Raises `BadPoint`.
        """
        position = self.resolve(point)
        if position < self.log.position():
            return self._doubtful(self.state(position), progress)
        with self.latest.at(position) as basis:
            return self._doubtful(basis.state, progress)

    def _doubtful(self, state: State, progress: OnProgress | None) -> tuple[DoubtfulVerdict, ...]:
        from rbank_es.bank.verdict_review import JUDGMENTS, doubtful_verdicts

        events = self.log.read(upto=state.position, types=JUDGMENTS)
        judgments = (each for each in events if isinstance(each, RunJudged | JudgmentOverruled))
        return doubtful_verdicts(state, judgments, progress)

    def correct(self, *, decisions: bool = False, dry_run: bool = False) -> Correction:
        """Complete what is due: after verdicts and acts that came by `append`, by import or from judges.

        With `decisions`, make every decision of the bank again, as `verify` does: also where the log claims, wrongly,
        that nothing is due.
        """
        from rbank_es.bank.correction import Correction

        if not decisions and self._shows_nothing_due():
            return Correction()
        return self.corrector.correct(lambda state: [], every=decisions, dry_run=dry_run)

    def check_canonical(self, *, decisions: bool = False, progress: OnProgress | None = None) -> CanonicalCheck:
        """Return how far the bank is from its canonical form: by what is due, or with `decisions` by making every
        decision again. `progress` is called with the number of candidates done and their total."""
        from rbank_es.bank.canonical_check import NOTHING_DUE, check_canonical

        if not decisions and self._shows_nothing_due():
            return NOTHING_DUE
        return check_canonical(self.latest, self.log.position(), every=decisions, progress=progress)

    def _shows_nothing_due(self) -> bool:
        """Return whether read models show that no correction is due; False where they are far behind, and where the
        state is in memory: it answers at once, and folding the log takes ten times as long as reading it."""
        from rbank_es.bank.canonical_check import is_nothing_due

        return self.latest.is_empty() and is_nothing_due(self.log, self.read_models())

    # ---------------------------------------------------------------- items

    def reject(self, item: str, *, because: str, by: str | None = None, dry_run: bool = False) -> Correction:
        """Condemn the words of an item: it leaves, and so does, now and later, what states the same; what is near to it
        waits for a person."""
        why = _words("a reason", because)

        def act(state: State) -> list[Event]:
            id = _item(state, item)
            known = _state_of(state, id) == "rejected"
            return [] if known else [MemoriesRetracted(ids=(id,), how="rejected", by=by, why=why)]

        return self.corrector.correct(act, dry_run=dry_run)

    def retract(self, item: str, *, because: str, by: str | None = None, dry_run: bool = False) -> Correction:
        """End one item; what states the same stays, and may come. Raises `BadInput` if it is rejected already."""
        why = _words("a reason", because)

        def act(state: State) -> list[Event]:
            id = _item(state, item)
            if _state_of(state, id) == "rejected":
                raise BadInput(f"item {id!r} is rejected, which bars its words too; retracting it would lift that")
            known = _state_of(state, id) == "withdrawn"
            return [] if known else [MemoriesRetracted(ids=(id,), how="withdrawn", by=by, why=why)]

        return self.corrector.correct(act, dry_run=dry_run)

    def restore(
        self, item: str, *, because: str, by: str | None = None, even_rejected: bool = False, dry_run: bool = False
    ) -> Correction:
        """Vouch for an item, be it active or ended: it is active from here on, with or without support.

        Raises `BadInput` for a rejected one without `even_rejected`, which lifts the bar on its words.
        """
        why = _words("a reason", because)

        def act(state: State) -> list[Event]:
            id = _item(state, item)
            if _state_of(state, id) == "rejected" and not even_rejected:
                raise BadInput(
                    f"item {id!r} is rejected, and what states the same with it; to lift that for all of them, "
                    "add even_rejected (--even-rejected)"
                )
            known = _state_of(state, id) == "active" and state.items[id].vouched
            return [] if known else [MemoriesRestored(ids=(id,), how="vouched", by=by, why=why)]

        return self.corrector.correct(act, dry_run=dry_run)

    def admit(self, item: str, *, because: str = "", by: str | None = None, dry_run: bool = False) -> Correction:
        """Admit a pending item: it is active while its support stands. Raises `BadInput` for one that has ended."""

        def act(state: State) -> list[Event]:
            id = _item(state, item)
            was = _state_of(state, id)
            if was not in ("pending", "active"):
                raise BadInput(f"item {id!r} is {was}, not pending; restore it to vouch for it")
            return [] if was == "active" else [MemoriesAdmitted(ids=(id,), by=by, why=because)]

        return self.corrector.correct(act, dry_run=dry_run)

    def undo(
        self, seq: int, candidate: int, *, because: str, by: str | None = None, dry_run: bool = False
    ) -> Correction:
        """Let a candidate count as never extracted.

        `seq` is the position of its extraction or of the decision about it; or of an earlier undoing, which is taken
        back. Raises `NotInBank` if there is no such decision.
        """
        why = _words("a reason", because)
        pair, lifted = self._decision_at(seq, candidate)

        def act(state: State) -> list[Event]:
            if pair not in state.pairs:
                raise NotInBank(f"candidate {candidate} at {seq}", state.position, kind="decision")
            if state.pairs[pair].undone is not lifted:
                return []
            return [DecisionUndone(extraction=pair[0], candidate=pair[1], lifted=lifted, by=by, why=why)]

        return self.corrector.correct(act, dry_run=dry_run)

    def _decision_at(self, seq: int, candidate: int) -> tuple[Pair, bool]:
        """Return the candidate that a person means, and whether its undoing is to be taken back."""
        position = self.log.position()
        event = self.event_at(seq) if 1 <= seq <= position else None
        if isinstance(event, DecisionUndone) and event.candidate == candidate:
            return (event.extraction, candidate), not event.lifted
        if isinstance(event, MemoriesExtracted):
            return (event.id, candidate), False
        if isinstance(event, MemoriesConsolidated):
            named = [each.extraction or event.extraction for each in event.decisions if each.candidate == candidate]
            if len(set(named)) == 1 and named[0] is not None:
                return (named[0], candidate), False
            if named:
                raise BadInput(
                    f"the event at position {seq:,} decides about candidate {candidate} of {len(set(named)):,} "
                    "extractions; give the position of the extraction instead"
                )
        advice = "give the position of an extraction, of the decisions about it, or of an undoing"
        raise NotInBank(f"candidate {candidate} at {seq}", position, kind="decision", advice=advice)

    # ---------------------------------------------------------------- by hand

    def remember(
        self,
        title: str,
        content: str,
        *,
        src: Source = "seed",
        desc: str = "",
        polarity: Polarity | None = None,
        domain: str | None = None,
        tags: tuple[str, ...] = (),
        runs: Sequence[str] = (),
        kind: Literal["manual", "success", "failure"] = "manual",
        reason: str = "",
    ) -> Remembered:
        """Let the policies of the bank decide about one item; return what became of it.

        `runs` are those that it was drawn from: it rests on their verdicts, and leaves the bank if these change.
        Raises `NotInBank` for a run, `BadInput` for one that is undecided.
        """
        from rbank_es.bank.decisions import append_decided

        item = Item.make(_words("a title", title), content, src, desc=desc, polarity=polarity, tags=tags, domain=domain)
        sources = tuple(dict.fromkeys(self._known("run", run) for run in runs))
        extracted = MemoriesExtracted(
            kind=kind,
            runs=sources,
            relied=self._relied(sources),
            heads=(item.head,),
            candidates=(item.text,),
            reason=reason,
        )
        appended = append_decided(self.log, self.latest, [extracted])
        return self._remembered(item, appended.events)

    def _relied(self, runs: Iterable[str]) -> tuple[Reliance, ...]:
        with self.latest.at(self.log.position()) as basis:
            standing = {run: basis.state.verdicts.get((run, "learning")) for run in runs}
        for run, verdict in standing.items():
            if verdict is not None and verdict.verdict == "undecided":
                raise BadInput(f"run {run!r} is undecided, so nothing is learned from it; overrule that first")
        return tuple(
            Reliance(run=run, verdict=verdict.verdict, judgment=self.event_at(verdict.seq).id)
            for run, verdict in standing.items()
            if verdict is not None
        )

    def _remembered(self, item: Item, events: Iterable[Event]) -> Remembered:
        group = list(events)
        [extracted] = [each for each in group if isinstance(each, MemoriesExtracted)]
        [decided] = [each for each in group if isinstance(each, MemoriesConsolidated) and not each.again]
        [decision] = decided.decisions
        gone = (each.ids for each in group if isinstance(each, MemoriesForgotten) and each.correction is None)
        with self.latest.at(self.log.position()) as basis:
            entry = basis.state.items.get(item.id)
            because = self._because(item, decision.reason, decision.targets) if _asks_why(decision) else ""
        return Remembered(
            item=item.id,
            state=None if entry is None else entry.state,
            action=decision.action,
            targets=decision.targets,
            reason=decision.reason,
            because=because,
            forgotten=tuple(id for ids in gone for id in ids),
            extraction=extracted.id,
            seq=decided.seq,
        )

    def _because(self, item: Item, reason: str, targets: Sequence[str]) -> str:
        """Return in words why an item was not added; for words that somebody ended, who did it and why."""
        if reason == "near-rejected":
            return self._near_rejected(item, targets[0])
        if reason not in ("rejected", "withdrawn"):
            return f"{reason}: it supports {', '.join(targets)}" if targets else reason
        from rbank_es.bank.decisions import consolidation_policy

        with self.latest.at(self.log.position()) as basis:
            records = basis.state.records
            ended = item.id
            if _latest(records, item.id, reason) == 0:
                bar = consolidation_policy(basis.state).bar(item, basis.known)
                ended = item.id if bar is None else bar.item
            seq = _latest(records, ended, reason)
        if not seq:
            return reason
        [event] = self.log.read(after=seq - 1, upto=seq, types=("memories_retracted",), resolve=("memories_retracted",))
        assert isinstance(event, MemoriesRetracted)
        words = f": {event.why}" if isinstance(event.why, str) and event.why else ""
        verb = {"rejected": "rejected", "withdrawn": "withdrew"}[reason]
        return f"{event.by or SOMEBODY} {verb} {ended} at position {seq:,}{words}"

    def _near_rejected(self, item: Item, rejected: str) -> str:
        """Return in words why an item waits for a person."""
        from rbank_es.policies.likeness import differences, in_words

        with self.latest.at(self.log.position()) as basis:
            other = basis.state.items[rejected].item
        told = in_words(differences(other, item))
        return f"it is near to {rejected}, which is rejected{f' ({told})' if told else ''}; admit it if it is right"

    def forget(self, item: str, *, because: str = "") -> ItemStatus:
        """Forget an active item, as a policy would; return its state then. Another candidate with its words revives it.

        Raises `NotInBank`; `BadInput` if the item is not active; `PositionConflict` if other writers were faster
        `limits.CONSOLIDATION_TRIES` times.
        """
        from rbank_es.bank.decisions import optimistically

        def try_once(position: int) -> ItemStatus:
            with self.latest.at(position) as basis:
                id = _item(basis.state, item)
                was = _state_of(basis.state, id)
                pending = self.latest.due(basis.state)
                at = basis.state.position
            if was != "active":
                raise BadInput(f"item {id!r} is {was}, not active; there is nothing to forget")
            self.log.append([*pending, MemoriesForgotten(ids=(id,), policy=BY_HAND, why=because)], expected=at)
            return "forgotten"

        return optimistically(self.log, try_once, limits.CONSOLIDATION_TRIES)

    # ---------------------------------------------------------------- other banks

    def absorb(
        self,
        other: OpenBank,
        point: str | int | None = None,
        *,
        by: str | None = None,
        erase: bool = False,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> Absorption:
        """Bring what another bank recorded, up to a point of it, into this one, under this bank's policies.

        Its runs, judgments, extractions and acts of people come in with their ids and times; its policies and decisions
        don't. What is here already is not brought again. Events of a clock that is fast stay there until another
        absorption. With `erase`, texts that were erased there are erased here, too; else they are listed.
        A dry run works on a temporary copy of this bank.
        `progress` is called with the number of events done and their total.
        Raises `BadInput` for this bank itself and for an event that can't be stored, `BadPoint`, `LogCorruption` and
        `UnknownEvent` for the other bank, before anything is appended; `LogBusy` while this bank absorbs another one;
        `BadPolicy`; and as `append` does.
        """
        from rbank_es.bank.absorption import absorb

        upto, rebuild = other.resolve(point), self.project if erase else None
        return absorb(
            self.log, self.latest, other.log, upto, by=by, rebuild=rebuild, dry_run=dry_run, progress=progress
        )

    # ---------------------------------------------------------------- ids

    def _known(self, kind: Literal["run", "item"], given: str) -> str:
        with self.latest.at(self.log.position()) as basis:
            return exact_id(StateIds(basis.state), kind, given)


def _item(state: State, given: str) -> str:
    return exact_id(StateIds(state), "item", given)


def _asks_why(decision: Decision) -> bool:
    return decision.action != "add" or decision.pending


def _latest(records: Mapping[str, ItemRecord], id: str, act: str) -> int:
    """Return the position of the latest such act of a person on an item, 0 without one."""
    record = records.get(id)
    return 0 if record is None else next((seq for seq, each in record.acts() if each == act), 0)


def _state_of(state: State, id: str) -> ItemStatus:
    entry = state.items.get(id)
    return "unsupported" if entry is None else entry.state


def _given_already(state: State, ruling: Ruling) -> bool:
    """Return whether a person gave this verdict, and it stands."""
    standing = state.verdicts.get((ruling.run, "learning"))
    return standing is not None and standing.kind == "human" and standing.verdict == ruling.verdict


def _words(what: str, given: str) -> str:
    if not given.strip():
        raise BadInput(f"{what} is missing; those who read the log later need it")
    return given
