"""What tools proposed in a run: candidates once the run was judged a success, and never before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import MemoryProposed
from rbank_es.extraction import consolidate, from_proposals, proposals_of
from rbank_es.items import Item
from rbank_es.policies import SuccessFailure
from rbank_es.tools.memory_tools import MemoryTools
from tests.extraction.attempts import LOST, WON
from tests.tools.desks import bank_at, desk_for, toolbox_for


def proposed(item: Item, run: str = "run-a") -> MemoryProposed:
    return MemoryProposed(run=run, by="mem_add", head=item.head, candidate=item.text)


def item(title: str = "Count distinct", content: str = "Joins repeat rows.", src: Any = "success", **more: Any) -> Item:
    return Item.make(title, content, src, **more)


def test_a_success_makes_candidates_of_what_was_proposed() -> None:
    """As they were proposed, in order, each once."""
    one, two = item(tags=("sparql",)), item("Another")
    made = from_proposals([proposed(one), proposed(two), proposed(one)], {**WON, "learnable": True})
    assert made is not None
    assert (made.items, made.kind, made.runs, made.extractor) == ((one, two), "success", ("run-a",), "proposals-1")
    assert made.code == ""


@pytest.mark.parametrize(
    ("sources", "kind"),
    [
        (("failure", "failure"), "failure"),
        (("success", "failure"), "manual"),
        (("seed",), "seed"),
        (("pattern",), "pattern"),
    ],
)
def test_the_kind_is_that_of_the_items_or_manual(sources: tuple[str, ...], kind: str) -> None:
    given = [proposed(item(f"Title {number}", src=src)) for number, src in enumerate(sources)]
    made = from_proposals(given, WON)
    assert made is not None and made.kind == kind
    assert tuple(each.src for each in made.items) == sources


@pytest.mark.parametrize(
    ("judgment", "code"), [(LOST, "judged_a_failure"), ({**WON, "learnable": False, "reason": "ex:Foo"}, "ungrounded")]
)
def test_nothing_comes_of_a_run_that_failed_or_is_no_ground_to_learn_from(judgment: Any, code: str) -> None:
    """The reason is kept."""
    made = from_proposals([proposed(item())], judgment)
    assert made is not None
    assert (made.items, made.code, made.runs) == ((), code, ("run-a",))


def test_an_ungrounded_success_counts_where_the_policy_says_so() -> None:
    made = from_proposals([proposed(item())], {**WON, "learnable": False}, SuccessFailure(grounded=False))
    assert made is not None and made.items == (item(),)


def test_a_run_without_proposals_gives_no_extraction() -> None:
    assert from_proposals([], WON) is None
    with pytest.raises(BadInput):
        from_proposals([proposed(item())], {**WON, "purpose": "scoring"})


@pytest.mark.parametrize(
    "bad",
    [
        item("x" * 121),
        item(" "),
        item(content=""),
        item(content="x" * 2_001),
        item(desc="x" * 241),
        item(tags=tuple(map(str, range(13)))),
        item(tags=("x" * 61,)),
        item(src="principle"),
        item(src="episode"),
    ],
)
def test_what_breaks_the_limits_or_serves_the_judge_is_left_out_and_told(bad: Item) -> None:
    """Events of proposals can be appended by anybody."""
    good = item("Good")
    made = from_proposals([proposed(bad), proposed(good)], WON)
    assert made is not None
    assert (made.items, made.reason) == ((good,), "left_out: 1 of 2 proposals")
    alone = from_proposals([proposed(bad)], WON)
    assert alone is not None and (alone.items, alone.code) == ((), "no_usable_item")


def test_a_run_may_flood_its_bank_with_proposals_and_few_are_taken() -> None:
    made = from_proposals([proposed(item(f"Title {number}")) for number in range(500)], WON)
    assert made is not None and len(made.items) == limits.EXTRACTION_PROPOSALS
    assert made.reason == "left_out: 490 of 500 proposals"


def test_words_that_were_erased_are_no_candidates(tmp_path: Path) -> None:
    one = item(content="a secret that must be forgotten")
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        bank.append([proposed(one), proposed(item("Good")), proposed(item("Other"), "run-b")])
        assert [event.head.id for event in proposals_of(bank, "run-a")] == [one.id, item("Good").id]
        bank.erase(item=one.id)
        made = from_proposals(proposals_of(bank, "run-a"), WON)
    assert made is not None and made.items == (item("Good"),)


def test_what_a_tool_proposed_is_found_after_the_run_was_judged(tmp_path: Path) -> None:
    """From the tool's call to the search, through the policy in force; a second time it only adds support."""
    with bank_at(tmp_path / "bank") as bank:
        desk = desk_for(bank)
        box = toolbox_for(desk, {"mem_add": MemoryTools(desk).mem_add})
        said = box.functions["mem_add"]("Count distinct things", "Joins repeat rows: COUNT(DISTINCT ?x).")
        assert said["proposed"] and not said["stored"]
        assert bank.search("count distinct") == []
        made = from_proposals(proposals_of(bank, desk.run), WON)
        assert made is not None
        assert consolidate(bank, [made]).added == (said["id"],)
        assert [hit.id for hit in bank.search("count distinct")] == [said["id"]]
        assert consolidate(bank, [made]).added == ()
        assert bank.state().items[said["id"]].support == 2
