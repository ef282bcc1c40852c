"""`show` of what a verdict taught: what an item rests on, what would end it, and what a run was given and taught."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.events import (
    DecisionUndone,
    Event,
    ItemsLinked,
    JudgmentOverruled,
    MemoriesRestored,
    MemoriesRetracted,
)
from rbank_es.events.items import Item
from tests.cli.misled import HEIGHT, SORTED, WARNING, judged, learned, misled_bank, ran
from tests.cli_runner import run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that each test has a bank of."""
    folder = tmp_path_factory.mktemp("misled")
    misled_bank(folder / "logs" / "misled").close()
    return folder


def append(place: Path, *events: Event) -> None:
    with Bank.open(place / "logs" / "misled") as bank:
        bank.append(events)


def overruled(verdict: Any = "failure", kind: Any = "human") -> JudgmentOverruled:
    return JudgmentOverruled(
        run="wrong", purpose="learning", verdict=verdict, judge="expert", judge_version="1", kind=kind, by="ann",
        reason="It is Cormorant Rock.", why="The judge took the light for the tower.",
    )  # fmt: skip


def shown(place: Path, thing: str) -> Any:
    return run("show", "misled", thing, "--json", cwd=place).json


def test_an_item_that_lost_its_verdict_says_which_and_nothing_of_an_end(place: Path) -> None:
    append(place, overruled())
    facts = shown(place, HEIGHT.id)
    assert facts["ends"] is None and "that run's verdict is failure" in facts["warning"]
    [ground] = facts["grounds"]
    assert (ground["stands"], ground["runs"][0]["verdict"], ground["runs"][0]["holds"]) == (False, "failure", False)
    assert "no longer stands" in run("show", "misled", HEIGHT.id, cwd=place).out
    assert "judgment_overruled" in {event["type"] for event in facts["events"]}
    earlier = run("show", "misled@HEAD~1", HEIGHT.id, "--json", cwd=place).json
    assert earlier["grounds"][0]["stands"]


def test_an_item_of_two_runs_ends_only_if_both_verdicts_change(place: Path) -> None:
    with Bank.open(place / "logs" / "misled") as bank:
        bank.append([*ran("again"), judged("again", "success")])
        learned(bank, HEIGHT, ("again", "success"))
    ends = shown(place, HEIGHT.id)["ends"]
    assert ends == "it ends if all of these happen: wrong is no longer a success; again is no longer a success"


def test_an_item_that_lost_one_of_two_verdicts_names_the_run_that_supports_it_still(place: Path) -> None:
    with Bank.open(place / "logs" / "misled") as bank:
        bank.append([*ran("again"), judged("again", "success")])
        learned(bank, HEIGHT, ("again", "success"))
        bank.append(overruled())
    found = shown(place, HEIGHT.id)
    assert found["item"]["state"] == "active"
    assert found["warning"].endswith("and that run's verdict is failure; again still supports it.")
    assert found["ends"] == "it ends if again is no longer a success"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "verdicts", "ends"),
    [
        ("contrastive", ("success", "failure"), "none of a is a success any more or none of b is a failure any more"),
        ("pattern", ("success", "success"), "fewer than two of a, b are successes"),
        ("success", (), "no verdict ends it, because it was not drawn from a judged run"),
    ],
)
def test_an_end_follows_from_the_kind_of_the_extraction(kind: Any, verdicts: Any, ends: str, tmp_path: Path) -> None:
    item = Item.make("Look at one instance first", "Describe one thing before you ask for many.")
    with Bank.create(tmp_path / "logs" / "misled") as bank:
        for name, verdict in zip("ab", verdicts, strict=False):
            bank.append([*ran(name), judged(name, verdict)])
        learned(bank, item, *zip("ab", verdicts, strict=False), kind=kind)
    assert ends in shown(tmp_path, item.id)["ends"]


def test_an_item_says_who_vouched_for_it_and_that_no_verdict_ends_it(place: Path) -> None:
    append(place, overruled(), MemoriesRestored(ids=(HEIGHT.id,), by="bo", why="It helps with lightships."))
    support = shown(place, HEIGHT.id)
    assert support["item"]["vouched"] and "no verdict ends it, because a person vouched for it" in support["ends"]
    assert [(act["act"], act["by"]) for act in support["acts"]] == [("vouched", "bo")]
    assert "vouched by bo at position" in run("show", "misled", HEIGHT.id, cwd=place).out


@pytest.mark.slow
def test_a_decision_that_was_undone_and_an_extraction_that_was_set_aside_say_so(place: Path) -> None:
    drawn = shown(place, WARNING.id)["grounds"][0]["extraction"]
    tainted = shown(place, SORTED.id)["grounds"][0]["extraction"]
    append(
        place,
        overruled(),
        DecisionUndone(extraction=drawn, candidate=0, by="ann"),
        MemoriesRetracted(how="tainted", extractions=(tainted,), run="wrong", verdict="failure", by="ann"),
    )
    assert "undone" in run("show", "misled", WARNING.id, cwd=place).out
    assert "set aside because of wrong" in run("show", "misled", SORTED.id, cwd=place).out


@pytest.mark.slow
def test_an_item_names_what_contradicts_it(place: Path) -> None:
    append(place, ItemsLinked(source=WARNING.id, target=HEIGHT.id, how="contradicts", by="ann"))
    for one, other in ((HEIGHT, WARNING), (WARNING, HEIGHT)):
        assert [(each["item"], each["how"]) for each in shown(place, one.id)["links"]] == [(other.id, "contradicts")]
