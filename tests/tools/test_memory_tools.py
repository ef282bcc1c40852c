"""Memory tools: what is found and read, in which bounds, what is recorded; proposals that store nothing."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import LogUnavailable
from rbank_es.events import (
    Decision,
    MemoriesConsolidated,
    MemoriesExtracted,
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
    Reliance,
    RunJudged,
    ToolCalled,
)
from rbank_es.events.items import Item
from rbank_es.limits import tool_limits
from rbank_es.policies import Bm25V1, Bm25V3
from rbank_es.tools.runtime.tool_answers import size
from rbank_es.tools.runtime.tool_family import ToolPolicy
from rbank_es.tools.runtime.toolbox import Toolbox, build_tools
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


def test_hits_are_those_of_the_bank_in_its_order(bank: Bank, box: Toolbox) -> None:
    remember(bank, *lamps(9))
    hits = box.call("mem_search", {"q": "count the lamps in way 4", "k": 5})["hits"]
    assert [hit["id"] for hit in hits] == [hit.id for hit in bank.search("count the lamps in way 4", 5)]
    assert len(hits) == 5
    assert hits[0]["title"] == "Count the lamps, way 4"
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)


def test_a_search_is_recorded_with_its_hits_right_before_the_call(bank: Bank, box: Toolbox) -> None:
    remember(bank, *lamps(4))
    result = box.call("mem_search", {"q": "lamps", "k": 3, "polarity": "failure", "domain": "harbour"})
    *_, retrieved, called = bank.events(resolve=True)
    assert isinstance(retrieved, MemoriesRetrieved) and isinstance(called, ToolCalled)
    assert (retrieved.run, retrieved.mode, retrieved.call, retrieved.query) == (RUN, "tool", called.call, "lamps")
    assert (retrieved.k, retrieved.polarity, retrieved.ontology, retrieved.role) == (3, "failure", "harbour", None)
    assert retrieved.policy == Bm25V3().label
    assert [hit.id for hit in retrieved.hits] == [hit["id"] for hit in result["hits"]]
    assert [hit.rank for hit in retrieved.hits] == list(range(1, len(retrieved.hits) + 1))


@pytest.mark.parametrize("name", ["domain", "role"])
def test_words_of_an_agent_are_no_filter_and_so_no_fact(bank: Bank, box: Toolbox, name: str) -> None:
    """A filter is recorded as a fact, which no erasure removes: only what items have already is taken."""
    remember(bank, *lamps(6))
    reply = box.functions["mem_search"]("lamps", **{name: "Jane Doe of 12 Elm Street"})
    assert reply["error"]["code"] == "bad_arguments" and "Jane" not in str(reply)
    assert not list(bank.events(types={"memories_retrieved"}))


def test_filters_narrow_what_is_found(bank: Bank, box: Toolbox) -> None:
    remember(bank, *lamps(6))
    search = box.functions["mem_search"]
    assert {hit["src"] for hit in search("lamps", polarity="success")["hits"]} == {"success"}
    assert len(search("lamps", domain="coast")["hits"]) == 6, "a domain is preferred"
    assert [hit["title"][-1] for hit in search("lamps", role="planner")["hits"]] == ["0"]
    assert search("lamps", domain="nowhere")["error"]["hint"] == "leave domain out, or give one of: coast, harbour"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"q": "lamps", "polarity": "good"}, "bad_search"),
        ({"q": "lamps", "k": 0}, "bad_limit"),
        ({"q": "lamps", "k": "many"}, "bad_arguments"),
        ({"q": "lamps", "domain": "x" * 300}, "bad_arguments"),
        ({"k": 3}, "bad_arguments"),
    ],
)
def test_a_search_that_cannot_be_is_an_error_that_says_what_to_do(
    bank: Bank, box: Toolbox, arguments: dict[str, Any], code: str
) -> None:
    assert failed(box.call("mem_search", arguments))[0] == code
    assert events(bank, MemoriesRetrieved) == []
    assert [call.error_code for call in events(bank, ToolCalled)] == [code]


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


def test_as_many_hits_as_fit_are_given_and_the_rest_is_counted(bank: Bank, box: Toolbox) -> None:
    items = [
        Item.make(f"{number} lamps " + "and how to count them all " * 4, "x", desc="One sentence. " * 15)
        for number in range(20)
    ]
    remember(bank, *items)
    result = box.call("mem_search", {"q": "lamps", "k": 50})
    assert size(result) <= tool_limits.TOOL_RETURN_CHARS
    assert len(result["hits"]) + result["more"] == 20 and len(result["hits"]) >= 8 and result["next"]
    assert len(events(bank, MemoriesRetrieved)[0].hits) == 20
    assert events(bank, ToolCalled)[0].truncated is True


def test_descriptions_are_shortened_before_titles(bank: Bank, box: Toolbox) -> None:
    items = [
        Item.make(f"Way {number} to count lamps at sea", "x", desc="A sentence of words. " * 10) for number in range(6)
    ]
    remember(bank, *items)
    result = box.call("mem_search", {"q": "lamps"})
    assert size(result) <= tool_limits.TOOL_RETURN_CHARS and "more" not in result
    assert {hit["title"] for hit in result["hits"]} == {item.title for item in items}
    assert all(hit["desc"].endswith("…") for hit in result["hits"])


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


def test_a_search_overtaken_by_a_writer_reads_again(bank: Bank, box: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that became active between reading and recording is in the hits."""
    remember(bank, *lamps(1))
    append, late = Bank.append, Item.make("Lamps that came late", "x")

    def overtaken(self: Bank, *given: Any, **options: Any) -> Any:
        monkeypatch.setattr(Bank, "append", append)
        remember(self, late)
        return append(self, *given, **options)

    monkeypatch.setattr(Bank, "append", overtaken)
    result = box.call("mem_search", {"q": "lamps"})
    assert late.id in {hit["id"] for hit in result["hits"]}
    assert len(events(bank, MemoriesRetrieved)) == 1
    bank.check(retrievals=True)


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


def test_more_than_max_n_is_refused(bank: Bank, box: Toolbox) -> None:
    items = lamps(4)
    remember(bank, *items)
    ids = [item.id for item in items]
    assert failed(box.call("mem_get", {"ids": ids}))[0] == "too_many"
    assert failed(box.call("mem_get", {"ids": ids[:2], "max_n": 1}))[0] == "too_many"
    assert failed(box.call("mem_get", {"ids": ids, "max_n": 4}))[0] == "bad_limit"
    assert failed(box.call("mem_get", {"ids": ids, "max_n": 0}))[0] == "bad_limit"
    for nothing in ([], "", [""], {}, [{"title": "Lamps"}]):
        assert failed(box.call("mem_get", {"ids": nothing}))[0] == "bad_arguments"
    assert events(bank, MemoriesRead) == []


def test_three_items_as_an_extractor_may_make_them_fit_and_say_what_was_cut(bank: Bank, box: Toolbox) -> None:
    items = [Item.make(f"{number} lamp" * 15, LONG[:1999] + str(number), desc="d" * 240) for number in range(3)]
    remember(bank, *items)
    result = box.call("mem_get", {"ids": [item.id for item in items]})
    assert tool_limits.ITEMS_RETURN_CHARS * 0.9 < size(result) <= tool_limits.ITEMS_RETURN_CHARS
    assert all(item["truncated"] and item["content"].endswith("…") for item in result["items"])
    assert "one id at a time" in result["next"] and "key" not in result
    whole = box.call("mem_get", {"ids": items[0].id})
    assert whole["items"][0]["content"] == items[0].content and "next" not in whole


def test_the_rest_of_a_large_import_is_behind_a_handle(bank: Bank, box: Toolbox) -> None:
    item = Item.make("Lamps", LONG * 20)
    remember(bank, item)
    result = box.call("mem_get", {"ids": item.id})
    assert size(result) <= tool_limits.ITEMS_RETURN_CHARS and "ctx_slice" in result["next"]
    shown = result["items"][0]["content"].removesuffix("…")
    rest = box.call("ctx_slice", {"ref": result, "start": len(shown), "end": len(shown) + 1000})["text"]
    assert (shown + rest) == item.content[: len(shown) + 1000]


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


def test_an_item_that_waits_or_lost_its_support_is_withheld_with_the_reason(bank: Bank, box: Toolbox) -> None:
    waiting, fallen = lamps(2)
    learn_from_run(bank, waiting, pending=True)
    learn_from_run(bank, fallen)
    bank.append(
        RunJudged(run="taught", purpose="learning", verdict="failure", judge="expert", judge_version="1", kind="human")
    )
    get = box.functions["mem_get"]
    assert "verdicts that it was learned under no longer hold" in failed(get(fallen.id))[1]
    bank.append(
        RunJudged(run="taught", purpose="learning", verdict="success", judge="expert", judge_version="1", kind="human")
    )
    assert "waits for somebody to admit it" in failed(get(waiting.id))[1]
    assert get(fallen.id)["items"][0]["id"] == fallen.id


def learn_from_run(bank: Bank, item: Item, *, pending: bool = False) -> None:
    """Make an item active, or pending, that rests on the success of the run `taught`."""
    relied = (Reliance(run="taught", verdict="success"),)
    facts = {"heads": (item.head,), "candidates": (item.text,), "relied": relied, "pending": pending}
    extraction = bank.append(MemoriesExtracted(kind="success", runs=("taught",), **facts)).events[0].id
    added = Decision(candidate=0, action="add", item=item.id)
    bank.append(MemoriesConsolidated(extraction=extraction, policy="append-1", decisions=(added,)))


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


def test_a_quote_is_cut_between_words(bank: Bank, box: Toolbox) -> None:
    item = Item.make("Lamps", LONG)
    remember(bank, item)
    result = box.call("mem_quote", {"id": item.id, "max_chars": 100})
    assert result["id"] == item.id and result["length"] == len(LONG) and result["truncated"] is True
    assert len(result["quote"]) <= 100 and result["quote"].endswith("…")
    words = result["quote"].removesuffix("…").split()
    assert words == LONG.split()[: len(words)]
    [event] = events(bank, MemoriesRead)
    assert (event.how, event.ids, event.chars) == ("quote", (item.id,), len(result["quote"]))
    with bank.as_of() as view:
        assert view.usage() == {}


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


@pytest.mark.parametrize("content", [LONG, '"\\\n' * 2_000, "\x01" * 3_000, "word" * 900, "é🦉 " * 800])
def test_a_quote_fits_however_much_is_asked_for(bank: Bank, box: Toolbox, content: str) -> None:
    item = Item.make("Lamps", content)
    remember(bank, item)
    result = box.call("mem_quote", {"id": item.id, "max_chars": 10**9})
    assert tool_limits.TOOL_RETURN_CHARS * 0.8 < size(result) <= tool_limits.TOOL_RETURN_CHARS
    assert content.startswith(result["quote"].removesuffix("…")) and result["truncated"] is True


def test_a_quote_of_nothing_is_an_error(bank: Bank, box: Toolbox) -> None:
    remember(bank, *lamps(1))
    assert failed(box.call("mem_quote", {"id": "nobody"}))[0] == "unknown_memory"
    assert failed(box.call("mem_quote", {"id": lamps(1)[0].id, "max_chars": 0}))[0] == "bad_limit"


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


def test_an_item_that_was_forgotten_or_lost_its_support_may_be_proposed_again(bank: Bank, box: Toolbox) -> None:
    forgotten, _, fallen = lamps(3)
    remember(bank, forgotten)
    learn_from_run(bank, fallen)
    bank.append(MemoriesForgotten(ids=(forgotten.id,), policy="bounded-1"))
    bank.append(
        RunJudged(run="taught", purpose="learning", verdict="failure", judge="expert", judge_version="1", kind="human")
    )
    add = box.functions["mem_add"]
    assert [add(item.title, item.content)["proposed"] for item in (forgotten, fallen)] == [True, True]
    assert [event.head.id for event in events(bank, MemoryProposed)] == [forgotten.id, fallen.id]


@pytest.mark.parametrize(
    "arguments",
    [
        {"title": "", "content": "x"},
        {"title": "x", "content": " \n"},
        {"title": "x" * 121, "content": "x"},
        {"title": "x", "content": "x" * 2_001},
        {"title": "x", "content": "x", "desc": "x" * 241},
        {"title": "x", "content": "x", "polarity": "good"},
        {"title": "x", "content": "x", "tags": ["t"] * 13},
        {"title": "x", "content": "x", "tags": ["t" * 61]},
    ],
)
def test_an_item_that_breaks_its_limits_is_refused(bank: Bank, box: Toolbox, arguments: dict[str, Any]) -> None:
    assert failed(box.call("mem_add", arguments))[0] == "bad_item"
    assert events(bank, MemoryProposed) == []


def test_a_proposal_that_could_not_be_recorded_may_be_made_again(
    bank: Bank, box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise LogUnavailable("bank", "write", OSError(28, "no space"))

    with monkeypatch.context() as patch:
        patch.setattr(Bank, "append", refuse)
        assert failed(box.call("mem_add", {"title": "x", "content": "y"}))[0] == "not_recorded"
    assert box.call("mem_add", {"title": "x", "content": "y"})["proposed"] is True


# ---------------------------------------------------------------- event_log


def test_a_note_is_logged_as_it_was_given(bank: Bank, box: Toolbox, capsys: pytest.CaptureFixture[str]) -> None:
    note = {"10": 1, "2": None, "deep": [{"x": 1.5}, "é🦉"], "big": 2**60}
    assert box.functions["event_log"](note) == {"ok": True}
    [event] = events(bank, NoteLogged)
    assert (event.run, event.by) == (RUN, "agent") and json.loads(event.note) == note
    assert capsys.readouterr() == ("", "")


def test_a_note_that_is_no_json_is_logged_as_far_as_it_can_be(bank: Bank, box: Toolbox) -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    for odd in ({"x": float("nan")}, {"x": {1, 2}}, {"x": "\udc80"}, {"x": b"bytes"}, loop):
        assert box.functions["event_log"](odd)["ok"] is True
    assert all(isinstance(json.loads(event.note), dict) for event in events(bank, NoteLogged))


def test_a_note_that_is_no_object_or_too_long_is_refused(bank: Bank, box: Toolbox) -> None:
    assert failed(box.call("event_log", {"obj": "text"}))[0] == "bad_arguments"
    assert failed(box.call("event_log", {"obj": {"x": "y" * tool_limits.TOOL_ARGUMENT_CHARS}}))[0] == "too_long"
    assert events(bank, NoteLogged) == []


# ---------------------------------------------------------------- modes
