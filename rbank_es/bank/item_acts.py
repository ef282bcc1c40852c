"""Acts of people on what a bank learned: ends and returns of items, learning and forgetting by hand, policies.

Each act is one group: what the person did, what follows from it by the law of correction, and `correction_completed`.
An act that changes nothing appends nothing. With `dry_run` nothing is appended; what is returned is the same.
Ids are whole ones: a beginning might mean another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from rbank_es.bank.bank_access import OpenBank
from rbank_es.bank.id_lookup import StateIds, exact_id
from rbank_es.bank.verdict_acts import SOMEBODY, VerdictActs, given_words
from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import (
    Decision,
    DecisionUndone,
    Event,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    PolicySet,
    Reliance,
)
from rbank_es.events.items import Item, Polarity, Source
from rbank_es.events.memory_events import BY_HAND, Action
from rbank_es.system.progress import OnProgress

# Imported where they are used, as in `Bank`: an append needs none of them.
if TYPE_CHECKING:
    from rbank_es.bank.absorption import Absorption
    from rbank_es.bank.bank_difference import ActDifference
    from rbank_es.bank.correction_effect import Correction
    from rbank_es.law import ItemStatus, Pair, State
    from rbank_es.law.bank_state import ItemRecord
    from rbank_es.law.decisions import Basis


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


class ItemActs(VerdictActs):
    """The part of `Bank` by which people correct what it learned."""

    # ---------------------------------------------------------------- items

    def reject(self, item: str, *, because: str, by: str | None = None, dry_run: bool = False) -> Correction:
        """Condemn the words of an item: it leaves, and so does, now and later, what states the same; what is near to it
        waits for a person."""
        why = given_words("a reason", because)

        def act(state: State) -> list[Event]:
            id = _item(state, item)
            known = _state_of(state, id) == "rejected"
            return [] if known else [MemoriesRetracted(ids=(id,), how="rejected", by=by, why=why)]

        return self.corrector.correct(act, dry_run=dry_run)

    def retract(self, item: str, *, because: str, by: str | None = None, dry_run: bool = False) -> Correction:
        """End one item; what states the same stays, and may come. Raises `BadInput` if it is rejected already."""
        why = given_words("a reason", because)

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
        why = given_words("a reason", because)

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
        why = given_words("a reason", because)
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
        from rbank_es.law.decisions import append_decided

        item = Item.make(
            given_words("a title", title), content, src, desc=desc, polarity=polarity, tags=tags, domain=domain
        )
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
        from rbank_es.law.decisions import consolidation_policy

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
        from rbank_es.law.likeness import differences, in_words

        with self.latest.at(self.log.position()) as basis:
            other = basis.state.items[rejected].item
        told = in_words(differences(other, item))
        return f"it is near to {rejected}, which is rejected{f' ({told})' if told else ''}; admit it if it is right"

    def forget(self, item: str, *, because: str = "", dry_run: bool = False) -> ActDifference:
        """Forget an active item, as a policy would. Another candidate with its words revives it.

        Raises `NotInBank`; `BadInput` if the item is not active; `PositionConflict` if other writers were faster
        `limits.CONSOLIDATION_TRIES` times.
        """

        def act(basis: Basis) -> list[Event]:
            id = _item(basis.state, item)
            was = _state_of(basis.state, id)
            if was != "active":
                raise BadInput(f"item {id!r} is {was}, not active; there is nothing to forget")
            return [*self.latest.due(basis.state), MemoriesForgotten(ids=(id,), policy=BY_HAND, why=because)]

        return self.corrector.record(act, dry_run=dry_run)

    # ---------------------------------------------------------------- policies

    def set_policies(
        self, tables: Mapping[str, Any], *, by: str | None = None, why: str = "", dry_run: bool = False
    ) -> ActDifference:
        """Change policies in force, by kind: `{"retrieval": {"k": 3}, "forgetting": {"name": "bounded"}}`.

        What is not named stays as it is. One event records all policies; none if nothing changes. Raises `BadPolicy`.
        """
        from rbank_es.policies.policy_registry import changed, differences

        def act(basis: Basis) -> list[Event]:
            before = tuple(basis.state.policies.values())
            after = changed(before, tables)
            return [PolicySet(policies=after, by=by, why=why)] if differences(before, after) else []

        return self.corrector.record(act, dry_run=dry_run)

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
            self.log,
            self.latest,
            other.log,
            upto,
            name=self.name,
            by=by,
            rebuild=rebuild,
            dry_run=dry_run,
            progress=progress,
        )


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
