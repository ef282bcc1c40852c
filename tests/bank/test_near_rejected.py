"""What is near to a rejected item waits for a person: one candidate, its words beside the rejected ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es import Bank, Item
from rbank_es.bank.item_acts import Remembered
from rbank_es.events import MemoriesConsolidated, MemoriesExtracted, Reliance, RunJudged
from rbank_es.exchange import import_paths
from rbank_es.law import AppendV2, DedupV2, MergeV2
from rbank_es.law.decisions import append_decided
from rbank_es.policies import Policy

WRONG = ("Tower heights are in feet", "All tower heights in the register are stored in feet, as the keeper says.")
RIGHT = ("Tower heights are in metres", "All tower heights in the register are stored in metres, as the keeper says.")
REWORDED = ("Metres for towers", "Every tower height in the register is stored in metres, as the keeper says.")


@pytest.fixture(params=[AppendV2(), DedupV2(), MergeV2()], ids=lambda policy: policy.name)
def bank(request: pytest.FixtureRequest) -> Iterator[Bank]:
    """A bank with two judged runs, in which a person rejected an item."""
    policy: Policy = request.param
    with Bank.create("memory:", policies=[policy.choice]) as made:
        for run in ("r1", "r2"):
            made.append(
                RunJudged(run=run, purpose="learning", verdict="success", judge="j", judge_version="1", kind="lm")
            )
        made.reject(made.remember(*WRONG).item, because="they are in metres", by="ann")
        yield made


def learned(bank: Bank, *lessons: tuple[str, str], run: str = "r1") -> list[tuple[str, str, bool]]:
    """What is decided about lessons from a run: action, reason, and whether it is pending."""
    items = [Item.make(title, content, "success") for title, content in lessons]
    event = MemoriesExtracted(
        kind="success",
        runs=(run,),
        relied=(Reliance(run=run, verdict="success"),),
        heads=tuple(item.head for item in items),
        candidates=tuple(item.text for item in items),
    )
    made = append_decided(bank.log, bank.latest, [event])
    [decided] = [each for each in made.events if isinstance(each, MemoriesConsolidated)]
    return [(each.action, each.reason, each.pending) for each in decided.decisions]


def state_of(bank: Bank, lesson: tuple[str, str]) -> str:
    """The state of a lesson's item."""
    return bank.state().items[Item.make_id(*lesson)].state


def test_no_extraction_admits_it_and_a_person_does(bank: Bank) -> None:
    learned(bank, RIGHT)
    assert learned(bank, RIGHT, run="r2") == [("skip", "same-id", True)]
    assert state_of(bank, RIGHT) == "pending"
    bank.overrule("r1", "failure", reason="it counted twice")
    assert state_of(bank, RIGHT) == "pending", "the second run taught it, and admits it no more than the first"
    bank.admit(Item.make_id(*RIGHT), by="ann")
    assert state_of(bank, RIGHT) == "active"
    assert learned(bank, RIGHT, run="r2") == [("skip", "same-id", False)]


def test_an_admitted_correction_clears_its_rewordings_and_none_of_the_wrong_one(bank: Bank) -> None:
    learned(bank, RIGHT)
    assert learned(bank, REWORDED) == [("add", "near-rejected", True)]
    bank.admit(Item.make_id(*RIGHT))
    assert state_of(bank, REWORDED) == "pending", "an admission counts from its position on"
    again = (REWORDED[0], f"{REWORDED[1]} Always.")
    [made] = learned(bank, again)
    assert made[0] == "add" and not made[2]
    feet = (REWORDED[0], REWORDED[1].replace("metres", "feet"))
    assert learned(bank, feet) == [("add", "near-rejected", True)]
    assert bank.check(decisions=True).canonical.canonical


@pytest.mark.parametrize(
    ("wrong", "same", "right"),
    [
        ("in feet", "in foot", "in metres"),
        ("in metres", "in meters", "in feet"),
        ("as 5 GB", "as 5 gigabytes", "as 5 MB"),
        ("5 times", "5.0 times", "6 times"),
        ("where it is forbidden", "where it is prohibited", "where it is allowed"),
        ("in ascending order", "in asc order", "in descending order"),
    ],
)
def test_another_name_of_the_rejected_thing_corrects_nothing(bank: Bank, wrong: str, same: str, right: str) -> None:
    text = "Every sluice of the canal keeps its level {} for all of its gates."
    bank.reject(bank.remember("Sluices", text.format(wrong)).item, because="no")
    assert bank.remember("Sluices", text.format(same)).state == "pending"
    assert bank.remember("Sluices", text.format(right)).state == "active"


def test_the_same_content_waits_once_its_title_gains_or_loses_a_negation(bank: Bank) -> None:
    for title in ("Tower heights are not in feet", "Never trust tower heights", "Without feet"):
        assert learned(bank, (title, WRONG[1])) == [("add", "near-rejected", True)], title
    assert learned(bank, ("Heights of towers", WRONG[1].upper())) == [("discard", "rejected", False)]


def given(bank: Bank, lesson: tuple[str, str]) -> Remembered:
    """What becomes of a lesson that a person writes down."""
    return bank.remember(*lesson, src="success")


def test_a_person_corrects_a_value_at_once_and_a_rewording_waits(bank: Bank, tmp_path: Path) -> None:
    for content in (
        "All tower heights in the register are kept in feet, as the keeper says.",
        f"{WRONG[1]} Without fail.",
    ):
        told = given(bank, (WRONG[0], content))
        assert (told.action, told.state, told.reason) == ("add", "pending", "near-rejected")
        assert told.because.startswith(f"it is near to {Item.make_id(*WRONG)}, which is rejected (")
        assert told.because.endswith("admit it if it is right")
    file = tmp_path / "right.json"
    file.write_text(json.dumps([{"title": RIGHT[0], "content": RIGHT[1]}]))
    import_paths(bank, [file])
    assert state_of(bank, RIGHT) == "active"
    [made] = learned(bank, REWORDED)
    assert made[0] == "add" and not made[2], "what a person gave clears its rewordings, too"
    assert bank.check(decisions=True).canonical.canonical
