"""What tools proposed in a run: candidates once the run was judged; what to avoid, of failures too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import MemoryProposed, RunFinished, ToolCalled
from rbank_es.events.items import Item
from rbank_es.extraction import from_proposals, proposals_of
from tests.extraction.judged_runs import LOST, WON


def proposed(item: Item, run: str = "run-a") -> MemoryProposed:
    return MemoryProposed(run=run, by="mem_add", head=item.head, candidate=item.text)


def item(title: str = "Count distinct", content: str = "Joins repeat rows.", src: Any = "success", **more: Any) -> Item:
    return Item.make(title, content, src, **more)


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


def test_a_proposal_may_reach_each_limit_and_pass_none() -> None:
    """A proposal at every limit is a candidate as it is; one past any of them is none."""
    most = item(
        "t" * limits.ITEM_TITLE_CHARS,
        "c" * limits.ITEM_CONTENT_CHARS,
        desc="d" * limits.ITEM_DESC_CHARS,
        tags=tuple(f"{number:02}".ljust(limits.ITEM_TAG_CHARS, "t") for number in range(limits.ITEM_TAGS)),
    )
    made = from_proposals([proposed(most)], WON)
    assert made is not None and made.items == (most,)
    longer = ("title", "desc", "content", "tags")
    past = [msgspec.structs.replace(most, **{name: getattr(most, name) + getattr(most, name)[:1]}) for name in longer]
    past.append(msgspec.structs.replace(most, tags=(most.tags[0] + "t",)))
    for each in past:
        made = from_proposals([proposed(each)], WON)
        assert made is not None and made.items == ()


def test_a_run_without_proposals_gives_no_extraction() -> None:
    assert from_proposals([], WON) is None
    with pytest.raises(BadInput):
        from_proposals([proposed(item())], {**WON, "purpose": "scoring"})


@pytest.mark.parametrize(
    "bad",
    [
        item(" "),
        item(content=""),
        item("…"),
        item(content=" \n… "),
        item("Red \x1b[31mtitle"),
        item("Turned \u202eround"),
        item(content="a bell \x07"),
        item("Two\nlines"),
        item(desc="Two\u2028lines"),
        item(src="principle"),
        item(src="episode"),
    ],
)
def test_what_has_no_words_steers_a_reader_or_serves_the_judge_is_left_out_and_told(bad: Item) -> None:
    """Events of proposals can be appended by anybody."""
    good = item("Good")
    made = from_proposals([proposed(bad), proposed(good)], WON)
    assert made is not None
    assert (made.items, made.reason) == ((good,), "left_out: 1 of 2 proposals")
    alone = from_proposals([proposed(bad)], WON)
    assert alone is not None and (alone.items, alone.code) == ((), "no_usable_item")


def test_words_that_were_erased_are_no_candidates(tmp_path: Path) -> None:
    one = item(content="a secret that must be forgotten")
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        bank.append([proposed(one), proposed(item("Good")), proposed(item("Other"), "run-b")])
        assert [event.head.id for event in proposals_of(bank, "run-a")] == [one.id, item("Good").id]
        bank.erase(item=one.id)
        made = from_proposals(proposals_of(bank, "run-a"), WON)
    assert made is not None and made.items == (item("Good"),)


def end_of(bank: Bank, sparql: str, evidence: str) -> None:
    bank.append(RunFinished(run="run-a", outcome="submitted", answer="45", sparql=sparql, evidence=evidence))


@pytest.mark.parametrize(
    ("sparql", "evidence", "kept"),
    [
        ("SELECT  ?b\n{ ?b ?p 2 } ", "{}", ["b"]),
        ("", '{"keys": ["results_0", "results_9"]}', ["a"]),
        ("SELECT ?b { ?b ?p 2 }", '{"keys": ["results_0"]}', ["a", "b"]),
        ("SELECT ?b { ?b ?p 22 }", '{"about": "results_01"}', []),
        ("", "", []),
    ],
)
def test_a_query_that_proposed_itself_counts_where_the_answer_rests_on_it(
    tmp_path: Path, sparql: str, evidence: str, kept: list[str]
) -> None:
    """It was submitted, or its handle is evidence. What an agent vouches for counts in any case."""
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        for at, (name, query) in enumerate([("a", "SELECT ?a { ?a ?p 1 }"), ("b", "SELECT ?b { ?b ?p 2 }")]):
            by_itself = msgspec.structs.replace(proposed(item(name)), by="sparql_query", call=f"call-{at}")
            arguments = msgspec.json.encode({"query": query}).decode()
            called = ToolCalled(
                run="run-a", tool="sparql_query", call=f"call-{at}", alias=f"results_{at}", arguments=arguments
            )
            bank.append([by_itself, called])
        bank.append([proposed(item("vouched")), ToolCalled(run="run-a", tool="mem_add", arguments="no JSON")])
        end_of(bank, sparql, evidence)
        assert [event.candidate.title for event in proposals_of(bank, "run-a")] == [*kept, "vouched"]  # type: ignore[union-attr]
