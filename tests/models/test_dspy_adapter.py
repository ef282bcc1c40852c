"""The adapter: what is put into a question is text, and every answer is read in bounded time, or can't be read."""

from __future__ import annotations

import json
import time
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.models.dspy_adapter import adapter
from tests.effort import one_in

TYPED: Any = dspy.Signature("question -> words: str, entries: list[Any], choice: Any")
LONG = limits.LM_REPAIRED_CHARS + 1


def answer(entries: str, words: str = "w") -> str:
    return f"[[ ## words ## ]]\n{words}\n\n[[ ## entries ## ]]\n{entries}\n\n[[ ## choice ## ]]\n1"


def read(entries: str, words: str = "w") -> Any:
    return adapter().parse(TYPED, answer(entries, words))["entries"]


# ---------------------------------------------------------------- what comes out

ENTRY = {"content": 'in "quotes"\nand lines', "n": 1.5, "no": None}
MANY = [{"title": f"entry {number}", **ENTRY} for number in range(99)]
JSON = json.dumps(MANY)


@pytest.mark.parametrize(
    "text",
    [
        JSON,
        json.dumps(MANY, indent=4),
        f"```json\n{JSON}\n```",
        f"Here they are:\n```\n{JSON}\n```\nThat is all.",
        f"Here they are: {JSON} That is all.",
        JSON.replace("\\n", "\n"),
        repr(MANY),
    ],
    ids=["JSON", "indented", "fenced", "fenced, with words", "with words", "with line ends in it", "Python"],
)
def test_a_long_field_is_read_where_it_holds_json_or_pythons_notation(text: str) -> None:
    assert len(text) > limits.LM_REPAIRED_CHARS
    assert read(text) == MANY


def test_a_short_field_is_mended() -> None:
    assert read('[{"a": 1, "b": [2') == [{"a": 1, "b": [2]}]


COSTLY = ['["a" b ', "{", "[", '{"a":', '{a "b" ', "{'it's ", '"k": "v" "k2" ', "\\", "[1,", '"""', "nan ", "\u2028["]


@pytest.mark.slow
@pytest.mark.parametrize("unit", one_in(4, COSTLY))
@pytest.mark.parametrize("chars", [LONG - 500, LONG, limits.LM_RESPONSE_CHARS], ids=["short", "long", "longest"])
def test_what_is_no_json_is_mended_or_refused_within_seconds(unit: str, chars: int) -> None:
    """Of 32,000 characters of the first, mending took 66 s; of 3,000 brackets, its RecursionError got out."""
    began = time.process_time()
    try:
        assert isinstance(read((unit * chars)[:chars]), list)
    except dspy.AdapterParseError as refused:
        assert len(str(refused)) < 5 * limits.LM_RESPONSE_CHARS
    assert time.process_time() - began < 5


def test_of_an_answer_that_cant_be_read_the_first_2000_characters_are_shown() -> None:
    words = "".join(f"{number:04} " for number in range(2_000))
    with pytest.raises(dspy.AdapterParseError) as refused:
        read("[" * LONG, words)
    assert words[:1_900] in str(refused.value) and words[:2_100] not in str(refused.value)
    assert f"({len(answer('[' * LONG, words)):,} characters in all)" in str(refused.value)


def test_words_may_be_as_long_as_they_like() -> None:
    assert adapter().parse(TYPED, answer("[]", "[" * 100_000))["words"] == "[" * 100_000


@given(st.text(max_size=80) | st.text("[]{}\"',:# wordsentriechoice\n", max_size=80), st.booleans())
def test_any_answer_is_read_or_cant_be(text: str, long: bool) -> None:
    for whole in (text, answer(text), answer(text * 60 if long else text)):
        try:
            assert adapter().parse(TYPED, whole).keys() == {"words", "entries", "choice"}
        except dspy.AdapterParseError:
            continue


# ---------------------------------------------------------------- what goes in
