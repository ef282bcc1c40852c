"""Items out of what a model wrote: what is forgiven, what is cut, what is left out and under which code."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.extraction.candidates import many_lines, one_line, read_answer, shortened, usable
from tests.extraction.judged_runs import answer, entry


def entries_of(text: str) -> list[Any] | None:
    return read_answer(text, "memory_items", "why_none").entries


# ---------------------------------------------------------------- reading


ONE = [entry()]
UNQUOTED = json.dumps(ONE).replace('"title"', "title").replace('"content"', "content")


@pytest.mark.parametrize(
    "text",
    [
        answer(ONE),
        answer(f"```json\n{json.dumps(ONE)}\n```"),
        answer(f"Here they are: {json.dumps(ONE)} I hope they help."),
        answer(json.dumps({"memory_items": ONE})),
        answer(json.dumps(ONE[0])),
        answer(UNQUOTED),
        answer(str(ONE)),
        answer(ONE).split("[[ ## why_none")[0],
        json.dumps(ONE),
        json.dumps({"memory_items": ONE, "why_none": ""}),
        f"```\n{json.dumps(ONE)}\n```",
        answer(ONE) + answer(ONE),
    ],
    ids=[
        "as asked",
        "fenced",
        "amid words",
        "in an object",
        "one object alone",
        "names without quotation marks",
        "a Python literal",
        "without the second field",
        "without marks",
        "one JSON object",
        "fenced, without marks",
        "twice",
    ],
)
def test_a_list_is_found_however_it_is_wrapped(text: str) -> None:
    assert entries_of(text) == ONE


def test_a_long_list_is_found_with_prose_right_behind_it() -> None:
    """It is too long to be repaired, so it must be cut out exactly."""
    long = [entry(content="word " * 600)]
    assert len(json.dumps(long)) > limits.LM_REPAIRED_CHARS
    assert entries_of(answer(json.dumps(long) + "These are all.")) == long


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["[" * 500_000, '{"a":' * 100_000, '["' * 3_900, "\n" * 900_000, "```\n" + " " * 900_000, "- " * 400_000]
)
def test_no_answer_takes_long_to_read(text: str) -> None:
    """Only short ones are mended: that takes the square of their length."""
    began = time.process_time()
    assert usable(entries_of(text) or [], "success").items == ()
    many_lines(text)
    assert time.process_time() - began < 30


# ---------------------------------------------------------------- items


def test_what_is_too_long_is_cut_at_a_sentence_else_between_words() -> None:
    item = usable([entry("word " * 50, "A sentence of some words. " * 200)], "success").items[0]
    assert len(item.title) <= limits.ITEM_TITLE_CHARS and item.title.endswith("word…")
    assert len(item.content) <= limits.ITEM_CONTENT_CHARS and item.content.endswith("words.")
    assert shortened("x" * 30, 10) == "x" * 9 + "…"
    assert shortened("1234567.", 8) == "1234567."
    assert shortened("It works. It is fast.", 9) == "It works."


def test_what_looks_the_same_is_the_same() -> None:
    """Marks that stand behind their letters are composed, so that neither dedup nor the id takes it for another."""
    made = usable([entry("Caf\u00e9s", "Z\u00fcrich"), entry("Cafe\u0301s", "Zu\u0308rich")], "success")
    assert ([item.content for item in made.items], made.flaws) == (["Z\u00fcrich"], ("repeated",))


def test_a_description_may_be_missing_and_lists_of_lines_are_joined() -> None:
    (item,) = usable([{"title": "T", "content": ["one", "two"], "extra": 3}], "success").items
    assert (item.desc, item.content) == ("", "one\ntwo")


@pytest.mark.parametrize(
    ("bad", "flaw"),
    [
        (3, "not_an_object"),
        ("title: x", "not_an_object"),
        (None, "not_an_object"),
        ({}, "no_title"),
        ({"title": "", "content": "x"}, "no_title"),
        ({"title": "…", "content": "x"}, "no_title"),
        ({"title": ["a", 1], "content": "x"}, "no_title"),
        ({"title": {"a": "b"}, "content": "x"}, "no_title"),
        ({"title": "x", "content": " \n\x00"}, "no_content"),
        ({"title": "x", "content": 3}, "no_content"),
        ({"title": "x"}, "no_content"),
        (entry(), "repeated"),
        (entry(title="COUNT with  distinct", content="Other words."), "repeated"),
    ],
)
def test_an_entry_that_is_no_item_is_left_out_with_its_flaw(bad: Any, flaw: str) -> None:
    """The others stay."""
    made = usable([entry(), bad, entry("Another")], "success")
    assert [item.title for item in made.items] == ["Count with DISTINCT", "Another"]
    assert made.flaws == (flaw,)


def test_words_of_a_line_are_parted_by_single_blanks() -> None:
    assert one_line(" a\u00a0\n\tb\u2028c ") == "a b c"
