"""Corrections that are cut short at any system call, or that meet another writer: they count whole, or never."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank, limits
from rbank_es.events import CorrectionCompleted, Event, MemoriesConsolidated, RunJudged, RunStarted
from rbank_es.law import Dedup
from rbank_es.law.digests import state_digests
from tests.differences import states_in
from tests.faults.disk import Disk, Quick, calls_of, dying

LESSONS = 5
WORDS = "one two three four five six seven eight"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A bank of five items from r1, each of which two others support that aren't near to each other.

    By a policy that merges words that are merely near, so that a correction has decisions to make again.
    """
    with Bank.create(tmp_path / "bank", calls=Quick(), policies=(Dedup().choice,)) as bank:
        for run in ("r1", "r2", "r3"):
            facts: dict[str, Any] = {"verdict": "success", "judge": "j", "judge_version": "1", "kind": "lm"}
            bank.append([RunStarted(run=run), RunJudged(run=run, purpose="learning", **facts)])
        for number in range(LESSONS):
            title = f"{'abcdefgh'[number] * 9} {number}"
            for run, words in (("r1", WORDS), ("r2", WORDS[:-6]), ("r3", WORDS[:-12])):
                bank.remember(title, f"{words} {title}", src="success", runs=[run])
    return tmp_path / "bank"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A correction of five decisions needs several groups."""
    monkeypatch.setattr(limits, "CORRECTION_ROWS", 1)
    monkeypatch.setattr(limits, "CORRECTION_GROUP_EVENTS", 3)


def correct(bank: Bank) -> None:
    """Overrule the verdict on which all items rest."""
    bank.overrule("r1", "failure", reason="wrong")


def items(bank: Bank) -> str:
    """A digest of the items."""
    return state_digests(bank.state()).items


def canonical(bank: Bank) -> bool:
    """Whether every decision is that to which today's verdicts lead."""
    return not bank.latest.reconciler.refold(bank.state())


@pytest.mark.slow
def test_a_correction_in_parts_is_whole_or_never_was_wherever_its_process_dies(
    tmp_path: Path, place: Path, small: None
) -> None:
    def lived(disk: Disk, name: str) -> Path:
        copy = tmp_path / name
        shutil.copytree(place, copy)
        with dying(), Bank.open(copy, calls=disk) as bank:
            correct(bank)
        return copy

    with Bank.open(place, calls=Quick()) as bank:
        before = items(bank)
    count = calls_of(lambda disk: lived(disk, "whole") and None)
    with Bank.open(tmp_path / "whole", calls=Quick()) as bank:
        after, parts = items(bank), [event for event in bank.log.read() if isinstance(event, MemoriesConsolidated)]
        assert sum(part.again for part in parts) == 2 * LESSONS and after != before and canonical(bank)
    found = set()
    for number in range(1, count + 1):
        disk = Disk(die_at=number)
        disk.part = (0.0, 0.5, 1.0)[number % 3]
        copy = lived(disk, f"life-{number}")
        with Bank.open(copy, calls=Quick()) as bank:
            assert items(bank) in (before, after)
            found.add(items(bank))
            correct(bank)
            assert items(bank) == after and canonical(bank)
        shutil.rmtree(copy)
    assert found == {before, after} and count >= 6


class Interrupted:
    """An append of a bank's log, before which others do something, once for each of their turns."""

    def __init__(self, bank: Bank, turns: list[Callable[[], object]]) -> None:
        self._append, self._turns = bank.log.append, iter(turns)
        bank.log.append = self  # type: ignore[method-assign]

    def __call__(self, *args: Any, **options: Any) -> Any:
        for turn in self._turns:
            turn()
            break
        return self._append(*args, **options)


@pytest.fixture
def two(place: Path) -> Iterator[tuple[Bank, Bank]]:
    """Two handles to the bank."""
    with Bank.open(place, calls=Quick()) as one, Bank.open(place, calls=Quick()) as other:
        yield one, other


@pytest.mark.parametrize("parts", (False, True))
def test_a_correction_is_made_anew_if_another_person_corrected_first(
    two: tuple[Bank, Bank], parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    if parts:
        monkeypatch.setattr(limits, "CORRECTION_ROWS", 1)
        monkeypatch.setattr(limits, "CORRECTION_GROUP_EVENTS", 3)
    Interrupted(one, [lambda: None, lambda: other.overrule("r2", "failure", reason="wrong too")])
    made = one.overrule("r1", "failure", reason="wrong")
    assert canonical(one) and one.state().due == other.state().due and not one.state().due
    completed = [event for event in one.log.read() if isinstance(event, CorrectionCompleted)]
    assert completed[-1].seq == made.last_seq and len(completed) == 1 + parts
    assert {now for _, now in states_in(made).values()} == {"unsupported", "active"}


def test_what_another_corrected_alike_needs_nothing_more(two: tuple[Bank, Bank]) -> None:
    one, other = two
    Interrupted(one, [lambda: other.overrule("r1", "failure", reason="wrong")])
    assert one.overrule("r1", "failure", reason="wrong").last_seq is None and canonical(one)


def test_people_who_correct_and_a_writer_who_learns_at_once_leave_a_canonical_bank(place: Path) -> None:
    problems: list[BaseException] = []

    def work(run: str | None) -> None:
        try:
            with Bank.open(place, calls=Quick()) as bank:
                for number, verdict in enumerate(("failure", "success", "failure")):
                    if run is None:
                        bank.remember(f"{'abcdefgh'[number] * 9} {number}", f"{WORDS} {number}", src="success")
                    else:
                        bank.overrule(run, verdict, reason="x")  # type: ignore[arg-type]
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(run,)) for run in ("r1", "r2", None)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    with Bank.open(place, calls=Quick()) as bank:
        assert canonical(bank) and not bank.state().due
        events: list[Event] = list(bank.log.read())
        assert sum(isinstance(event, CorrectionCompleted) for event in events) == 6
