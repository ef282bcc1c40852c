"""Absorption: what another bank recorded, brought into this one as events, and consolidated under its own policies.

    plan      the whole other log is read and compared: see `rbank_es.bank.absorption_plan`
    bring     what is new is appended in its order, with a decision behind each extraction; `bank_absorbed` is in the
              last group, so an absorption that was interrupted has none
    complete  what the verdicts and acts that came leave due is corrected
    erase     if asked for, texts are erased that were erased there

Whatever came in is known by its id. So absorbing again completes an interrupted absorption, and an absorption that has
nothing to bring appends nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank.absorbed_events import fresh, texts_in, without
from rbank_es.bank.absorption_plan import AbsorptionPlan, Refusal, plan_absorption
from rbank_es.bank.bank_difference import ActDifference, BankFacts, compared, difference_as, facts_of
from rbank_es.bank.corrector import Corrector
from rbank_es.errors import BadInput
from rbank_es.events import (
    BankAbsorbed,
    Event,
    JudgmentOverruled,
    MemoriesConsolidated,
    MemoriesExtracted,
    RunJudged,
    RunStarted,
)
from rbank_es.events.codec import encodable, encode_json, event_types, has_plain_texts
from rbank_es.events.event_envelope import Erased
from rbank_es.events.memory_events import Action
from rbank_es.law.decisions import Latest, append_decided
from rbank_es.log import Erasing, Erasure, EventLog
from rbank_es.log.ancestry import check_ancestry
from rbank_es.log.groups import system_clock, utc_text
from rbank_es.system.progress import OnProgress
from rbank_es.system.redacted_locator import shown_locator

LOCK = "absorption"
"""The name under which an absorption excludes another one of the same bank."""


class Absorption(ActDifference, frozen=True, kw_only=True):
    """What an absorption changed, or would change, with positions from its first event to its last.

    other_id, other_seq, other_digest
                         the other bank: its id, the position up to which it was absorbed, its head digest there
    brought              events that came in; `brought_runs`, `brought_judgments`, `brought_extractions` and the
                         candidates of these, `brought_candidates`, are among them
    known                events that were here already
    own                  events that stay there: policies, decisions, corrections, records of erasures
    refused              events whose id is known here with other content; `refusals` names the first of them
    erased               texts that came in empty because they were erased there
    withheld             texts that came in empty because they were erased here
    waiting              events that stay there until `waiting_until` (UTC), because theirs is a time in the future, or
                         they name such an event; another absorption brings them
    erased_since         texts that are here, and were erased there
    erased_items         the items whose words are among these
    erasure              the places here that would be erased, or were, with those that hold the same words; None where
                         nothing was erased there that is here
    renamed_runs         names here of runs, by their names there, which other runs have here
    renamed_items        ids here of items, by their ids there, which items with other words have here
    decisions            number of decisions about the candidates that came, by action
    """

    other_id: str
    other_seq: int
    other_digest: str
    brought: int = 0
    brought_runs: int = 0
    brought_judgments: int = 0
    brought_extractions: int = 0
    brought_candidates: int = 0
    known: int = 0
    own: int = 0
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()
    erased: int = 0
    withheld: int = 0
    waiting: int = 0
    waiting_until: str = ""
    erased_since: int = 0
    erasure: Erasure | None = None
    erased_items: tuple[str, ...] = ()
    renamed_runs: dict[str, str] = {}
    renamed_items: dict[str, str] = {}
    decisions: dict[Action, int] = {}


def absorb(
    log: EventLog,
    latest: Latest,
    other: EventLog,
    upto: int,
    *,
    name: str,
    by: str | None = None,
    rebuild: Callable[[], object] | None = None,
    dry_run: bool = False,
    progress: OnProgress | None = None,
) -> Absorption:
    """Bring the events of another log, up to a position of it, into the log of a bank, whose state is `latest`.

    With `rebuild`, which makes the read models again, texts are erased that were erased there.
    A dry run brings them into a copy that is removed. Raises what reading the other log does, and `BadInput` for one
    that can't be absorbed, before anything is appended; `LogBusy` while another absorption of this log is under way;
    and as `append_decided` does.
    """
    # Compare derived folders: a copy has the same id, and one place may have several paths.
    if other.bank_id == log.bank_id and other.derived_directory == log.derived_directory:
        raise BadInput(f"{log.place} can't absorb itself; name another bank")
    if dry_run:
        with log.copy(log.position()) as trial:
            return _Absorber(trial, Latest(trial), other, upto, name, by, None, progress).run()
    with log.exclusive(LOCK):
        made = _Absorber(log, latest, other, upto, name, by, rebuild, progress).run()
        return replace(made, recorded=made.last_seq is not None)


def _wait_until(when: str) -> None:
    """Wait until a time is over, which is at most `limits.CLOCK_AHEAD_S` in the future."""
    while utc_text(system_clock()) < when:
        time.sleep(limits.CLOCK_AHEAD_S / 100)


class _Absorber:
    """One absorption under way."""

    def __init__(
        self,
        log: EventLog,
        latest: Latest,
        other: EventLog,
        upto: int,
        name: str,
        by: str | None,
        rebuild: Callable[[], object] | None,
        progress: OnProgress | None,
    ) -> None:
        self._log, self._latest, self._other, self._upto, self._by = log, latest, other, upto, by
        self._name, self._rebuild = name, rebuild
        check_ancestry(other, upto)
        self._ancestors = other.ancestors()
        self._corrector = Corrector(log, latest, name)
        self._progress = progress
        self._counts: Counter[str] = Counter()
        self._decisions: Counter[Action] = Counter()
        self._first: int | None = None
        self._last: int | None = None

    def run(self) -> Absorption:
        self._other.settled()
        digest = self._other.head(self._upto).digest
        plan = plan_absorption(self._log, self._other, self._upto, self._reached)
        before = self._facts()
        if plan.brought:
            _wait_until(plan.latest)
            self._bring(plan, digest)
        self._complete()
        erasure = self._erase(plan)
        named = [f"brought_{each}" for each in ("runs", "judgments", "extractions", "candidates")]
        return difference_as(
            Absorption,
            compared(self._name, before, self._facts()),
            other_id=self._other.bank_id,
            other_seq=self._upto,
            other_digest=digest,
            brought=plan.brought,
            known=plan.known,
            own=plan.own,
            refused=plan.refused,
            refusals=tuple(plan.refusals),
            waiting=plan.waiting,
            waiting_until=plan.waiting_until,
            erased_since=len(plan.erased_there),
            erasure=erasure,
            erased_items=tuple(plan.items_erased_there),
            renamed_runs=dict(plan.renaming.runs),
            renamed_items=dict(plan.renaming.items),
            decisions=dict(self._decisions),
            first_seq=self._first,
            last_seq=self._last,
            **{name: self._counts[name] for name in (*named, "erased", "withheld")},
        )

    def _reached(self, seq: int) -> None:
        if self._progress is not None:
            self._progress(seq, 2 * self._upto)

    # ---------------------------------------------------------------- bringing

    def _bring(self, plan: AbsorptionPlan, digest: str) -> None:
        groups = self._groups(plan)
        group = next(groups)
        for following in groups:
            self._append(group)
            group = following
        self._append([*group, self._record(plan, digest)])

    def _groups(self, plan: AbsorptionPlan) -> Iterator[list[Event]]:
        """Yield the new events in the order of the other log, ended with its groups where these are small enough."""
        group: list[Event] = []
        count, size, ended = 0, 0, False
        for event in self._other.read(upto=self._upto, resolve=event_types().keys()):
            if not plan.brings(event.seq):
                continue
            made = self._made(event, plan)
            made_bytes = len(encode_json(made))
            # An extraction is followed by its decisions, and perhaps by what is forgotten.
            weight = 3 if isinstance(made, MemoriesExtracted) else 1
            full = count + weight > limits.ABSORBED_GROUP_EVENTS or size + made_bytes > limits.ABSORBED_GROUP_BYTES
            if group and (full or (ended and count > limits.ABSORBED_GROUP_EVENTS // 2)):
                self._reached(self._upto + event.seq)
                yield group
                group, count, size = [], 0, 0
            group.append(made)
            count, size, ended = count + weight, size + made_bytes, not event.more
        yield group

    def _made(self, event: Event, plan: AbsorptionPlan) -> Event:
        """Return an event of the other log as it comes in."""
        if not has_plain_texts(event):
            self._counts["erased"] += sum(isinstance(text, Erased) for _, _, text in texts_in(event))
        kept, withheld = without(event, plan.sought, plan.erased_items)
        self._counts["withheld"] += withheld
        match event:
            case RunStarted():
                self._counts["brought_runs"] += 1
            case RunJudged() | JudgmentOverruled():
                self._counts["brought_judgments"] += 1
            case MemoriesExtracted():
                self._counts["brought_extractions"] += 1
                self._counts["brought_candidates"] += len(event.heads)
        return plan.renaming.applied(fresh(kept, self._recorder(event.seq)))

    def _recorder(self, seq: int) -> str:
        """Return the id of the bank that recorded the event at a position of the other log, which may be a fork."""
        return next((each.bank for each in self._ancestors if seq <= each.upto), self._other.bank_id)

    def _record(self, plan: AbsorptionPlan, digest: str) -> BankAbsorbed:
        counts = {"brought": plan.brought, "known": plan.known, "refused": plan.refused}
        counts |= {name: self._counts[name] for name in ("erased", "withheld") if self._counts[name]}
        if plan.waiting:
            counts["waiting"] = plan.waiting
        names = [*plan.renaming.runs.items(), *plan.renaming.items.items()]
        return BankAbsorbed(
            id=self._log.new_id(),
            bank=self._other.bank_id,
            lineage=self._ancestors[0].bank if self._ancestors else None,
            upto=self._upto,
            digest=digest,
            counts=counts,
            renamed={here: there for there, here in names[: limits.RENAMED_LISTED]},
            by=self._by,
            source=encodable(shown_locator(self._other.place)),
        )

    def _append(self, group: Sequence[Event]) -> None:
        self._complete()  # in groups of its own: what is due may be as large as a group
        appended = append_decided(self._log, self._latest, group)
        self._took(appended.first, appended.last)
        for event in appended.events:
            if isinstance(event, MemoriesConsolidated) and not event.again:
                self._decisions.update(decision.action for decision in event.decisions)

    def _complete(self) -> None:
        made = self._corrector.correct(lambda state: [])
        if made.first_seq is not None and made.last_seq is not None:
            self._took(made.first_seq, made.last_seq)

    def _took(self, first: int, last: int) -> None:
        self._first, self._last = self._first or first, last

    def _erase(self, plan: AbsorptionPlan) -> Erasure | None:
        """Erase what was erased there, where that is asked for; else only search for it."""
        if not plan.erased_there:
            return None
        what, reason = Erasing(paths=tuple(plan.erased_there)), f"erased in bank {self._other.bank_id}"
        rebuild = self._rebuild
        done = self._log.erase(
            what, reason=reason, by=self._by, dry_run=rebuild is None, rebuild=rebuild or (lambda: None)
        )
        if done.appended is not None:
            self._took(done.appended.first, done.appended.last)
            self._complete()
        return done

    def _facts(self) -> BankFacts:
        with self._latest.at(self._log.position()) as basis:
            return facts_of(basis.state)
