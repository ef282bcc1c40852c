"""Consolidating: extractions and the decisions about them go into the log together, whoever else is writing."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import DuplicateEvent, PositionConflict
from rbank_es.events import (
    Decision,
    Erased,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    NoteLogged,
)
from rbank_es.events.items import Item
from rbank_es.extraction import Extraction, consolidate
from rbank_es.law import Append, Dedup, State, fold
from rbank_es.law.decisions import Decider
from rbank_es.testing import event_id

COUNT = Item.make("Count with DISTINCT", "joins repeat rows so count distinct things", "success")
NEAR = Item.make("Count with DISTINCT!", "Joins repeat rows, so count distinct things.", "success")
OTHER = Item.make("Look at the classes", "g_classes tells what there is", "success")


def extraction(*items: Item, **facts: Any) -> Extraction:
    return Extraction(kind="success", items=items, **facts)


def before_each_append(bank: Bank, monkeypatch: pytest.MonkeyPatch, meddle: Callable[[], None], times: int) -> None:
    """Another writer is faster than the first `times` appends."""
    append, left = bank.log.append, times

    def slow(events: Any, **options: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            meddle()
        return append(events, **options)

    monkeypatch.setattr(bank.log, "append", slow)


# ---------------------------------------------------------------- again


def test_an_event_that_is_there_is_not_admitted_again(bank: Bank) -> None:
    """The first try says whether it is pending, whatever the admission policy became since."""
    open_one = extraction(COUNT, extractor="success-failure-1").event(event_id(7))
    held = extraction(OTHER, extractor="success-failure-1").event(event_id(8))
    active_first = consolidate(bank, [open_one])
    bank.set_policies({"admission": {"name": "reviewed"}})
    assert consolidate(bank, [open_one]) == replace(active_first, duplicate=True)
    pending_first = consolidate(bank, [held])
    bank.set_policies({"admission": {"name": "open"}})
    assert consolidate(bank, [held]) == replace(pending_first, duplicate=True)
    assert {id: entry.state for id, entry in bank.state().items.items()} == {COUNT.id: "active", OTHER.id: "pending"}
    with pytest.raises(DuplicateEvent):
        consolidate(bank, [replace(open_one, pending=True)])


def test_an_extraction_that_somebody_appended_without_decisions_is_refused(bank: Bank) -> None:
    event = extraction(COUNT).event(event_id(7))
    bank.append([event, NoteLogged(note="{}")])
    with pytest.raises(DuplicateEvent):
        consolidate(bank, [event])


# ---------------------------------------------------------------- others


@pytest.mark.slow
def test_it_gives_up_when_others_are_always_faster(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    with Bank.open(bank.place, unsafe_no_sync=True) as other:
        before_each_append(bank, monkeypatch, lambda: void(other.append(NoteLogged(note="{}"))), times=10**6)
        position = bank.position
        with pytest.raises(PositionConflict):
            consolidate(bank, [extraction(COUNT)])
    assert bank.position == position + limits.CONSOLIDATION_TRIES
    assert bank.state().items == {}


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Append(), Dedup()])
def test_writers_side_by_side_leave_what_they_would_have_left_one_after_the_other(
    tmp_path: Path, policy: Append | Dedup
) -> None:
    """Every decision is the one that follows from the state at its own position."""
    with Bank.create(tmp_path / "bank", policies=(policy.choice,), unsafe_no_sync=True) as bank:
        writers = [threading.Thread(target=write, args=(Path(bank.place), number)) for number in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert_serial(bank)
        state = bank.state()
    assert len(state.candidates) == 4 * 5 * 2
    assert sum(entry.support for entry in state.items.values()) == 4 * 5 * 2
    assert len(state.items) == (7 if isinstance(policy, Dedup) else 22)


def write(place: Path, number: int) -> None:
    """Five extractions, each with an item that all writers have nearly alike and one that all have."""
    with Bank.open(place, unsafe_no_sync=True) as bank:
        for turn in range(5):
            words = f"step {turn} goes on with many words that are the same for everybody"
            near = Item.make(f"A step, {'abcde'[turn] * 30}", f"{words} {number}", "success")
            same = Item.make("The same for all", "one two three", "pattern") if turn % 2 else COUNT
            consolidate(bank, [extraction(near, same)])


def assert_serial(bank: Bank) -> None:
    events = list(bank.events(resolve=True))
    for at, event in enumerate(events):
        if isinstance(event, MemoriesConsolidated):
            assert decided(fold(events[: at - 1]), events[at - 1]) == event.decisions


def decided(state: State, extracted: Event) -> tuple[Decision, ...]:
    """Return the decisions about an extraction in a state."""
    assert isinstance(extracted, MemoriesExtracted)
    made = Decider(state).decided([extracted])[1]
    assert isinstance(made, MemoriesConsolidated) and made.extraction == extracted.id
    return made.decisions


def void(_: object) -> None:
    """Return nothing of a callback's result."""


# ---------------------------------------------------------------- policies, erasure


def test_candidates_without_words_are_discarded_with_a_reason(bank: Bank) -> None:
    """As those of an export from a bank in which they were erased: decisions about the others keep their index."""
    event = extraction(COUNT, OTHER).event()
    bare = replace(event, id=event_id(9))
    erased = replace(bare, candidates=(Erased(digest="0" * 64), OTHER.text))
    _, made = Decider(State()).decided([erased])
    assert isinstance(made, MemoriesConsolidated)
    assert [(each.candidate, each.action, each.item, each.reason) for each in made.decisions] == [
        (0, "discard", COUNT.id, "erased"),
        (1, "add", OTHER.id, "new"),
    ]


# ---------------------------------------------------------------- what an open bank keeps


def test_threads_of_one_bank_decide_one_after_the_other(bank: Bank) -> None:
    def work(number: int) -> None:
        for turn in range(5):
            near = Item.make("A step of many", f"{turn} words that are the same for everybody, {number}", "success")
            consolidate(bank, [extraction(near), extraction(COUNT)])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_serial_groups(bank)
    assert sum(entry.support for entry in bank.state().items.values()) == 40


def assert_serial_groups(bank: Bank) -> None:
    """Each decision follows from the events before its extraction."""
    events = list(bank.events(resolve=True))
    state = State()
    for at, event in enumerate(events):
        if isinstance(event, MemoriesExtracted):
            made = events[at + 1]
            assert isinstance(made, MemoriesConsolidated)
            assert decided(state, event) == made.decisions
        state = fold([event], state)


@pytest.mark.slow
def test_a_forked_child_decides_as_its_parent_would(bank: Bank) -> None:
    consolidate(bank, [extraction(COUNT)])
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with bank.latest.at(bank.position):
            held.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with several threads, which is the point
        child = os.fork()
    if child == 0:
        os._exit(0 if consolidate(bank, [extraction(NEAR)]).decisions[0].targets == (COUNT.id,) else 1)
    assert os.waitpid(child, 0)[1] == 0
    release.set()
    holder.join()
    assert consolidate(bank, [extraction(NEAR)]).decisions[0].targets == (COUNT.id,)
