"""Views that an open bank keeps: shared while nothing changed, replaced as soon as anything did."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import ProjectionError
from rbank_es.events import NoteLogged, RunStarted
from rbank_es.events.items import Item
from rbank_es.extraction import consolidate
from rbank_es.projections import builder
from rbank_es.projections.read_models import VIEWS_KEPT
from tests.faults.disk import Quick

OWL = Item.make("Count owls by night", "owls are counted once each", "success")
ELK = Item.make("Count elks by day", "elks are counted in herds", "success")


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    with Bank.create(tmp_path / "bank", calls=Quick()) as made:
        consolidate(made, [OWL])
        yield made


def found(bank: Bank, point: str | None = None) -> list[str]:
    return [hit.id for hit in bank.at(point).search("count", 5)]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modes in which read models were opened."""
    modes: list[str] = []
    connect = builder.connect
    monkeypatch.setattr(builder, "connect", lambda path, mode: (modes.append(mode), connect(path, mode))[1])
    return modes


@pytest.mark.parametrize("task", ["an elephant", "a cow"])
def test_a_log_that_took_the_place_of_another_and_ends_alike_is_read_anew(tmp_path: Path, task: str) -> None:
    """As when a bank that is kept with its code is made again: same id, same length, same last event."""
    place = tmp_path / "bank"

    def shown(task: str) -> tuple[int, bytes, list[str]]:
        dice, clock = random.Random("same"), partial(next, count(1_767_225_600_000_000, 1_000))
        with Bank.create(tmp_path / task, calls=Quick(), clock=clock, entropy=dice.randbytes) as made:
            made.append(RunStarted(run="r", task=task))
            made.append(NoteLogged(note="the end"))
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(tmp_path / task, place)
        with Bank.open(place) as bank, bank.live() as view:
            return bank.position, [*bank.log.lines()][-1], [row["task"] for row in view.rows("runs")]

    position, last, tasks = shown("an owl")
    assert tasks == ["an owl"]
    assert shown(task) == (position, last, [task])


def test_views_of_the_past_and_of_the_head_do_not_disturb_each_other(bank: Bank) -> None:
    before = bank.position
    with bank.as_of(before) as past, bank.as_of(before) as twin:
        consolidate(bank, [ELK])
        for _ in range(VIEWS_KEPT + 1):
            assert set(found(bank)) == {OWL.id, ELK.id}
            assert found(bank, str(before)) == [OWL.id]
            bank.append(NoteLogged(note="{}"))
        twin.close()
        twin.close()
        assert [hit.id for hit in past.search("count", 5)] == [OWL.id]
        with pytest.raises(ProjectionError, match="closed"):
            twin.items()
    bank.close()
    assert set(found(bank)) == {OWL.id, ELK.id}


def test_what_is_erased_is_not_found_in_a_kept_view(bank: Bank) -> None:
    before = bank.position
    assert found(bank) == [OWL.id] == found(bank, str(before))
    bank.erase(item=OWL.id)
    assert found(bank) == [] == found(bank, str(before))
    with bank.as_of(before) as view:
        assert OWL.content not in repr(view.rows("items"))
