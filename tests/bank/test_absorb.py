"""Absorption: what another bank recorded comes in once, under its own ids, and this bank decides about it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es import Bank, limits
from rbank_es.errors import BadInput, LogBusy, LogCorruption, UnknownEvent
from rbank_es.events import (
    ContextBuilt,
    Event,
    Hit,
    ItemsLinked,
    MemoriesExtracted,
    MemoriesRead,
    MemoriesRetracted,
    MemoriesRetrieved,
    NoteLogged,
    RunStarted,
)
from rbank_es.events.items import Item
from rbank_es.law import active, usage
from rbank_es.law.decisions import append_decided
from rbank_es.law.digests import state_digests
from rbank_es.log import Appended
from rbank_es.log.groups import system_clock, utc_text
from rbank_es.log.lines import CRC_TAIL, close_line, seed_of
from rbank_es.log.wrapper import LogWrapper
from tests.cli.misled import HEIGHT, SORTED, WARNING, drawn, judged, learned, misled_bank, ran
from tests.places import derived

COUNTED = Item.make("Count with DISTINCT", "A light may be typed twice; count the lights, not the rows.", "success")
PORTS = Item.make("Ask for the port's name", "Ports have labels in two languages; ask for one.", "success")


def taught(bank: Bank, run: str, item: Item, *given: str) -> None:
    """A run that is judged a success and teaches an item."""
    bank.append([*ran(run, *given), judged(run, "success")])
    learned(bank, item, (run, "success"))


def brought(bank: Bank, origin: str) -> dict[str, Event]:
    return {event.id: event for event in bank.events(resolve=True) if event.origin == origin}


@pytest.fixture
def mine() -> Iterator[Bank]:
    with Bank.create("memory:") as bank:
        taught(bank, "own", COUNTED)
        yield bank


@pytest.fixture
def theirs() -> Iterator[Bank]:
    with misled_bank("memory:") as bank:
        yield bank


# ---------------------------------------------------------------- what comes


def test_retrievals_of_other_banks_are_counted_and_not_repeated(mine: Bank, theirs: Bank) -> None:
    """They were made among other items: neither right nor wrong here."""
    hit = Hit(id=HEIGHT.id, rank=1, score=-1.5)
    theirs.append(MemoriesRetrieved(run="lucky", k=2, policy="bm25-2", hits=(hit,), query="focal height"))
    mine.absorb(theirs)
    check = mine.check(retrievals=True).retrievals
    assert check is not None and (check.elsewhere, check.checked, check.different) == (1, 0, ())


# ---------------------------------------------------------------- names that are taken


def test_a_run_whose_name_is_taken_gets_another_one(mine: Bank) -> None:
    """Two banks that ran the same task: verdicts on one run never touch the other."""
    with mine.copy() as copied:
        taught(mine, "task-1", HEIGHT)
        taught(copied, "task-1", SORTED)
        made = mine.absorb(copied)
        [(there, here)] = made.renamed_runs.items()
        assert there == "task-1" and here.startswith("task-1-") and here in mine.state().runs
        assert {event.run for event in brought(mine, copied.id).values() if hasattr(event, "run")} == {here}
        mine.overrule("task-1", "failure", reason="wrong")
        assert set(active(mine.state())) == {COUNTED.id, SORTED.id}
        # Later events of that run, and the same run through a third bank, go by the same name.
        copied.overrule("task-1", "failure", reason="wrong too")
        mine.absorb(copied)
        assert set(active(mine.state())) == {COUNTED.id}
        assert copied.absorb(mine).refused == 0
        assert copied.absorb(mine).brought == 0


def imported(bank: Bank, words: str, id: str = "m1") -> Item:
    item = Item.make(f"About {words}", f"Words of {words}.", "success", id=id)
    append_decided(bank.log, bank.latest, [drawn(item, kind="seed")])
    return item


def test_an_imported_id_with_other_words_gets_the_id_of_its_words(mine: Bank) -> None:
    """Under its own id it would be skipped, and its words be lost."""
    kept = imported(mine, "ports")
    with Bank.create("memory:") as other:
        item = imported(other, "locks")
        other.append([RunStarted(run="user"), ContextBuilt(run="user", chars=9, items=("m1",))])
        other.append(MemoriesRead(run="user", ids=("m1",), how="get", chars=9))
        other.append(ItemsLinked(source="m1", target="m1", how="repeats"))
        made = mine.absorb(other)
        new = Item.make_id(item.title, item.content)
        assert made.renamed_items == {"m1": new}
        items = active(mine.state())
        assert (items["m1"], items[new].content) == (kept, item.content)
        assert usage(mine.state()) == {new: (1, 0)}
        assert mine.absorb(other).refused == 0
        # It is known by both names from now on, whoever brings it.
        other.retract("m1", because="untidy")
        mine.absorb(other)
        assert {id: entry.state for id, entry in mine.state().items.items()}[new] == "withdrawn"
        with Bank.create("memory:") as third:
            third.absorb(mine)
            assert third.absorb(other).refused == 0
        assert other.absorb(mine).refused == 0


def test_an_item_is_known_by_both_names_where_the_words_that_gave_it_one_were_erased(mine: Bank) -> None:
    """Two candidates had its imported id here; the words of the first one gave it its name there."""
    first = imported(mine, "ports")
    imported(mine, "piers")
    named = Item.make_id(first.title, first.content)
    with Bank.create("memory:") as other:
        imported(other, "locks")
        assert other.absorb(mine).renamed_items == {"m1": named}
        mine.erase(event=[event.seq for event in mine.events(types={"memories_extracted"})][-2])
        other.erase(event=[event.seq for event in other.events(types={"memories_extracted"})][-2])
        other.retract(named, because="untidy")
        assert mine.absorb(other).refused == 0
        assert mine.state().items["m1"].state == "withdrawn"


# ---------------------------------------------------------------- erased words


def test_words_that_were_erased_here_never_come_back() -> None:
    """Neither in their event, nor in any later text that holds them, nor as a candidate of that id."""
    with misled_bank("memory:") as bank, bank.copy() as copied:
        bank.erase(item=WARNING.id)
        copied.append([*ran("later"), judged("later", "failure"), NoteLogged(note=f'"seen: {WARNING.content}"')])
        learned(copied, WARNING, ("later", "failure"))
        made = bank.absorb(copied)
        assert made.withheld == 2
        lines = b"".join(bank.log.lines())
        assert WARNING.content.encode() not in lines and WARNING.title.encode() not in lines
        assert bank.state().items[WARNING.id].state != "active" or bank.state().items[WARNING.id].erased
        assert bank.absorb(copied).refused == 0
        assert bank.check(decisions=True).canonical.canonical


def test_other_words_of_an_item_of_which_some_were_erased_here_come_in(mine: Bank) -> None:
    """An imported id may have words that were never erased."""
    imported(mine, "ports")
    erased = next(event.seq for event in reversed(list(mine.events(types={"memories_extracted"}))))
    imported(mine, "locks")
    mine.erase(event=erased)
    with Bank.create("memory:") as other:
        kept = imported(other, "locks")
        made = mine.absorb(other)
        assert (made.withheld, made.refused, made.brought_candidates) == (0, 0, 1)
        [came] = [event for event in brought(mine, other.id).values() if isinstance(event, MemoriesExtracted)]
        assert came.candidates == (kept.text,)


def test_words_that_were_erased_there_since_are_listed_and_erased_where_that_is_asked_for() -> None:
    """With every place here that holds the same words. Nothing is erased by an absorption that wasn't asked to."""
    with misled_bank("memory:") as bank, bank.copy() as copied:
        bank.append(NoteLogged(note=WARNING.content))
        copied.erase(item=WARNING.id)
        head, words = bank.head(), WARNING.content.encode()
        made, planned = bank.absorb(copied), bank.absorb(copied, erase=True, dry_run=True)
        for each in (made, planned):
            assert each.erasure and each.erasure.appended is None
            assert each.erased_since >= 1 and each.brought == 0 and WARNING.id in each.erased_items
            assert {"memories_extracted", "note_logged"} <= {place.type for place in each.erasure.places}
        assert bank.head() == head and any(words in line for line in bank.log.lines())
        done = bank.absorb(copied, erase=True)
        assert done.erasure and done.erasure.places == planned.erasure.places  # type: ignore[union-attr]
        assert not any(words in line for line in bank.log.lines())
        assert bank.check(noted=[head]).texts_erased >= 2 and bank.check(decisions=True).canonical.canonical
        again = bank.absorb(copied, erase=True)
        assert (again.erasure, again.last_seq) == (None, None)


# ---------------------------------------------------------------- groups and interruptions


class Stopping(LogWrapper):
    """A log whose process ends at its n-th append, before or after it is durable."""

    def __init__(self, log: Any, appends: int, after: bool) -> None:
        super().__init__(log)
        self.left, self.after = appends, after

    def append(self, events: Sequence[Event], **options: Any) -> Appended:
        self.left -= 1
        if self.left < 0 and not self.after:
            raise KeyboardInterrupt
        made = self._log.append(events, **options)
        if self.left < 0:
            raise KeyboardInterrupt
        return made


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupted_absorption_is_completed_by_another_one(after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every append: what is there then is whole, and the bank becomes the one of an absorption in one go."""
    monkeypatch.setattr(limits, "ABSORBED_GROUP_EVENTS", 7)
    with misled_bank("memory:") as other:
        other.overrule("wrong", "failure", reason="wrong")
        with Bank.create("memory:") as whole:
            whole.absorb(other)
            wanted = state_digests(whole.state()).items
            groups = sum(not event.more for event in whole.events()) - 1
        assert groups > 4
        for appends in range(groups):
            with Bank.create("memory:") as bank:
                log = bank.log
                stopped = Bank(Stopping(log, appends, after), "stopped")  # type: ignore[arg-type]
                with pytest.raises(KeyboardInterrupt):
                    stopped.absorb(other)
                judged_runs = {run for run, _ in bank.state().verdicts}
                for extraction in bank.state().extractions.values():
                    assert {run for run, _ in extraction.relied} <= judged_runs
                bank.absorb(other)
                assert state_digests(bank.state()).items == wanted
                assert len(list(bank.events(types={"bank_absorbed"}))) == 1
                assert bank.check(decisions=True).canonical.canonical


def test_only_one_absorption_at_a_time(mine: Bank, theirs: Bank) -> None:
    with mine.log.exclusive("absorption"), pytest.raises(LogBusy, match="is at work on"):
        mine.absorb(theirs)
    assert mine.absorb(theirs).brought


# ---------------------------------------------------------------- banks that can't be absorbed


def test_a_bank_cannot_absorb_itself(mine: Bank, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="can't absorb itself"):
        mine.absorb(mine)
    Bank.create(tmp_path / "notes").close()
    with Bank.open(tmp_path / "notes") as bank, Bank.open(tmp_path / "notes") as again:
        pytest.raises(BadInput, bank.absorb, again).match("can't absorb itself")


@pytest.mark.parametrize("place", ["end", "middle"])
def test_of_a_damaged_bank_nothing_comes(mine: Bank, tmp_path: Path, place: str) -> None:
    with misled_bank(tmp_path / "notes") as other:
        derived_there = derived(tmp_path / "notes")
    del other
    [segment] = (tmp_path / "notes").glob("*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    hurt = len(lines) // 2 if place == "middle" else len(lines) - 6
    lines[hurt] = lines[hurt].replace(b'"seq"', b'"sEq"')
    segment.write_bytes(b"".join(lines))
    assert derived_there.exists()
    head = mine.head()
    with Bank.open(tmp_path / "notes") as damaged, pytest.raises(LogCorruption):
        mine.absorb(damaged)
    assert mine.head() == head


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"note_logged"', b'"note_sung"'), (b'"v":1', b'"v":2'), (b'"salt":', b'"mood":"calm","salt":')],
    ids=["type", "version", "field"],
)
def test_of_a_bank_of_a_newer_release_nothing_comes_and_nothing_is_left_out(
    mine: Bank, tmp_path: Path, old: bytes, new: bytes
) -> None:
    """Its last line has a right checksum, so it is what a writer wrote, and no interrupted append."""
    with misled_bank(tmp_path / "notes") as other:
        other.append(NoteLogged(note="calm"))
        seed = seed_of(other.id)
        derived_there = other.log.derived_directory
    [segment] = (tmp_path / "notes").glob("*.jsonl")
    *kept, last = segment.read_bytes().splitlines(keepends=True)
    newer = close_line(last.replace(old, new)[: -CRC_TAIL - 1], seed)
    segment.write_bytes(b"".join([*kept, newer]))
    shutil.rmtree(derived_there)  # the bank comes from another machine
    head, size = mine.head(), segment.stat().st_size
    with Bank.open(tmp_path / "notes") as other:
        for use in (mine.absorb, partial(mine.absorb, dry_run=True)):
            with pytest.raises(UnknownEvent, match="newer release"):
                use(other)
        with pytest.raises(UnknownEvent, match="newer release"):
            other.append(NoteLogged(note="the next one"))
    assert mine.head() == head and segment.stat().st_size == size


def behind_a_fast_clock(bank: Bank, since: int, seconds: float) -> Bank:
    """A bank whose clock was so many seconds fast, from a position on."""
    ahead = utc_text(system_clock() + int(seconds * 1_000_000))

    class Ahead(LogWrapper):
        def read(self, **options: Any) -> Iterator[Event]:
            for event in self._log.read(**options):
                yield replace(event, at=ahead) if event.seq > since else event

    return Bank(Ahead(bank.log), "ahead")  # type: ignore[arg-type]


def test_what_names_an_event_that_waits_waits_with_it(mine: Bank) -> None:
    """However early it happened: a run that hasn't begun here is not judged, and no item without words is rejected."""
    early = "2026-01-31T12:00:00.000000Z"
    with Bank.create("memory:") as other:
        since = other.position
        other.append([RunStarted(run="late", task="t"), NoteLogged(note="alone", occurred_at=early)])
        learned(other, PORTS, ("late", "success"))
        waits: list[Event] = [
            judged("late", "success"),
            MemoriesRetracted(ids=(PORTS.id,), how="rejected"),
            MemoriesRead(run="late", ids=("nothing",), how="get", chars=1),
            ItemsLinked(source=COUNTED.id, target=PORTS.id, how="supports"),
        ]
        other.append([replace(event, occurred_at=early) for event in waits])
        made = mine.absorb(behind_a_fast_clock(other, since, 120))
        assert (made.brought, made.waiting) == (1, len(waits) + 2)
        assert mine.absorb(other).brought == len(waits) + 2
        assert mine.state().items[PORTS.id].state == "rejected" and not active(mine.state()).keys() & {PORTS.id}


def test_a_clock_that_is_a_little_fast_is_waited_for(mine: Bank, theirs: Bank) -> None:
    assert mine.absorb(behind_a_fast_clock(theirs, 20, 0.2)).waiting == 0
