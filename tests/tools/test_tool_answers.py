"""The answers of tools: what each kind of value becomes, what is cut first, and what fits into their budget."""

from __future__ import annotations

import math
from datetime import date
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.events import Ref
from rbank_es.events.items import Item
from rbank_es.limits import tool_limits
from rbank_es.tools.shared.tool_answers import OK_CHARS, encode, page, shown_names, size


class Colour(Enum):
    red = "red"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, True),
        (7, 7),
        (1.0, 1),
        (-0.0, 0),
        (2.5, 2.5),
        (1e300, 1e300),
        (2**53 - 1, 2**53 - 1),
        (2**53, "9007199254740992"),
        (-(2**70), str(-(2**70))),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        ("a\ud800b", "a?b"),
        (b"caf\xc3\xa9", "café"),
        (date(2026, 1, 31), "2026-01-31"),
        (Colour.red, "red"),
        ({3, 1}, [1, 3]),
        ((1, None), [1, ""]),
        (object(), "<object>"),
    ],
)
def test_a_value_becomes_one_that_the_sandbox_leaves_alone(value: Any, shown: Any) -> None:
    result = encode({"value": value}, 1_000)
    assert result == {"value": shown}
    assert type(result["value"]) is type(shown)


def test_keys_that_a_sandbox_would_reorder_or_take_for_its_own_get_an_underscore() -> None:
    assert list(encode({"b": 1, 10: 2, "2": 3, "_2": 4}, 100)) == ["b", "_10", "_2", "__2"]
    assert encode({"__dspy_tool_bridge_error__": "x"}, 100) == {"___dspy_tool_bridge_error__": "x"}


def test_structs_and_handles_become_dicts() -> None:
    shown = encode({"ref": Ref("k", "results", 5, "12345"), "item": Item.make("Title", "Content")}, 1_000)
    assert shown["ref"] == {"key": "k", "dtype": "results", "size": 5, "preview": "12345"}
    assert shown["item"]["title"] == "Title" and "role" not in shown["item"]


def test_a_cycle_ends() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert size(encode(loop, 1_000)) <= 1_000


def test_variables_of_digits_get_a_letter_that_keeps_their_place() -> None:
    assert shown_names(("1", "a", "_1")) == ("_1", "a", "__1")


TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=30),
    st.sampled_from(["", "x" * 1_000, "\x00" * 400, '"\\' * 300, "🦉" * 500, "ß\u0301" * 200]),
)
JSON_ROWS = st.lists(
    st.dictionaries(st.sampled_from(["uri", "label", "count"]), st.one_of(TEXTS, st.integers(0, 10**9)), max_size=3),
    max_size=30,
)


@given(JSON_ROWS, st.integers(1, 50))
def test_pages_of_tables_stay_within_the_budget_and_skip_nothing(rows: list[dict[str, Any]], limit: int) -> None:
    seen, offset = 0, 0
    while True:
        wanted = rows[offset : offset + limit]
        body = page(wanted, offset, len(rows), tool_limits.TOOL_RETURN_CHARS, name="classes", beside={"cached": True})
        assert size(body) + OK_CHARS <= tool_limits.TOOL_RETURN_CHARS
        seen += body["returned"]
        if not body["has_more"]:
            break
        assert body["next_offset"] > offset
        offset = body["next_offset"]
    assert seen == len(rows)
