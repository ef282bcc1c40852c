"""Laws of tool results: never over the cap, and through JSON unchanged, whatever a tool answers."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.events import Ref
from rbank_es.events.items import Item
from rbank_es.tools.shared.tool_answers import LEAST_CAP_CHARS, encode, size

AWKWARD_KEYS = (
    "0",
    "10",
    "2",
    "-1",
    "1.5",
    "",
    "ok",
    "truncated",
    "next",
    "__proto__",
    "__dspy_tool_bridge_error__",
    "constructor",
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(10**30), max_value=10**30),
    st.floats(),
    st.text(),
    st.text(alphabet=st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF), max_size=4),
    st.sampled_from(('"' * 500, "\x00" * 300, "é" * 700, "🌊" * 400, "\\" * 999, "x" * 5000)),
    st.binary(max_size=20),
    st.dates(),
    st.builds(object),
    st.builds(Ref, st.text(max_size=36), st.sampled_from(("results", "mem")), st.integers(0, 10**9), st.text()),
    st.builds(lambda title: Item.make(title, "content"), st.text(min_size=1)),
    st.frozensets(st.integers(), max_size=3),
)
keys = st.one_of(st.sampled_from(AWKWARD_KEYS), st.text(), st.integers(), st.booleans(), st.none())
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(keys, inner), st.tuples(inner, inner)),
    max_leaves=30,
)
results = st.dictionaries(keys, values, max_size=12)
caps = st.one_of(st.integers(LEAST_CAP_CHARS, 400), st.sampled_from((1_000, 4_000, 4_500)))


def survives(value: Any) -> bool:
    """Whether a value is of those that JSON and the sandbox leave as they are."""
    if isinstance(value, dict):
        return all(type(key) is str and not key.isdigit() and survives(part) for key, part in value.items())
    if isinstance(value, list):
        return all(map(survives, value))
    if type(value) is float:
        return (
            value == value
            and abs(value) != float("inf")
            and not (value.is_integer() and abs(value) <= limits.COUNT_MOST)
        )
    return type(value) is bool or type(value) is str or (type(value) is int and abs(value) <= limits.COUNT_MOST)


@given(results, caps)
def test_no_result_exceeds_its_cap_and_every_result_survives_json(value: dict[Any, Any], cap_chars: int) -> None:
    result = encode(value, cap_chars)
    assert size(result) <= cap_chars
    assert type(result) is dict and survives(result)
    for text in (json.dumps(result), json.dumps(result, ensure_ascii=False)):
        again = json.loads(text)
        assert again == result
        assert list(again) == list(result)


@given(results, caps)
def test_a_result_is_encoded_the_same_every_time_and_encoding_it_again_changes_nothing(
    value: dict[Any, Any], cap_chars: int
) -> None:
    result = encode(value, cap_chars)
    assert encode(value, cap_chars) == result
    assert encode(result, cap_chars) == result


@given(results, caps)
def test_what_is_cut_says_so(value: dict[Any, Any], cap_chars: int) -> None:
    whole, result = encode(value, 10**9), encode(value, cap_chars)
    if size(whole) > cap_chars:
        assert result["truncated"] is True and "next" in result
    else:
        assert result == whole
