"""Laws of the memory tools: never over a cap, whatever is asked and remembered; and nothing is stored by asking."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.events.items import Item
from rbank_es.tools.memory.item_search import fit_hits, fit_items, quoted
from rbank_es.tools.shared.tool_answers import NEXT, encode, size
from rbank_es.tools.shared.tool_family import ToolPolicy
from rbank_es.tools.shared.toolbox import Toolbox, build_tools
from tests.tools.memories import LONG, lamps, remember
from tests.tools.tool_sessions import bank_at

texts = st.one_of(
    st.text(max_size=60),
    st.sampled_from([LONG, "word " * 80, '"' * 300, "\x01" * 500, "é🦉" * 200, "x" * 3_000, "\n" * 900, ""]),
)
names = st.one_of(st.text(min_size=1, max_size=12), st.sampled_from(["x" * 256, '"' * 256, "\x01" * 256]))
hits = st.lists(
    st.fixed_dictionaries(
        {"id": names, "title": texts, "desc": texts, "src": st.just("success"), "score": st.just(-1.234)}
    ),
    max_size=20,
)
whole_items = st.lists(
    st.fixed_dictionaries(
        {
            "id": names,
            "title": texts,
            "desc": texts,
            "content": texts,
            "src": st.just("seed"),
            "polarity": st.just("success"),
            "tags": st.lists(texts, max_size=4),
        }
    ),
    min_size=1,
    max_size=3,
)


def begins(shown: str, text: str) -> bool:
    """Whether a text is shown whole, or as its beginning and a mark."""
    return shown == text or text.startswith(shown.removesuffix("…"))


@given(hits, st.integers(2, 1_500))
def test_hits_fit_and_are_the_first_ones(given_hits: list[dict[str, Any]], room: int) -> None:
    shown = fit_hits(given_hits, room)
    assert size(shown) <= room or not shown
    for hit, whole in zip(shown, given_hits, strict=False):
        assert (hit["id"], hit["src"], hit["score"]) == (whole["id"], whole["src"], whole["score"])
        assert begins(hit["title"], whole["title"]) and begins(hit["desc"], whole["desc"])
    if size(given_hits) <= room:
        assert shown == given_hits


@given(whole_items, st.integers(400, 5_000))
def test_items_fit_unless_their_ids_alone_do_not_and_what_was_cut_is_marked(
    items: list[dict[str, Any]], room: int
) -> None:
    shown = fit_items(items, room)
    assert [item["id"] for item in shown] == [item["id"] for item in items]
    assert size(shown) <= room or all(set(item) == {"id", "truncated"} for item in shown)
    for item, whole in zip(shown, items, strict=True):
        assert item == whole or item["truncated"] is True
        assert begins(item.get("content", ""), whole["content"])


def test_of_items_without_room_the_tags_within_their_limits_are_kept() -> None:
    longest, too_long = "t" * limits.ITEM_TAG_CHARS, "t" * (limits.ITEM_TAG_CHARS + 1)
    item = {"id": "i", "title": "t", "desc": "", "content": "x" * 9_000, "tags": [longest, too_long]}
    (shown,) = fit_items([item], 2_000)
    assert shown["tags"] == [longest]


@given(texts, st.integers(1, 5_000), st.integers(2, 2_000), st.lists(st.text(max_size=5), max_size=3))
def test_a_quote_about_words_fits_and_is_a_part(text: str, max_chars: int, room: int, words: list[str]) -> None:
    quote = quoted(text, max_chars, room, words)
    assert len(quote) <= max_chars and size(quote) <= room and quote.strip("…") in text


@given(texts, st.integers(1, 5_000), st.integers(2, 2_000))
def test_a_quote_fits_and_is_a_beginning(text: str, max_chars: int, room: int) -> None:
    quote = quoted(text, max_chars, room)
    assert len(quote) <= max_chars and size(quote) <= room and begins(quote, text)
    if len(text) <= max_chars and size(text) <= room:
        assert quote == text


# ---------------------------------------------------------------- the tools themselves

ODD = [
    Item.make("Lamps " + '"' * 400, "\x01" * 9_000, id="\x01" * 200),
    Item.make("Lamps at sea", LONG * 50, desc="x" * 2_000, tags=tuple(f"tag {n}" for n in range(300))),
    Item.make("Lamps 🦉", "é🦉" * 4_000, "failure", id='"' * 256),
    Item.make("Lamps for the judge", "x", "principle", id="judge"),
    *lamps(12),
]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("\udc80" * 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ids = st.sampled_from([item.id for item in ODD]) | st.text(max_size=20)
queries = st.sampled_from(
    ["lamps", "how to count lamps at sea", "", 'SELECT ?x { ?x a <http://x/A> ; <http://x/p> "v" }']
)
words = queries | st.text(max_size=40) | st.just("lamp " * 3_000)
filters = st.none() | st.sampled_from(["success", "failure", "coast", "planner"]) | st.text(max_size=5)
arguments: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "mem_search": st.fixed_dictionaries(
        {"q": words}, optional={"k": st.integers(), "polarity": filters, "domain": filters, "role": filters}
    ),
    "mem_get": st.fixed_dictionaries(
        {"ids": ids | st.lists(ids, max_size=4)}, optional={"max_n": st.integers(-1, 5) | st.integers()}
    ),
    "mem_quote": st.fixed_dictionaries({"id": ids}, optional={"max_chars": st.integers(), "about": queries}),
    "mem_add": st.fixed_dictionaries(
        {"title": words, "content": words},
        optional={"desc": words, "polarity": filters, "tags": st.lists(st.text(max_size=9), max_size=4)},
    ),
    "mem_extract": st.fixed_dictionaries(
        {"result": words, "task": words, "judgment": st.just({"success": True}) | st.dictionaries(words, anything)},
        optional={"auto_store": st.booleans()},
    ),
    "mem_learn_from_failure": st.fixed_dictionaries(
        {"result": words, "task": words, "error": words | st.dictionaries(words, anything, max_size=3)}
    ),
    "event_log": st.fixed_dictionaries({"obj": st.dictionaries(st.text(max_size=5), anything, max_size=4)}),
}
sensible = st.sampled_from(sorted(arguments)).flatmap(lambda name: st.tuples(st.just(name), arguments[name]))
senseless = st.tuples(
    st.sampled_from(sorted(arguments)), st.dictionaries(st.sampled_from(["q", "ids", "id", "obj"]), anything)
)


@pytest.fixture(scope="module")
def box() -> Iterator[Toolbox]:
    with tempfile.TemporaryDirectory() as place, bank_at(Path(place) / "bank") as bank:
        remember(bank, *ODD)
        yield build_tools(bank, run="run-1", policy=ToolPolicy(mode="both"))


@given(st.lists(sensible | sensible | senseless, min_size=1, max_size=4))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_call_exceeds_its_cap_or_raises_or_makes_an_item(
    box: Toolbox, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    bank, caps_chars = box.session.bank, {tool.name: tool.cap_chars for tool in box.manual()}
    for name, given_arguments in calls:
        before = bank.position
        result = box.call(name, given_arguments)
        assert size(result) <= caps_chars[name]
        assert result.get("next") != NEXT, "the tool keeps to its cap; the encoder need not cut"
        assert json.loads(json.dumps(result, allow_nan=False)) == result == encode(result, 10**6)
        assert result["ok"] is True or set(result["error"]) == {"code", "message", "hint"}
        assert result["ok"] or result["error"]["code"] not in ("tool_failed", "not_recorded"), result
        [*_, last] = bank.events(after=before)
        assert last.__struct_config__.tag == "tool_called"
    assert bank.state().items.keys() == {item.id for item in ODD}


def test_all_that_was_asked_of_the_bank_above_can_be_asked_again(box: Toolbox) -> None:
    """After whatever the law before made of the bank."""
    box.call("mem_search", {"q": "lamps"})
    seen = box.session.bank.check(retrievals=True).retrievals
    assert seen is not None and seen.checked and not seen.different
