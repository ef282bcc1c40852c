"""A bank's life as a state machine: whatever happens in whatever order, everything that is derived agrees."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.bank_difference import Difference, difference, difference_as
from rbank_es.errors import BadInput, BadPolicy, NotInBank, PositionConflict
from rbank_es.events import (
    Erased,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
    PolicySet,
)
from rbank_es.events.items import Item
from rbank_es.events.run_events import VerdictValue
from rbank_es.law import RESOLVED, Append, Dedup, State, active, fold
from rbank_es.law.consolidation import NEAR_DUPLICATE
from rbank_es.law.decisions import Decider, Latest, append_decided, consolidation_policy, forgetting_policy
from rbank_es.law.digests import state_digests
from rbank_es.log import Head
from rbank_es.policies import Bm25V1
from rbank_es.projections.read_models import ReadModels
from rbank_es.testing import event_id
from tests.effort import examples
from tests.fakes import dump
from tests.faults.disk import Quick
from tests.laws.test_consolidation import batches, policies
from tests.laws.test_projections import assert_equals_state
from tests.places import derived
from tests.pools import ITEMS, RUNS, WORDS
from tests.strategies import histories

SEGMENT_BYTES = 4_000
shares = st.floats(0, 1, allow_nan=False)
verdicts: st.SearchStrategy[VerdictValue] = st.sampled_from(("success", "failure", "undecided"))


class BankMachine(RuleBasedStateMachine):
    """One bank, two handles to it, a model of what it must hold, and every way to upset it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.kept = {name: getattr(limits, name) for name in ("SEGMENT_BYTES", "INLINE_TEXT_BYTES")}
        limits.SEGMENT_BYTES, limits.INLINE_TEXT_BYTES = SEGMENT_BYTES, 100
        self.place = self.folder / "bank"
        self.ids = iter(range(1, 10**6))
        self.texts_gone = False
        self.decided: list[str] = []

    def teardown(self) -> None:
        for bank in getattr(self, "banks", ()):
            bank.close()
        for name, value in self.kept.items():
            setattr(limits, name, value)
        shutil.rmtree(self.folder)

    @property
    def bank(self) -> Bank:
        return self.banks[0]

    @initialize()
    def make(self) -> None:
        """The bank is made; what is told of it from here on is kept in `told`."""
        made = Bank.create(self.place, calls=Quick())
        self.banks = [made, Bank.open(self.place, calls=Quick())]
        self.told: list[list[str]] = [[event.id for event in made.log.read()]]
        self.noted: list[Head] = [made.head()]

    def tell(self, bank: Bank, events: Iterable[Event]) -> None:
        group = [replace(event, id=event_id(next(self.ids)) if not event.id else event.id) for event in events]
        appended = bank.append(group, expected=bank.position)
        assert not appended.duplicate
        self.told.append([event.id for event in appended.events])

    # ---------------------------------------------------------------- what happens

    @rule(history=histories(min_size=1, max_size=6).filter(bool), which=st.integers(0, 1))
    def append(self, history: list[Event], which: int) -> None:
        """A plausible history is appended, through one handle or the other, whole."""
        renamed = {event.id: event_id(next(self.ids)) for event in history if event.id}
        self.tell(self.banks[which], [renaming(event, renamed) for event in history])

    @rule(policy=policies)
    def choose(self, policy: Append | Dedup) -> None:
        """From here on, another policy decides."""
        self.tell(self.bank, [PolicySet(policies=(policy.choice,))])

    @rule(batch=batches.filter(bool), which=st.integers(0, 1), kept=st.booleans())
    def learn(self, batch: list[Item], which: int, kept: bool) -> None:
        """Candidates are decided about by the policy in force, in their order, and each finds its place."""
        bank, before, position = self.banks[which], self.bank.state(), self.bank.position
        try:
            policy = consolidation_policy(before)
            forgetting_policy(before)
        except BadPolicy:
            with suppress(BadPolicy):
                append_decided(bank.log, bank.latest, [extraction_of(batch)])
            assert self.bank.position == position
            return
        decided, after = self.learnt(bank, batch, bank.latest if kept else Latest(bank.log)), self.bank.state()
        assert decided.policy == policy.label
        assert [(made.candidate, made.item) for made in decided.decisions] == [(n, it.id) for n, it in enumerate(batch)]
        assert all(made.reason for made in decided.decisions)
        for made, item in zip(decided.decisions, batch, strict=True):
            if made.reason == NEAR_DUPLICATE:
                target = after.items[made.targets[0]].item
                assert (target.src, target.polarity) == (item.src, item.polarity)

    @rule(batch=batches.filter(bool), which=st.integers(0, 1))
    def learn_twice(self, batch: list[Item], which: int) -> None:
        """What was just extracted adds nothing when it is extracted again, by whatever handle."""
        try:
            self.learnt(self.banks[which], batch)
        except BadPolicy:
            return
        once = self.bank.state()
        again = self.learnt(self.banks[1 - which], batch)
        assert {made.action for made in again.decisions} <= {"skip", "discard"}
        assert self.bank.state().items.keys() == once.items.keys()

    def learnt(self, bank: Bank, batch: list[Item], latest: Latest | None = None) -> MemoriesConsolidated:
        before = bank.position
        append_decided(bank.log, latest or bank.latest, [extraction_of(batch)])
        self.tell_since(before)
        events = list(bank.log.read(after=before))
        [decided] = [each for each in events if isinstance(each, MemoriesConsolidated) and not each.again]
        self.decided.append(decided.id)
        return decided

    def tell_since(self, position: int) -> None:
        """Keep what somebody appended, in its groups."""
        group: list[str] = []
        for event in self.bank.log.read(after=position):
            group.append(event.id)
            if not event.more:
                self.told.append(group)
                group = []

    @precondition(lambda self: self.decided and not self.texts_gone)
    @rule(share=shares)
    def decide_again(self, share: float) -> None:
        """The decisions that were recorded are those that the policy makes at the same point, whatever came since."""
        wanted = self.decided[int(share * (len(self.decided) - 1))]
        seq = self.bank.log.seq_of_id(wanted)
        assert seq is not None
        extracted, decided = self.bank.log.read(after=seq - 2, upto=seq, resolve=RESOLVED)
        assert isinstance(extracted, MemoriesExtracted) and isinstance(decided, MemoriesConsolidated)
        again = Decider(self.bank.state(seq - 2)).decided([extracted])[1]
        assert isinstance(again, MemoriesConsolidated) and again.decisions == decided.decisions

    @rule(share=shares, how=st.sampled_from(("retracted", "forgotten")))
    def end_item(self, share: float, how: str) -> None:
        """An active item ends."""
        live = sorted(active(self.bank.state()))
        if live:
            ids = (live[int(share * (len(live) - 1))],)
            end = MemoriesRetracted(ids=ids) if how == "retracted" else MemoriesForgotten(ids=ids, policy="bounded-1")
            self.tell(self.bank, [end])

    @rule(share=shares)
    def restore_item(self, share: float) -> None:
        """An ended item is active again, because somebody says so."""
        ended = sorted(id for id, entry in self.bank.state().items.items() if entry.state != "active")
        if ended:
            self.tell(self.banks[1], [MemoriesRestored(ids=(ended[int(share * (len(ended) - 1))],))])

    @rule(run=st.sampled_from(RUNS), verdict=verdicts, influence=st.booleans(), which=st.integers(0, 1))
    def overrule(self, run: str, verdict: VerdictValue, influence: bool, which: int) -> None:
        """A person's verdict stands from here on, whoever judged before; given twice, it changes nothing."""
        before = self.bank.position
        with suppress(NotInBank):
            self.banks[which].overrule(run, verdict, reason="x", influence=influence)
            assert self.bank.state().verdicts[run, "learning"].verdict == verdict
            position = self.bank.position
            assert not self.banks[1 - which].overrule(run, verdict, reason="x", influence=influence).recorded
            assert self.bank.position == position
        self.tell_since(before)

    @rule(share=shares, act=st.sampled_from(("reject", "retract", "restore", "admit", "forget")))
    def act(self, share: float, act: str) -> None:
        """A person acts on an item, and it is as they said."""
        items, before = sorted(self.bank.state().items), self.bank.position
        if not items:
            return
        id = items[int(share * (len(items) - 1))]
        with suppress(BadInput):
            getattr(self.bank, act)(id, because="x")
            # An admitted item is active while its support stands; support of a pending one may have gone meanwhile.
            wanted = {"reject": ["rejected"], "retract": ["withdrawn"], "forget": ["forgotten"], "restore": ["active"]}
            assert self.bank.state().items[id].state in wanted.get(act, ["active", "unsupported"])
        self.tell_since(before)

    @precondition(lambda self: self.decided)
    @rule(share=shares, candidate=st.integers(0, 2))
    def undo(self, share: float, candidate: int) -> None:
        """A candidate counts as never extracted, and counts again when that is taken back."""
        seq = self.bank.log.seq_of_id(self.decided[int(share * (len(self.decided) - 1))])
        before, items = self.bank.position, state_digests(self.bank.state()).items
        assert seq is not None
        # A decision by hand under the policy's name is not what the policy decides, and an undoing makes it again.
        if self.bank.correct(decisions=True).recorded:
            items = state_digests(self.bank.state()).items
        with suppress(NotInBank):
            made = self.bank.undo(seq, candidate, because="x")
            if made.recorded:
                self.bank.undo(made.first_seq, candidate, because="x")
                assert state_digests(self.bank.state()).items == items
        self.tell_since(before)

    @rule(which=st.integers(0, 1))
    def correct(self, which: int) -> None:
        """What is due is completed, once."""
        before = self.bank.position
        self.banks[which].correct()
        assert not self.bank.state().due and not self.banks[1 - which].correct().recorded
        self.tell_since(before)

    @rule(share=shares)
    def retry(self, share: float) -> None:
        """Any group may be appended again: it is answered, and nothing is written."""
        known = self.told[1:]
        if known:
            group = known[int(share * (len(known) - 1))]
            wanted = [event for event in self.bank.log.read() if event.id in set(group)]
            if any(holds_erased(event) for event in wanted):
                return
            again = self.banks[1].append(wanted)
            assert again.duplicate and [event.id for event in again.events] == group

    @rule()
    def conflict(self) -> None:
        """Who expects another position is refused."""
        before = self.bank.head()
        try:
            self.banks[1].append({"type": "note_logged", "note": {}}, expected=self.bank.position - 1)
        except PositionConflict as error:
            assert error.actual == before.seq
        else:
            raise AssertionError("it was appended")
        assert self.bank.head() == before

    @rule(share=shares, garbage=st.binary(max_size=20))
    def crash(self, share: float, garbage: bytes) -> None:
        """The last append was cut short: all handles die, and the log is without that group."""
        self.close()
        shutil.rmtree(derived(self.place), ignore_errors=True)
        path = max(self.place.glob("*.jsonl"))
        data = path.read_bytes()
        if len(self.told) > 1 and self.noted[-1].seq <= sum(map(len, self.told[:-1])):
            first = b'"seq":%d,"at"' % (sum(map(len, self.told[:-1])) + 1)
            start = self.start_of_group(data, first)
            if start is not None:
                end = data.index(b"\n", data.index(b'"seq":%d,"at"' % sum(map(len, self.told))))
                path.write_bytes(data[: start + int(share * (end - start))])
                lost = self.told.pop()
                self.decided = [each for each in self.decided if each not in lost]
        with path.open("ab") as file:
            file.write(garbage.replace(b"\n", b"") if share < 0.5 else b"")
        self.reopen()

    def start_of_group(self, data: bytes, first: bytes) -> int | None:
        """Where the bytes of the last group begin, its texts included; None where it isn't in this segment."""
        at = data.find(first)
        if at < 0:
            return None
        begin = data.rfind(b"\n", 0, at) + 1
        while True:
            before = data.rfind(b"\n", 0, begin - 1) + 1
            if not data.startswith(b'{"type":"text', before):
                return begin
            begin = before

    @rule(which=st.sampled_from(("all", "indexes", "read models", "receipts")))
    def delete_derived_files(self, which: str) -> None:
        """Derived files may go at any time."""
        self.close()
        pattern = {"all": "*", "indexes": "*.ids", "read models": "projections*", "receipts": "receipts"}[which]
        for path in derived(self.place).glob(pattern):
            path.unlink()
        self.reopen()

    @rule()
    def reopen(self) -> None:
        """As another process would find it."""
        self.close()
        self.banks = [Bank.open(self.place, calls=Quick()) for _ in range(2)]

    def close(self) -> None:
        for bank in self.banks:
            bank.close()

    @rule(which=st.integers(0, 1), rebuild=st.booleans())
    def project(self, which: int, rebuild: bool) -> None:
        """The read models catch up, or are made anew."""
        self.banks[which].project(rebuild=rebuild)

    @rule(item=st.sampled_from(ITEMS))
    def erase_item(self, item: str) -> None:
        """An item's texts go, where it was ever extracted."""
        try:
            self.erase(self.bank, item=item)
        except NotInBank:
            return

    @precondition(lambda self: self.bank.position > 2)
    @rule(share=shares)
    def erase_event(self, share: float) -> None:
        """An event's texts go."""
        self.erase(self.bank, event=1 + int(share * (self.bank.position - 1)))

    @rule(words=st.lists(st.sampled_from(WORDS), min_size=3, max_size=5).map(" ".join))
    def erase_words(self, words: str) -> None:
        """A text goes wherever it stands."""
        try:
            self.erase(self.banks[1], text=words)
        except BadInput:
            return
        stored = b"".join(path.read_bytes() for path in self.place.rglob("*") if path.is_file())
        assert words.encode() not in stored

    def erase(self, bank: Bank, **named: Any) -> None:
        """The difference is that of the states before and after, and a dry run foretells it."""
        before = bank.state()
        would, did = bank.erase(**named, dry_run=True), bank.erase(**named, reason="asked for")
        assert difference_as(Difference, did) == difference(bank.name, before, bank.state())
        assert replace(would, recorded=did.recorded, erasure=did.erasure) == did
        if did.recorded:
            self.texts_gone = True
            self.told.append([self.bank.log.read(after=self.bank.position - 1).__next__().id])
            self.noted.append(self.bank.head())

    @rule()
    def note_head(self) -> None:
        """Somebody writes down the head."""
        self.noted.append(self.banks[1].head())

    # ---------------------------------------------------------------- looking at it

    @rule(share=shares)
    def look_back(self, share: float) -> None:
        """The view as of any position says what the fold of that prefix says, and a replay into a file as well."""
        position = int(share * self.bank.position)
        state = self.bank.state(position)
        with self.bank.as_of(position) as view:
            assert view.position == position
            assert_equals_state(view, state)
            hits = view.search("bound the query first", 5, policy=Bm25V1())
        into = self.folder / "replayed.sqlite"
        replayed = self.banks[1].replay(position, into=into, force=True)
        assert replayed.digests == state_digests(state)
        with ReadModels.open(into) as models, models.live() as view:
            assert_equals_state(view, state)
            assert view.search("bound the query first", 5, policy=Bm25V1()) == hits

    @rule()
    def live_is_rebuilt_is_folded(self) -> None:
        """Read models that followed, read models made anew, and the fold agree."""
        self.bank.project()
        live = dump(derived(self.place) / "projections.sqlite")
        rebuilt = self.folder / "rebuilt.sqlite"
        self.banks[1].replay(into=rebuilt, force=True)
        assert live == dump(rebuilt)
        with self.bank.as_of() as view:
            assert_equals_state(view, self.whole_fold())

    @invariant()
    def what_is_active_has_its_words_standing_or_a_persons_word(self) -> None:
        """Each item is that of a candidate, in an extraction that the log has."""
        state = self.bank.state()
        for id in active(state):
            own = (pair for pair in state.records[id].landed if state.pairs[pair].item == id)
            stands = any(state.extractions[pair[0]].stands and not state.pairs[pair].undone for pair in own)
            assert stands or state.items[id].vouched
        told = {event_id for group in self.told for event_id in group}
        assert {entry.extraction for entry in state.items.values()} <= told

    def whole_fold(self) -> State:
        return fold(self.bank.events(resolve=True))

    @rule()
    def verify(self) -> None:
        """Every byte is sound, and every head noted holds."""
        assert self.banks[1].check(noted=self.noted).events == self.bank.position

    @invariant()
    def positions_have_no_gap(self) -> None:
        """The events are those that were told, in their order, at positions from 1 on; all handles agree."""
        expected = [event_id for group in self.told for event_id in group]
        for bank in self.banks:
            events = list(bank.log.read())
            assert [event.id for event in events] == expected
            assert [event.seq for event in events] == list(range(1, len(expected) + 1))
            assert bank.position == len(expected)

    @invariant()
    def noted_heads_hold(self) -> None:
        """The last head noted is still the head there."""
        assert self.bank.head(self.noted[-1].seq) == self.noted[-1]


def extraction_of(batch: list[Item]) -> MemoriesExtracted:
    return MemoriesExtracted(
        kind="manual", heads=tuple(item.head for item in batch), candidates=tuple(item.text for item in batch)
    )


def renaming(event: Event, renamed: dict[str, str]) -> Event:
    """The event with ids of extractions that are the bank's own."""
    changes = {
        name: renamed[getattr(event, name)] for name in ("id", "extraction") if getattr(event, name, None) in renamed
    }
    return replace(event, **changes)


def holds_erased(event: Event) -> bool:
    values = [getattr(event, name) for name in event.__struct_fields__]
    parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return any(isinstance(part, Erased) for part in parts)


TestBankMachine = BankMachine.TestCase
TestBankMachine.settings = settings(max_examples=examples(25), stateful_step_count=30, deadline=None)
