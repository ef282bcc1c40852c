"""Forks of banks: the same bank up to a point, and two banks from there on."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, BankExists
from rbank_es.log import Ancestor
from rbank_es.testing import at_once, note
from tests.cli_runner import SAMPLE


@pytest.fixture
def sample(tmp_path: Path) -> Iterable[Bank]:
    """A copy of the sample bank."""
    shutil.copytree(SAMPLE, tmp_path / "sample", ignore=shutil.ignore_patterns("*lock"))
    with Bank.open(tmp_path / "sample", unsafe_no_sync=True) as bank:
        yield bank


def ends_of_groups(bank: Bank) -> list[int]:
    return [event.seq for event in bank.events() if not event.more]


@pytest.mark.slow
def test_a_fork_has_the_state_of_its_parent_at_the_point(sample: Bank, tmp_path: Path) -> None:
    """Items, runs, policies and searches are the parent's as of the point, and recorded retrievals repeat."""
    ends = ends_of_groups(sample)
    for point in (ends[len(ends) // 3], ends[-1]):
        with sample.fork(tmp_path / f"fork-{point}", point) as fork:
            assert fork.replay().digests == sample.replay(point).digests
            assert fork.policies().policies == sample.at(point).policies().policies
            assert fork.search("lights").hits == sample.at(point).search("lights").hits
            checked = fork.check(retrievals=True)
            assert checked.ok and checked.head == str(fork.head())


def test_banks_in_memory_are_forked_and_know_each_other() -> None:
    """By name in the same process; an erasure names the other; no other engine takes them."""
    with Bank.create("memory:parent-of-forks") as parent:
        parent.append(note('"the words of a secret"'))
        fork = parent.fork("memory:fork-of-it", by="me")
        assert fork.log.ancestors() == (Ancestor(parent.id, 3),) and fork.name == "fork-of-it"
        assert [each.place for each in fork.erase(event=3, dry_run=True).erasure.relatives] == [
            "memory:parent-of-forks"
        ]
        assert [each.bank for each in parent.erase(event=3).erasure.relatives] == [fork.id]
        assert parent.check().texts_erased == 1 and fork.check().texts_erased == 0
        with pytest.raises(BankExists):
            parent.fork("memory:fork-of-it")
        with pytest.raises(BadInput, match="stays with the log engine of its bank"):
            parent.fork("./somewhere")


def test_one_of_two_forks_to_the_same_place_is_made(sample: Bank, tmp_path: Path) -> None:
    """The other is refused, and leaves nothing."""
    for number in range(2):
        place = tmp_path / f"fork-{number}"
        made = at_once(*[lambda place=place: sample.fork(place)] * 3)  # type: ignore[misc]
        forks = [each for each in made if isinstance(each, Bank)]
        assert len(forks) == 1 and sum(isinstance(each, BankExists) for each in made) == 2
        forks[0].check()
        forks[0].close()
    assert not list(tmp_path.glob(".fork-*"))
