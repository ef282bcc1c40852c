"""Texts that are cut: never longer than asked, whole where they fit, and marked where they don't."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.system.text_cuts import ELLIPSIS, cut, cut_middle, cut_words


@given(text=st.text(), chars=st.integers(1, 60))
def test_a_text_is_whole_or_has_at_most_the_characters_and_the_mark(text: str, chars: int) -> None:
    for shown in (cut(text, chars), cut_words(text, chars)):
        assert shown == text or len(shown) <= chars < len(text) and shown.endswith(ELLIPSIS)
        assert text.startswith(shown.removesuffix(ELLIPSIS))


@given(text=st.text(max_size=400), chars=st.integers(0, 300))
def test_a_text_cut_in_its_middle_says_how_much_is_left_out_of_it(text: str, chars: int) -> None:
    shown = cut_middle(text, chars)
    assert len(shown) <= max(chars, 50)
    if shown != text:
        head, note, tail = shown.rpartition("\n... ")[0], *shown.rpartition("\n... ")[2].split(" ...\n", 1)
        assert text.startswith(head) and text.endswith(tail)
        assert note == f"{len(text) - len(head) - len(tail):,} characters left out"


@pytest.mark.parametrize(
    ("text", "chars", "cut_between"),
    [
        ("one two three", 13, "one two three"),
        ("one two three", 12, "one two…"),
        ("one two\nthree", 9, "one two…"),
        ("onetwothree", 5, "onet…"),
        ("a bcdefghijk", 9, "a bcdefg…"),
    ],
)
def test_words_stay_whole_unless_half_of_the_room_would_be_lost(text: str, chars: int, cut_between: str) -> None:
    assert cut_words(text, chars) == cut_between
