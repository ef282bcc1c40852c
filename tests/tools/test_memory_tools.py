"""Memory tools: what is found and read, in which bounds, what is recorded; proposals that store nothing."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.events import (
    MemoriesForgotten,
    MemoriesRead,
    MemoriesRestored,
    MemoriesRetracted,
    MemoriesRetrieved,
    MemoryProposed,
    NoteLogged,
    PolicyChoice,
    PolicySet,
    Ref,
    ToolCalled,
)
from rbank_es.events.items import Item
from rbank_es.limits import tool_limits
from rbank_es.policies import Bm25V1
from rbank_es.tools.shared.tool_answers import size
from rbank_es.tools.shared.tool_family import ToolPolicy
from rbank_es.tools.shared.toolbox import Toolbox, build_tools
from tests.tools.memories import LONG, lamps, remember
from tests.tools.tool_sessions import RUN, types


@pytest.fixture
def box(bank: Bank) -> Toolbox:
    return build_tools(bank, run=RUN, policy=ToolPolicy(mode="both"))


def events(bank: Bank, kind: type[Any]) -> list[Any]:
    return [event for event in bank.events(resolve=True) if isinstance(event, kind)]


def failed(result: dict[str, Any]) -> tuple[str, str]:
    """Code and message of an error, with the hint."""
    assert result["ok"] is False
    error = result["error"]
    assert set(error) == {"code", "message", "hint"} and error["hint"]
    return error["code"], f"{error['message']}; {error['hint']}"


IDS = [item.id for item in lamps(4)]
ITEM: dict[str, Any] = {"title": "x", "content": "x"}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("mem_search", {"q": "lamps", "polarity": "good"}, "bad_search"),
    ("mem_search", {"q": "lamps", "k": 0}, "bad_limit"),
    ("mem_search", {"q": "lamps", "k": "many"}, "bad_arguments"),
    ("mem_search", {"q": "lamps", "domain": "x" * 300}, "bad_arguments"),
    ("mem_search", {"k": 3}, "bad_arguments"),
    # A filter is recorded as a fact, which no erasure removes: only what items have already is taken.
    ("mem_search", {"q": "lamps", "domain": "Jane Doe of 12 Elm Street"}, "bad_arguments"),
    ("mem_search", {"q": "lamps", "role": "Jane Doe of 12 Elm Street"}, "bad_arguments"),
    ("mem_get", {"ids": IDS}, "too_many"),
    ("mem_get", {"ids": IDS[:2], "max_n": 1}, "too_many"),
    ("mem_get", {"ids": IDS, "max_n": 4}, "bad_limit"),
    ("mem_get", {"ids": IDS, "max_n": 0}, "bad_limit"),
    *(("mem_get", {"ids": nothing}, "bad_arguments") for nothing in ([], "", [""], {}, [{"title": "Lamps"}])),
    ("mem_quote", {"id": "nobody"}, "unknown_memory"),
    ("mem_quote", {"id": IDS[0], "max_chars": 0}, "bad_limit"),
    ("mem_add", {**ITEM, "title": ""}, "bad_item"),
    ("mem_add", {**ITEM, "content": " \n"}, "bad_item"),
    ("mem_add", {**ITEM, "title": "x" * 121}, "bad_item"),
    ("mem_add", {**ITEM, "content": "x" * 2_001}, "bad_item"),
    ("mem_add", {**ITEM, "desc": "x" * 241}, "bad_item"),
    ("mem_add", {**ITEM, "polarity": "good"}, "bad_item"),
    ("mem_add", {**ITEM, "tags": ["t"] * 13}, "bad_item"),
    ("mem_add", {**ITEM, "tags": ["t" * 61]}, "bad_item"),
    ("event_log", {"obj": "text"}, "bad_arguments"),
    ("event_log", {"obj": {"x": "y" * tool_limits.TOOL_ARGUMENT_CHARS}}, "too_long"),
]


@pytest.mark.parametrize(("tool", "arguments", "code"), REFUSED)
def test_a_call_that_cannot_be_is_an_error_that_says_what_to_do_and_nothing_else_comes_of_it(
    bank: Bank, box: Toolbox, tool: str, arguments: dict[str, Any], code: str
) -> None:
    remember(bank, *lamps(4))
    position = bank.position
    found, words = failed(box.call(tool, arguments))
    assert found == code and "Jane" not in words
    [call] = bank.events(after=position)
    assert isinstance(call, ToolCalled) and call.error_code == code


# ---------------------------------------------------------------- mem_search


def test_a_search_gives_titles_and_no_content(bank: Bank, box: Toolbox) -> None:
    remember(bank, *lamps(3))
    result = box.call("mem_search", {"q": "how to count lamps"})
    assert result["ok"] and len(result["hits"]) == 3
    for hit in result["hits"]:
        assert list(hit) == ["id", "title", "desc", "src", "score"]
    assert "Count them." not in json.dumps(result)


def test_titles_and_descriptions_come_without_signs_that_a_terminal_obeys(bank: Bank, box: Toolbox) -> None:
    item = Item.make("Count\x1b[2J the\u202e lamps", "Wait\x07.", desc="Each\x9b one")
    remember(bank, item)
    [hit] = box.call("mem_search", {"q": "lamps"})["hits"]
    assert (hit["title"], hit["desc"]) == ("Count[2J the lamps", "Each one")
    [read] = box.call("mem_get", {"ids": [item.id]})["items"]
    assert (read["title"], read["desc"], read["content"]) == (hit["title"], hit["desc"], "Wait\x07.")


def test_filters_narrow_what_is_found(bank: Bank, box: Toolbox) -> None:
    remember(bank, *lamps(6))
    search = box.functions["mem_search"]
    assert {hit["src"] for hit in search("lamps", polarity="success")["hits"]} == {"success"}
    assert len(search("lamps", domain="coast")["hits"]) == 6, "a domain is preferred"
    assert [hit["title"][-1] for hit in search("lamps", role="planner")["hits"]] == ["0"]
    assert search("lamps", domain="nowhere")["error"]["hint"] == "leave domain out, or give one of: coast, harbour"


def test_nothing_found_comes_with_a_hint_and_is_recorded(bank: Bank, box: Toolbox) -> None:
    for query in ("lamps", "", " \n", "AND OR NOT", "\x00", "\udc80 lamp"):
        result = box.call("mem_search", {"q": query})
        assert result["ok"] and result["hits"] == [] and "other words" in result["hint"]
    assert len(events(bank, MemoriesRetrieved)) == 6
    bank.check(retrievals=True)


def test_items_that_serve_the_judge_are_never_found(bank: Bank, box: Toolbox) -> None:
    judges = [Item.make("Count lamps as judge", "x", "principle"), Item.make("Count lamps, a case", "x", "episode")]
    remember(bank, *judges, *lamps(1))
    assert [hit["src"] for hit in box.call("mem_search", {"q": "count lamps", "k": 20})["hits"]] == ["success"]


def test_ids_that_an_import_kept_may_be_long(bank: Bank, box: Toolbox) -> None:
    remember(bank, *[Item.make("Lamps", "x", id=f"{number}" + '"' * 250) for number in range(4)])
    result = box.call("mem_search", {"q": "lamps"})
    assert size(result) <= tool_limits.TOOL_RETURN_CHARS and result["more"] == 3


def test_an_unknown_policy_is_an_error(bank: Bank, box: Toolbox) -> None:
    bank.append(PolicySet(policies=(PolicyChoice(kind="retrieval", name="embeddings", version=7),)))
    code, words = failed(box.call("mem_search", {"q": "lamps"}))
    assert code == "bad_policy" and "embeddings" in words


def test_every_search_can_be_made_again_while_somebody_else_writes(bank: Bank, box: Toolbox) -> None:
    """The recorded hits are those of the position just before the event, whoever wrote meanwhile."""
    remember(bank, *lamps(3))
    begun, done = threading.Event(), threading.Event()

    def write() -> None:
        with Bank.open(bank.place, unsafe_no_sync=True) as other:
            for number in range(12):
                remember(other, Item.make(f"Lamps of another {number}", "x"))
                begun.set()
                if done.wait(0.02):
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(30)
        results = [box.call("mem_search", {"q": "lamps", "k": 20}) for _ in range(10)]
    finally:
        done.set()
        writer.join()
    assert all(result["ok"] for result in results)
    retrieved = events(bank, MemoriesRetrieved)
    assert len(retrieved) == 10
    for event in retrieved:
        assert [hit.id for hit in event.hits] == [hit.id for hit in bank.at(event.seq - 1).search("lamps", 20)]
    seen = bank.check(retrievals=True).retrievals
    assert seen is not None and seen.checked == 10


def test_what_changes_between_two_looks_is_seen(bank: Bank, box: Toolbox) -> None:
    first, second, third = lamps(3)

    def seen() -> set[str]:
        return {hit["id"] for hit in box.call("mem_search", {"q": "lamps", "k": 20})["hits"]}

    remember(bank, first)
    assert seen() == seen() == {first.id}
    remember(bank, second, third)
    assert seen() == {first.id, second.id, third.id}
    bank.append(MemoriesRetracted(ids=(second.id,)))
    assert seen() == {first.id, third.id}
    bank.append([NoteLogged(note="{}")] * 200)
    assert seen() == {first.id, third.id}
    bank.append(MemoriesRestored(ids=(second.id,)))
    bank.erase(item=third.id)
    assert seen() == {first.id, second.id}
    bank.append(PolicySet(policies=(Bm25V1(weights=(0.0, 5.0, 1.0, 1.0)).choice,)))
    assert seen() == {first.id, second.id}
    checked = bank.check(retrievals=True).retrievals
    assert checked is not None and not checked.different


def test_a_look_leaves_the_read_models_alone_while_no_memory_changed(
    bank: Bank, box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(bank, *lamps(2))
    box.call("mem_search", {"q": "lamps"})
    with monkeypatch.context() as patch:
        patch.setattr(Bank, "project", lambda *_: pytest.fail("nothing that matters was appended"))
        assert len(box.call("mem_search", {"q": "lamps"})["hits"]) == 2
        assert box.call("mem_get", {"ids": lamps(1)[0].id})["ok"]
    bank.check(retrievals=True)


def test_memory_is_searched_where_no_ontology_is(box: Toolbox) -> None:
    assert [name for name in box.functions if name.startswith(("mem_", "event_"))] == [
        "mem_search",
        "mem_get",
        "mem_quote",
        "mem_add",
        "mem_extract",
        "mem_learn_from_failure",
        "event_log",
    ]


# ---------------------------------------------------------------- mem_get


def test_ids_hits_lists_and_handles_are_taken(bank: Bank, box: Toolbox) -> None:
    items = lamps(3)
    remember(bank, *items)
    hits = box.call("mem_search", {"q": "lamps"})["hits"]
    get = box.functions["mem_get"]
    assert [item["id"] for item in get(hits)["items"]] == [hit["id"] for hit in hits]
    first = items[0].id
    for given in (first, [first], {"id": first}, [{"id": first}, first], (first,), Ref(first, "mem", 0, "")):
        assert [item["id"] for item in get(given)["items"]] == [first]


def test_reading_is_recorded_and_counts_as_a_use(bank: Bank, box: Toolbox) -> None:
    items = lamps(2)
    remember(bank, *items)
    box.call("mem_get", {"ids": [item.id for item in items]})
    [event] = events(bank, MemoriesRead)
    assert (event.run, event.how, event.call) == (RUN, "get", "call-1")
    assert event.ids == tuple(item.id for item in items) and event.chars > 0
    assert types(list(bank.events()))[-2:] == ["memories_read", "tool_called"]
    with bank.as_of() as view:
        assert view.usage() == {item.id: (1, 0) for item in items}


def test_of_too_many_tags_only_some_are_shown_so_that_the_content_is(bank: Bank, box: Toolbox) -> None:
    item = Item.make("Lamps", "Count them.", tags=tuple(f"tag {number}" for number in range(900)))
    remember(bank, item)
    [shown] = box.call("mem_get", {"ids": item.id})["items"]
    assert shown["content"] == "Count them." and shown["truncated"] is True
    assert shown["tags"] == list(item.tags[: limits.ITEM_TAGS])


def test_what_became_of_an_item_is_told(bank: Bank, box: Toolbox) -> None:
    gone, barred, forgotten, old, new = lamps(5)
    judge = Item.make("For the judge", "x", "principle")
    remember(bank, gone, barred, forgotten, old, judge)
    remember(bank, new, targets=[old.id], how="supersede")
    bank.append([MemoriesRetracted(ids=(gone.id,)), MemoriesRetracted(ids=(barred.id,), how="rejected")])
    bank.append(MemoriesForgotten(ids=(forgotten.id,), policy="bounded-1"))
    get = box.functions["mem_get"]
    assert "was withdrawn" in failed(get(gone.id))[1]
    assert "was rejected" in failed(get(barred.id))[1]
    assert "was forgotten" in failed(get(forgotten.id))[1]
    assert f"superseded by {new.id}" in failed(get(old.id))[1]
    assert "serves the judge" in failed(get(judge.id))[1]
    assert {failed(get(item.id))[0] for item in (gone, barred, forgotten, old, judge)} == {"not_available"}
    assert failed(get("nobody"))[0] == "unknown_memory"
    assert events(bank, MemoriesRead) == []


def test_those_that_can_be_read_are_given_beside_those_that_cannot(bank: Bank, box: Toolbox) -> None:
    [item] = lamps(1)
    remember(bank, item)
    result = box.call("mem_get", {"ids": [item.id, "nobody", "x" * 5_000]})
    assert [each["id"] for each in result["items"]] == [item.id]
    assert [each["reason"] for each in result["not_given"]] == ["no memory has this id"] * 2
    assert result["not_given"][1]["id"] == "x" * 40 + "…"
    assert events(bank, MemoriesRead)[0].ids == (item.id,)


def test_an_item_whose_words_were_erased_is_not_given(bank: Bank, box: Toolbox) -> None:
    [item] = lamps(1)
    remember(bank, item)
    bank.erase(item=item.id)
    assert "erased" in failed(box.call("mem_get", {"ids": item.id}))[1]


# ---------------------------------------------------------------- mem_quote


def test_a_quote_about_words_is_of_whole_sentences_around_them(bank: Bank, box: Toolbox) -> None:
    item = Item.make("Lamps", f"{LONG} Write `SELECT ?l {{ ?l ex:height ?h }}` for heights. {LONG}", id="i")
    remember(bank, item)
    result = box.call("mem_quote", {"id": "i", "max_chars": 100, "about": "How high is it, what height?"})
    assert (
        result["quote"] == "…Write `SELECT ?l { ?l ex:height ?h }` for heights. Bind the class first, then its label.…"
    )
    assert result["truncated"] is True
    nothing = box.call("mem_quote", {"id": "i", "max_chars": 100, "about": "zebra"})["quote"]
    assert LONG.startswith(nothing.removesuffix("…"))


# ---------------------------------------------------------------- mem_add


def test_an_own_memory_is_proposed_and_not_stored(bank: Bank, box: Toolbox) -> None:
    result = box.functions["mem_add"](" Count with DISTINCT ", "Joins repeat rows.", "Why.", "failure", ["sparql"])
    [event] = events(bank, MemoryProposed)
    item = Item.join(event.head, event.candidate)
    assert item == Item.make("Count with DISTINCT", "Joins repeat rows.", "failure", desc="Why.", tags=("sparql",))
    assert (event.run, event.by, event.call) == (RUN, "mem_add", "call-1")
    assert (result["id"], result["proposed"], result["stored"]) == (item.id, True, False) and result["why"]
    assert bank.state().items == {}
    assert "proposed in this run" in failed(box.call("mem_get", {"ids": item.id}))[1]


def test_what_is_proposed_has_no_signs_that_a_terminal_obeys(bank: Bank, box: Toolbox) -> None:
    """Title and description are one line each; the id is that of the words as they are kept."""
    result = box.functions["mem_add"]("Count\x1b[2J\n with  DISTINCT\u202e", "Joins\x07\n\trepeat rows.", "Why\r\nnot.")
    [event] = events(bank, MemoryProposed)
    item = Item.join(event.head, event.candidate)
    assert item == Item.make("Count[2J with DISTINCT", "Joins\n\trepeat rows.", "success", desc="Why not.")
    assert result["id"] == item.id


def test_an_item_that_the_bank_knows_is_not_proposed(bank: Bank, box: Toolbox) -> None:
    active, ended = lamps(2)
    remember(bank, active, ended)
    bank.append(MemoriesRetracted(ids=(ended.id,)))
    add = box.functions["mem_add"]
    for item, state in ((active, "active"), (ended, "withdrawn")):
        result = add(item.title, item.content)
        assert result["proposed"] is False and result["why"].endswith(state)
    assert events(bank, MemoryProposed) == []


# ---------------------------------------------------------------- event_log


def test_a_note_that_is_no_json_is_logged_as_far_as_it_can_be(bank: Bank, box: Toolbox) -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    for odd in ({"x": float("nan")}, {"x": {1, 2}}, {"x": "\udc80"}, {"x": b"bytes"}, loop):
        assert box.functions["event_log"](odd)["ok"] is True
    assert all(isinstance(json.loads(event.note), dict) for event in events(bank, NoteLogged))
